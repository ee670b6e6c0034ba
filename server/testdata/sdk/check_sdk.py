"""Drives a running server with the official OpenAI SDK, as a business application would.

Environment: BASE_URL (with /v1), API_KEY, MODEL, EMBED_MODEL, and DEAD_KEY, a key that was revoked. Prints one line per check and
exits non-zero at the first failure. Assertions are about the wire contract, not about what the model says.
"""

import json
import os
import time

import openai
import pydantic
from openai import OpenAI

try:  # what the SDK speaks over: httpx2 since its third major
    import httpx2 as httpx
except ModuleNotFoundError:
    import httpx

BASE, KEY = os.environ["BASE_URL"], os.environ["API_KEY"]
MODEL, EMBED = os.environ["MODEL"], os.environ["EMBED_MODEL"]
client = OpenAI(base_url=BASE, api_key=KEY, timeout=120)
HELLO = [{"role": "user", "content": "Name the capital of France in one short sentence."}]


def check(name):
    def run(f):
        started = time.monotonic()
        f()
        print(f"ok {name} ({time.monotonic() - started:.1f} s)", flush=True)

    return run


@check("models")
def _():
    ids = [m.id for m in client.models.list()]
    assert MODEL in ids and EMBED in ids, ids
    assert client.models.retrieve(MODEL).id == MODEL
    about = {m.id: m.model_extra["sluice"] for m in client.models.list()}
    assert "chat" in about[MODEL]["capabilities"] and about[MODEL]["status"] == "ready", about
    assert about[MODEL]["price"]["currency"] and about[MODEL]["context_tokens"] > 0, about
    assert about[EMBED]["capabilities"][0] == "embeddings" and about[EMBED]["embedding_dimensions"] == 384, about


@check("the wrong use of a model names the right one")
def _():
    try:
        client.chat.completions.create(model=EMBED, messages=HELLO, max_tokens=5)
    except openai.BadRequestError as e:
        assert e.code == "model_not_capable" and e.param == "model" and f"use one of: {MODEL}" in str(e), e
    else:
        raise AssertionError("an embedding model has chatted")


@check("chat, blocking")
def _():
    raw = client.chat.completions.with_raw_response.create(model=MODEL, messages=HELLO, max_tokens=24, temperature=0)
    r = raw.parse()
    assert r.object == "chat.completion" and r.model == MODEL
    assert r.choices[0].message.role == "assistant" and r.choices[0].message.content
    assert r.choices[0].finish_reason in ("stop", "length")
    assert r.usage.total_tokens == r.usage.prompt_tokens + r.usage.completion_tokens > 0
    assert 0 < r.usage.completion_tokens <= 24
    assert raw.headers["x-request-id"] and raw.headers["x-sluice-receipt"] and raw.headers["x-sluice-ai-label"]
    ext = r.model_extra["sluice"]
    assert ext["receipt"] == raw.headers["x-sluice-receipt"] and ext["label"], ext
    assert ext["cost"]["nano"] > 0 and ext["cost"]["currency"] and ext["energy"]["method"] == "declared", ext


@check("values that the caller knows")
def _():
    r = client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "Say hello to Zorblax."}], max_tokens=8, temperature=0,
        extra_body={"sluice": {"known": [{"class": "company", "value": "zorblax"}]}},
    )
    findings = r.model_extra["sluice"]["findings"]
    assert any(f["class"] == "company" and f["action"] == "token" and f["count"] == 1 for f in findings), findings


@check("chat, streamed, equals blocking at temperature 0")
def _():
    whole = client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=24, temperature=0)
    text, usage, finish, ids, roles = "", None, None, set(), []
    stream = client.chat.completions.create(
        model=MODEL, messages=HELLO, max_tokens=24, temperature=0, stream=True, stream_options={"include_usage": True}
    )
    for chunk in stream:
        ids.add(chunk.id)
        if chunk.usage:
            assert chunk.choices == []
            usage = chunk.usage
        for c in chunk.choices:
            if c.delta.role:
                roles.append(c.delta.role)
            text += c.delta.content or ""
            finish = c.finish_reason or finish
    assert text == whole.choices[0].message.content, (text, whole.choices[0].message.content)
    assert len(ids) == 1 and roles == ["assistant"] and finish == whole.choices[0].finish_reason
    assert usage.completion_tokens == whole.usage.completion_tokens


@check("n, seed, stop, logprobs")
def _():
    a = client.chat.completions.create(model=MODEL, messages=HELLO, n=2, max_tokens=12, temperature=1, seed=7)
    b = client.chat.completions.create(model=MODEL, messages=HELLO, n=2, max_tokens=12, temperature=1, seed=7)
    assert [c.index for c in a.choices] == [0, 1]
    assert [c.message.content for c in a.choices] == [c.message.content for c in b.choices]
    s = client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=40, temperature=0, stop=["France"])
    assert "France" not in s.choices[0].message.content
    p = client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=4, temperature=0, logprobs=True, top_logprobs=3)
    content = p.choices[0].logprobs.content
    assert len(content) == p.usage.completion_tokens and all(len(t.top_logprobs) == 3 and t.logprob <= 0 for t in content)


@check("an answer comes again with the seed of its replay token")
def _():
    first = client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=16, temperature=1)
    token = first.model_extra["sluice"]["replay"]
    again = client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=16, temperature=1, seed=int(token.split(".")[-1], 16) % 2**63)
    if int(token.split(".")[-1], 16) < 2**63:  # what the API takes as a seed
        assert again.choices[0].message.content == first.choices[0].message.content
        assert again.model_extra["sluice"]["replay"] == token


@check("completions")
def _():
    r = client.completions.create(model=MODEL, prompt="The capital of France is", max_tokens=4, temperature=0)
    assert r.object == "text_completion" and "Paris" in r.choices[0].text, r.choices[0].text
    text = "".join(c.choices[0].text for c in client.completions.create(
        model=MODEL, prompt="The capital of France is", max_tokens=4, temperature=0, stream=True) if c.choices)
    assert text == r.choices[0].text


@check("an answer held to a schema is parsed by the SDK's helper")
def _():
    class City(pydantic.BaseModel):
        # The small model may ramble on inside a string; bounded ones end.
        name: str = pydantic.Field(max_length=40)
        country: str = pydantic.Field(max_length=40)

    try:
        r = client.chat.completions.parse(model=MODEL, messages=HELLO, response_format=City, max_tokens=120, temperature=0)
    except openai.BadRequestError as e:
        assert e.code == "unsupported_parameter" and e.param == "response_format", e
        print("skip: the model cannot be held to a format")
        return
    assert isinstance(r.choices[0].message.parsed, City), r.choices[0].message.content
    j = client.chat.completions.create(model=MODEL, messages=HELLO, response_format={"type": "json_object"}, max_tokens=120, temperature=0)
    if j.choices[0].finish_reason == "stop":
        assert isinstance(json.loads(j.choices[0].message.content), dict)
    c = client.chat.completions.create(model=MODEL, messages=HELLO, extra_body={"guided_choice": ["Paris", "London"]}, temperature=0)
    assert c.choices[0].message.content in ("Paris", "London")


@check("embeddings")
def _():
    def cosine(a, b):
        return sum(x * y for x, y in zip(a, b))

    r = client.embeddings.create(model=EMBED, input=["A cat sits on the mat.", "A kitten rests on a rug.", "Interest rates rose."])
    v = [d.embedding for d in r.data]
    assert [d.index for d in r.data] == [0, 1, 2] and all(abs(cosine(x, x) - 1) < 1e-3 for x in v)
    assert cosine(v[0], v[1]) > cosine(v[0], v[2]) + 0.02  # cosines of this model lie close together
    f = client.embeddings.create(model=EMBED, input="A cat sits on the mat.", encoding_format="float")
    assert cosine(f.data[0].embedding, v[0]) > 0.9999 and r.usage.prompt_tokens > 0


@check("masking keeps values for the caller")
def _():
    text = "身份证 11010519491231002X，手机 13800138000。"
    r = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": text}], max_tokens=16)
    found = {f["class"]: f["count"] for f in r.model_extra["sluice"]["findings"] if f["direction"] == "request"}
    assert found.get("cn_resident_id") == 1 and found.get("cn_mobile") == 1, found


@check("error classes")
def _():
    for call, kind, code in (
        (lambda: OpenAI(base_url=BASE, api_key="sk-sluice-nothing", max_retries=0).models.list(), openai.AuthenticationError, "invalid_api_key"),
        (lambda: OpenAI(base_url=BASE, api_key=os.environ["DEAD_KEY"], max_retries=0).models.list(), openai.AuthenticationError, "expired_api_key"),
        (lambda: client.chat.completions.create(model="no-such-model", messages=HELLO), openai.NotFoundError, "model_not_found"),
        (lambda: client.chat.completions.create(model=MODEL, messages=HELLO, temperature=9), openai.BadRequestError, "invalid_value"),
        (lambda: client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "word " * 9000}]), openai.BadRequestError, "context_length_exceeded"),
        (lambda: client.chat.completions.create(model=MODEL, messages=HELLO, tools=[{"type": "function", "function": {"name": "f g"}}]), openai.BadRequestError, "invalid_value"),
    ):
        try:
            call()
        except kind as e:
            assert e.code == code, (e.code, code)
            assert e.request_id
        else:
            raise AssertionError(f"expected {kind}")


@check("retries honour retry-after and stop at budget refusals")
def _():
    calls = []

    def upstream(request):
        calls.append(request)
        return httpx.Client().send(httpx.Request(request.method, str(request.url), headers=request.headers, content=request.content))

    counting = OpenAI(base_url=BASE, api_key=os.environ["SPENT_KEY"], http_client=httpx.Client(transport=httpx.MockTransport(upstream)))
    try:
        counting.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=5)
    except openai.RateLimitError as e:
        assert e.type == "insufficient_quota" and e.code == "project_spend_limit_exceeded", (e.type, e.code)
        assert len(calls) == 1, f"{len(calls)} attempts: a spent budget must not be retried"
    else:
        raise AssertionError("expected a budget refusal")


@check("leaving a stream early")
def _():
    with client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=400, stream=True) as stream:
        for i, _ in enumerate(stream):
            if i == 3:
                break
    assert client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=2).choices


print("all checks passed")
