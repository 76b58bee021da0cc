#!/usr/bin/env python3
"""Writes gradients.safetensors: inputs, results, cotangents and gradients of single operations, computed by PyTorch.

Run with torch and safetensors installed:  python3 tests/golden/make_gradients.py
A variant NAME has the tensors NAME/in.I, NAME/out.I, and NAME/cotangent.I and NAME/gradient.I for floats. The metadata `variants` holds a line
each, NAME, a tab and the expression that PyTorch evaluated, with inputs a, b, c. Everything is computed in f64; variants that end in "_f32" have inputs that f32 holds, and
results and gradients rounded once. gradients_test.cpp compares, and fails for a variant that it does not know.
"""
import math
import os

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gradients.safetensors")
NAMES = "abc"
inf = math.inf


def N(*shape):
    return torch.randn(shape)


def U(low, high, *shape):
    return low + (high - low) * torch.rand(shape)


def I(high, *shape):  # noqa: E743
    return torch.randint(0, high, shape)


def T(values):
    return torch.tensor(values, dtype=torch.float64)


def L(values):
    return torch.tensor(values, dtype=torch.int64)


# Functions that PyTorch has no single call for, of calls that it has.


def recurrence(a, b):
    """h[:, i] = a[:, i]·h[:, i-1] + b[:, i]"""
    h, rows = torch.zeros_like(b[:, 0]), []
    for i in range(b.shape[1]):
        h = a[:, i] * h + b[:, i]
        rows.append(h)
    return torch.stack(rows, 1)


def attention(q, k, v, causal=False, window=0, q_offset=0):
    """q, k and v [batch, length, heads, dim]"""
    i = torch.arange(q.shape[1])[:, None] + q_offset
    j = torch.arange(k.shape[1])[None]
    mask = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool)
    if causal:
        mask &= j <= i
    if window:
        mask &= (i - j).abs() < window
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True).transpose(1, 2)


def linear_attention(q, k, v):
    """Causal, with the identity as feature map: q, k and v [batch, length, heads, dim]"""
    scores = torch.einsum("blhm,bshm->bhls", q, k).tril()
    return torch.einsum("bhls,bshd->blhd", scores, v) / scores.sum(-1).transpose(1, 2)[..., None]


def rotary_halves(x, angles):
    """x [batch, length, heads, d], angles [length, d]: cosines, then sines"""
    cos, sin = (t[:, None] for t in angles.chunk(2, -1))
    first, second = x.chunk(2, -1)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], -1)


def flipped(f, x, axis):
    return torch.flip(f(torch.flip(x, [axis])), [axis])


VARIANTS = []


def add(name, expression, *inputs):
    VARIANTS.append((name, expression, inputs))


def pointwise():
    for name, expression in [("exp", "torch.exp(a)"), ("expm1", "torch.expm1(a)"), ("sin", "torch.sin(a)"), ("cos", "torch.cos(a)"), ("tanh", "torch.tanh(a)"),
                             ("erf", "torch.erf(a)"), ("sigmoid", "torch.sigmoid(a)"), ("log_sigmoid", "F.logsigmoid(a)"), ("softplus", "F.softplus(a)"),
                             ("silu", "F.silu(a)"), ("gelu_erf", "F.gelu(a)"), ("gelu_tanh", "F.gelu(a, approximate='tanh')"), ("square", "torch.square(a)"),
                             ("abs_at_zero", "torch.abs(a)"), ("relu_at_zero", "F.relu(a)"), ("leaky_relu", "F.leaky_relu(a, 0.2)"), ("elu", "F.elu(a, 1.5)"),
                             ("reciprocal", "torch.reciprocal(a)")]:
        x = N(3, 7)
        if name.endswith("zero"):
            x[1] = 0
        add(name, expression, x)
    for name, expression in [("log", "torch.log(a)"), ("log1p", "torch.log1p(a)"), ("sqrt", "torch.sqrt(a)"), ("rsqrt", "torch.rsqrt(a)"), ("pow_2.5", "a ** 2.5")]:
        add(name, expression, U(0.1, 3, 3, 7))
    add("pow_3_negative", "a ** 3", N(9))
    add("pow_zero", "a ** 0", T([0, 1, -2]))
    add("pow", "a ** b", U(0.1, 3, 4, 1), N(5))
    add("pow_of_zero", "a ** b", T([0, 0, 2]), T([2, 1, 0]))
    add("clamp", "torch.clamp(a, -1, 0.5)", N(4, 5))
    add("clamp_at_edges", "torch.clamp(a, -1, 0.5)", T([-2, -1, 0, 0.5, 3]))
    add("gelu_erf_f32", "F.gelu(a)", N(5, 7))
    add("gelu_tanh_f32", "F.gelu(a, approximate='tanh')", N(5, 7))
    add("add_broadcast", "a + b", N(2, 1, 4), N(3, 1))
    add("sub_broadcast", "a - b", N(4), N(2, 3, 4))
    add("mul_broadcast", "a * b", N(2, 1, 4), N(3, 1))
    add("div_broadcast", "a / b", N(2, 3, 4), U(0.5, 2, 1, 4))
    add("maximum_ties", "torch.maximum(a, b)", T([1, 2, 3, -1]), T([1, 1, 4, -1]))
    add("minimum_ties", "torch.minimum(a, b)", T([1, 2, 3, -1]), T([1, 1, 4, -1]))
    add("where_broadcast", "torch.where(a != 0, b, c)", I(2, 3, 1), N(4), N(3, 4))
    add("masked_fill", "b.masked_fill(a != 0, -1.5)", I(2, 3, 4), N(3, 4))
    add("swiglu_f32", "F.silu(a) * b", N(3, 8), N(3, 8))


def reductions():
    x = N(3, 4, 5)
    add("sum_all", "a.sum()", x)
    add("sum_0_2_keepdim", "a.sum((0, 2), keepdim=True)", x)
    add("mean_1", "a.mean(1)", x)
    add("mean_all_f32", "a.mean()", x)
    add("prod_1_zeros", "a.prod(1)", T([[2, 0, 3, 4], [0, 2, 0, 3], [2, 3, 4, 5]]))
    add("amax_ties", "a.amax((0, 2))", I(3, 3, 4, 5).double())
    add("amin_ties", "a.amin()", I(3, 3, 4).double())
    add("max_1", "tuple(torch.max(a, 1))", x)
    add("min_last_keepdim", "tuple(torch.min(a, -1, keepdim=True))", x)
    add("var_all", "a.var()", x)
    add("var_1_biased", "a.var(1, correction=0)", x)
    add("stddev_0_2", "a.std((0, 2))", x)
    add("stddev_constant", "a.std(1)", T([[2, 2, 2], [1, 2, 4]]))
    add("norm_2", "torch.linalg.vector_norm(a, dim=2)", x)
    add("norm_zero", "torch.linalg.vector_norm(a)", T([0, 0, 0]))
    add("logsumexp_1_keepdim", "torch.logsumexp(a, 1, keepdim=True)", x)
    add("logsumexp_large", "torch.logsumexp(a, -1)", T([[1000, 1000], [-1000, 5]]))
    add("softmax_1", "torch.softmax(a, 1)", x)
    add("softmax_last_f32", "torch.softmax(a, -1)", N(4, 33))
    add("softmax_masked", "torch.softmax(a, -1)", T([[0, -inf, 1], [-inf, -inf, 2]]))
    add("softmax_all_masked", "torch.softmax(a, -1)", T([[-inf, -inf, -inf], [0, 1, 2]]))
    add("log_softmax_0", "torch.log_softmax(a, 0)", x)
    add("logsumexp_all_masked", "torch.logsumexp(a, -1)", T([[-inf, -inf], [0, 1]]))


def scans():
    x = N(2, 6, 3)
    add("prefix_sum_1", "torch.cumsum(a, 1)", x)
    add("prefix_sum_0_f32", "torch.cumsum(a, 0)", N(17, 3))
    add("prefix_sum_reverse", "flipped(lambda t: torch.cumsum(t, 1), a, 1)", x)
    add("prefix_sum_exclusive", "torch.cumsum(a, 1) - a", x)
    add("prefix_prod_1", "torch.cumprod(a, 1)", x)
    add("prefix_prod_zeros", "torch.cumprod(a, 1)", T([[2, 0, 3, 4], [2, 0, 0, 3], [0, 2, 3, 1], [2, 3, 4, 0]]))
    add("prefix_prod_reverse", "flipped(lambda t: torch.cumprod(t, -1), a, -1)", x)
    add("logcumsumexp_1", "torch.logcumsumexp(a, 1)", x)
    add("logcumsumexp_large", "torch.logcumsumexp(a, 0)", T([1000, 999, 1001, -1000]))
    add("logcumsumexp_reverse", "flipped(lambda t: torch.logcumsumexp(t, 0), a, 0)", N(7))
    add("prefix_max_1", "torch.cummax(a, 1).values", x)
    add("prefix_min_last", "torch.cummin(a, -1).values", x)
    add("prefix_max_ties", "torch.cummax(a, 0).values", T([1, 3, 3, 2, 3]))
    add("linear_recurrence", "recurrence(a, b)", U(0.5, 1, 2, 6, 3), N(2, 6, 3))


def moves():
    x = N(3, 4, 5)
    add("roll_1", "torch.roll(a, 2, 1)", x)
    add("roll_0_2", "torch.roll(a, (-1, 7), (0, 2))", x)
    add("pad_constant", "F.pad(a, (1, 2, 0, 3), value=0.5)", x)
    add("pad_negative", "F.pad(a, (-1, 2, 1, -2))", x)
    add("pad_edge", "F.pad(a, (2, 1), mode='replicate')", x)
    add("pad_reflect", "F.pad(a, (3, 4), mode='reflect')", x)
    add("pad_wrap", "F.pad(a, (5, 2), mode='circular')", x)
    add("unfold_overlapping", "a.unfold(1, 3, 1)", N(2, 7, 2))
    add("unfold_gaps", "a.unfold(0, 2, 3)", N(9, 2))
    add("tril_1", "torch.tril(a, 1)", x)
    add("triu_minus_1", "torch.triu(a, -1)", x)
    add("diagonal_1", "torch.diagonal(a, 1, 0, 2)", x)
    add("diagonal_minus_1", "torch.diagonal(a, -1, 1, 2)", x)
    add("diag_embed_2", "torch.diag_embed(a, 2)", N(2, 3))
    add("flip_0_2", "torch.flip(a, (0, 2))", x)
    add("tile_1", "a.repeat(1, 3, 1)", x)
    add("repeat_interleave_1", "a.repeat_interleave(3, 1)", x)
    add("permute", "a.permute(2, 0, 1)", x)
    add("expand", "a.expand(2, 3, 4)", N(3, 1))
    add("reshape_of_transposed", "a.transpose(0, 2).reshape(6, 10)", x)
    add("slice_step", "a[:, 1:4:2]", x)
    add("concat_1", "torch.cat([a, b, c], 1)", N(2, 3), N(2, 1), N(2, 4))
    add("stack_last", "torch.stack([a, b], -1)", N(2, 3), N(2, 3))
    add("split_uneven", "tuple(torch.split(a, [1, 3, 1], 2))", x)


def indexing():
    x = N(4, 5)
    add("gather_0", "torch.gather(a, 0, b)", x, I(4, 6, 3))
    add("gather_last", "torch.gather(a, 2, b)", N(2, 3, 5), I(5, 2, 3, 4))
    add("take_along_1", "torch.take_along_dim(a, b, 1)", N(4, 5, 1), I(5, 1, 7, 2))
    add("scatter_add_1", "torch.scatter_add(a, 1, b, c)", x, I(5, 4, 9), N(4, 9))
    add("scatter_add_short_f32", "torch.scatter_add(a, 0, b, c)", x, I(4, 3, 2), N(3, 2))
    add("index_select_1", "torch.index_select(a, 1, b)", N(2, 5, 3), L([4, 0, 4, 4, 2, 1]))
    add("index_add_1", "torch.index_add(a, 1, b, c)", N(2, 5, 3), L([4, 0, 4, 1]), N(2, 4, 3))
    add("sort_1", "tuple(torch.sort(a, dim=1, stable=True))", N(2, 7, 3))
    add("sort_descending_ties", "tuple(torch.sort(a, dim=-1, descending=True, stable=True))", I(4, 3, 9).double())
    add("topk_3", "tuple(torch.topk(a, 3, 1))", N(2, 7, 3))
    add("topk_smallest", "tuple(torch.topk(a, 4, -1, largest=False))", N(3, 8))
    add("embedding_repeats", "F.embedding(b, a)", N(5, 3), I(5, 4, 6))


def linear():
    add("matmul", "a @ b", N(4, 6), N(6, 5))
    add("matmul_f32", "a @ b", N(7, 19), N(19, 5))
    add("matmul_broadcast", "a @ b", N(2, 1, 3, 4), N(3, 4, 5))
    add("matmul_vector_left", "a @ b", N(4), N(2, 4, 3))
    add("matmul_vector_right", "a @ b", N(2, 3, 4), N(4))
    add("matmul_dot", "a @ b", N(6), N(6))
    add("matmul_transposed", "a.mT @ b.mT", N(2, 4, 3), N(2, 5, 4))
    add("linear_bias", "F.linear(a, b, c)", N(2, 3, 4), N(5, 4), N(5))
    add("linear_gelu_f32", "F.gelu(F.linear(a, b, c))", N(6, 4), N(5, 4), N(5))
    for name, equation, *inputs in [("heads", "bqhd,bkhd->bhqk", N(2, 3, 2, 4), N(2, 5, 2, 4)), ("projection", "bthd,hde->bte", N(2, 3, 2, 4), N(2, 4, 5)),
                                    ("diagonal", "iij->ij", N(4, 4, 3)), ("trace", "ii", N(5, 5)), ("outer", "i,j->ji", N(3), N(4)),
                                    ("chain", "ij,jk,kl->il", N(2, 3), N(3, 4), N(4, 2)), ("bilinear", "bn,anm,bm->ba", N(2, 3), N(4, 3, 5), N(2, 5)),
                                    ("ellipsis", "...ij,...jk->...ik", N(2, 1, 3, 4), N(5, 4, 2)), ("weighted", "bi,bj,b->ij", N(3, 2), N(3, 4), N(3))]:
        add("einsum_" + name, f"torch.einsum('{equation}', {', '.join(NAMES[:len(inputs)])})", *inputs)
    add("conv1d", "F.conv1d(a, b, c)", N(2, 3, 9), N(4, 3, 3), N(4))
    add("conv1d_options", "F.conv1d(a, b, c, stride=2, padding=3, dilation=2)", N(2, 3, 10), N(4, 3, 3), N(4))
    add("conv1d_groups", "F.conv1d(a, b, c, padding=1, groups=2)", N(2, 4, 7), N(6, 2, 3), N(6))
    add("conv1d_depthwise_causal", "F.conv1d(F.pad(a, (6, 0)), b, c, dilation=2, groups=3)", N(2, 3, 9), N(3, 1, 4), N(3))
    add("conv1d_depthwise_stride_f32", "F.conv1d(a, b, stride=2, padding=1, groups=3)", N(2, 3, 9), N(6, 1, 3))
    add("layer_norm", "F.layer_norm(a, (7,), b, c, 1e-5)", N(2, 3, 7), N(7), N(7))
    add("layer_norm_plain_f32", "F.layer_norm(a, (33,), eps=0.01)", N(4, 33))
    add("rms_norm", "F.rms_norm(a, (7,), b, 1e-5)", N(2, 3, 7), N(7))
    add("rms_norm_f32", "F.rms_norm(a, (33,), b, 1e-5)", N(4, 33), N(33))
    add("group_norm", "F.group_norm(a, 3, b, c, 1e-5)", N(2, 6, 5), N(6), N(6))
    add("group_norm_images_f32", "F.group_norm(a, 2, b, c, 0.01)", N(2, 4, 3, 5), N(4), N(4))


def losses():
    x, t = N(4, 3, 7), I(7, 4, 3)
    ignoring = t.clone()
    ignoring[1, 2] = ignoring[3, 0] = -100
    for name, options in [("mean", ""), ("sum_smoothed", ", reduction='sum', label_smoothing=0.1"), ("none", ", reduction='none'")]:
        add("cross_entropy_" + name, f"F.cross_entropy(a.mT, b{options})", x, t)
    add("cross_entropy_ignoring", "F.cross_entropy(a.mT, b)", x, ignoring)
    add("cross_entropy_ignoring_smoothed_f32", "F.cross_entropy(a.mT, b, label_smoothing=0.2)", x, ignoring)
    add("cross_entropy_all_ignored", "F.cross_entropy(a, b)", N(2, 3), L([-100, -100]))
    add("nll_loss_ignoring", "F.nll_loss(torch.log_softmax(a, -1).mT, b)", x, ignoring)
    add("nll_loss_none", "F.nll_loss(a.mT, b, reduction='none')", x, t)
    add("linear_cross_entropy", "F.cross_entropy(F.linear(a, b).mT, c)", N(2, 5, 4), N(7, 4), I(7, 2, 5))
    a, b = N(3, 5), N(3, 5)
    add("mse_loss", "F.mse_loss(a, b)", a, b)
    add("l1_loss_none", "F.l1_loss(a, b, reduction='none')", a, b)
    add("huber_loss", "F.huber_loss(a, b, delta=0.7)", a, b)
    add("smooth_l1_loss_sum", "F.smooth_l1_loss(a, b, beta=0.7, reduction='sum')", a, b)
    add("binary_cross_entropy_with_logits", "F.binary_cross_entropy_with_logits(a, b)", 5 * a, U(0, 1, 3, 5))
    add("kl_div", "F.kl_div(a, b)", torch.log_softmax(a, -1), torch.softmax(b, -1))


def attentions():
    q, k, v = N(2, 5, 4, 3), N(2, 7, 2, 3), N(2, 7, 2, 6)
    add("attention", "attention(a, b, c)", q, k, v)
    add("attention_causal_f32", "attention(a, b, c, causal=True)", N(1, 9, 2, 8), N(1, 9, 2, 8), N(1, 9, 2, 8))
    add("attention_causal_offset", "attention(a, b, c, causal=True, q_offset=2)", q, k, v)
    add("attention_window", "attention(a, b, c, causal=True, window=3, q_offset=2)", q, k, v)
    add("attention_materialised", "attention(a, b, c, causal=True, q_offset=2)", q, k, v)
    add("linear_attention", "linear_attention(a, b, c)", U(0.1, 1, 2, 5, 2, 3), U(0.1, 1, 2, 5, 2, 3), N(2, 5, 2, 4))
    add("rotary_halves", "rotary_halves(a, b)", N(2, 3, 2, 6), N(3, 6))


def evaluate(name, expression, inputs):
    single = name.endswith("_f32")
    leaves = []
    for x in inputs:
        if x.is_floating_point():
            x = (x.float() if single else x).double().detach().clone().requires_grad_(True)
        leaves.append(x)
    out = eval(expression, globals(), dict(zip(NAMES, leaves)))  # noqa: S307
    outputs = list(out) if isinstance(out, (tuple, list)) else [out]
    stored = (lambda t: t.detach().float().contiguous()) if single else (lambda t: t.detach().contiguous())
    tensors = {}
    starts, seeds = [], []
    for i, y in enumerate(outputs):
        tensors[f"{name}/out.{i}"] = stored(y) if y.is_floating_point() else y
        if y.is_floating_point():
            seed = torch.randn(y.shape)
            seed = seed.float().double() if single else seed
            tensors[f"{name}/cotangent.{i}"] = stored(seed)
            starts.append(y)
            seeds.append(seed)
    wanted = [x for x in leaves if x.requires_grad]
    gradients = iter(torch.autograd.grad(starts, wanted, seeds))
    for i, x in enumerate(leaves):
        tensors[f"{name}/in.{i}"] = stored(x) if x.requires_grad else x
        if x.requires_grad:
            tensors[f"{name}/gradient.{i}"] = stored(next(gradients))
    return tensors


def main():
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(5)
    for family in (pointwise, reductions, scans, moves, indexing, linear, losses, attentions):
        family()
    tensors, lines = {}, {}
    for name, expression, inputs in VARIANTS:
        assert name not in lines, name
        lines[name] = f"{name}\t{expression}\n"
        tensors.update(evaluate(name, expression, inputs))
    # One entry of metadata: the order of several is not the same in every run.
    save_file({name: t.clone() for name, t in tensors.items()}, OUT, {"variants": "".join(lines.values())})
    print(len(VARIANTS), "variants,", os.path.getsize(OUT), "bytes, by PyTorch", torch.__version__.split("+")[0])


if __name__ == "__main__":
    main()
