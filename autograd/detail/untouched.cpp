#include <spool/autograd/detail/untouched.h>
#include <spool/tensor/copy.h>
#include <spool/tensor/error.h>

#include <limits>

namespace spool {
namespace {

int64_t row_size(const Tensor& t) { return t.dims() ? t.size(-1) : 1; }

Tensor dense(Tensor t) { return t.is_contiguous() ? std::move(t) : contiguous_copy(t); }

/// Calls f(row index, elements of the row, the initial state's first element there, its step) with pointers of the state's type.
template <class F>
void each_row(const Tensor& state, const Tensor& initial, F&& f) {
  if (!is_float(state.dtype())) fail<ScopeError>("scan: a state must be of a float type, got ", meta_of(state));
  const int64_t size = row_size(state), rows = size ? state.numel() / size : 0;
  const int leading = std::max(0, state.dims() - 1);
  const int64_t step = state.dims() ? initial.strides()[leading] : 0;
  visit(state.dtype(), [&]<class T>() {
    T* at = static_cast<T*>(state.raw());
    const T* from = static_cast<const T*>(initial.raw());
    for (int64_t row = 0; row < rows; ++row, at += size) {
      int64_t rest = row, offset = 0;
      for (int axis = leading - 1; axis >= 0; --axis) {
        offset += rest % state.shape()[axis] * initial.strides()[axis];
        rest /= state.shape()[axis];
      }
      f(row, at, from + offset, step);
    }
  });
}

}  // namespace

Untouched::Untouched(const Tensors& initial) {
  for (const Tensor& t : initial) {
    initial_.push_back(t.detach());
    const int64_t size = row_size(t);
    first_.push_back(full({size ? t.numel() / size : 0}, std::numeric_limits<int32_t>::max(), Dtype::i32, t.device()));
    first_.back().storage()->mark(Category::saved);
  }
}

void Untouched::note(const Tensors& states, int64_t slice) {
  for (size_t i = 0; i < states.size(); ++i) {
    const Tensor state = dense(states[i]);
    if (state.device().meta) continue;
    int32_t* first = first_[i].data<int32_t>();
    each_row(state, initial_[i], [&]<class T>(int64_t row, const T* now, const T* before, int64_t step) {
      if (first[row] <= slice) return;
      for (int64_t j = 0; j < row_size(state); ++j) {
        if (static_cast<double>(now[j]) == static_cast<double>(before[j * step])) continue;
        first[row] = int32_t(slice);
        break;
      }
    });
  }
}

Tensor Untouched::restore(size_t i, Tensor state, int64_t slice) const {
  if (!state.is_contiguous() || state.storage().use_count() > 1) state = contiguous_copy(state);
  if (state.device().meta) return state;
  const int32_t* first = first_[i].data<int32_t>();
  each_row(state, initial_[i], [&]<class T>(int64_t row, T* now, const T* before, int64_t step) {
    if (first[row] < slice) return;
    for (int64_t j = 0; j < row_size(state); ++j) now[j] = before[j * step];
  });
  return state;
}

}  // namespace spool
