#include <spool/autograd/op.h>
#include <spool/ops/arithmetic.h>
#include <spool/ops/einsum.h>
#include <spool/ops/matmul.h>
#include <spool/ops/moving.h>
#include <spool/ops/reduce.h>
#include <spool/ops/shape.h>
#include <spool/tensor/error.h>

#include <algorithm>
#include <array>
#include <string>

namespace spool {
namespace {

/// Labels of axes: letters, and for the axes of "..." '0' for the last, '1' for the one before it, and so on.
using Labels = std::string;
bool of_ellipsis(char label) { return label < 'A'; }

bool has(const Labels& labels, char label) { return labels.find(label) != Labels::npos; }

/// One side of a comma or arrow: letters before and after "...".
struct Term {
  Labels before, after;
  bool ellipsis = false;
  Labels letters() const { return before + after; }
};

struct Equation {
  std::vector<Term> inputs;
  Term output;
  bool implicit = false;
};

Term parse_term(std::string_view text, std::string_view whole) {
  Term term;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (text.substr(i, 3) == "...") {
      if (term.ellipsis) fail<ShapeError>("einsum: '", text, "' in '", whole, "' has two ellipses");
      term.ellipsis = true;
      i += 2;
    } else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      (term.ellipsis ? term.after : term.before) += c;
    } else {
      fail<ShapeError>("einsum: '", c, "' in '", whole, "' is not a letter; axes are a–z and A–Z, '...' stands for the rest");
    }
  }
  return term;
}

Equation parse(std::string_view whole, size_t operands) {
  std::string text;
  for (const char c : whole)
    if (c != ' ') text += c;
  Equation out;
  const size_t arrow = text.find("->");
  out.implicit = arrow == std::string::npos;
  const std::string_view left = std::string_view(text).substr(0, arrow);
  for (size_t at = 0;; ) {
    const size_t comma = left.find(',', at);
    out.inputs.push_back(parse_term(left.substr(at, comma - at), whole));
    if (comma == std::string_view::npos) break;
    at = comma + 1;
  }
  if (out.inputs.size() != operands) fail<ShapeError>("einsum: '", whole, "' names ", out.inputs.size(), " operands, got ", operands);
  Labels all;
  for (const Term& term : out.inputs) all += term.letters();
  if (out.implicit) {
    for (const Term& term : out.inputs) out.output.ellipsis = out.output.ellipsis || term.ellipsis;
    for (const char label : all)
      if (std::count(all.begin(), all.end(), label) == 1) out.output.after += label;
    std::sort(out.output.after.begin(), out.output.after.end());
    return out;
  }
  out.output = parse_term(std::string_view(text).substr(arrow + 2), whole);
  const Labels named = out.output.letters();
  for (const char label : named) {
    if (!has(all, label)) fail<ShapeError>("einsum: output '", label, "' of '", whole, "' is in no operand");
    if (std::count(named.begin(), named.end(), label) > 1) fail<ShapeError>("einsum: '", label, "' is twice in the output of '", whole, "'");
  }
  return out;
}

/// A tensor with one label an axis, no label twice.
struct Labelled {
  Tensor t;
  Labels labels;
  int axis(char label) const { return int(labels.find(label)); }
};

/// Axes in this order; labels that x lacks become axes of size 1.
Tensor arranged(const Labelled& x, const Labels& order) {
  if (order.size() > size_t(max_dims)) fail<ShapeError>("einsum: a product of ", order.size(), " axes; tensors have at most ", max_dims);
  Dims axes;
  for (const char label : order)
    if (has(x.labels, label)) axes.push_back(x.axis(label));
  Tensor t = std::is_sorted(axes.begin(), axes.end()) ? x.t : permute(x.t, axes);
  for (size_t i = 0; i < order.size(); ++i)
    if (!has(x.labels, order[i])) t = unsqueeze(t, int(i));
  return t;
}

/// The sum over all labels that are not in `wanted`.
Labelled summed(Labelled x, const Labels& wanted) {
  Axes axes;
  Labels left;
  for (size_t i = 0; i < x.labels.size(); ++i) {
    if (has(wanted, x.labels[i])) left += x.labels[i];
    else axes.push_back(int64_t(i));
  }
  if (axes.empty()) return x;
  return {sum(x.t, axes), left};
}

/// Axes that share a letter as one: their diagonal.
Labelled distinct(Labelled x) {
  for (size_t i = 0; i < x.labels.size(); ++i) {
    const size_t j = x.labels.find(x.labels[i], i + 1);
    if (j == Labels::npos) continue;
    const char label = x.labels[i];
    x.labels.erase(j, 1);
    x.labels.erase(i, 1);
    return distinct({diagonal(x.t, 0, int(i), int(j)), x.labels + label});
  }
  return x;
}

/// Sizes of all labels, gathered operand by operand.
struct Sizes {
  struct Seen {
    int64_t size = -1;
    size_t operand = 0;
  };
  std::array<Seen, 128> seen;
  int ellipsis = 0;  ///< Axes of the longest "...".

  void add(const Labels& labels, const Shape& shape, size_t operand, const Tensors& operands) {
    for (size_t i = 0; i < labels.size(); ++i) {
      Seen& known = seen[size_t(labels[i])];
      const int64_t size = shape[int(i)];
      const bool stretches = of_ellipsis(labels[i]);
      if (known.size < 0 || (stretches && known.size == 1)) {
        known = {size, operand};
      } else if (known.size != size && !(stretches && size == 1)) {
        const std::string name = stretches ? "an axis of '...'" : concat("'", labels[i], "'");
        fail<ShapeError>("einsum: ", name, " is ", known.size, " in operand ", known.operand, " ", operands[known.operand].shape(), " and ", size,
                         " in operand ", operand, " ", shape);
      }
    }
  }
};

Labels ellipsis_labels(int axes) {
  Labels labels;
  for (int i = axes; i-- > 0;) labels += char('0' + i);
  return labels;
}

/// The product of two, with only labels in `wanted`: the others are summed over.
Labelled product(const Labelled& x, const Labelled& y, const Labels& wanted) {
  const Labelled a = summed(x, wanted + y.labels), b = summed(y, wanted + x.labels);
  Labels batch, left, right, inner;
  for (const char label : a.labels) (!has(b.labels, label) ? left : has(wanted, label) ? batch : inner) += label;
  for (const char label : b.labels)
    if (!has(a.labels, label)) right += label;
  if (inner.empty()) return {mul(arranged(a, batch + left + right), arranged(b, batch + left + right)), batch + left + right};

  const auto by_stride = [](const Labelled& of) {
    return [&of](char p, char q) { return of.t.strides()[of.axis(p)] > of.t.strides()[of.axis(q)]; };
  };
  std::stable_sort(inner.begin(), inner.end(), by_stride(a));
  const auto matrices = [&](const Labelled& of, const Labels& rows, const Labels& columns) {
    const Tensor t = arranged(of, batch + rows + columns);
    Shape shape;
    for (size_t i = 0; i < batch.size(); ++i) shape.push_back(t.shape()[int(i)]);
    int64_t row = 1, column = 1;
    for (const char label : rows) row *= of.t.size(of.axis(label));
    for (const char label : columns) column *= of.t.size(of.axis(label));
    shape.push_back(row);
    shape.push_back(column);
    return reshape(t, shape);
  };
  Tensor c = matmul(matrices(a, left, inner), matrices(b, inner, right));
  Shape shape;
  const Labels labels = batch + left + right;
  if (labels.size() > size_t(max_dims)) fail<ShapeError>("einsum: a product of ", labels.size(), " axes; tensors have at most ", max_dims);
  for (const char label : labels) shape.push_back(has(a.labels, label) ? a.t.size(a.axis(label)) : b.t.size(b.axis(label)));
  return {reshape(c, shape), labels};
}

}  // namespace

Tensor einsum(std::string_view equation, const Tensors& operands) {
  if (operands.empty()) fail<ShapeError>("einsum: no operands");
  Metas metas;
  for (const Tensor& t : operands) metas.push_back(meta_of(t));
  same_float("einsum", metas);
  const Equation parts = parse(equation, operands.size());

  std::vector<Labelled> terms;
  Sizes sizes;
  for (size_t i = 0; i < operands.size(); ++i) {
    const Term& term = parts.inputs[i];
    const int named = int(term.letters().size()), rest = operands[i].dims() - named;
    if (rest < 0 || (rest > 0 && !term.ellipsis))
      fail<ShapeError>("einsum: operand ", i, " ", operands[i].shape(), " has ", operands[i].dims(), " axes, '", equation, "' names ", named);
    terms.push_back({operands[i], term.before + ellipsis_labels(rest) + term.after});
    sizes.add(terms.back().labels, operands[i].shape(), i, operands);
    sizes.ellipsis = std::max(sizes.ellipsis, rest);
  }
  for (Labelled& x : terms) {
    for (int axis = x.t.dims() - 1; axis >= 0; --axis) {  // what broadcasts is as good as not there
      if (x.t.size(axis) == sizes.seen[size_t(x.labels[size_t(axis)])].size) continue;
      x.t = squeeze(x.t, axis);
      x.labels.erase(size_t(axis), 1);
    }
    x = distinct(x);
  }

  const Labels output = parts.output.before + (parts.output.ellipsis ? ellipsis_labels(sizes.ellipsis) : "") + parts.output.after;
  Labelled result = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) {
    Labels wanted = output;
    for (size_t later = i + 1; later < terms.size(); ++later) wanted += terms[later].labels;
    result = product(result, terms[i], wanted);
  }
  return arranged(summed(result, output), output);
}

}  // namespace spool
