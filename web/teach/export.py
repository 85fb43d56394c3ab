"""Write a checkpoint as GGUF (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md), in F16 and in Q8_0, with its manifest.

    python export.py --run DIR --out DIR
"""

import argparse
import hashlib
import json
import os
import struct

import numpy as np
import torch

import bpe

U32, F32, BOOL, STRING, ARRAY, I32 = 4, 6, 7, 8, 9, 5
TYPES = {"f32": 0, "f16": 1, "q8_0": 8}
FILE_TYPES = {"f16": 1, "q8_0": 7}
ALIGN = 32
TEMPLATES = {"en": "{story}\nQuestion: {question}\nAnswer:", "zh": "{story}\n问：{question}\n答："}
# The same for programs that read GGUF: the story is the system's message, each question a user's.
CHAT = (
    "{{ bos_token }}{% for m in messages %}{% if m['role'] == 'user' %}"
    "{% if '？' in m['content'] %}{{ '\\n问：' + m['content'] + '\\n答：' }}{% else %}{{ '\\nQuestion: ' + m['content'] + '\\nAnswer:' }}{% endif %}"
    "{% else %}{{ m['content'] }}{% endif %}{% endfor %}"
)


def string(s):
    b = s.encode()
    return struct.pack("<Q", len(b)) + b


def value(v):
    """a metadata value with its type; floats and ints are 32-bit, as the format's keys want them here"""
    if isinstance(v, bool):
        return struct.pack("<IB", BOOL, v)
    if isinstance(v, int):
        return struct.pack("<II", U32, v)
    if isinstance(v, float):
        return struct.pack("<If", F32, v)
    if isinstance(v, str):
        return struct.pack("<I", STRING) + string(v)
    if isinstance(v[0], int):
        return struct.pack("<IIQ", ARRAY, I32, len(v)) + struct.pack(f"<{len(v)}i", *v)
    return struct.pack("<IIQ", ARRAY, STRING, len(v)) + b"".join(map(string, v))


def q8_0(x):
    """rows in blocks of 32: an f16 scale and 32 bytes each (34 bytes), to the nearest code"""
    blocks = x.reshape(-1, 32).astype(np.float32)
    scale = np.abs(blocks).max(1, keepdims=True) / 127
    codes = np.round(np.divide(blocks, scale, out=np.zeros_like(blocks), where=scale > 0)).astype(np.int8)
    return np.concatenate([scale.astype("<f2").view(np.uint8), codes.view(np.uint8)], 1).tobytes()


def interleave(w, heads):
    """rows of a head from half-split to neighbouring rotary pairs, the order of ggml's llama"""
    return w.reshape(heads, 2, -1, w.shape[1]).swapaxes(1, 2).reshape(w.shape)


def tensors(state, c):
    get = lambda n: state[n].float().numpy()
    yield "token_embd.weight", get("embed.weight")
    yield "output_norm.weight", get("norm")
    for i in range(c["layers"]):
        p, b = f"layers.{i}.", f"blk.{i}."
        yield b + "attn_norm.weight", get(p + "norm1")
        yield b + "attn_q.weight", interleave(get(p + "q.weight"), c["heads"])
        yield b + "attn_k.weight", interleave(get(p + "k.weight"), c["kv_heads"])
        yield b + "attn_v.weight", get(p + "v.weight")
        yield b + "attn_output.weight", get(p + "o.weight")
        yield b + "ffn_norm.weight", get(p + "norm2")
        for n in ("gate", "up", "down"):
            yield f"{b}ffn_{n}.weight", get(p + n + ".weight")


def metadata(c, tok, kind, run):
    n = len(tok.tokens)
    return {
        "general.architecture": "llama",
        "general.name": "KV Lens story model",
        "general.description": "Answers questions about short synthetic stories in English and Chinese by looking back; for teaching only",
        "general.license": "mit",
        "general.size_label": f"{run['parameters'] / 1e6:.1f}M",
        "general.languages": ["en", "zh"],
        "general.file_type": FILE_TYPES[kind],
        "general.quantization_version": 2,
        "kvlens.training.data_sha256": run["data_sha256"],
        "kvlens.training.seed": run["seed"],
        "kvlens.training.tokens": run["tokens"],
        "llama.vocab_size": n,
        "llama.context_length": c["context"],
        "llama.embedding_length": c["width"],
        "llama.block_count": c["layers"],
        "llama.feed_forward_length": c["hidden"],
        "llama.attention.head_count": c["heads"],
        "llama.attention.head_count_kv": c["kv_heads"],
        "llama.attention.key_length": c["head"],
        "llama.attention.value_length": c["head"],
        "llama.attention.layer_norm_rms_epsilon": c["eps"],
        "llama.rope.dimension_count": c["head"],
        "llama.rope.freq_base": c["theta"],
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": [tok.letters(i) for i in range(n)],
        "tokenizer.ggml.token_type": [3 if i <= bpe.EOS else 1 for i in range(n)],  # control, normal
        "tokenizer.ggml.merges": [f"{tok.letters(a)} {tok.letters(b)}" for a, b in tok.merges],
        "tokenizer.ggml.bos_token_id": bpe.BOS,
        "tokenizer.ggml.eos_token_id": bpe.EOS,
        "tokenizer.ggml.padding_token_id": bpe.EOS,
        "tokenizer.ggml.add_bos_token": True,
        "tokenizer.ggml.add_space_prefix": False,
        "tokenizer.chat_template": CHAT,
    }


def write(path, kind, state, c, tok, run):
    head, body, count = b"", b"", 0
    for name, x in tensors(state, c):
        t = "f32" if x.ndim == 1 else kind
        data = x.astype("<f4").tobytes() if t == "f32" else x.astype("<f2").tobytes() if t == "f16" else q8_0(x)
        body += b"\0" * (-len(body) % ALIGN)
        head += string(name) + struct.pack(f"<I{x.ndim}QIQ", x.ndim, *reversed(x.shape), TYPES[t], len(body))
        body += data
        count += 1
    meta = metadata(c, tok, kind, run)
    out = b"GGUF" + struct.pack("<IQQ", 3, count, len(meta)) + b"".join(string(k) + value(v) for k, v in meta.items()) + head
    out += b"\0" * (-len(out) % ALIGN) + body
    with open(path, "wb") as f:
        f.write(out)
    return out


def manifest(data, name):
    size, digest = len(data), hashlib.sha256(data).hexdigest()
    return dict(
        format=1, id="teach", name="Story model (built in)", licence="MIT",
        source="Trained for this project on synthetic stories in English and Chinese", size=size, sha256=digest,
        parts=[dict(name=name, size=size, sha256=digest)], prompt=dict(mode="story", templates=TEMPLATES), stop=[".", "\n", "。"],
    )


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--run", required=True)
    p.add_argument("--out", required=True)
    a = p.parse_args()
    os.makedirs(a.out, exist_ok=True)
    k = torch.load(f"{a.run}/checkpoint.pt")
    tok = bpe.Tokenizer.load(f"{a.run}/tokenizer.json")
    run = dict(parameters=sum(x.numel() for x in k["model"].values()), data_sha256=k["digest"], seed=k["args"]["seed"], tokens=k["tokens"])
    for kind in FILE_TYPES:
        data = write(f"{a.out}/teach-{kind}.gguf", kind, k["model"], k["config"], tok, run)
        print(kind, len(data), "bytes", hashlib.sha256(data).hexdigest())
    with open(f"{a.out}/teach.json", "w") as f:
        json.dump(manifest(data, "teach-q8_0.gguf"), f, indent=2, ensure_ascii=False)
        f.write("\n")


if __name__ == "__main__":
    main()
