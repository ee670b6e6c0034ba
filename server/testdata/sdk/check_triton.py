"""Drives a running server with the gRPC client of NVIDIA's Triton, which speaks the Open Inference Protocol. The model behind it is scripted.

Environment: INFERENCE (host:port), BASE_URL (with /v1), API_KEY, EMBED_MODEL, DEAD_KEY, SPENT_KEY. Prints one line per check and exits non-zero at the
first failure.
"""

import json
import os
import time
import urllib.request

import numpy as np
import tritonclient.grpc as triton

MODEL = os.environ["EMBED_MODEL"]
KEY = os.environ["API_KEY"]
PHONE = "13800138000"
client = triton.InferenceServerClient(os.environ["INFERENCE"])


def headers(key=KEY):
    return {"authorization": "Bearer " + key}


def check(name):
    def run(f):
        started = time.monotonic()
        f()
        print(f"ok {name} ({time.monotonic() - started:.1f} s)", flush=True)

    return run


def infer(texts, model=MODEL, key=KEY, **more):
    t = triton.InferInput("input", [len(texts)], "BYTES")
    t.set_data_from_numpy(np.array([x.encode() for x in texts], dtype=np.object_))
    return client.infer(model, [t], headers=headers(key), client_timeout=60, **more)


@check("health and metadata")
def _():
    assert client.is_server_live(headers=headers()) and client.is_server_ready(headers=headers())
    assert client.is_model_ready(MODEL, headers=headers())
    assert client.get_server_metadata(headers=headers()).name == "sluice"
    m = client.get_model_metadata(MODEL, headers=headers())
    assert m.name == MODEL and m.inputs[0].name == "input" and m.inputs[0].datatype == "BYTES" and m.outputs[0].shape == [-1, 32], m


@check("vectors, the same as over HTTP")
def _():
    texts = ["你好 " + PHONE, "b"]
    r = infer(texts, request_id="mine", outputs=[triton.InferRequestedOutput("embedding")], parameters={"input_type": "query"})
    got = r.as_numpy("embedding")
    assert got.shape == (2, 32) and got.dtype == np.float32 and r.get_response().id == "mine", r.get_response()
    ask = urllib.request.Request(
        os.environ["BASE_URL"] + "/embeddings",
        json.dumps({"model": MODEL, "input": texts}).encode(),
        {"Authorization": "Bearer " + KEY, "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(ask, timeout=60) as answer:
        want = [d["embedding"] for d in json.load(answer)["data"]]
    assert np.array_equal(got, np.array(want, dtype=np.float32))


def refused(status, words, **request):
    try:
        infer(**{"texts": ["a"], **request})
    except triton.InferenceServerException as e:
        assert e.status() == "StatusCode." + status and words in e.message(), e
    else:
        raise AssertionError("expected " + status)


@check("refusals")
def _():
    refused("NOT_FOUND", "模型", model="模型")
    refused("INVALID_ARGUMENT", "inputs[0].data", texts=[""])
    refused("UNAUTHENTICATED", "key", key="sk-sluice-nobody")
    refused("UNAUTHENTICATED", "key", key=os.environ["DEAD_KEY"])
    refused("RESOURCE_EXHAUSTED", "budget", key=os.environ["SPENT_KEY"])


@check("what is not offered")
def _():
    try:
        client.get_model_repository_index(headers=headers())
    except triton.InferenceServerException as e:
        assert e.status() == "StatusCode.UNIMPLEMENTED", e
    else:
        raise AssertionError("expected a refusal")


print("all checks passed")
