"""The other side: the same models in PyTorch, written from the papers' equations over a dictionary of parameters.

The Performer's attention has two forms. `reference` is the published pattern: outer products, a running sum, a contraction, in blocks of 64.
`products` is the best form known for PyTorch: within a block as masked matrix products, between blocks a running sum of states.
"""
import json
import math
import struct

import torch
import torch.nn.functional as F

BLOCK = 64


def load(path):
    """A safetensors file as a dictionary."""
    types = {"F32": torch.float32, "F64": torch.float64, "I64": torch.int64}
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(size))
        data = bytearray(file.read())
    out = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        out[name] = torch.frombuffer(data, dtype=types[entry["dtype"]], offset=begin, count=(end - begin) // types[entry["dtype"]].itemsize).reshape(entry["shape"]).clone()
    return out


def sinusoids(begin, end, dim):
    frequency = torch.exp(torch.arange(dim // 2, dtype=torch.float64) * (-2 * math.log(10000.0) / dim))
    angle = torch.arange(begin, end, dtype=torch.float64)[:, None] * frequency
    return torch.cat([angle.sin(), angle.cos()], 1).float()


def attention_reference(q, k, v, state):
    """q, k [B, L, H, M], v [B, L, H, d + 1], state [B, H, M, d + 1]."""
    outs = []
    for begin in range(0, q.shape[1], BLOCK):
        part = slice(begin, begin + BLOCK)
        sums = state[:, None] + (k[:, part, :, :, None] * v[:, part, :, None, :]).cumsum(1)
        outs.append((q[:, part, :, :, None] * sums).sum(3))
        state = sums[:, -1]
    return torch.cat(outs, 1), state


def attention_products(q, k, v, state):
    length, block = q.shape[1], min(BLOCK, q.shape[1])
    rest = -length % block
    if rest:
        q, k, v = (F.pad(t, (0, 0, 0, 0, 0, rest)) for t in (q, k, v))
    b, n, h, m = q.shape
    q, k, v = (t.reshape(b, n // block, block, h, t.shape[-1]).permute(0, 3, 1, 2, 4) for t in (q, k, v))
    sums = k.transpose(-1, -2) @ v
    before = state[:, :, None] + sums.cumsum(2) - sums
    out = q @ before + torch.tril(q @ k.transpose(-1, -2)) @ v
    return out.permute(0, 2, 3, 1, 4).reshape(b, n, h, -1)[:, :length], state + sums.sum(2)


class Performer:
    def __init__(self, weights, heads, form):
        self.w = {name: value.requires_grad_() for name, value in weights.items()}
        self.layers = 1 + max(int(name.split(".")[1]) for name in weights if name.startswith("layers."))
        self.heads, self.dim = heads, weights["layers.0.up.weight"].shape[1]
        self.attend = attention_reference if form == "reference" else attention_products

    def linear(self, name, x):
        return F.linear(x, self.w[name + ".weight"], self.w[name + ".bias"])

    def norm(self, name, x):
        return F.layer_norm(x, (self.dim,), self.w[name + ".weight"], self.w[name + ".bias"])

    def start(self, batch):
        head = self.dim // self.heads
        return [torch.zeros(batch, self.heads, head, head + 1) for _ in range(self.layers)]

    def keys(self, name, x):
        shape = (*x.shape[:2], self.heads, self.dim // self.heads)
        k = self.linear(name + ".attention.key", x).view(shape).square()
        v = self.linear(name + ".attention.value", x).view(shape)
        return k, torch.cat([v, torch.ones_like(v[..., :1])], -1)

    def slice(self, tokens, targets, begin, states):
        """Sum of the losses, and the states at the end. `states` may be at the slice's start."""
        x = torch.cat([self.w["embed.weight"][tokens], sinusoids(begin, begin + tokens.shape[1], self.dim // 2).expand(tokens.shape[0], -1, -1)], -1)
        ends = []
        for i in range(self.layers):
            name = f"layers.{i}"
            q = self.linear(name + ".attention.query", x).view(*x.shape[:2], self.heads, -1).square()
            k, v = self.keys(name, x)
            out, end = self.attend(q, k, v, states[i])
            ends.append(end)
            out = (out[..., :-1] / (out[..., -1:] + 1e-16)).flatten(2)
            x = x + self.norm(name + ".attention_norm", out)
            x = x + self.norm(name + ".feed_forward_norm", self.linear(name + ".down", F.gelu(self.linear(name + ".up", x))))
        return F.cross_entropy(self.linear("head", x).flatten(0, 1), targets.flatten(), reduction="sum"), ends

    def gradient(self, tokens, chunk):
        """Algorithm 1 of the SLiM paper; chunk 0: the ordinary gradient. Returns the mean loss."""
        inputs, targets = tokens[:, :-1], tokens[:, 1:]
        count, length = targets.numel(), inputs.shape[1]
        if not chunk:
            loss = self.slice(inputs, targets, 0, self.start(inputs.shape[0]))[0] / count
            loss.backward()
            return loss.item()
        total, states, starts = 0.0, self.start(inputs.shape[0]), []
        with torch.no_grad():
            for begin in range(0, length, chunk):
                starts.append(states)
                loss, states = self.slice(inputs[:, begin:begin + chunk], targets[:, begin:begin + chunk], begin, states)
                total += loss.item()
        gradients = [torch.zeros_like(s) for s in states]
        for begin in reversed(range(0, length, chunk)):
            states = [s.detach().requires_grad_() for s in starts.pop()]
            loss, ends = self.slice(inputs[:, begin:begin + chunk], targets[:, begin:begin + chunk], begin, states)
            torch.autograd.backward([loss / count, *ends], [None, *gradients])
            gradients = [s.grad for s in states]
        return total / count

    def decode(self, tokens, count):
        with torch.no_grad():
            states, before = self.start(1), min(128, tokens.shape[1] - 1)
            _, states = self.slice(tokens[:1, :before], tokens[:1, 1:before + 1], 0, states)
            for i in range(count):
                at = slice(i % before, i % before + 1)
                _, states = self.slice(tokens[:1, at], tokens[:1, at], before + i, states)


class Llama:
    def __init__(self, weights, heads, length):
        self.w = {name: value.requires_grad_() for name, value in weights.items()}
        self.layers = 1 + max(int(name.split(".")[2]) for name in weights if name.startswith("model.layers."))
        width = weights["model.norm.weight"].shape[0]
        self.heads, self.dim = heads, width // heads
        angle = torch.arange(length, dtype=torch.float64)[:, None] * 10000.0 ** (-torch.arange(0, self.dim, 2, dtype=torch.float64) / self.dim)
        self.cos, self.sin = torch.cat([angle, angle], 1).cos().float(), torch.cat([angle, angle], 1).sin().float()

    def rotated(self, x, begin):
        cos, sin = self.cos[begin:begin + x.shape[2]], self.sin[begin:begin + x.shape[2]]
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat([-b, a], -1) * sin

    def forward(self, tokens, caches=None, begin=0):
        x = self.w["model.embed_tokens.weight"][tokens]
        norm = lambda name, x: F.rms_norm(x, (x.shape[-1],), self.w[name + ".weight"], 1e-5)
        for i in range(self.layers):
            name = f"model.layers.{i}"
            h = norm(name + ".input_layernorm", x)
            q, k, v = (F.linear(h, self.w[f"{name}.self_attn.{p}_proj.weight"]).view(*h.shape[:2], -1, self.dim).transpose(1, 2) for p in "qkv")
            q, k = self.rotated(q, begin), self.rotated(k, begin)
            if caches is not None:
                caches[i] = (k, v) if caches[i] is None else (torch.cat([caches[i][0], k], 2), torch.cat([caches[i][1], v], 2))
                k, v = caches[i]
            group = q.shape[1] // k.shape[1]
            if group > 1:
                k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
            out = F.scaled_dot_product_attention(q, k, v, is_causal=q.shape[2] > 1).transpose(1, 2).flatten(2)
            x = x + F.linear(out, self.w[f"{name}.self_attn.o_proj.weight"])
            h = norm(name + ".post_attention_layernorm", x)
            h = F.silu(F.linear(h, self.w[f"{name}.mlp.gate_proj.weight"])) * F.linear(h, self.w[f"{name}.mlp.up_proj.weight"])
            x = x + F.linear(h, self.w[f"{name}.mlp.down_proj.weight"])
        return F.linear(norm("model.norm", x), self.w["lm_head.weight"])

    def gradient(self, tokens, chunk):
        loss = F.cross_entropy(self.forward(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        return loss.item()

    def decode(self, tokens, count):
        with torch.no_grad():
            caches, before = [None] * self.layers, min(128, tokens.shape[1] - 1)
            self.forward(tokens[:1, :before], caches)
            for i in range(count):
                self.forward(tokens[:1, i % before:i % before + 1], caches, before + i)
