"""Byte-level byte-pair encoding: training and encoding.

Text is cut as SmolLM's tokenizer cuts it (each digit alone, then the pattern of GPT-2), all 256 bytes are tokens, and token 0
and 1 begin and end a document. Merges never cross the border of a word of the lexicon, so that a word that stands for a value
is the same token wherever it stands: in Chinese, which has no spaces, a tokenizer would otherwise glue it to its neighbours.
"""

import json
import re
from collections import Counter

BOS, EOS = 0, 1
CONTROL = ["<|bos|>", "<|eos|>"]
PIECES = re.compile(r"\d|'(?:s|t|re|ve|m|ll|d)| ?[^\W\d_]+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+")


def byte_letters():
    """GPT-2's printable stand-ins for bytes, in which GGUF files write tokens."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {b: chr(b) for b in plain}
    for b in range(256):
        if b not in letters:
            letters[b] = chr(256 + len(letters) - len(plain))
    return [letters[b] for b in range(256)]


LETTERS = byte_letters()


class Tokenizer:
    """tokens: list of bytes, in order of their ids; merges: pairs of ids in order of rank."""

    def __init__(self, merges):
        self.merges = [tuple(m) for m in merges]
        self.tokens = [t.encode() for t in CONTROL] + [bytes([b]) for b in range(256)]
        self.rank = {}
        for a, b in self.merges:
            self.rank[a, b] = len(self.tokens)
            self.tokens.append(self.tokens[a] + self.tokens[b])
        self.cache = {}

    def piece(self, text):
        """ids of one pre-token: the earliest merge is applied first, as everywhere"""
        ids = self.cache.get(text)
        if ids is None:
            ids = [2 + b for b in text.encode()]
            while len(ids) > 1:
                best = min(zip(ids, ids[1:]), key=lambda p: self.rank.get(p, 1 << 30))
                if best not in self.rank:
                    break
                ids = merge(ids, best, self.rank[best])
            if len(self.cache) < 200_000:
                self.cache[text] = ids
        return ids

    def encode(self, text):
        out = []
        for piece in PIECES.findall(text):
            out += self.piece(piece)
        return out

    def decode(self, ids):
        return b"".join(self.tokens[i] for i in ids if i > EOS).decode(errors="replace")

    def letters(self, i):
        """a token as GGUF writes it"""
        return CONTROL[i] if i < len(CONTROL) else "".join(LETTERS[b] for b in self.tokens[i])

    def save(self, path):
        with open(path, "w") as f:
            json.dump(self.merges, f)

    @classmethod
    def load(cls, path):
        with open(path) as f:
            return cls(json.load(f))


def merge(ids, pair, new):
    out, i = [], 0
    while i < len(ids):
        if i + 1 < len(ids) and (ids[i], ids[i + 1]) == pair:
            out.append(new)
            i += 2
        else:
            out.append(ids[i])
            i += 1
    return out


def train(texts, words, size, least=4):
    """texts: iterable of documents; words: words of the lexicon, at whose borders text without spaces is cut"""
    border = re.compile("(" + "|".join(map(re.escape, sorted((w for w in words if not w.isascii()), key=len, reverse=True))) + ")")
    counts = Counter()
    for text in texts:
        for piece in PIECES.findall(text):
            counts.update(p for p in (border.split(piece) if not piece.isascii() else [piece]) if p)
    merges, ids = [], {w: [2 + b for b in w.encode()] for w in counts}
    add = lambda pair: (merges.append(pair), 2 + 256 + len(merges) - 1)[1]

    # Characters come first, so that no merge holds a part of one.
    letters = Counter()
    for w, n in counts.items():
        for c in w:
            if ord(c) > 127:
                letters[c] += n
    made = {}
    for c, _ in sorted(letters.items(), key=lambda x: (-x[1], x[0])):
        b = [2 + x for x in c.encode()]
        while len(b) > 1:
            if tuple(b[:2]) not in made:
                made[tuple(b[:2])] = add(tuple(b[:2]))
            b = [made[tuple(b[:2])], *b[2:]]
    for w in ids:
        out = []
        for c in w:
            b = [2 + x for x in c.encode()]
            while len(b) > 1:
                b = [made[tuple(b[:2])], *b[2:]]
            out += b
        ids[w] = out

    while 2 + 256 + len(merges) < size:
        pairs = Counter()
        for w, x in ids.items():
            for p in zip(x, x[1:]):
                pairs[p] += counts[w]
        if not pairs:
            break
        pair, n = max(pairs.items(), key=lambda x: (x[1], x[0]))
        if n < least:
            break
        new = add(pair)
        for w, x in ids.items():
            if len(x) > 1:
                ids[w] = merge(x, pair, new)
    return Tokenizer(merges)
