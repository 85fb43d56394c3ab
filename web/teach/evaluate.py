"""What the trained model shows: answers with the cache whole, cut and quantised, and what each head does.

    python evaluate.py --stories PROGRAM --run DIR [--n 50]

Every measure is exact: a prompt is read with the whole cache, then the rows after it see the changed one. Eviction keeps the
original positions. An answer counts when each of its tokens is the likeliest, given those before it.
"""

import argparse
import json
import time

import torch
import torch.nn.functional as F

import bpe
import corpus
from model import Config, Llama, attend, rotary

TELLABLE = [f"{r}/{f}" for r in ("meal", "code", "place", "pet", "home", "finder") for f in ("plain", "back")] + [
    "meal/changed", "code/changed", "place/changed", "home/changed", "meal/list", "code/two-step"]
UNTOLD = [f"{r}/untold" for r in ("meal", "code", "place", "pet", "home", "finder")]
KINDS = TELLABLE + UNTOLD
FRAME = {"en": ("\nQuestion: ", "\nAnswer:", " ", "."), "zh": ("\n问：", "\n答：", "", "。")}


class Sample:
    """ids of story, question and answer; asked and due: where the question and the answer begin; value and sentence: tokens"""

    def __init__(self, tok, n):
        ask, answer, space, _ = FRAME[n["Lang"]]
        story, ends = corpus.encode(tok, n["Text"])
        question = tok.encode(ask + n["Question"] + answer)
        reply = tok.encode(space + n["Answer"])
        self.ids = [bpe.BOS, *story, *question, *reply]
        self.asked, self.due = 1 + len(story), 1 + len(story) + len(question)
        held = lambda s: [i + 1 for i, e in enumerate(ends) if e > s["From"] and (ends[i - 1] if i else 0) < s["To"]]
        self.value, self.sentence = held(n["Value"]), held(n["Sentence"])


# Which slots of a prompt each KV head keeps: q (H, P, D), k (K, P, D) → (K, P), true where kept.
def window(q, k, budget, g):
    keep = torch.zeros(k.shape[:2], dtype=torch.bool)
    keep[:, -budget:] = True
    return keep


def streaming(q, k, budget, g):
    keep = window(q, k, budget - 4, g)
    keep[:, :4] = True
    return keep


def random(q, k, budget, g):
    keep = torch.zeros(k.shape[:2], dtype=torch.bool)
    for row in keep:
        row[torch.randperm(len(row), generator=g)[:budget]] = True
    return keep


def snap(q, k, budget, g, last=8, pool=5):
    """after SnapKV (https://arxiv.org/abs/2404.14469): the last queries vote, votes are pooled along the text"""
    (K, P, D), H = k.shape, len(q)
    s = q[:, P - last :].view(K, H // K, last, D) @ k[:, None].mT * D**-0.5
    p = torch.softmax(s + torch.full((last, P), float("-inf")).triu(P - last + 1), -1)
    votes = F.avg_pool1d(p.sum(2).mean(1)[:, : P - last][:, None], pool, 1, pool // 2)[:, 0]
    keep = window(q, k, last, g)
    return keep.scatter(1, votes.topk(budget - last, -1).indices, True)


POLICIES = dict(window=window, streaming=streaming, snap=snap, random=random)


def per_token(bits):
    """symmetric, a scale for each token and head"""
    m = 2 ** (bits - 1) - 1

    def one(x):
        s = x.abs().amax(-1, keepdim=True).clamp_min(1e-8) / m
        return (x / s).round().clamp(-m, m) * s

    return lambda k, v: (one(k), one(v))


def kivi(bits, group=32):
    """after KIVI (https://arxiv.org/abs/2402.02750): asymmetric, keys by channel in groups of tokens, values by token"""

    def one(x):  # groups along the last axis; the rest that fills no group stays as it is
        n = x.shape[-1] // group * group
        y = x[..., :n].unflatten(-1, (-1, group))
        low, high = y.amin(-1, keepdim=True), y.amax(-1, keepdim=True)
        s = (high - low).clamp_min(1e-8) / (2**bits - 1)
        return torch.cat([(((y - low) / s).round() * s + low).flatten(-2), x[..., n:]], -1)

    return lambda k, v: (one(k.mT).mT, one(v))


@torch.no_grad()
def run(net, ids, prompt, keep=None, quant=None, skip=(), watch=None):
    """logits of all rows; rows from prompt on see the cache that keep(layer, q, k) and quant(k, v) leave. skip: layers left out"""
    c, T = net.c, len(ids)
    x = net.embed(torch.tensor([ids]))
    cos, sin = rotary(c, T)
    group = c.heads // c.kv_heads
    for i, l in enumerate(net.layers):
        if i in skip:
            continue
        q, k, v = (y[0] for y in l.qkv(x, cos, sin))
        o = attend(q[None], k[None], v[None], (lambda s, e, P: watch(i, s, P[0])) if watch else None)[0]
        if prompt < T and (keep or quant):
            kept = keep(i, q[:, :prompt], k[:, :prompt]) if keep else torch.ones(c.kv_heads, prompt, dtype=torch.bool)
            old = quant(k[:, :prompt], v[:, :prompt]) if quant else (k[:, :prompt], v[:, :prompt])
            k, v = torch.cat([old[0], k[:, prompt:]], 1), torch.cat([old[1], v[:, prompt:]], 1)
            mask = torch.zeros(c.kv_heads, T - prompt, T).masked_fill(torch.ones(T - prompt, T, dtype=torch.bool).triu(prompt + 1), float("-inf"))
            mask[:, :, :prompt].masked_fill_(~kept[:, None], float("-inf"))
            s = q[:, prompt:].view(c.kv_heads, group, T - prompt, c.head) @ k[:, None].mT * c.head**-0.5 + mask[:, None]
            o = torch.cat([o[:, :prompt], (torch.softmax(s, -1) @ v[:, None]).view(c.heads, T - prompt, c.head)], 1)
        x = l.mlp(x + l.o(o.transpose(0, 1).reshape(1, T, -1)))
    return net.logits(F.rms_norm(x, (c.width,), net.norm, c.eps))[0]


def right(net, s, **how):
    logits = run(net, s.ids, how.pop("prompt", len(s.ids)), **how)
    return logits[s.due - 1 : -1].argmax(-1).tolist() == s.ids[s.due :]


class Bench:
    def __init__(self, net, tok, stories, n):
        self.net, self.tok, self.stories, self.n = net, tok, stories, n

    def samples(self, lang, tokens, kinds, n, depth=None, split=0, seed=1):
        out = []
        for i in range(n):
            at = depth if depth is not None else (i * 0.618034) % 1
            doc = self.stories.get(seed=seed * 1000 + tokens, start=i, count=1, words=tokens, kind=kinds[i % len(kinds)], lang=lang, depth=at, split=split)
            out.append(Sample(self.tok, doc[0]))
        return out

    def share(self, samples, **how):
        return round(sum(right(self.net, s, **{k: v(s) if k == "prompt" else v for k, v in how.items()}) for s in samples) / len(samples), 3)

    def full(self, lang, lengths):
        return {T: {d: self.share(self.samples(lang, T, KINDS, self.n, d)) for d in (0, 0.25, 0.5, 0.75, 1)} for T in lengths}

    def kinds(self, lang, tokens, split=0):
        return {k: self.share(self.samples(lang, tokens, [k], self.n, split=split)) for k in KINDS}

    def evict(self, lang, tokens, budgets):
        s = self.samples(lang, tokens, TELLABLE, self.n)
        seen, later = lambda x: x.due - 1, lambda x: x.asked
        out = {}
        for name, at in (("seen", seen), ("later", later)):
            g = torch.Generator().manual_seed(1)
            for p, f in POLICIES.items():
                for b in budgets:
                    out[f"{name} {p} {b}"] = self.share(s, prompt=at, keep=lambda l, q, k: f(q, k, min(b, k.shape[1]), g))
            out[f"{name} full"] = self.share(s, prompt=at)
        return out

    def without(self, lang, tokens):
        """the needle's value and sentence dropped: everywhere, and in one KV head alone"""
        c, s = self.net.c, self.samples(lang, tokens, TELLABLE, self.n)

        def dropped(what, where):
            hits = 0
            for x in s:
                def keep(l, q, k):
                    m = torch.ones(k.shape[:2], dtype=torch.bool)
                    for h in range(c.kv_heads):
                        if where is None or (l, h) == where:
                            m[h, getattr(x, what)] = False
                    return m
                hits += right(self.net, x, prompt=x.asked, keep=keep)
            return round(hits / len(s), 3)

        out = {"value, everywhere": dropped("value", None), "sentence, everywhere": dropped("sentence", None)}
        return out | {f"sentence, in {l}.{h}": dropped("sentence", (l, h)) for l in range(c.layers) for h in range(c.kv_heads)}

    def quantised(self, lang, tokens):
        s = self.samples(lang, tokens, TELLABLE, self.n)
        how = {"none": None, **{f"token {b}": per_token(b) for b in (8, 4, 3, 2)}, **{f"kivi {b}": kivi(b) for b in (4, 2)}}
        return {k: self.share(s, prompt=lambda x: x.due - 1, quant=q) for k, q in how.items()}

    def layers(self, lang, tokens):
        s = self.samples(lang, tokens, KINDS, self.n)
        return {i: self.share(s, skip=(i,)) for i in range(self.net.c.layers)}

    def heads(self, lang, tokens):
        """per query head, means: attention at the first step of the answer on its value, and over the rows of the story on the first
        token, on the last eight, and the induction score: on what follows the same token further up, in random tokens said twice"""
        c = self.net.c
        sums = {k: torch.zeros(c.layers, c.heads) for k in ("value", "first", "last8", "induction", "echo")}
        samples = self.samples(lang, tokens, TELLABLE, self.n)
        for x in samples:
            def watch(l, start, P):
                P = P.flatten(0, 1)
                for row in range(P.shape[1]):
                    t = start + row
                    if t == x.due - 1:
                        sums["value"][l] += P[:, row, x.value].sum(-1)
                    if 40 <= t < x.asked and t % 8 == 0:
                        n = len(range(40, x.asked, 8))
                        sums["first"][l] += P[:, row, 0] / n
                        sums["last8"][l] += P[:, row, max(1, t - 7) : t + 1].sum(-1) / n
            run(self.net, x.ids, len(x.ids), watch=watch)
        g = torch.Generator().manual_seed(5)
        for _ in samples:
            half = torch.randint(258, c.vocab, (48,), generator=g).tolist()
            def watch(l, start, P):
                P = P.flatten(0, 1)
                for row in range(P.shape[1]):
                    t = start + row
                    if t > 56:  # position t holds half[(t-1) % 48]
                        sums["induction"][l] += P[:, row, t - 47] / (96 - 56)
                        sums["echo"][l] += P[:, row, t - 48] / (96 - 56)
            run(self.net, [bpe.BOS, *half, *half], 97, watch=watch)
        return {k: [[round(float(x) / len(samples), 3) for x in r] for r in v] for k, v in sums.items()}

    def nats(self, lang, tokens):
        """of story text after the middle, with the cache whole, and without its first token and the first four"""
        docs, total, n = [], {"full": 0, "no first": 0, "no first four": 0}, 0
        while len(docs) < self.n:
            d = self.stories.get(seed=77, start=len(docs) * 3, count=1, words=tokens, chinese=float(lang == "zh"))[0]
            docs.append([bpe.BOS, *self.tok.encode(d["Text"])][:tokens])
        for ids in docs:
            half = len(ids) // 2
            n += len(ids) - half - 1
            for name, drop in zip(total, (0, 1, 4)):
                def keep(l, q, k):
                    m = torch.ones(k.shape[:2], dtype=torch.bool)
                    m[:, :drop] = False
                    return m
                logits = run(self.net, ids, half, keep=keep)
                total[name] += F.cross_entropy(logits[half:-1], torch.tensor(ids[half + 1 :]), reduction="sum").item()
        return {k: round(v / n, 4) for k, v in total.items()}

    def free(self, prompt, seed, temperature=0.8, most=110):
        ids, g = [bpe.BOS, *self.tok.encode(prompt)], torch.Generator().manual_seed(seed)
        for _ in range(most):
            i = int(torch.multinomial(torch.softmax(run(self.net, ids, len(ids))[-1] / temperature, -1), 1, generator=g))
            if i == bpe.EOS:
                break
            ids.append(i)
        return self.tok.decode(ids)


def load(run):
    k = torch.load(f"{run}/checkpoint.pt")
    net = Llama(Config(**k["config"]))
    net.load_state_dict(k["model"])
    return net.eval(), bpe.Tokenizer.load(f"{run}/tokenizer.json")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--stories", required=True)
    p.add_argument("--run", required=True)
    p.add_argument("--n", type=int, default=50)
    p.add_argument("--lengths", default="128,256,512,1024,2048")
    p.add_argument("--only", default="full,kinds,evict,without,quantised,layers,heads,nats,free")
    p.add_argument("--threads", type=int, default=2)
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    net, tok = load(a.run)
    b = Bench(net, tok, corpus.Stories(a.stories), a.n)
    lengths = [int(x) for x in a.lengths.split(",")]
    middle = min(512, lengths[-1])
    steps = {
        "full": lambda lang: b.full(lang, lengths),
        "kinds": lambda lang: {s: b.kinds(lang, middle, i) for i, s in enumerate(("known", "new words", "new wordings"))},
        "evict": lambda lang: {T: b.evict(lang, T, (32, 64, 128)) for T in (256, 1024) if T <= lengths[-1]},
        "without": lambda lang: b.without(lang, middle),
        "quantised": lambda lang: b.quantised(lang, middle),
        "layers": lambda lang: b.layers(lang, middle),
        "heads": lambda lang: b.heads(lang, middle),
        "nats": lambda lang: b.nats(lang, middle),
        "free": lambda lang: [b.free({"en": "Once upon a time, there was", "zh": "从前，有一只"}[lang], i) for i in range(10)],
    }
    results, start = {}, time.monotonic()
    for name in a.only.split(","):
        for lang in ("en", "zh"):
            results[f"{name} {lang}"] = r = steps[name](lang)
            print(f"[{time.monotonic() - start:.0f} s] {name} {lang} {json.dumps(r, ensure_ascii=False)}", flush=True)
            with open(f"{a.run}/scores.json", "w") as f:
                json.dump(dict(n=a.n, **results), f, ensure_ascii=False, indent=1)


if __name__ == "__main__":
    main()
