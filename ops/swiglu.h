#pragma once
// The gate of LLaMA's feed-forward block (Shazeer 2020).
#include <spool/tensor/tensor.h>

namespace spool {
/// silu(gate)·up, elementwise, in one pass. Same shapes and one float type; 16-bit types are computed in f32. Keeps gate and up; both
/// gradients are made in one pass.
Tensor swiglu(const Tensor& gate, const Tensor& up);
}  // namespace spool
