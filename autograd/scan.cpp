#include <spool/autograd/detail/untouched.h>
#include <spool/autograd/scan.h>
#include <spool/autograd/scope.h>
#include <spool/tensor/copy.h>
#include <spool/tensor/error.h>

#include <cmath>
#include <memory>
#include <optional>

namespace spool {
namespace {

/// The state as forward sees it: what the slice before left.
class ForwardCarry : public Carry {
 public:
  ForwardCarry(const char* scope, Tensors state) : scope_(scope), state_(std::move(state)) { next_.resize(state_.size()); }
  Tensor enter(int i, const std::function<Tensor(const Tensor&)>&) override { return state_.at(size_t(i)); }
  void leave(int i, Tensor next) override {
    const Tensor& before = state_.at(size_t(i));
    if (meta_of(next) != meta_of(before)) fail<ScopeError>(scope_, ": state ", i, " was ", meta_of(before), " and became ", meta_of(next));
    next_[size_t(i)] = std::move(next);
  }
  /// Turns the end of this slice into the start of the next.
  void advance(const Tape::Impl* tracking, bool& wanted) {
    for (size_t i = 0; i < next_.size(); ++i) {
      if (!next_[i].defined()) fail<ScopeError>(scope_, ": the body did not leave state ", i);
      if (tracking) wanted = wanted || tracking->edge_for(next_[i]).kind != Edge::Kind::none;
    }
    state_ = std::exchange(next_, Tensors(state_.size()));
  }
  const Tensors& state() const { return state_; }

 private:
  const char* scope_;
  Tensors state_, next_;
};

/// The state as backward sees it: a fresh leaf for each state of this slice, so that its cotangent can be gathered.
class ReverseCarry : public Carry {
 public:
  /// `start`: the states themselves where they are known; otherwise they are inverted from `end`, and `untouched` knows which rows are exact.
  ReverseCarry(Tape::Impl& tape, Tensors end, const Tensors* start, const Untouched* untouched, int64_t slice)
      : tape_(tape), end_(std::move(end)), start_(start), untouched_(untouched), slice_(slice) {
    entered_.resize(end_.size());
    left_.resize(end_.size());
  }
  Tensor enter(int i, const std::function<Tensor(const Tensor&)>& invert) override {
    const auto at = size_t(i);
    Tensor state;
    {
      const NoGrad quiet;
      state = start_ ? start_->at(at).detach() : untouched_->restore(at, invert(std::exchange(end_.at(at), {})), slice_).detach();
    }
    state.requires_grad(true);
    tape_.capture.push_back(state);
    order_.push_back(at);
    entered_[at] = state.detach();
    return state;
  }
  void leave(int i, Tensor next) override { left_.at(size_t(i)) = std::move(next); }

  Tensors take_left() { return std::move(left_); }
  Tensors take_entered() { return std::move(entered_); }
  /// Cotangents of the states at the start of the slice, by state index.
  Tensors take_cotangents() {
    Tensors out(order_.size());
    for (size_t k = 0; k < order_.size(); ++k) out[order_[k]] = std::move(tape_.captured[k]);
    return out;
  }

 private:
  Tape::Impl& tape_;
  Tensors end_;
  const Tensors* start_;
  const Untouched* untouched_;
  int64_t slice_;
  Tensors entered_, left_;
  std::vector<size_t> order_;
};

Tensor piece_view(const Tensor& whole, int axis, int64_t begin, int64_t end) {
  Shape shape = whole.shape();
  shape[axis] = end - begin;
  return whole.view_as(shape, whole.strides(), whole.offset() + begin * whole.strides()[axis]);
}

/// Sums and pieces as they grow over the slices.
class Results {
 public:
  Results(int axis, int64_t length) : axis_(axis), length_(length) {}

  void add(const ScanStep& step, int64_t begin, int64_t end, const char* scope) {
    if (begin == 0) start(step);
    if (step.sums.size() != sums_.size() || step.pieces.size() != pieces_.size()) fail<ScopeError>(scope, ": the body returned another number of results for a later slice");
    for (size_t i = 0; i < sums_.size(); ++i) {
      if (wide_[i]) add_scalar(sums_[i], step.sums[i]);
      else accumulate(sums_[i], step.sums[i]);
    }
    for (size_t i = 0; i < pieces_.size(); ++i) copy(piece_view(pieces_[i], axis_of(pieces_[i]), begin, end), step.pieces[i]);
  }

  Tensors finish_sums() {
    for (size_t i = 0; i < sums_.size(); ++i) {
      if (!wide_[i]) continue;
      Tensor narrow = empty(metas_[i]);
      copy(narrow, sums_[i]);
      sums_[i] = std::move(narrow);
    }
    return std::move(sums_);
  }
  Tensors finish_pieces() { return std::move(pieces_); }

 private:
  int axis_of(const Tensor& t) const { return normalize_axis("scan", axis_, t.shape()); }
  /// Scalars (losses) gather in f64: thousands of slices must not cost digits.
  static void add_scalar(const Tensor& sum, const Tensor& value) {
    Tensor wide = empty({}, Dtype::f64, value.device());
    copy(wide, value);
    accumulate(sum, wide);
  }
  void start(const ScanStep& step) {
    for (const Tensor& sum : step.sums) {
      metas_.push_back(meta_of(sum));
      wide_.push_back(sum.dims() == 0 && is_float(sum.dtype()));
      sums_.push_back(zeros(sum.shape(), wide_.back() ? Dtype::f64 : sum.dtype(), sum.device()));
    }
    for (const Tensor& piece : step.pieces) {
      Meta whole = meta_of(piece);
      whole.shape[normalize_axis("scan", axis_, whole.shape)] = length_;
      pieces_.push_back(empty(whole));
    }
  }
  int axis_;
  int64_t length_;
  Metas metas_;
  std::vector<bool> wide_;
  Tensors sums_, pieces_;
};

double largest(const Tensor& t) {
  double top = 0;
  for (double value : t.to_vector<double>()) top = std::max(top, std::fabs(value));
  return top;
}

double measure_residue(const Tensor& reconstructed, const Tensor& initial, const Tensor& final) {
  const auto a = reconstructed.to_vector<double>(), b = initial.to_vector<double>();
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::fabs(a[i] - b[i]));
  return worst / std::max(largest(final), 1e-300);
}

/// Wraps the first slice's carry to measure what subtraction left.
class MeasuringCarry : public Carry {
 public:
  MeasuringCarry(Carry& inner, Tensors end, const Tensors& initial, const Tensors& final, double& residue)
      : inner_(inner), end_(std::move(end)), initial_(initial), final_(final), residue_(residue) {}
  Tensor enter(int i, const std::function<Tensor(const Tensor&)>& invert) override {
    const auto at = size_t(i);
    {
      const NoGrad quiet;
      residue_ = std::max(residue_, measure_residue(invert(end_[at]), initial_[at], final_[at]));
    }
    return inner_.enter(i, invert);
  }
  void leave(int i, Tensor next) override { inner_.leave(i, std::move(next)); }

 private:
  Carry& inner_;
  Tensors end_;
  const Tensors &initial_, &final_;
  double& residue_;
};

struct Recurrence {
  const char* name;
  ScanBody body;
  ScanOptions options;
  int64_t length;
  size_t states, sums, pieces;
  Surroundings around;
  std::vector<Tensors> stored;          ///< States at slice starts, under StatePolicy::store.
  std::optional<Untouched> untouched;   ///< Under the others, when there is more than one slice.

  /// Backward through all slices. Returns the initial state's cotangents.
  Tensors reverse(Tape::Impl& outer, Saved& saved) const;
};

Tensors Recurrence::reverse(Tape::Impl& outer, Saved& saved) const {
  Tensors initial, end, final, dstate(states), dsums(sums), dpieces(pieces);
  for (size_t i = 0; i < states; ++i) {
    initial.push_back(saved.input(int(i)));
    end.push_back(saved.output(int(i)).detach());
    if (saved.has_grad(int(i))) dstate[i] = saved.grad(int(i));
  }
  if (options.residue) final = end;
  for (size_t i = 0; i < sums; ++i) if (saved.has_grad(int(states + i))) dsums[i] = saved.grad(int(states + i));
  for (size_t i = 0; i < pieces; ++i) if (saved.has_grad(int(states + sums + i))) dpieces[i] = saved.grad(int(states + sums + i));
  saved.release_grads();
  const int64_t slices = (length + options.chunk - 1) / options.chunk;
  for (int64_t n = slices - 1; n >= 0; --n) {
    const int64_t begin = n * options.chunk, stop = std::min(length, begin + options.chunk);
    Tape::Impl sub(Tape::Impl::Mode::record, &outer);
    const bool measuring = n == 0 && options.residue && options.state != StatePolicy::store && !end.empty() && !end[0].device().meta;
    const Tensors* start = options.state == StatePolicy::store ? &stored[size_t(n)] : n == 0 ? &initial : nullptr;
    Tensors kept = measuring ? end : Tensors();
    ReverseCarry carry(sub, std::move(end), start, untouched ? &*untouched : nullptr, n);
    ScanStep step;
    {
      const WithSurroundings restored(around);
      const With op(&Ambient::op, "");
      if (measuring) {
        *options.residue = 0;
        MeasuringCarry measured(carry, std::move(kept), initial, final, *options.residue);
        step = body(measured, begin, stop);
      } else {
        step = body(carry, begin, stop);
      }
    }
    Tensors outputs = carry.take_left(), cotangents = std::exchange(dstate, {});
    end = carry.take_entered();
    for (size_t i = 0; i < sums; ++i) {
      outputs.push_back(std::move(step.sums[i]));
      cotangents.push_back(dsums[i]);
    }
    for (size_t i = 0; i < pieces; ++i) {
      outputs.push_back(std::move(step.pieces[i]));
      cotangents.push_back(dpieces[i].defined() ? piece_view(dpieces[i], normalize_axis("scan", options.axis, dpieces[i].shape()), begin, stop) : Tensor());
    }
    step = {};
    if (n == 0) end.clear();
    sub.sweep_present(std::move(outputs), std::move(cotangents));
    dstate = carry.take_cotangents();
  }
  return dstate;
}

}  // namespace

ScanResult scan(const std::string& name, const ScanBody& body, const Tensors& carry, int64_t length, const ScanOptions& options) {
  if (options.chunk < 1) fail<ScopeError>(name, ": chunk must be at least 1, got ", options.chunk);
  if (length < 1) fail<ScopeError>(name, ": length must be at least 1, got ", length);
  for (const Tensor& state : carry) {
    if (options.state == StatePolicy::subtract64 && state.dtype() != Dtype::f64)
      fail<ScopeError>(name, ": subtract64 keeps the state in f64, the initial state is ", meta_of(state), "; pass zeros(…, Dtype::f64)");
  }
  const char* lasting = lasting_name(name);
  Tape::Impl* tape = current_tape();
  ForwardCarry state(lasting, carry);
  Results results(options.axis, length);
  std::vector<Tensors> stored;
  std::optional<Untouched> untouched;
  const bool recorded = tape && tape->mode == Tape::Impl::Mode::record;
  if (recorded && options.state != StatePolicy::store && options.chunk < length) {
    const With op(&Ambient::op, lasting);
    untouched.emplace(carry);
  }
  bool wanted = false;
  {
    std::optional<Tape::Impl> tracking;
    if (tape) tracking.emplace(Tape::Impl::Mode::track);
    for (int64_t begin = 0; begin < length; begin += options.chunk) {
      const int64_t end = std::min(length, begin + options.chunk);
      if (tape && options.state == StatePolicy::store) {
        stored.emplace_back();
        for (const Tensor& t : state.state()) stored.back().push_back(t.detach());
      }
      const ScanStep step = body(state, begin, end);
      if (tape) {
        for (const Tensor& t : step.sums) wanted = wanted || tracking->edge_for(t).kind != Edge::Kind::none;
        for (const Tensor& t : step.pieces) wanted = wanted || tracking->edge_for(t).kind != Edge::Kind::none;
      }
      state.advance(tape ? &*tracking : nullptr, wanted);
      const With op(&Ambient::op, lasting);
      if (untouched) untouched->note(state.state(), begin / options.chunk);
      results.add(step, begin, end, lasting);
    }
  }
  ScanResult result;
  for (const Tensor& t : state.state()) result.carry.push_back(t.detach());
  {
    const With op(&Ambient::op, lasting);
    result.sums = results.finish_sums();
  }
  result.pieces = results.finish_pieces();
  if (!tape) return result;
  Need need;
  std::vector<Edge> edges;
  for (size_t i = 0; i < carry.size(); ++i) {
    edges.push_back(tape->edge_for(carry[i]));
    if (edges.back().kind != Edge::Kind::none) need.mask |= uint32_t(1) << i;
  }
  if (!wanted && !need.any()) return result;

  Tensors outputs = result.carry;
  outputs.insert(outputs.end(), result.sums.begin(), result.sums.end());
  outputs.insert(outputs.end(), result.pieces.begin(), result.pieces.end());
  Node node = scope_node(*tape, name, outputs);
  if (recorded) {
    const With op(&Ambient::op, lasting);
    node.need = need;
    node.edges = std::move(edges);
    for (size_t i = 0; i < carry.size(); ++i) {
      node.in.push_back(meta_of(carry[i]));
      node.saves = node.saves.input(int(i)).output(int(i));
    }
    for (const Tensor& t : carry) save(node, t);
    for (const Tensor& t : result.carry) save(node, t);
    for (const Tensors& states : stored)
      for (const Tensor& t : states) if (t.storage()->category == Category::temporary) t.storage()->mark(Category::saved);
    node.rule = [recurrence = Recurrence{lasting, body, options, length, carry.size(), result.sums.size(), result.pieces.size(), Surroundings(), std::move(stored), std::move(untouched)}](
                    Tape::Impl& around, Saved& saved) { return recurrence.reverse(around, saved); };
  }
  tape->record(std::move(node), outputs);
  return result;
}

}  // namespace spool
