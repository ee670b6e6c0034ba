"""Drives a running server with the official Anthropic SDK. The model behind it is scripted.

Environment: BASE_URL (with /v1), API_KEY, DEAD_KEY, SPENT_KEY, MODEL. Prints one line per check and exits non-zero at the first
failure. The model answers a question by calling every tool with the last word of the question.
"""

import asyncio
import json
import os
import time

import anthropic
import pydantic
from anthropic import Anthropic, AsyncAnthropic

MODEL = os.environ["MODEL"]
BASE = os.environ["BASE_URL"].removesuffix("/v1")
client = Anthropic(base_url=BASE, api_key=os.environ["API_KEY"], timeout=60)
PHONE = "13800138000"
ASK = [{"role": "user", "content": "Send a greeting to " + PHONE}]
SEND = {
    "name": "send",
    "description": "Sends a text, not to " + PHONE,
    "input_schema": {
        "type": "object",
        "properties": {"to": {"type": "string", "enum": [PHONE, "nobody"]}, "text": {"type": "string"}},
        "required": ["to", "text"],
    },
}
LOG = {"name": "log", "input_schema": {"type": "object"}}
WANT = {"to": PHONE, "text": 'hi "you"'}


def check(name):
    def run(f):
        started = time.monotonic()
        f()
        print(f"ok {name} ({time.monotonic() - started:.1f} s)", flush=True)

    return run


def refused(kind, error, code, param=None, key=None, **request):
    """The SDK raises its class, once, and the body says why."""
    calls = []
    api = client if key is None else Anthropic(base_url=BASE, api_key=key)
    api = api.with_options(max_retries=2)
    try:
        api.messages.with_raw_response.create(**{"model": MODEL, "max_tokens": 50, "messages": ASK, **request})
    except kind as e:
        body = e.body["error"]
        assert (body["type"], body["code"], body.get("param")) == (error, code, param), e.body
        assert e.request_id and e.request_id == e.body["request_id"], (e.request_id, e.body)
        assert e.response.request.headers.get("x-stainless-retry-count") == "0", "it was tried again"
        calls.append(e)
    assert calls, f"expected {kind}"
    return calls[0]


@check("a message, its usage and its id")
def _():
    raw = client.messages.with_raw_response.create(model=MODEL, max_tokens=50, messages=ASK, system="Be kind.")
    m = raw.parse()
    assert m.type == "message" and m.role == "assistant" and m.id.startswith("msg_") and m.model == MODEL, m
    assert [b.type for b in m.content] == ["text"] and m.content[0].text == "No tool." and m.stop_reason == "end_turn", m
    assert m.usage.input_tokens > 0 and m.usage.output_tokens > 0 and m.usage.cache_read_input_tokens == 0, m.usage
    assert m._request_id == raw.headers["x-request-id"] and m.model_extra["sluice"]["receipt"] == raw.headers["x-sluice-receipt"]


@check("a stop sequence, and a limit")
def _():
    m = client.messages.create(model=MODEL, max_tokens=50, messages=ASK, stop_sequences=["zzz", "tool"])
    assert (m.content[0].text, m.stop_reason, m.stop_sequence) == ("No ", "stop_sequence", "tool"), m
    m = client.messages.create(model=MODEL, max_tokens=1, messages=ASK)
    assert m.stop_reason == "max_tokens" and m.stop_sequence is None, m


@check("a stream, put together by the helper")
def _():
    with client.messages.stream(model=MODEL, max_tokens=50, messages=ASK) as stream:
        kinds = [e.type for e in stream]
        m = stream.get_final_message()
    assert kinds[0] == "message_start" and kinds[-1] == "message_stop" and "text" in kinds and kinds.count("content_block_stop") == 1, kinds
    assert m.content[0].text == "No tool." and m.stop_reason == "end_turn" and m.usage.output_tokens > 0 and m.usage.input_tokens > 0, m
    with client.messages.stream(model=MODEL, max_tokens=50, messages=ASK) as stream:
        assert "".join(stream.text_stream) == "No tool."


@check("raw events")
def _():
    events = list(client.messages.create(model=MODEL, max_tokens=50, messages=ASK, stream=True))
    # An upstream counts the prompt when it has read it, so the first event may not know.
    assert events[0].message.usage.input_tokens in (0, events[-2].usage.input_tokens) and events[-2].usage.input_tokens > 0, events
    assert "".join(e.delta.text for e in events if e.type == "content_block_delta") == "No tool."


@check("a call, and its result")
def _():
    m = client.messages.create(model=MODEL, max_tokens=500, messages=ASK, tools=[SEND])
    assert m.stop_reason == "tool_use" and [b.type for b in m.content] == ["tool_use"], m
    call = m.content[0]
    assert call.id and call.name == "send" and call.input == WANT, call
    history = ASK + [
        {"role": "assistant", "content": [b.model_dump(exclude_none=True) for b in m.content]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "sent to " + PHONE}]},
    ]
    done = client.messages.create(model=MODEL, max_tokens=500, messages=history, tools=[SEND])
    assert done.stop_reason == "end_turn" and done.content[0].text == f"It was sent to {PHONE}.", done


@check("parallel calls, streamed")
def _():
    parts = []
    with client.messages.stream(model=MODEL, max_tokens=500, messages=ASK, tools=[SEND, LOG]) as stream:
        for e in stream:
            if e.type == "input_json":
                parts.append(e.partial_json)
        m = stream.get_final_message()
    assert [b.name for b in m.content] == ["send", "log"] and all(b.input == WANT for b in m.content), m
    assert m.content[0].id != m.content[1].id and len(parts) > 4 and m.stop_reason == "tool_use", parts


@check("tool_choice")
def _():
    none = client.messages.create(model=MODEL, max_tokens=500, messages=ASK, tools=[SEND], tool_choice={"type": "none"})
    assert none.content[0].text == "No tool.", none
    for choice in ({"type": "auto"}, {"type": "any"}, {"type": "tool", "name": "send", "disable_parallel_tool_use": True}):
        m = client.messages.create(model=MODEL, max_tokens=500, messages=ASK, tools=[SEND], tool_choice=choice)
        assert m.stop_reason == "tool_use", choice


class Person(pydantic.BaseModel):
    """What the model is asked for."""

    name: str
    phones: list[str]


@check("structured outputs, parsed")
def _():
    m = client.messages.parse(model=MODEL, max_tokens=500, messages=ASK, output_format=Person)
    assert m.parsed_output == Person(name="Ada", phones=[PHONE]), m
    with client.messages.stream(model=MODEL, max_tokens=500, messages=ASK, output_format=Person) as stream:
        assert stream.get_final_message().parsed_output.phones == [PHONE]


@check("tokens are counted")
def _():
    n = client.messages.count_tokens(model=MODEL, messages=ASK, system="Be kind.")
    m = client.messages.create(model=MODEL, max_tokens=50, messages=ASK, system="Be kind.")
    assert n.input_tokens >= m.usage.input_tokens > 0 and n.model_extra["sluice"]["usage_estimated"], (n, m.usage)


@check("models")
def _():
    names = [m.id for m in client.models.list()]
    assert MODEL in names, names
    m = client.models.retrieve(MODEL)
    assert m.type == "model" and m.id == m.display_name == MODEL and m.created_at.year > 2000, m
    try:
        client.models.retrieve("nope")
    except anthropic.NotFoundError as e:
        assert e.body["error"]["type"] == "not_found_error", e.body
    else:
        raise AssertionError("a model that is none was found")


@check("every class of error")
def _():
    refused(anthropic.AuthenticationError, "authentication_error", "invalid_api_key", key="wrong")
    refused(anthropic.AuthenticationError, "authentication_error", "expired_api_key", key=os.environ["DEAD_KEY"])
    refused(anthropic.NotFoundError, "not_found_error", "model_not_found", "model", model="nope")
    refused(anthropic.BadRequestError, "invalid_request_error", "invalid_value", "temperature", extra_body={"temperature": 3})
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    refused(anthropic.BadRequestError, "invalid_request_error", "unsupported_parameter", "messages[0].content[0].type", messages=[{"role": "user", "content": [image]}])
    e = refused(anthropic.APIStatusError, "billing_error", "project_spend_limit_exceeded", key=os.environ["SPENT_KEY"])
    assert e.status_code == 402, e
    refused(anthropic.APIStatusError, "request_too_large", "request_too_large", messages=[{"role": "user", "content": "x" * (5 << 20)}])


def ended(batch):
    """Waits as applications do."""
    deadline = time.monotonic() + 120
    while batch.processing_status != "ended":
        assert time.monotonic() < deadline, batch
        time.sleep(0.2)
        batch = client.messages.batches.retrieve(batch.id)
    return batch


def ask(custom_id, **params):
    return {"custom_id": custom_id, "params": {"model": MODEL, "max_tokens": 50, "messages": ASK, **params}}


@check("a batch, its results and its end")
def _():
    batch = client.messages.batches.create(requests=[ask("plain"), ask("tool", tools=[SEND]), ask("odd", model="nope")])
    assert batch.type == "message_batch" and batch.processing_status == "in_progress" and batch.request_counts.processing == 3, batch
    assert (batch.expires_at - batch.created_at).total_seconds() == 24 * 3600 and batch.results_url is None, batch
    batch = ended(batch)
    counts = batch.request_counts
    assert (counts.succeeded, counts.errored, counts.canceled, counts.expired, counts.processing) == (2, 1, 0, 0, 0), batch
    results = {r.custom_id: r.result for r in client.messages.batches.results(batch.id)}
    assert results["plain"].type == "succeeded" and results["plain"].message.content[0].text == "No tool.", results
    assert results["tool"].message.stop_reason == "tool_use" and results["tool"].message.content[0].input == WANT, results
    assert results["odd"].type == "errored" and results["odd"].error.error.type == "not_found_error", results
    gone = client.messages.batches.delete(batch.id)
    assert gone.type == "message_batch_deleted" and gone.id == batch.id, gone
    try:
        client.messages.batches.retrieve(batch.id)
    except anthropic.NotFoundError as e:
        assert e.body["error"]["type"] == "not_found_error", e.body
    else:
        raise AssertionError("a batch that was deleted is there")


@check("a batch that is cancelled")
def _():
    batch = client.messages.batches.create(requests=[ask(f"r{i}") for i in range(400)])
    try:
        client.messages.batches.delete(batch.id)
    except anthropic.ConflictError as e:
        assert e.body["error"]["type"] == "invalid_request_error", e.body
    else:
        raise AssertionError("a batch at work was deleted")
    batch = client.messages.batches.cancel(batch.id)
    assert batch.processing_status == "canceling" and batch.cancel_initiated_at, batch
    batch = ended(batch)
    counts = batch.request_counts
    assert counts.canceled > 0 and counts.succeeded + counts.canceled == 400, batch
    kinds = [r.result.type for r in client.messages.batches.results(batch.id)]
    assert kinds.count("canceled") == counts.canceled and kinds.count("succeeded") == counts.succeeded, counts


@check("a list of batches, page by page, in both directions")
def _():
    made = [client.messages.batches.create(requests=[ask("one")]).id for _ in range(5)]
    ids = [b.id for b in client.messages.batches.list(limit=2)]
    assert ids[:5] == made[::-1] and len(ids) == len(set(ids)) == 6, ids
    newer = [b.id for b in client.messages.batches.list(limit=2, before_id=made[0])]
    assert sorted(newer) == sorted(made[1:]), newer
    assert [b.id for b in client.beta.messages.batches.list(limit=1000)] == ids
    for batch in made:
        ended(client.messages.batches.retrieve(batch))
    read = []
    for b in client.messages.batches.list(limit=2):  # whoever deletes while reading misses none
        if b.id in made:
            client.messages.batches.delete(b.id)
            read.append(b.id)
    assert read == made[::-1], (read, made)


@check("a batch that cannot be asked")
def _():
    for requests, param in (([ask("a"), ask("a")], "requests[1].custom_id"), ([], "requests"), ([ask("a", stream=True)], "requests[0].params.stream")):
        try:
            client.messages.batches.create(requests=requests)
        except anthropic.BadRequestError as e:
            assert (e.body["error"]["type"], e.body["error"]["param"]) == ("invalid_request_error", param), e.body
        else:
            raise AssertionError(requests)


@check("a bearer token")
def _():
    api = Anthropic(base_url=BASE, auth_token=os.environ["API_KEY"])
    assert api.messages.create(model=MODEL, max_tokens=50, messages=ASK).content[0].text == "No tool."


@check("the asynchronous client")
def _():
    async def run():
        async with AsyncAnthropic(base_url=BASE, api_key=os.environ["API_KEY"]) as api:
            async with api.messages.stream(model=MODEL, max_tokens=50, messages=ASK) as stream:
                return "".join([t async for t in stream.text_stream])

    assert asyncio.run(run()) == "No tool."


@check("leaving a stream")
def _():
    with client.messages.create(model=MODEL, max_tokens=500, messages=ASK, stream=True) as stream:
        for e in stream:
            assert json.dumps(e.to_dict())
            break


print("all checks passed")
