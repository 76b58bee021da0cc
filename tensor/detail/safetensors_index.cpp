#include <spool/tensor/detail/atomic_file.h>
#include <spool/tensor/detail/safetensors_header.h>
#include <spool/tensor/detail/safetensors_index.h>
#include <spool/tensor/error.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <unordered_set>

namespace spool::detail {
namespace {

using nlohmann::json;

bool stays_inside(const std::string& file) {
  const std::filesystem::path path(file);
  if (file.empty() || file.find('\0') != file.npos || path.is_absolute() || !path.has_filename()) return false;
  for (const auto& part : path)
    if (part == ".." || part == ".") return false;
  return true;
}

/// Notices keys that the parser would silently let win over earlier ones.
class UniqueKeys {
 public:
  explicit UniqueKeys(const std::string& path) : path_(path) {}
  bool operator()(int depth, json::parse_event_t event, json& value) {
    constexpr int deepest = 64;
    if (depth > deepest) fail<IoError>(path_, ": is nested more than ", deepest, " deep");
    if (event != json::parse_event_t::key || depth > 2) return true;
    const auto& key = value.get_ref<const std::string&>();
    if (depth == 1) section_ = key;
    const bool counts = depth == 1 || section_ == "weight_map";
    if (counts && !keys_.insert(std::to_string(depth) + key).second) fail<IoError>(path_, ": the key ", shown(key), " is given twice");
    return true;
  }

 private:
  const std::string& path_;
  std::string section_;
  std::unordered_set<std::string> keys_;
};

}  // namespace

WeightMap parse_safetensors_index(const std::string& path, std::string_view text) {
  if (const auto zero = text.find('\0'); zero != text.npos) fail<IoError>(path, ": is not valid JSON at byte ", zero + 1);
  json index;
  try {
    index = json::parse(text.begin(), text.end(), [keys = std::make_shared<UniqueKeys>(path)](int depth, json::parse_event_t event, json& value) { return (*keys)(depth, event, value); });
  } catch (const json::parse_error& error) {
    fail<IoError>(path, ": is not valid JSON at byte ", error.byte);
  } catch (const json::exception&) {
    fail<IoError>(path, ": is not valid JSON: a number is out of range");
  }
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (map == index.end() || !map->is_object()) fail<IoError>(path, ": has no weight_map; not an index of safetensors files");
  WeightMap out;
  for (const auto& [name, file] : map->items()) {
    if (!file.is_string()) fail<IoError>(path, ": weight_map: the file of ", shown(name), " is ", file.type_name(), ", not text");
    out.emplace_back(name, file.get<std::string>());
    if (!stays_inside(out.back().second)) fail<IoError>(path, ": weight_map: ", shown(out.back().second), ", the file of ", shown(name), ", is no name of a file beside the index");
  }
  return out;
}

std::string format_safetensors_index(const WeightMap& weights, int64_t total_bytes) {
  json index{{"metadata", {{"total_size", total_bytes}}}, {"weight_map", json::object()}};
  for (const auto& [name, file] : weights) index["weight_map"][name] = file;
  return index.dump(2) + "\n";
}

std::string read_text_file(const std::string& path, int64_t limit) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) fail<IoError>(path, ": cannot open the file: ", system_message(errno));
  struct stat status {};
  int error = ::fstat(file, &status) == 0 ? 0 : errno;
  const bool regular = S_ISREG(status.st_mode);
  std::string out;
  while (!error && regular && status.st_size <= limit && int64_t(out.size()) < status.st_size) {
    const size_t have = out.size(), want = std::min<size_t>(size_t(status.st_size) - have, size_t(1) << 20);
    out.resize(have + want);
    const auto done = ::read(file, out.data() + have, want);
    if (done < 0 && errno != EINTR) error = errno;
    out.resize(have + size_t(std::max<ssize_t>(done, 0)));
    if (done == 0) break;
  }
  ::close(file);
  if (error) fail<IoError>(path, ": cannot read the file: ", system_message(error));
  if (!regular) fail<IoError>(path, ": not a regular file");
  if (status.st_size > limit) fail<IoError>(path, ": has ", int64_t(status.st_size), " bytes; at most ", limit, " are possible for such a file");
  return out;
}

}  // namespace spool::detail
