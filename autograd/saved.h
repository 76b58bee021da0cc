#pragma once
// What a vjp is given: the tensors that `saves` declared, the cotangents of the outputs, and who wants a gradient.
#include <spool/autograd/tape.h>

namespace spool {

struct Node;

/// Reading a tensor that was not declared throws AutogradError; so does one that was written to after it was saved.
class Saved {
 public:
  Saved(Tape::Impl& tape, const Node& node, Tensors cotangents);

  const Tensor& input(int i);     ///< Declared with Saves::input(i). Undefined when the optional input was.
  const Tensor& output(int i = 0);
  const Tensor& residual(int i);

  /// Cotangent of output i; zeros (one element, strides 0) when nothing flowed into it.
  Tensor grad(int i = 0) const;
  bool has_grad(int i = 0) const { return size_t(i) < cotangents_.size() && cotangents_[size_t(i)].defined(); }

  void release_grads() { cotangents_.clear(); }  ///< Lets go of the cotangents early; `grad` must not be called afterwards.

  Need need() const;
  bool needs(int i) const { return need()(i); }
  int inputs() const;
  const Meta& in_meta(int i) const;   ///< Known whether saved or not.
  const Meta& out_meta(int i = 0) const;

  /// The gradient already gathered for input i, when the rule may add its contribution into it directly (a product with beta = 1) and
  /// return it; undefined when the rule must return a fresh tensor.
  Tensor target(int i) const;

  Saves read() const { return read_; }  ///< What has been read so far.

 private:
  const Tensor& get(uint32_t Saves::* kind, int i, const char* what);
  Tape::Impl& tape_;
  const Node& node_;
  Tensors cotangents_;
  Saves read_;
};

}  // namespace spool
