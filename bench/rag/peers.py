"""Answers searches with other libraries, on one thread each. Reads a line of JSON for each thing to do, and answers with one."""
import json, os, sys, time

folder, dim, threads = sys.argv[1], int(sys.argv[2]), os.cpu_count()
os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"  # of searches; building says how many it wants
import numpy, faiss, hnswlib, bm25s
from usearch.index import Index

vectors = numpy.fromfile(folder + "/vectors", dtype=numpy.float32).reshape(-1, dim)
queries = numpy.fromfile(folder + "/queries", dtype=numpy.float32).reshape(-1, dim)
masks = {name[6:]: numpy.fromfile(folder + "/" + name, dtype=numpy.uint8) for name in os.listdir(folder) if name.startswith("mask--")}
n = len(vectors)
indexes = {}


def build(job):
    name, began = job["library"], time.perf_counter()
    faiss.omp_set_num_threads(threads)
    if name == "faiss flat":
        index = faiss.IndexFlatIP(dim)
        index.add(vectors)
    elif name == "faiss SQ8 + rescore":
        index = faiss.IndexRefineFlat(faiss.IndexScalarQuantizer(dim, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT))
        index.train(vectors)
        index.add(vectors)
    elif name == "faiss HNSW":
        index = faiss.IndexHNSWFlat(dim, 16, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = 200
        index.add(vectors)
    elif name == "hnswlib":
        index = hnswlib.Index(space="ip", dim=dim)
        index.init_index(max_elements=n, M=16, ef_construction=200)
        index.add_items(vectors, numpy.arange(n), num_threads=threads)
        index.set_num_threads(1)
    elif name == "usearch":
        index = Index(ndim=dim, metric="ip", dtype="f32", connectivity=16, expansion_add=200)
        index.add(numpy.arange(n), vectors, threads=threads)
    elif name == "bm25s":
        words = json.load(open(folder + "/words"))
        index = bm25s.BM25(k1=0.9, b=0.4, method="lucene")
        index.index(words["passages"], show_progress=False)
        job["questions"] = None
        indexes["questions"] = words["questions"]
    faiss.omp_set_num_threads(1)
    indexes[name] = index
    return {"seconds": time.perf_counter() - began}


def search(job):
    name, k, effort, mask = job["library"], job["k"], job["effort"], masks[job["mask"]]
    index, whole = indexes[name], bool(mask.all())
    selector = None if whole else faiss.IDSelectorBitmap(numpy.packbits(mask, bitorder="little"))
    found, times = [], []
    for i in range(len(queries)):
        q = queries[i : i + 1]
        began = time.perf_counter_ns()
        if name == "faiss flat":
            ids = index.search(q, k, params=faiss.SearchParameters(sel=selector))[1][0]
        elif name == "faiss SQ8 + rescore":
            base = faiss.SearchParameters(sel=selector)
            ids = index.search(q, k, params=faiss.IndexRefineSearchParameters(k_factor=effort, base_index_params=base))[1][0]
        elif name == "faiss HNSW":
            ids = index.search(q, k, params=faiss.SearchParametersHNSW(sel=selector, efSearch=effort))[1][0]
        elif name == "hnswlib":
            index.set_ef(effort)
            try:
                ids = index.knn_query(q, k=k, num_threads=1, filter=None if whole else lambda label: mask[label])[0][0]
            except RuntimeError:  # fewer than k were found
                ids = []
        elif name == "usearch":
            index.expansion_search = effort
            ids = index.search(q[0], k, threads=1).keys
        elif name == "bm25s":
            ids = index.retrieve([indexes["questions"][i]], k=min(k, int(mask.sum())), weight_mask=None if whole else mask, show_progress=False, n_threads=0).documents[0]
        times.append(time.perf_counter_ns() - began)
        found.append([int(x) for x in ids if x >= 0])
    return {"found": found, "nanoseconds": times}


for line in sys.stdin:
    job = json.loads(line)
    print(json.dumps({"build": build, "search": search}[job["do"]](job)), flush=True)
