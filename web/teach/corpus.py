"""Documents from the story generator (Go), read through a pipe, as rows of tokens.

A row knows for each of its answer tokens where in the row the answer was told: the trainer counts and teaches attention by it.
"""

import json
import subprocess
from bisect import bisect_left, bisect_right
from collections import namedtuple

import torch

from bpe import BOS, EOS

TEXT, COPIED, ANSWER = 1, 2, 3

# ids, roles (what the token is): (T+1,). asks: for each answer token its place in the row and the places where its attention
# may go: the token itself (exact), the value (span), the value and the keys behind it (wide), the first of two steps (via).
# binds: what belongs together: (place, first key, second key), each a range of tokens before the place.
Row = namedtuple("Row", "ids roles asks binds")
Ask = namedtuple("Ask", "at role exact span wide via")


class Stories:
    """the generator's process: one line of JSON asks for documents, which come back one a line"""

    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.waiting = 0

    def request(self, **what):
        self.process.stdin.write(json.dumps(what).encode() + b"\n")
        self.process.stdin.flush()
        self.waiting += what["count"]

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the story generator ended: its message stands above")
        self.waiting -= 1
        return json.loads(line)

    def get(self, **what):
        """the documents of a request, at once"""
        self.request(**what)
        return [self.read() for _ in range(what["count"])]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def encode(tok, text, start=0):
    """ids and the byte at which each ends"""
    ids = tok.encode(text)
    ends, n = [], start
    for i in ids:
        n += len(tok.tokens[i])
        ends.append(n)
    return ids, ends


def row(tok, doc, length):
    """a document as a row of length+1 tokens: cut where it is longer, ended and filled where it is shorter"""
    ids, ends = encode(tok, doc["Text"])
    places = lambda s: (bisect_right(ends, s["From"]), bisect_left(ends, s["To"]) + 1)  # tokens that hold the bytes, from 0
    ids = [BOS, *ids, EOS]
    roles = [0] + [TEXT] * (len(ids) - 1)
    asks, binds = [], []
    for f in doc["Facts"] or []:
        value, *keys = (tuple(x + 1 for x in places(s)) for s in [f["Value"], *f["Keys"]])
        last = max(keys, key=lambda k: k[1])
        if last[1] <= value[0]:  # the keys stand before: each token of the value belongs to them
            binds += [(i, keys[0], keys[-1]) for i in range(*value)]
        else:  # the value stands before: the end of the last key belongs to it and to the other key
            others = [k for k in keys if k is not last] or [value]
            if others[0][1] <= last[1]:
                binds.append((last[1] - 1, others[0], value))
    for m in doc["Marks"] or []:
        a, b = places(m)
        a, b = a + 1, b + 1  # BOS
        role = ANSWER if m["Role"] == "answer" else COPIED
        source = [tuple(x + 1 for x in places(s)) for s in m["Source"] or []]
        via = [tuple(x + 1 for x in places(s)) for s in m["Via"] or []]
        keys = [tuple(x + 1 for x in places(s)) for s in m["Keys"] or []]
        for i in range(a, b):
            roles[i] = role
            if keys:  # what answers belongs to what the question names
                binds.append((i - 1, keys[0], keys[-1]))
            exact = None
            if source:
                lo, hi = source[0]
                at = hi - (b - i)  # values end alike, whatever stands before them
                exact = (at, at + 1) if at >= lo and ids[at] == ids[i] else (lo, hi)
            asks.append(Ask(i, role, exact, source[0] if source else None, source, via))
    ids, roles = ids[: length + 1], roles[: length + 1]
    asks = [a for a in asks if a.at <= length]
    binds = [b for b in binds if b[0] < length]
    ids += [EOS] * (length + 1 - len(ids))
    roles += [0] * (length + 1 - len(roles))
    return Row(ids, roles, asks, binds)


def stack(rows):
    """rows → ids (B, T+1), roles (B, T+1); asks: rows b (n,), places t of the query (n,), is it a copy (n,), is it told (n,), and
    where attention may go, exact, span, wide and via: (n, T) each; binds: b, t (m,), one and two: (m, T)"""
    ids = torch.tensor([r.ids for r in rows])
    roles = torch.tensor([r.roles for r in rows])
    T = ids.shape[1] - 1
    flat = [(b, a) for b, r in enumerate(rows) for a in r.asks]
    n = len(flat)
    where = {k: torch.zeros(n, T) for k in ("exact", "span", "wide", "via")}
    for i, (_, a) in enumerate(flat):
        if a.exact is None:
            for w in where.values():
                w[i, 0] = 1  # nothing to find: the first token is where attention rests
            continue
        where["exact"][i, slice(*a.exact)] = 1
        where["span"][i, slice(*a.span)] = 1
        for s in a.wide:
            where["wide"][i, slice(*s)] = 1
        for s in a.via or a.wide:
            where["via"][i, slice(*s)] = 1
    asks = dict(
        b=torch.tensor([b for b, _ in flat], dtype=torch.long),
        t=torch.tensor([a.at - 1 for _, a in flat], dtype=torch.long),
        copy=torch.tensor([a.role == COPIED for _, a in flat], dtype=torch.bool),
        told=torch.tensor([a.exact is not None for _, a in flat], dtype=torch.bool),
        **where,
    )
    m = sum(len(r.binds) for r in rows)
    binds = dict(b=torch.zeros(m, dtype=torch.long), t=torch.zeros(m, dtype=torch.long), one=torch.zeros(m, T), two=torch.zeros(m, T))
    for i, (b, (t, one, two)) in enumerate((b, x) for b, r in enumerate(rows) for x in r.binds):
        binds["b"][i], binds["t"][i] = b, t
        binds["one"][i, slice(*one)] = 1
        binds["two"][i, slice(*two)] = 1
    return ids, roles, asks, binds
