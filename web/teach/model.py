"""A Llama (https://arxiv.org/abs/2302.13971) of a few layers: RMSNorm, rotary positions in the half-split layout of Hugging Face,
grouped queries, SwiGLU, no biases, input and output embeddings tied."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Config:
    vocab: int
    width: int = 192
    layers: int = 5
    heads: int = 6
    kv_heads: int = 2
    head: int = 32
    hidden: int = 384
    theta: float = 1e6
    eps: float = 1e-5
    context: int = 4096


CHUNK = 128  # queries at a time: half of a causal matrix is never computed


def rotary(c, T):
    """cos, sin: (T, head)"""
    angle = torch.outer(torch.arange(T).float(), c.theta ** (-torch.arange(0, c.head, 2).float() / c.head))
    return torch.cat([angle, angle], -1).cos(), torch.cat([angle, angle], -1).sin()


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos.to(x.dtype) + torch.cat([-b, a], -1) * sin.to(x.dtype)


def attend(q, k, v, watch=None):
    """q: (B, H, T, D), k, v: (B, K, T, D) → (B, H, T, D). watch(from, to, P) sees each block of P: (B, K, H/K, to-from, to)."""
    B, H, T, D = q.shape
    K = k.shape[1]
    q = q.reshape(B, K, H // K, T, D) * D**-0.5
    out = []
    for s in range(0, T, CHUNK):
        e = min(s + CHUNK, T)
        S = (q[:, :, :, s:e].reshape(B, K, -1, D) @ k[:, :, :e].mT).view(B, K, H // K, e - s, e)
        later = torch.ones(e - s, e - s, dtype=torch.bool).triu(1)
        S = S + F.pad(torch.zeros(e - s, e - s, dtype=S.dtype).masked_fill(later, float("-inf")), (s, 0))
        P = torch.softmax(S, -1)
        if watch:
            watch(s, e, P)
        P = P.to(v.dtype)
        out.append((P.reshape(B, K, -1, e) @ v[:, :, :e]).view(B, K, H // K, e - s, D))
    return torch.cat(out, 3).view(B, H, T, D)


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        linear = lambda i, o: nn.Linear(i, o, bias=False)
        self.norm1, self.norm2 = nn.Parameter(torch.ones(c.width)), nn.Parameter(torch.ones(c.width))
        self.q, self.o = linear(c.width, c.heads * c.head), linear(c.heads * c.head, c.width)
        self.k, self.v = linear(c.width, c.kv_heads * c.head), linear(c.width, c.kv_heads * c.head)
        self.gate, self.up, self.down = linear(c.width, c.hidden), linear(c.width, c.hidden), linear(c.hidden, c.width)

    def qkv(self, x, cos, sin):
        c, (B, T, _) = self.c, x.shape
        h = F.rms_norm(x, (c.width,), self.norm1, c.eps)
        heads = lambda y, n: y.view(B, T, n, c.head).transpose(1, 2)
        return rotate(heads(self.q(h), c.heads), cos, sin), rotate(heads(self.k(h), c.kv_heads), cos, sin), heads(self.v(h), c.kv_heads)

    def mlp(self, x):
        h = F.rms_norm(x, (self.c.width,), self.norm2, self.c.eps)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))

    def forward(self, x, cos, sin, watch=None, keep=None):
        """keep: (B, K), 0 where the output of a group of heads is left out"""
        B, T, _ = x.shape
        o = attend(*self.qkv(x, cos, sin), watch)
        if keep is not None:
            o = o * keep.repeat_interleave(self.c.heads // self.c.kv_heads, 1)[:, :, None, None].to(o.dtype)
        return self.mlp(x + self.o(o.transpose(1, 2).reshape(B, T, -1)))


class Llama(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.embed = nn.Embedding(c.vocab, c.width)
        self.layers = nn.ModuleList(Layer(c) for _ in range(c.layers))
        self.norm = nn.Parameter(torch.ones(c.width))
        nn.init.normal_(self.embed.weight, std=0.06)  # at 0.02 words of a kind drown in what they share
        for l in self.layers:
            for m in (l.q, l.k, l.v, l.gate, l.up):
                nn.init.normal_(m.weight, std=c.width**-0.5)
            nn.init.normal_(l.o.weight, std=(2 * c.layers * c.width) ** -0.5)
            nn.init.normal_(l.down.weight, std=(2 * c.layers * c.hidden) ** -0.5)

    def states(self, ids, watch=None, keep=None):
        """ids: (B, T) → (B, T, width) after the last norm. watch[layer](from, to, P); keep[layer]: (B, K)"""
        x = self.embed(ids)
        cos, sin = rotary(self.c, ids.shape[1])
        for i, l in enumerate(self.layers):
            x = l(x, cos, sin, (watch or {}).get(i), (keep or {}).get(i))
        return F.rms_norm(x, (self.c.width,), self.norm, self.c.eps)

    def logits(self, states):
        return F.linear(states, self.embed.weight)


@torch.no_grad()
def plant(net, offsets, binding, finding, gain=2.6, copy=0.15, bound=0.6, match=0.7, fast=6):
    """Give the heads a start from which looking back is a short way. Said wherever the model is shown.

    * offsets[layer][kv head] lists one distance for each query head of the group, which begins by attending that far back: all
      embeddings share a direction u, and query and key read u into the fast rotary pairs, the query turned by the distance.
    * The other heads begin with queries much like keys (https://arxiv.org/abs/2305.09828), so that like attends to like. The
      groups of finding read, in both, what the group of binding writes, in the rotary pairs that are slow enough to mean the same
      far away; binding writes more loudly than the rest. The group that finds the first of two steps writes in the same place,
      so that what it found is what the next ones look for.
    * Every head writes back what it reads (W_o = copy · W_vᵀ), and the MLPs begin silent."""
    c = net.c
    u = F.normalize(torch.randn(c.width), dim=0)
    net.embed.weight.add_(u * net.embed.weight.norm(dim=1).mean())
    half, pairs = c.head // 2, 4
    turn = c.theta ** (-torch.arange(pairs).float() / half)
    scale = gain * 2 / (math.sqrt(c.width) * 0.7)  # u's share of a normalised embedding
    blind = lambda w: w.sub_(torch.outer(w @ u, u))
    rows = lambda m, j: m.weight[j * c.head : (j + 1) * c.head]
    slow = torch.arange(c.head) % half >= fast
    for i, l in enumerate(net.layers):
        l.down.weight.zero_()
        for h in range(c.kv_heads):
            group = range(h * c.heads // c.kv_heads, (h + 1) * c.heads // c.kv_heads)
            k, v = rows(l.k, h), blind(rows(l.v, h))
            if finding.get((i, h)) == "via":
                v.copy_(rows(net.layers[binding[0]].v, binding[1]))
            loud = {binding: bound}.get((i, h), 2 * copy if finding.get((i, h)) == "via" else copy)
            for j in group:
                l.o.weight[:, j * c.head : (j + 1) * c.head] = loud * v.T
            if h in offsets.get(i, {}):
                mark = torch.zeros(c.head)
                mark[:pairs] = 1
                blind(k).mul_(0.3).add_(torch.outer(mark, u) * scale)
                for j, far in zip(group, offsets[i][h]):
                    mark = torch.zeros(c.head)
                    mark[:pairs], mark[half : half + pairs] = torch.cos(far * turn), -torch.sin(far * turn)
                    blind(rows(l.q, j)).mul_(0.3).add_(torch.outer(mark, u) * scale)
            elif (i, h) in finding:
                written = rows(net.layers[binding[0]].v, binding[1])
                for w in [k, *(rows(l.q, j) for j in group)]:
                    blind(w).mul_(0.2)[slow] = match * written[slow]
            else:
                blind(k)
                for j in group:
                    q = rows(l.q, j)
                    blind(q.copy_(0.85 * k + 0.5 * q))
