"""Writes minilm.json: sentence vectors of all-MiniLM-L6-v2, computed with numpy in float64 from model.safetensors and the Hugging Face
`tokenizers` library, independently of the Go code.

Usage: python3 generate_minilm.py all-minilm-l6-v2 > minilm.json     (pip install numpy safetensors tokenizers)
"""

import json
import math
import sys

import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer

TEXTS = [
    "How do I reset my password?",
    "Steps to recover access to an account after forgetting the passphrase",
    "The recipe calls for two cups of flour and one egg.",
    "如何重置我的密码?",
    "用中文介绍一下长城。",
    "长城是中国古代的军事防御工程，全长两万多公里。",
    "The Great Wall of China is an ancient fortification.",
    "",
    "a",
    "Mixed 中英文 text with numbers 3.14159, symbols #@! and emoji 🚀",
    "naïve café – “quotes” … ß Ωmega",
    "Resident identity cards must be stored encrypted; access is logged and reviewed every quarter by the security administrator. " * 8,
]


def erf(x):
    return np.vectorize(math.erf)(x)


def main():
    w = {k: v.astype(np.float64) for k, v in load_file(sys.argv[1] + "/model.safetensors").items()}
    t = Tokenizer.from_file(sys.argv[1] + "/tokenizer.json")
    t.no_truncation()
    t.no_padding()

    def linear(x, name):
        return x @ w[name + ".weight"].T + w[name + ".bias"]

    def norm(x, name):
        d = x - x.mean(-1, keepdims=True)
        return d / np.sqrt((d * d).mean(-1, keepdims=True) + 1e-12) * w[name + ".weight"] + w[name + ".bias"]

    def vector(ids):
        n = len(ids)
        x = w["embeddings.word_embeddings.weight"][ids] + w["embeddings.position_embeddings.weight"][:n] + w["embeddings.token_type_embeddings.weight"][0]
        x = norm(x, "embeddings.LayerNorm")
        for i in range(6):
            p = f"encoder.layer.{i}."
            q, k, v = (linear(x, p + "attention.self." + s).reshape(n, 12, 32).transpose(1, 0, 2) for s in ("query", "key", "value"))
            a = q @ k.transpose(0, 2, 1) / math.sqrt(32)
            a = np.exp(a - a.max(-1, keepdims=True))
            a /= a.sum(-1, keepdims=True)
            m = (a @ v).transpose(1, 0, 2).reshape(n, 384)
            x = norm(x + linear(m, p + "attention.output.dense"), p + "attention.output.LayerNorm")
            h = linear(x, p + "intermediate.dense")
            h = 0.5 * h * (1 + erf(h / math.sqrt(2)))
            x = norm(x + linear(h, p + "output.dense"), p + "output.LayerNorm")
        m = x.mean(0)
        return m / np.linalg.norm(m)

    out = []
    for text in TEXTS:
        ids = t.encode(text).ids
        out.append({"text": text, "tokens": len(ids), "vector": [round(float(f), 7) for f in vector(ids)]})
    json.dump(out, sys.stdout, ensure_ascii=True, separators=(",", ":"))


main()
