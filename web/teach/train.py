"""Train the built-in model: seeded, resumable, on the CPU.

    python train.py --stories PROGRAM --out DIR [--threads 1] [--stages 64:2.0,128:1.5,...]

It stops after the last stage; started again with the same directory it goes on where the last checkpoint was. Stages are
LENGTH:MILLIONS OF TOKENS. Everything random comes from the seed and the number of the step, so a stop changes nothing.
"""

import argparse
import hashlib
import json
import os
import time

import torch
import torch.nn.functional as F

import bpe
import corpus
from model import Config, Llama, plant
from muon import Muon

STAGES = "64:0.8,128:2.4,256:3.6,512:4.6,1024:3.8,2048:1.8"
CHINESE = 0.45

# What is planted. Heads that begin at fixed distances:
OFFSETS = {0: {0: (1, 2, 3), 1: (4, 5, 6)}, 1: {0: (2, 4, 7)}}
# Heads that are taught to bind: from a value to its keys and from the place of an answer to the keys in the question, the first
# head of the group to the first key, the second to the last, the third to both.
BINDING = (1, 1)
# Where attention is taught to go when an answer is due, by layer and KV head (see corpus.Ask), and heads that are taught to
# copy. All of these, and RESTING, are also taught to rest on the first token when nothing is due.
FINDING = {(2, 0): "via", (3, 0): "wide", (3, 1): "exact", (4, 0): "exact"}
COPYING = {(2, 1): "exact"}
RESTING = {(4, 1)}


class Watch:
    """collects what the attention loss needs while the layers run"""

    def __init__(self, asks, binds, T):
        self.asks, self.binds, self.T = asks, binds, T
        self.loss, self.rest, self.bound, self.mass = [], [], [], {}

    def layer(self, i):
        heads = {h for l, h in [*FINDING, *COPYING, *RESTING] if l == i}
        if i == BINDING[0]:
            return self.bind
        return (lambda s, e, P: self.block(i, heads, s, e, P)) if heads else None

    def bind(self, s, e, P):
        a = self.binds
        due = ((a["t"] >= s) & (a["t"] < e)).nonzero().squeeze(1)
        if len(due):
            rows = P[a["b"][due], BINDING[1], :, a["t"][due] - s].float()  # (n, 3, e)
            one, two = a["one"][due, :e], a["two"][due, :e]
            found = (rows * torch.stack([one, two, (one + two).clamp_max(1)], 1)).sum(-1)
            self.bound.append((-torch.log(found + 1e-3)).sum() / (3 * len(a["t"])))
            self.mass.setdefault(BINDING, []).append(found.detach().mean())

    def block(self, i, heads, s, e, P):
        a = self.asks
        due = ((a["t"] >= s) & (a["t"] < e)).nonzero().squeeze(1)
        b, t, copy = a["b"][due], a["t"][due] - s, a["copy"][due]
        idle = torch.ones(P.shape[0], e - s)
        idle[b, t] = 0
        for h in heads:
            first = P[:, h, :, :, 0].float()  # (B, group, rows)
            self.rest.append((-torch.log(first + 1e-4) * idle[:, None]).sum() / (P.shape[0] * P.shape[2] * self.T))
            kind = FINDING.get((i, h)) or COPYING.get((i, h))
            if kind and len(due):
                rows = P[b, h, :, t].float()  # (n, group, e)
                want = copy if (i, h) in COPYING else ~copy
                at = a[kind][due, :e]
                found = torch.where(want[:, None], (rows * at[:, None]).sum(-1), rows[:, :, 0])
                self.loss.append((-torch.log(found + 1e-3)).sum() / (P.shape[2] * max(1, len(a["t"]))))
                told = want & a["told"][due]
                if told.any():
                    self.mass.setdefault((i, h), []).append(found[told].detach().mean())

    def losses(self):
        n = len(FINDING) + len(COPYING)
        zero = torch.tensor(0.0)
        return sum(self.loss, zero) / n, sum(self.bound, zero), sum(self.rest) / (n + len(RESTING))

    def masses(self):
        return {f"{l}.{h}": torch.stack(m).mean().item() for (l, h), m in sorted(self.mass.items())}


def drop(B, g):
    """for each row of a batch one or two finding heads whose output is left out, so that none becomes the only one"""
    keep = {}
    u = torch.rand(B, len(FINDING), generator=g)
    off = torch.zeros(B, len(FINDING), dtype=torch.bool)
    off.scatter_(1, u.argsort(1)[:, :2], torch.stack([u[:, 0] < 0.5, u[:, 1] < 0.25], 1))
    for j, (l, h) in enumerate(FINDING):
        keep.setdefault(l, torch.ones(B, 2))[:, h] = (~off[:, j]).float()
    return keep


def loss_of(net, ids, roles, asks, binds, g, a, look):
    watch = Watch(asks, binds, ids.shape[1] - 1)
    layers = {i: watch.layer(i) for i in range(net.c.layers)}
    h = net.states(ids[:, :-1], layers, drop(len(ids), g)).reshape(-1, net.c.width)
    role, target = roles[:, 1:].reshape(-1), ids[:, 1:].reshape(-1)
    weight = torch.tensor([0.0, a.text / a.sample, 2.0, a.answer])[role]
    weight[(role == corpus.TEXT) & (torch.rand(role.shape, generator=g) >= a.sample)] = 0  # logits are dear: a part of the text will do
    at = weight.nonzero().squeeze(1)
    logits = net.logits(h[at]).float()
    ce, w = F.cross_entropy(logits, target[at], reduction="none"), weight[at]
    find, bind, rest = watch.losses()
    with torch.no_grad():
        hit = (logits.argmax(-1) == target[at]).float()
        mean = lambda x: x.mean().item() if len(x) else float("nan")
        r = role[at]
        stats = dict(
            answer=mean(hit[r == corpus.ANSWER]), copied=mean(hit[r == corpus.COPIED]), text=mean(ce[r == corpus.TEXT]),
            find=float(find), bind=float(bind), rest=float(rest), **watch.masses(),
        )
    return (ce * w).sum() / w.sum() + look * (find + bind) + a.rest * rest, stats


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("--stories", required=True, help="the generator, built by go build ./web/lab/stories")
    p.add_argument("--out", required=True)
    p.add_argument("--stages", default=STAGES)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--threads", type=int, default=1, help="a second one gains nothing at this size")
    p.add_argument("--lr", type=float, default=1e-3, help="of AdamW, for embeddings and norms")
    p.add_argument("--muon", type=float, default=3e-3, help="of Muon, for matrices")
    p.add_argument("--decay", type=float, default=0.35, help="share of all tokens over which the rates fall to nothing")
    p.add_argument("--answer", type=float, default=8)
    p.add_argument("--text", type=float, default=0.3)
    p.add_argument("--sample", type=float, default=0.35)
    p.add_argument("--find", type=float, default=0.5, help="weight of the loss on where attention goes, at the start")
    p.add_argument("--rest", type=float, default=0.02, help="weight of the loss that rests idle heads on the first token")
    p.add_argument("--save", type=float, default=120, help="seconds between checkpoints")
    return p.parse_args()


def tokenizer(stories, path, seed):
    if not os.path.exists(path):
        docs = stories.get(seed=seed << 20, count=5000, words=256, chinese=0.5)
        lexicon = [w for w in stories.get(kind="lexicon", count=1)[0]]
        bpe.train((d["Text"] for d in docs), lexicon, 2304).save(path)
    return bpe.Tokenizer.load(path)


def main():
    a = arguments()
    os.makedirs(a.out, exist_ok=True)
    torch.set_num_threads(a.threads)
    torch.manual_seed(a.seed)
    stories = corpus.Stories(a.stories)
    tok = tokenizer(stories, f"{a.out}/tokenizer.json", a.seed)
    c = Config(vocab=len(tok.tokens))
    net = Llama(c)
    plant(net, OFFSETS, BINDING, FINDING)
    matrices = [p for n, p in net.named_parameters() if p.ndim == 2 and n != "embed.weight"]
    others = [p for n, p in net.named_parameters() if p.ndim == 1 or n == "embed.weight"]
    optimizers = [Muon(matrices, a.muon), torch.optim.AdamW(others, a.lr, betas=(0.9, 0.95), weight_decay=0)]
    print(f"{sum(p.numel() for p in net.parameters()):,} parameters, {c.vocab} tokens", flush=True)

    stages = [(int(t), float(m) * 1e6) for t, m in (s.split(":") for s in a.stages.split(","))]
    total = sum(m for _, m in stages)
    step, tokens, docs, digest, spent = 0, 0, 0, "", 0.0
    path = f"{a.out}/checkpoint.pt"
    if os.path.exists(path):
        k = torch.load(path)
        net.load_state_dict(k["model"])
        for o, s in zip(optimizers, k["optimizers"]):
            o.load_state_dict(s)
        step, tokens, docs, digest, spent = k["step"], k["tokens"], k["docs"], k["digest"], k["spent"]
        print(f"going on at step {step}, {tokens / 1e6:.2f} M tokens, after {spent / 60:.1f} min", flush=True)

    def plan(tokens):
        """length and rows of the batch after so many tokens"""
        for T, m in stages:
            if tokens < m:
                return T, max(1, (2048 if T < 256 else 4096) // T)
            tokens -= m

    def ask(tokens, docs):
        if plan(tokens):
            T, B = plan(tokens)
            stories.request(seed=a.seed, start=docs, count=B, words=int(T * 0.97) - 8, chinese=CHINESE)

    def save():
        torch.save(dict(model=net.state_dict(), config=c.__dict__, optimizers=[o.state_dict() for o in optimizers],
                        step=step, tokens=tokens, docs=docs, digest=digest, spent=spent, args=vars(a)), path + ".new")
        os.replace(path + ".new", path)

    ask(tokens, docs)
    start = saved = said = time.monotonic()
    first, before, mean = tokens, spent, {}
    while plan(tokens):
        T, B = plan(tokens)
        batch = [stories.read() for _ in range(B)]
        digest = hashlib.sha256((digest + "".join(d["Text"] for d in batch)).encode()).hexdigest()  # a chain over all data
        ids, roles, asks, binds = corpus.stack([corpus.row(tok, d, T) for d in batch])
        ask(tokens + B * T, docs + B)
        done = tokens / total
        pace = min(1, (step + 1) / 60) * min(1, (1 - done) / a.decay)
        for o, lr in zip(optimizers, (a.muon, a.lr)):
            for group in o.param_groups:
                group["lr"] = lr * pace
        g = torch.Generator().manual_seed(a.seed * 1_000_003 + step)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss, stats = loss_of(net, ids, roles, asks, binds, g, a, a.find * max(0.2, 1 - 2 * done))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        for o in optimizers:
            o.step()
        net.zero_grad(set_to_none=True)
        step, tokens, docs = step + 1, tokens + B * T, docs + B
        for k, v in stats.items():
            if v == v:
                mean[k] = v if k not in mean else 0.95 * mean[k] + 0.05 * v
        now = time.monotonic()
        spent = before + now - start
        if now - said > 15:
            said, rate = now, (tokens - first) / (now - start)
            print(f"{spent / 60:5.1f} min, {(total - tokens) / rate / 60:.0f} to go | step {step} length {T} {tokens / 1e6:.2f} M, {rate:.0f}/s | "
                  + " ".join(f"{k} {v:.3f}" for k, v in mean.items()), flush=True)
        if now - saved > a.save:
            saved = now
            save()
    save()
    stories.close()
    with open(f"{a.out}/run.json", "w") as f:
        json.dump(dict(parameters=sum(p.numel() for p in net.parameters()), tokens=tokens, documents=docs, data_sha256=digest, minutes=spent / 60, **vars(a)), f, indent=1)


if __name__ == "__main__":
    main()
