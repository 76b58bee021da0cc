#pragma once
// Safetensors files: names, types, shapes and raw little-endian bytes.
//
//   8 bytes      N, the length of the header (u64)
//   N bytes      a JSON object {"NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, …, "__metadata__": {"key":
//   "text"}},
//                may end in spaces
//   the rest     the elements, row-major; the offsets count from here and must cover it without holes or overlaps
//
// Source: the format section of the README of github.com/huggingface/safetensors. Where it leaves a choice, or readers differ:
//   * the first byte of the header must be '{' (white space before it is refused);
//   * a key given twice is refused, in the header, in a tensor and in the metadata, also when escapes spell it differently;
//   * a tensor with a field other than the three is refused: it might change the meaning of the bytes;
//   * BOOL bytes other than 0 and 1 are refused when the tensor is asked for;
//   * known types that Spool does not compute with (I8, U16, F8_E4M3, …) are refused like unknown ones;
//   * tensors of more than eight dimensions are refused, and shapes whose product overflows, zero sizes left out of it.
#include <spool/tensor/tensor.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace spool {

/// Longest header that is read or written, in bytes: other readers refuse more.
inline constexpr int64_t max_safetensors_header = 100'000'000;

using SafetensorsMetadata = std::map<std::string, std::string>;

/// A file, mapped into memory. Opening reads the header only; the bytes of a tensor are read when they are touched.
/// The file must not be truncated or written to in place while it or a view is alive; replacing it (as `save_safetensors` does) is safe.
class SafetensorsFile {
 public:
  struct Entry {
    std::string name;
    Dtype dtype = Dtype::f32;
    Shape shape;
    int64_t offset = 0;  ///< First byte, from the start of the data.
    int64_t bytes = 0;
  };

  /// Checks the whole header before anything is allocated for its contents. Throws IoError naming the file, the tensor and the reason.
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const;
  const std::vector<Entry>& entries() const;  ///< In the order of the header.
  const SafetensorsMetadata& metadata() const;
  bool contains(std::string_view name) const;
  const Entry& entry(std::string_view name) const;  ///< Throws IoError when there is none.

  /// The tensor on the mapped bytes, which it keeps alive: no copy, no ledger event. Writing to it changes memory, never the file.
  /// Elements that do not lie at a multiple of their size (other writers do that) come as a copy, as from `read`.
  Tensor view(std::string_view name) const;
  /// A copy with bytes of its own, under the ambient category.
  Tensor read(std::string_view name) const;
  NamedTensors views() const;  ///< All, in the order of the header.

 private:
  struct Contents;
  std::shared_ptr<const Contents> contents_;
};

/// All tensors of a file as views, in the order of its header. Throws IoError.
NamedTensors load_safetensors(const std::string& path);

/// Writes a file that `path` names only when it is complete and on the disk: the bytes go to a temporary file beside it, which is synced
/// and renamed; then the directory is synced. On any failure IoError is thrown, the temporary file is gone and what was at `path` is as
/// before.
///
/// The bytes of the file depend on the set of tensors alone, not on their order: wide elements come first, then by name, so each tensor is
/// aligned. Strided tensors are written row-major. Refused with IoError: a name given twice, "__metadata__" as a name, names or metadata
/// that are not UTF-8, undefined tensors, tensors without bytes on this host, and two tensors that share bytes: a tied weight is stored
/// once, under one name (for slices that interleave, pass a contiguous copy).
void save_safetensors(const std::string& path, const NamedTensors& tensors, const SafetensorsMetadata& metadata = {});

}  // namespace spool
