"""Drives a running server with the official Cohere SDK: its clients of both versions. The model behind it is scripted.

Environment: BASE_URL (with /v1), API_KEY, RERANK_MODEL, DEAD_KEY, SPENT_KEY. Prints one line per check and exits non-zero at the first failure.
"""

import os
import time

import cohere

MODEL = os.environ["RERANK_MODEL"]
HOST = os.environ["BASE_URL"].removesuffix("/v1")
client = cohere.ClientV2(os.environ["API_KEY"], base_url=HOST, timeout=60)
PHONE = "13800138000"
DOCUMENTS = ["xyz", "abc", "abcdef " + PHONE]


def check(name):
    def run(f):
        started = time.monotonic()
        f()
        print(f"ok {name} ({time.monotonic() - started:.1f} s)", flush=True)

    return run


@check("a rerank")
def _():
    r = client.rerank(model=MODEL, query="abcdef", documents=DOCUMENTS, top_n=2, max_tokens_per_doc=4096)
    assert [x.index for x in r.results] == [2, 1] and r.results[0].relevance_score == 1, r
    assert r.id and r.meta.api_version.version == "2" and r.meta.billed_units.search_units == 1 and r.meta.tokens.input_tokens > 0, r


@check("a rerank of the first version, with documents")
def _():
    first = cohere.Client(os.environ["API_KEY"], base_url=HOST, timeout=60)
    r = first.rerank(model=MODEL, query="abcdef", documents=DOCUMENTS, top_n=1, return_documents=True)
    assert r.results[0].index == 2 and r.results[0].document.text == DOCUMENTS[2] and r.meta.api_version.version == "1", r


def refused(kind, status, code, key=None, **request):
    ask = cohere.ClientV2(key, base_url=HOST, timeout=60) if key else client
    started = time.monotonic()
    try:
        ask.rerank(**{"model": MODEL, "query": "q", "documents": ["a"], **request})
    except kind as e:
        assert e.status_code == status and e.body["code"] == code and e.body["message"], e
    else:
        raise AssertionError(f"expected {kind}")
    assert time.monotonic() - started < 1, "it was tried again"


@check("refusals, which are not tried again")
def _():
    refused(cohere.NotFoundError, 404, "model_not_found", model="nothing")
    refused(cohere.BadRequestError, 400, "invalid_value", documents=[])
    refused(cohere.UnauthorizedError, 401, "invalid_api_key", key="sk-sluice-nobody")
    refused(cohere.UnauthorizedError, 401, "expired_api_key", key=os.environ["DEAD_KEY"])
    refused(cohere.core.ApiError, 402, "project_spend_limit_exceeded", key=os.environ["SPENT_KEY"])


@check("what is not offered")
def _():
    for ask in (
        lambda: client.chat(model=MODEL, messages=[{"role": "user", "content": "hello"}]),
        lambda: client.embed(model=MODEL, texts=["a"], input_type="search_query", embedding_types=["float"]),
    ):
        started = time.monotonic()
        try:
            ask()
        except cohere.NotFoundError as e:
            assert e.body["code"] == "not_offered" and "/v1/" in e.body["message"], e
        else:
            raise AssertionError("expected a refusal")
        assert time.monotonic() - started < 1, "it was tried again"


print("all checks passed")
