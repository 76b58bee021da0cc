#include "train/archive.h"

#include <fmt/format.h>
#include <spool/tensor/error.h>
#include <zip.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "train/files.h"

namespace spool::train {
namespace {

constexpr size_t piece = size_t(1) << 20;

struct ZipClose {
  void operator()(zip_t* archive) const { zip_discard(archive); }
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};
struct GzipClose {
  void operator()(gzFile file) const { gzclose(file); }
};

[[noreturn]] void damaged(const std::filesystem::path& path, std::string_view why) {
  fail<IoError>(fmt::format("{}: is damaged or incomplete ({}); get it again", path.string(), why));
}

std::string list(const std::vector<std::string>& names) {
  constexpr size_t most = 5;
  const std::vector<std::string> first(names.begin(), names.begin() + std::ptrdiff_t(std::min(names.size(), most)));
  return fmt::format("{}{}", fmt::join(first, ", "), names.size() > most ? fmt::format(" and {} more", names.size() - most) : "");
}

}  // namespace

Packing packing_of(std::string_view start) {
  if (start.starts_with("\x1f\x8b")) return Packing::gzip;
  if (start.starts_with("PK\x03\x04") || start.starts_with("PK\x05\x06")) return Packing::zip;
  return Packing::none;
}

std::vector<uint8_t> read_gzip(const std::filesystem::path& path) {
  errno = 0;
  const std::unique_ptr<gzFile_s, GzipClose> file(gzopen(path.c_str(), "rb"));
  if (!file) fail_io("read", path, errno ? errno : ENOMEM);
  gzbuffer(file.get(), 1 << 17);
  std::vector<uint8_t> out;
  for (size_t size = 0;;) {
    out.resize(size + piece);
    const int n = gzread(file.get(), out.data() + size, piece);
    int code = Z_OK;
    const char* why = gzerror(file.get(), &code);
    if (n < 0 || (code != Z_OK && code != Z_STREAM_END)) damaged(path, code == Z_ERRNO ? "read error" : std::string(why));
    size += size_t(n);
    if (n == 0 || gzeof(file.get())) return out.resize(size), out;
  }
}

std::vector<uint8_t> read_zip(const std::filesystem::path& path) {
  int code = 0;
  const std::unique_ptr<zip_t, ZipClose> archive(zip_open(path.c_str(), ZIP_RDONLY, &code));
  if (!archive) {
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    const std::string why = zip_error_strerror(&error);
    zip_error_fini(&error);
    damaged(path, why);
  }
  std::vector<std::string> names;
  zip_uint64_t member = 0;
  const zip_int64_t entries = zip_get_num_entries(archive.get(), 0);
  for (zip_int64_t i = 0; i < entries; ++i) {
    const char* name = zip_get_name(archive.get(), zip_uint64_t(i), 0);
    if (!name || std::string_view(name).ends_with('/')) continue;
    names.emplace_back(name);
    member = zip_uint64_t(i);
  }
  if (names.empty()) fail<IoError>(fmt::format("{}: this archive has no members; exactly one is needed", path.string()));
  if (names.size() > 1)
    fail<IoError>(fmt::format("{}: this archive has {} members ({}), but exactly one is needed; unpack it and give a file or the directory",
                              path.string(), names.size(), list(names)));

  const std::unique_ptr<zip_file_t, ZipClose> file(zip_fopen_index(archive.get(), member, 0));
  if (!file) fail<IoError>(fmt::format("{}: cannot unpack {}: {}", path.string(), names[0], zip_strerror(archive.get())));
  std::vector<uint8_t> out;
  for (size_t size = 0;;) {
    out.resize(size + piece);
    const zip_int64_t n = zip_fread(file.get(), out.data() + size, piece);
    if (n < 0) damaged(path, zip_file_strerror(file.get()));
    size += size_t(n);
    if (n == 0) return out.resize(size), out;
  }
}

}  // namespace spool::train
