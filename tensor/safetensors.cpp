#include <spool/tensor/copy.h>
#include <spool/tensor/detail/atomic_file.h>
#include <spool/tensor/detail/safetensors_header.h>
#include <spool/tensor/error.h>
#include <spool/tensor/safetensors.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <unordered_map>
#include <utility>

namespace spool {
namespace {

static_assert(std::endian::native == std::endian::little,
              "safetensors: elements are stored as they lie in memory, which must be little-endian");

/// Bytes of a file in memory. Private and writable: a write copies the page and never reaches the file.
class Mapping {
 public:
  explicit Mapping(const std::string& path) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe must not block
    if (file < 0) fail<IoError>(path, ": cannot open the file: ", detail::system_message(errno));
    struct stat status {};
    int error = ::fstat(file, &status) == 0 ? 0 : errno;
    const bool regular = S_ISREG(status.st_mode);
    if (!error && regular && status.st_size > 0) {
      void* at = ::mmap(nullptr, size_t(status.st_size), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file, 0);
      if (at == MAP_FAILED)
        error = errno;
      else
        bytes = static_cast<std::byte*>(at), size = status.st_size;
    }
    ::close(file);
    if (error) fail<IoError>(path, ": cannot map the file: ", detail::system_message(error));
    if (!regular) fail<IoError>(path, ": not a regular file");
  }
  ~Mapping() {
    if (bytes) ::munmap(bytes, size_t(size));
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::byte* bytes = nullptr;
  int64_t size = 0;
};

/// Checks the length field; returns the length of the header.
int64_t header_length(const std::string& path, const Mapping& mapping) {
  const std::string_view text(reinterpret_cast<const char*>(mapping.bytes), size_t(mapping.size));
  if (text.starts_with("version https://git-lfs")) fail<IoError>(path, ": this is a pointer of git-lfs; fetch the file that it stands for");
  if (mapping.size < 8)
    fail<IoError>(path, ": ", mapping.size, " bytes are too short for a safetensors file; the header's length alone takes 8");
  uint64_t length = 0;
  std::memcpy(&length, mapping.bytes, sizeof length);
  if (length > uint64_t(max_safetensors_header))
    fail<IoError>(path, ": the header claims ", length, " bytes; at most ", max_safetensors_header, " are allowed");
  if (length > uint64_t(mapping.size - 8))
    fail<IoError>(path, ": the header claims ", length, " bytes, but the file has ", mapping.size - 8, " after the length");
  return int64_t(length);
}

}  // namespace

struct SafetensorsFile::Contents {
  explicit Contents(const std::string& file) : path(file), mapping(std::make_shared<Mapping>(file)) {
    const int64_t length = header_length(path, *mapping);
    data = mapping->bytes + 8 + length;
    header = detail::parse_safetensors_header(path, {reinterpret_cast<const char*>(mapping->bytes) + 8, size_t(length)},
                                              mapping->size - 8 - length);
    for (size_t i = 0; i < header.entries.size(); ++i) index.emplace(header.entries[i].name, i);
  }

  Tensor at(const Entry& entry, bool borrow) const {
    std::byte* bytes = data + entry.offset;
    if (entry.dtype == Dtype::boolean) {
      const auto* end = bytes + entry.bytes;
      const auto* wrong = std::find_if(bytes, bytes + entry.bytes, [](std::byte b) { return b > std::byte(1); });
      if (wrong != end)
        fail<IoError>(path, ": tensor ", detail::shown(entry.name), ": element ", int64_t(wrong - bytes), " of a BOOL is ", int(*wrong),
                      ", neither 0 nor 1");
    }
    if (borrow && (entry.bytes == 0 || std::bit_cast<uintptr_t>(bytes) % dtype_size(entry.dtype) == 0)) {
      Ref<TensorBody> body(new TensorBody);
      body->storage = Storage(new StorageBody(entry.bytes ? bytes : nullptr, entry.bytes, mapping));
      body->shape = entry.shape;
      body->strides = contiguous_strides(entry.shape);
      body->dtype = entry.dtype;
      return Tensor(std::move(body));
    }
    Tensor copied = empty(entry.shape, entry.dtype);
    if (entry.bytes) std::memcpy(copied.raw(), bytes, size_t(entry.bytes));
    return copied;
  }

  std::string path;
  std::shared_ptr<Mapping> mapping;
  std::byte* data = nullptr;
  detail::SafetensorsHeader header;
  std::unordered_map<std::string_view, size_t> index;
};

SafetensorsFile::SafetensorsFile(const std::string& path) : contents_(std::make_shared<const Contents>(path)) {}

const std::string& SafetensorsFile::path() const { return contents_->path; }
const std::vector<SafetensorsFile::Entry>& SafetensorsFile::entries() const { return contents_->header.entries; }
const SafetensorsMetadata& SafetensorsFile::metadata() const { return contents_->header.metadata; }
bool SafetensorsFile::contains(std::string_view name) const { return contents_->index.contains(name); }

const SafetensorsFile::Entry& SafetensorsFile::entry(std::string_view name) const {
  const auto it = contents_->index.find(name);
  if (it == contents_->index.end())
    fail<IoError>(path(), ": no tensor ", detail::shown(name), " among the ", entries().size(), " of this file");
  return entries()[it->second];
}

Tensor SafetensorsFile::view(std::string_view name) const { return contents_->at(entry(name), true); }
Tensor SafetensorsFile::read(std::string_view name) const { return contents_->at(entry(name), false); }

NamedTensors SafetensorsFile::views() const {
  NamedTensors out;
  for (const Entry& e : entries()) out.emplace_back(e.name, contents_->at(e, true));
  return out;
}

NamedTensors load_safetensors(const std::string& path) { return SafetensorsFile(path).views(); }

}  // namespace spool
