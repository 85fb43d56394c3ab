"""What the trained model shows: answers with the cache whole, cut and quantised, and what each head does.

    python evaluate.py --stories PROGRAM --run DIR [--n 50]

Every measure is exact: a prompt is read with the whole cache, then the rows after it see the changed one. Eviction keeps the
original positions. An answer counts when each of its tokens is the likeliest, given those before it.
"""

import argparse
import json
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor

import torch
import torch.nn.functional as F

import bpe
import corpus
from model import Config, Llama, attend, rotary
from train import FINDING

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
        self.cache = None  # what the layers made of it, once asked for


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
def run(net, ids, last=1, skip=(), watch=None, cache=None):
    """logits of the last rows; skip: layers left out; watch(layer, from, P) sees the attention; cache, a list, gets (q, k, v) by layer"""
    c = net.c
    x = net.embed(torch.tensor([ids]))
    cos, sin = rotary(c, len(ids))
    for i, l in enumerate(net.layers):
        if i in skip:
            continue
        q, k, v = l.qkv(x, cos, sin)
        if cache is not None:
            cache.append((q[0], k[0], v[0]))
        o = attend(q, k, v, (lambda s, e, P: watch(i, s, P[0])) if watch else None)
        x = l.mlp(x + l.o(o.transpose(1, 2).reshape(1, len(ids), -1)))
    return net.logits(F.rms_norm(x[0, -last:], (c.width,), net.norm, c.eps))


@torch.no_grad()
def go_on(net, cache, ids, prompt, keep=None, quant=None):
    """logits of the rows from prompt on, which see of the rows before what keep(layer, q, k) and quant(k, v) leave in the cache"""
    c, new = net.c, len(ids) - prompt
    x = net.embed(torch.tensor([ids[prompt:]]))
    cos, sin = (y[prompt:] for y in rotary(c, len(ids)))
    causal = torch.zeros(new, len(ids)).masked_fill(torch.ones(new, len(ids), dtype=torch.bool).triu(prompt + 1), float("-inf"))
    for i, l in enumerate(net.layers):
        q0, k0, v0 = (y[:, :prompt] for y in cache[i])
        kept = keep(i, q0, k0) if keep else torch.ones(c.kv_heads, prompt, dtype=torch.bool)
        if quant:
            k0, v0 = quant(k0, v0)
        q, k, v = (y[0] for y in l.qkv(x, cos, sin))
        k, v = torch.cat([k0, k], 1), torch.cat([v0, v], 1)
        mask = causal.repeat(c.kv_heads, 1, 1)
        mask[:, :, :prompt].masked_fill_(~kept[:, None], float("-inf"))
        s = q.view(c.kv_heads, -1, new, c.head) @ k[:, None].mT * c.head**-0.5 + mask[:, None]
        o = (torch.softmax(s, -1) @ v[:, None]).view(c.heads, new, c.head)
        x = l.mlp(x + l.o(o.transpose(0, 1).reshape(1, new, -1)))
    return net.logits(F.rms_norm(x[0], (c.width,), net.norm, c.eps))


def right(net, s, skip=()):
    """whether the whole cache answers a sample"""
    n = len(s.ids) - s.due + 1
    return run(net, s.ids, n, skip)[:-1].argmax(-1).tolist() == s.ids[s.due :]


def right_after(net, s, prompt, keep=None, quant=None):
    """whether it is answered when the rows from prompt on see a changed cache"""
    if s.cache is None:
        s.cache = []
        run(net, s.ids, cache=s.cache)
    return go_on(net, s.cache, s.ids, prompt, keep, quant)[s.due - 1 - prompt : -1].argmax(-1).tolist() == s.ids[s.due :]


class Bench:
    def __init__(self, net, tok, stories, n):
        self.net, self.tok, self.stories, self.n, self.met = net, tok, stories, n, 0

    def samples(self, lang, tokens, kinds, n, depth=None, split=0, seed=1):
        out = []
        for i in range(n):
            at = depth if depth is not None else (i * 0.618034) % 1
            doc = self.stories.get(seed=seed * 1000 + tokens, start=i, count=1, words=tokens, kind=kinds[i % len(kinds)], lang=lang, depth=at, split=split)
            out.append(Sample(self.tok, doc[0]))
        return out

    def share(self, samples, **how):
        return round(sum(right(self.net, s, **how) for s in samples) / len(samples), 3)

    def share_after(self, samples, prompt, keep=None, quant=None):
        return round(sum(right_after(self.net, s, prompt(s), keep(s) if keep else None, quant) for s in samples) / len(samples), 3)

    def full(self, lang, lengths):
        return {T: {d: self.share(self.samples(lang, T, KINDS, self.n, d)) for d in (0, 0.25, 0.5, 0.75, 1)} for T in lengths}

    def kinds(self, lang, tokens, split=0):
        return {k: self.share(self.samples(lang, tokens, [k], self.n, split=split)) for k in KINDS}

    def changed(self, lang, tokens):
        """stories whose value is replaced by another story's: shares that give the new answer, and the old one"""
        new = old = n = 0
        kinds = [k for k in TELLABLE if "changed" not in k and "two-step" not in k]
        for i in range(self.n):
            a, b = self.stories.get(seed=31, start=2 * i, count=2, words=tokens, kind=kinds[i % len(kinds)], lang=lang, depth=(i * 0.618034) % 1)
            if b["Answer"] in a["Text"]:
                continue
            text, v = a["Text"].encode(), a["Value"]
            a["Text"] = (text[: v["From"]] + b["Answer"].encode() + text[v["To"] :]).decode()
            n += 1
            old += right(self.net, Sample(self.tok, a))
            new += right(self.net, Sample(self.tok, a | dict(Answer=b["Answer"])))
        return {"new answer": round(new / n, 3), "old answer": round(old / n, 3), "stories": n}

    def evict(self, lang, tokens, budgets):
        s = self.samples(lang, tokens, TELLABLE, self.n)
        out = {}
        for name, at in (("seen", lambda x: x.due - 1), ("later", lambda x: x.asked)):
            g = torch.Generator().manual_seed(1)
            for p, f in POLICIES.items():
                for b in budgets:
                    out[f"{name} {p} {b}"] = self.share_after(s, at, lambda _: lambda l, q, k: f(q, k, min(b, k.shape[1]), g))
            out[f"{name} full"] = self.share_after(s, at)
        return out

    def without(self, lang, tokens):
        """the needle's value or its whole sentence dropped: everywhere, in one KV head alone, in all that are taught to find"""
        c, s = self.net.c, self.samples(lang, tokens, [k for k in TELLABLE if k != "code/two-step"], self.n)

        def dropped(what, where):
            def keep(x):
                def of(l, q, k):
                    m = torch.ones(k.shape[:2], dtype=torch.bool)
                    for h in range(c.kv_heads):
                        if (l, h) in where:
                            m[h, getattr(x, what)] = False
                    return m
                return of
            return self.share_after(s, lambda x: x.asked, keep)

        every = [(l, h) for l in range(c.layers) for h in range(c.kv_heads)]
        out = {"nothing": dropped("value", []), "value, everywhere": dropped("value", every), "sentence, everywhere": dropped("sentence", every)}
        out["sentence, in " + " ".join(f"{l}.{h}" for l, h in FINDING)] = dropped("sentence", list(FINDING))
        return out | {f"sentence, in {l}.{h}": dropped("sentence", [(l, h)]) for l, h in every}

    def quantised(self, lang, tokens):
        s = self.samples(lang, tokens, TELLABLE, self.n)
        how = {"none": None, **{f"token {b}": per_token(b) for b in (8, 4, 3, 2)}, **{f"kivi {b}": kivi(b) for b in (4, 2)}}
        return {k: self.share_after(s, lambda x: x.due - 1, quant=q) for k, q in how.items()}

    def layers(self, lang, tokens):
        """each layer left out: the share of answers, and nats a token of text"""
        s, docs = self.samples(lang, tokens, KINDS, self.n), self.documents(lang, tokens)
        out = {}
        for skip in [(), *((i,) for i in range(self.net.c.layers))]:
            loss = [F.cross_entropy(run(self.net, d, len(d), skip)[:-1], torch.tensor(d[1:])).item() for d in docs]
            out[" ".join(map(str, skip)) or "none"] = {"right": self.share(s, skip=skip), "nats": round(sum(loss) / len(loss), 3)}
        return out

    def heads(self, lang, tokens):
        """per query head, means of attention: when the answer's first token is due, on its value; in lists, on what is to be copied;
        over the story, on the first token and on the last eight; in random tokens said twice, on what followed the same token
        (induction) and on the same token (echo)"""
        c = self.net.c
        sums = {k: torch.zeros(c.layers, c.heads) for k in ("value", "copied", "first", "last8", "induction", "echo")}
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
            run(self.net, x.ids, watch=watch)
        lists = []
        while len(lists) < len(samples):
            d = self.stories.get(seed=79, start=self.met, count=1, words=110, chinese=float(lang == "zh"))[0]
            self.met += 1
            r = corpus.row(self.tok, d, 160)
            asks = [a for a in r.asks if a.role == corpus.COPIED]
            if len(asks) > 8:
                lists.append((r.ids[:-1], asks))
        for ids, asks in lists:
            def watch(l, start, P):
                P = P.flatten(0, 1)
                for a in asks:
                    if 0 <= a.at - 1 - start < P.shape[1]:
                        sums["copied"][l] += P[:, a.at - 1 - start, slice(*a.exact)].sum(-1) / len(asks)
            run(self.net, ids, watch=watch)
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
            run(self.net, [bpe.BOS, *half, *half], watch=watch)
        return {k: [[round(float(x) / len(samples), 3) for x in r] for r in v] for k, v in sums.items()}

    def documents(self, lang, tokens):
        """documents that training never saw, of about so many tokens"""
        docs = self.stories.get(seed=77, count=self.n, words=tokens, chinese=float(lang == "zh"))
        return [[bpe.BOS, *self.tok.encode(d["Text"])][:tokens] for d in docs]

    def nats(self, lang, tokens):
        """a token of text after the middle, with the cache whole, and without its first token and the first four"""
        total, n = {"whole": 0, "no first": 0, "no first four": 0}, 0
        for ids in self.documents(lang, tokens):
            half, cache = len(ids) // 2, []
            run(self.net, ids, cache=cache)
            n += len(ids) - half - 1
            for name, drop in zip(total, (0, 1, 4)):
                def keep(l, q, k):
                    m = torch.ones(k.shape[:2], dtype=torch.bool)
                    m[:, :drop] = False
                    return m
                logits = go_on(self.net, cache, ids, half, keep)
                total[name] += F.cross_entropy(logits[:-1], torch.tensor(ids[half + 1 :]), reduction="sum").item()
        return {k: round(v / n, 4) for k, v in total.items()}

    def free(self, prompt, seed, temperature=0.8, most=110):
        ids, g = [bpe.BOS, *self.tok.encode(prompt)], torch.Generator().manual_seed(seed)
        for _ in range(most):
            i = int(torch.multinomial(torch.softmax(run(self.net, ids)[-1] / temperature, -1), 1, generator=g))
            if i == bpe.EOS:
                break
            ids.append(i)
        return self.tok.decode(ids)


def load(run):
    k = torch.load(f"{run}/checkpoint.pt")
    net = Llama(Config(**k["config"]))
    net.load_state_dict(k["model"])
    return net.eval(), bpe.Tokenizer.load(f"{run}/tokenizer.json")


def measure(a, lang):
    """everything in one language"""
    torch.set_num_threads(1)
    net, tok = load(a.run)
    b = Bench(net, tok, corpus.Stories(a.stories), a.n)
    lengths = [int(x) for x in a.lengths.split(",")]
    middle = min(512, lengths[-1])
    steps = {
        "full": lambda: b.full(lang, lengths),
        "kinds": lambda: {s: b.kinds(lang, middle, i) for i, s in enumerate(("known", "new words", "new wordings"))},
        "changed": lambda: b.changed(lang, middle),
        "evict": lambda: {T: b.evict(lang, T, (32, 64, 128)) for T in (256, 1024) if T <= lengths[-1]},
        "without": lambda: b.without(lang, middle),
        "quantised": lambda: b.quantised(lang, middle),
        "layers": lambda: b.layers(lang, middle),
        "heads": lambda: b.heads(lang, middle),
        "nats": lambda: b.nats(lang, middle),
        "free": lambda: [b.free({"en": "Once upon a time, there was", "zh": "从前，有一只"}[lang], i) for i in range(10)],
    }
    results, start = {}, time.monotonic()
    for name in a.only.split(",") if a.only else steps:
        results[f"{name} {lang}"] = r = steps[name]()
        print(f"[{time.monotonic() - start:.0f} s] {name} {lang} {json.dumps(r, ensure_ascii=False)}", flush=True)
    return results


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--stories", required=True)
    p.add_argument("--run", required=True)
    p.add_argument("--n", type=int, default=50)
    p.add_argument("--lengths", default="128,256,512,1024,2048")
    p.add_argument("--only", help="names of measures; all by default")
    a = p.parse_args()
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:  # a core for each language
        parts = [f.result() for f in [pool.submit(measure, a, lang) for lang in ("en", "zh")]]
    with open(f"{a.run}/scores.json", "w") as f:
        json.dump(dict(n=a.n) | parts[0] | parts[1], f, ensure_ascii=False, indent=1)


if __name__ == "__main__":
    main()
