#include <spool/tensor/copy.h>
#include <spool/tensor/detail/atomic_file.h>
#include <spool/tensor/detail/safetensors_header.h>
#include <spool/tensor/error.h>
#include <spool/tensor/safetensors.h>

#include <algorithm>
#include <bit>
#include <string_view>
#include <utility>

namespace spool {
namespace {

/// The bytes between the first and the last element, ends included.
struct Extent {
  uintptr_t begin, end;
  const std::string* name;
};

Extent extent_of(const std::string& name, const Tensor& t) {
  int64_t low = 0, high = 0;
  for (int axis = 0; axis < t.dims(); ++axis) (t.strides()[axis] < 0 ? low : high) += (t.size(axis) - 1) * t.strides()[axis];
  const auto first = std::bit_cast<uintptr_t>(t.raw());
  const auto size = int64_t(dtype_size(t.dtype()));
  return {first + uintptr_t(low * size), first + uintptr_t((high + 1) * size), &name};
}

}  // namespace

void detail::check_saveable(const std::string& path, const NamedTensors& tensors) {
  std::vector<Extent> extents;
  std::vector<std::string_view> names;
  for (const auto& [name, tensor] : tensors) {
    if (name == "__metadata__") fail<IoError>(path, ": a tensor cannot be named __metadata__; rename it");
    if (!tensor.defined()) fail<IoError>(path, ": tensor ", detail::shown(name), ": undefined");
    if (tensor.device() != cpu)
      fail<IoError>(path, ": tensor ", detail::shown(name), ": on ", tensor.device(),
                    ", has no bytes on this host; copy it to the cpu first");
    names.push_back(name);
    if (tensor.numel() > 0) extents.push_back(extent_of(name, tensor));
  }
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) fail<IoError>(path, ": two tensors are named ", detail::shown(*twice));
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  for (size_t i = 1; i < extents.size(); ++i) {
    // The one before reaches furthest: had an earlier one reached further, it would have overlapped that one already.
    if (extents[i].begin < extents[i - 1].end) {
      fail<IoError>(path, ": tensors ", detail::shown(*extents[i - 1].name), " and ", detail::shown(*extents[i].name),
                    " share bytes; save a tied tensor once, or pass a contiguous copy of one");
    }
  }
}

void save_safetensors(const std::string& path, const NamedTensors& tensors, const SafetensorsMetadata& metadata) {
  detail::check_saveable(path, tensors);
  std::vector<const NamedTensors::value_type*> order;
  for (const auto& item : tensors) order.push_back(&item);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    const size_t wide = dtype_size(a->second.dtype()), narrow = dtype_size(b->second.dtype());
    return wide != narrow ? wide > narrow : a->first < b->first;
  });

  detail::SafetensorsHeader header{.metadata = metadata};
  int64_t end = 0;
  for (const auto* item : order) {
    const Tensor& t = item->second;
    header.entries.push_back({item->first, t.dtype(), t.shape(), end, t.nbytes()});
    end += t.nbytes();
  }
  const std::string text = detail::format_safetensors_header(path, header);
  const uint64_t length = text.size();
  if (length > uint64_t(max_safetensors_header))
    fail<IoError>(path, ": the header would take ", length, " bytes; at most ", max_safetensors_header, " can be read back");

  detail::AtomicFile file(path);
  file.write(&length, sizeof length);
  file.write(text.data(), int64_t(text.size()));
  for (const auto* item : order) {
    const Tensor dense = as_contiguous(item->second);
    file.write(dense.raw(), dense.nbytes());
  }
  file.commit();
}

}  // namespace spool
