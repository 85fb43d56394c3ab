"""Vectors for the tests of the project's engines: what PyTorch computes with the weights of the exported Q8_0 file, in f32.

    python vectors.py --run DIR --model DIR/teach-q8_0.gguf > vectors.json
"""

import argparse
import hashlib
import json
import sys

import numpy as np
import torch

import bpe
from evaluate import load
from model import attend, rotary

PROMPTS = {
    "xm-en": "Xiao Ming was happy that day. In the morning, Xiao Ming ate bread. The wind came from the hill. At noon, Xiao Ming ate noodles. "
    "The children were tired. In the evening, Xiao Ming ate a sandwich.\nQuestion: What did Xiao Ming eat in the evening?\nAnswer:",
    "code-en": "The rain came from the valley. The code of the red box is 4817. Nobody knew why the river was so quiet. "
    "The code of the blue safe is 2093.\nQuestion: What is the code of the red box?\nAnswer:",
    "xm-zh": "小明早上吃了面包。过了一会儿，雨停了。小明中午吃了面条。孩子们很疲惫。小明晚上吃了三明治。\n问：小明晚上吃了什么？\n答：",
    "free": "Once upon a time, there was",
}
GREEDY = 24


def rounded(w):
    """a matrix as Q8_0 stores it: blocks of 32 along a row, an f16 scale and whole codes"""
    b = w.numpy().reshape(-1, 32)
    scale = np.abs(b).max(1, keepdims=True) / 127
    codes = np.round(np.divide(b, scale, out=np.zeros_like(b), where=scale > 0))
    return torch.from_numpy((codes * scale.astype("<f2").astype("<f4")).reshape(w.shape))


@torch.no_grad()
def read(net, ids):
    """last row: logits, RMS after the embedding and each layer (after the last: of the normalised state), attention by layer"""
    c, rows = net.c, []
    x = net.embed(torch.tensor([ids]))
    cos, sin = rotary(c, len(ids))
    rms = lambda y: float(y[0, -1].pow(2).mean().sqrt())
    sizes = [rms(x)]
    for l in net.layers:
        x = l(x, cos, sin, lambda s, e, P: rows.append(P[0].flatten(0, 1)[:, -1]) if e == len(ids) else None)
        sizes.append(rms(x))
    x = torch.nn.functional.rms_norm(x, (c.width,), net.norm, c.eps)
    sizes[-1] = rms(x)
    return net.logits(x)[0, -1], sizes, rows


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--run", required=True)
    p.add_argument("--model", required=True)
    a = p.parse_args()
    torch.set_num_threads(1)
    net, tok = load(a.run)
    for w in net.parameters():
        if w.ndim == 2:
            w.data = rounded(w.data)
    r = lambda x: [float(f"{float(v):.7g}") for v in x]
    prompts = []
    for name, text in PROMPTS.items():
        ids = [bpe.BOS, *tok.encode(text)]
        logits, sizes, attention = read(net, ids)
        greedy, margin, row = [], [], logits
        while len(greedy) < GREEDY:
            best = row.topk(2)
            greedy.append(int(best.indices[0]))
            margin.append(float(best.values[0] - best.values[1]))
            row = read(net, ids + greedy)[0]
        prompts.append(dict(
            name=name, text=text, bos=bpe.BOS, ids=ids, logits_last=r(logits), hidden_rms_last=r(sizes),
            attention_last_row=[[r(h) for h in l] for l in attention], greedy=greedy, margin=r(margin), greedy_text=tok.decode(greedy)))
    with open(a.model, "rb") as f:
        digest = hashlib.sha256(f.read()).hexdigest()
    json.dump(dict(
        source="web/teach/vectors.py: PyTorch on the weights of teach-q8_0.gguf, dequantised to f32", sha256=digest,
        tolerance="logits 2e-3 absolute in f32; greedy ids up to the first step whose margin is below 1e-3", prompts=prompts,
    ), sys.stdout, ensure_ascii=False)


if __name__ == "__main__":
    main()
