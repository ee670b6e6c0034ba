"""Drives tools, formats and scores of a running server with the official OpenAI SDK. The model behind it is scripted.

Environment: BASE_URL (with /v1), API_KEY, MODEL, EMBED_MODEL, RERANK_MODEL. Prints one line per check and exits non-zero at the
first failure. The model answers a question by calling every tool with the last word of the question.
"""

import json
import os
import time

import openai
import pydantic
from openai import OpenAI

MODEL = os.environ["MODEL"]
client = OpenAI(base_url=os.environ["BASE_URL"], api_key=os.environ["API_KEY"], timeout=60)
PHONE = "13800138000"
ASK = [{"role": "user", "content": "Send a greeting to " + PHONE}]
SEND = {
    "type": "function",
    "function": {
        "name": "send",
        "description": "Sends a text, not to " + PHONE,
        "parameters": {
            "type": "object",
            "properties": {"to": {"type": "string", "enum": [PHONE, "nobody"]}, "text": {"type": "string"}},
            "required": ["to", "text"],
            "additionalProperties": False,
        },
        "strict": True,
    },
}


def check(name):
    def run(f):
        started = time.monotonic()
        f()
        print(f"ok {name} ({time.monotonic() - started:.1f} s)", flush=True)

    return run


def refused(kind, code, param, **request):
    try:
        client.chat.completions.create(model=MODEL, messages=request.pop("messages", ASK), **request)
    except kind as e:
        assert (e.code, e.param) == (code, param), (e.code, e.param)
    else:
        raise AssertionError(f"expected {kind}")


@check("a call, and its result")
def _():
    r = client.chat.completions.create(model=MODEL, messages=ASK, tools=[SEND])
    c = r.choices[0]
    assert c.finish_reason == "tool_calls" and c.message.content is None and len(c.message.tool_calls) == 1, c
    call = c.message.tool_calls[0]
    assert call.id and call.type == "function" and call.function.name == "send"
    assert json.loads(call.function.arguments) == {"to": PHONE, "text": 'hi "you"'}, call
    assert r.usage.completion_tokens > 0 and r.usage.prompt_tokens_details.cached_tokens == 0
    history = ASK + [c.message.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": call.id, "content": "sent to " + PHONE}]
    done = client.chat.completions.create(model=MODEL, messages=history, tools=[SEND])
    assert done.choices[0].finish_reason == "stop" and done.choices[0].message.content == f"It was sent to {PHONE}.", done
    assert done.choices[0].message.tool_calls is None


@check("parallel calls, streamed, put together by hand")
def _():
    other = {"type": "function", "function": {"name": "log", "parameters": {"type": "object"}}}
    calls, finish, roles = {}, None, []
    for chunk in client.chat.completions.create(model=MODEL, messages=ASK, tools=[SEND, other], stream=True):
        for c in chunk.choices:
            if c.delta.role:
                roles.append(c.delta.role)
            finish = c.finish_reason or finish
            for d in c.delta.tool_calls or []:
                if d.index not in calls:
                    assert d.index == len(calls) and d.id and d.type == "function" and d.function.name
                    calls[d.index] = [d.id, d.function.name, ""]
                calls[d.index][2] += d.function.arguments or ""
    assert finish == "tool_calls" and roles == ["assistant"] and [c[1] for c in calls.values()] == ["send", "log"], calls
    assert all(json.loads(c[2])["to"] == PHONE for c in calls.values()) and calls[0][0] != calls[1][0]


class Send(pydantic.BaseModel):
    """Sends a text."""

    to: str
    text: str


@check("the stream helper reads calls")
def _():
    done = []
    with client.chat.completions.stream(model=MODEL, messages=ASK, tools=[openai.pydantic_function_tool(Send)]) as stream:
        for event in stream:
            if event.type == "tool_calls.function.arguments.done":
                done.append(event)
        final = stream.get_final_completion()
    assert len(done) == 1 and done[0].name == "Send" and done[0].parsed_arguments == Send(to=PHONE, text='hi "you"'), done
    assert final.choices[0].message.tool_calls[0].function.parsed_arguments.to == PHONE


@check("the parse helper reads calls")
def _():
    r = client.chat.completions.parse(model=MODEL, messages=ASK, tools=[openai.pydantic_function_tool(Send)])
    assert r.choices[0].message.tool_calls[0].function.parsed_arguments == Send(to=PHONE, text='hi "you"')


@check("tool_choice")
def _():
    none = client.chat.completions.create(model=MODEL, messages=ASK, tools=[SEND], tool_choice="none")
    assert none.choices[0].message.tool_calls is None and none.choices[0].message.content == "No tool."
    for choice in ("required", "auto", {"type": "function", "function": {"name": "send"}}):
        r = client.chat.completions.create(model=MODEL, messages=ASK, tools=[SEND], tool_choice=choice, parallel_tool_calls=False)
        assert r.choices[0].finish_reason == "tool_calls", choice


class Person(pydantic.BaseModel):
    name: str
    phones: list[str]


@check("the parse helper reads an answer held to a schema")
def _():
    r = client.chat.completions.parse(model=MODEL, messages=ASK, response_format=Person)
    assert r.choices[0].message.parsed == Person(name="Ada", phones=[PHONE]), r.choices[0].message
    with client.chat.completions.stream(model=MODEL, messages=ASK, response_format=Person) as stream:
        for _ in stream:
            pass
        assert stream.get_final_completion().choices[0].message.parsed == Person(name="Ada", phones=[PHONE])


@check("choices, sampling, urgency")
def _():
    r = client.chat.completions.create(
        model=MODEL, messages=ASK, frequency_penalty=0.5, presence_penalty=-0.5, logit_bias={"5": 1}, seed=3, service_tier="flex",
        extra_body={"guided_choice": ["no", "call " + PHONE], "top_k": 5, "min_p": 0.1, "repetition_penalty": 1.1, "min_tokens": 1, "priority": 2},
        extra_headers={"X-Sluice-First-Token-Timeout-Ms": "60000"},
    )
    assert r.choices[0].message.content == "call " + PHONE, r


@check("echo")
def _():
    r = client.completions.create(model=MODEL, prompt="abc def", echo=True, logprobs=1, max_tokens=1)
    lp = r.choices[0].logprobs
    assert r.choices[0].text.startswith("abc def") and lp.token_logprobs[0] is None and lp.token_logprobs[1] is not None, r


@check("embeddings of fewer dimensions")
def _():
    r = client.embeddings.create(model=os.environ["EMBED_MODEL"], input="a", dimensions=8, extra_body={"input_type": "query"})
    assert len(r.data[0].embedding) == 8 and abs(sum(x * x for x in r.data[0].embedding) - 1) < 1e-3


@check("rerank and score")
def _():
    body = {"model": os.environ["RERANK_MODEL"], "query": "call " + PHONE, "documents": ["x", {"text": "call " + PHONE}], "return_documents": True, "top_n": 1}
    r = client.post("/rerank", body=body, cast_to=object)
    assert [x["index"] for x in r["results"]] == [1] and r["results"][0]["relevance_score"] == 1 and r["results"][0]["document"] == {"text": "call " + PHONE}, r
    assert r["usage"]["total_tokens"] > 0
    s = client.post("/score", body={"model": os.environ["RERANK_MODEL"], "text_1": "abc", "text_2": ["abc", "xyz"]}, cast_to=object)
    assert [d["score"] for d in s["data"]] == [1, 0], s


@check("what is not offered is not tried again")
def _():
    started = time.monotonic()
    for ask in (
        lambda: client.audio.speech.create(model=MODEL, voice="alloy", input="hello"),
        lambda: client.images.generate(prompt="a cat"),
        lambda: client.vector_stores.list(),
        lambda: client.fine_tuning.jobs.list(),
    ):
        try:
            ask()
        except openai.NotFoundError as e:
            assert e.code == "not_offered" and "not offered here" in e.message, e
        else:
            raise AssertionError("expected a refusal")
    assert time.monotonic() - started < 2, "it was tried again"


@check("moderation says what the policy would do, and that no category of OpenAI's was examined")
def _():
    r = client.moderations.create(input=["hello", "call " + PHONE])
    assert [x.flagged for x in r.results] == [False, True] and r.model.startswith("sluice-detectors@"), r
    for x in r.results:
        told = dict(x.categories)
        assert len(told) >= 13 and not any(told.values()), told
        assert x.categories.harassment_threatening is None and x.category_scores.violence is None and x.category_applied_input_types.violence == [], x
    found = r.results[1].model_extra["sluice"]["findings"]
    assert [(f["class"], f["action"], f["count"]) for f in found] == [("cn_mobile", "token", 1)], found
    sluice = r.model_extra["sluice"]
    assert "cn_mobile" in sluice["examined"] and "violence/graphic" in sluice["not_examined"] and sluice["receipt"] and sluice["policy"], sluice
    for wrong in ({"model": "omni-moderation-latest", "input": "hello"}, {"input": [{"type": "image_url", "image_url": {"url": "https://x.example/a.png"}}]}):
        try:
            client.moderations.create(**wrong)
        except openai.BadRequestError as e:
            assert e.param in ("model", "input[0].type"), e
        else:
            raise AssertionError("expected a refusal")


@check("refusals name the field")
def _():
    refused(openai.BadRequestError, "invalid_value", "tools[0].function.name", tools=[{"type": "function", "function": {"name": "f g"}}])
    refused(openai.BadRequestError, "invalid_value", "tool_choice", tool_choice="required")
    refused(openai.BadRequestError, "invalid_value", "guided_regex", extra_body={"guided_regex": PHONE})
    refused(openai.BadRequestError, "missing_required_parameter", "messages[0].tool_call_id", messages=[{"role": "tool", "content": "x"}])
    assert client.chat.completions.create(model=MODEL, messages=ASK).choices


@check("files and batches")
def _():
    lines = [
        {
            "custom_id": f"line-{i}",
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": {"model": MODEL, "messages": ASK, "tools": [SEND]},
        }
        for i in range(3)
    ]
    lines.append({"custom_id": "wrong", "method": "POST", "url": "/v1/chat/completions", "body": {"model": MODEL}})
    text = "\n".join(json.dumps(line) for line in lines).encode()
    file = client.files.create(file=("night.jsonl", text), purpose="batch", expires_after={"anchor": "created_at", "seconds": 3600})
    assert file.filename == "night.jsonl" and file.bytes == len(text) and file.purpose == "batch", file
    assert file.id in [f.id for f in client.files.list(purpose="batch", limit=1)]
    assert client.files.content(file.id).read() == text
    batch = client.batches.create(
        input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h", metadata={"what": "night"}
    )
    for _ in range(300):
        batch = client.batches.retrieve(batch.id)
        if batch.status in ("completed", "failed", "expired", "cancelled"):
            break
        time.sleep(0.1)
    assert batch.status == "completed" and batch.request_counts.completed == 3 and batch.request_counts.failed == 1, batch
    results = [json.loads(line) for line in client.files.content(batch.output_file_id).text.splitlines()]
    assert [r["custom_id"] for r in results] == ["line-0", "line-1", "line-2"], results
    call = results[0]["response"]["body"]["choices"][0]["message"]["tool_calls"][0]["function"]
    assert PHONE in call["arguments"], call
    failure = json.loads(client.files.content(batch.error_file_id).text)
    assert failure["custom_id"] == "wrong" and failure["response"]["status_code"] == 400, failure
    assert batch.id in [b.id for b in client.batches.list()]
    try:
        client.batches.cancel(batch.id)
    except openai.ConflictError as e:
        assert e.code == "conflict", e
    else:
        raise AssertionError("a batch that has ended was cancelled")
    assert client.files.delete(file.id).deleted


FLAT = {"type": "function", **SEND["function"]}


@check("a response, and its count")
def _():
    r = client.responses.create(model=MODEL, input="Send a greeting to " + PHONE, instructions="Be kind.", metadata={"case": "1"})
    assert r.object == "response" and r.status == "completed" and r.output_text == "No tool." and r.error is None, r
    assert r.instructions == "Be kind." and r.metadata == {"case": "1"} and r.tools == [] and r.tool_choice == "auto", r
    assert r.usage.total_tokens == r.usage.input_tokens + r.usage.output_tokens > 0, r.usage
    n = client.responses.input_tokens.count(model=MODEL, input="Send a greeting to " + PHONE, instructions="Be kind.")
    assert n.object == "response.input_tokens" and n.input_tokens >= r.usage.input_tokens, n


@check("a response, streamed")
def _():
    with client.responses.stream(model=MODEL, input="Send a greeting to " + PHONE) as stream:
        events = list(stream)
        r = stream.get_final_response()
    kinds = [e.type for e in events]
    assert kinds[0] == "response.created" and kinds[-1] == "response.completed" and "response.output_text.done" in kinds, kinds
    assert [e.sequence_number for e in events] == list(range(len(events))) and r.output_text == "No tool.", r
    raw = client.responses.create(model=MODEL, input="hi", stream=True)
    assert "".join(e.delta for e in raw if e.type == "response.output_text.delta") == "No tool."


@check("calls of a response, and their results")
def _():
    question = [{"role": "user", "content": "Send a greeting to " + PHONE}]
    r = client.responses.create(model=MODEL, input=question, tools=[FLAT])
    (call,) = [i for i in r.output if i.type == "function_call"]
    assert call.name == "send" and json.loads(call.arguments) == {"to": PHONE, "text": 'hi "you"'}, call
    history = question + [i.model_dump(exclude_none=True) for i in r.output]
    history.append({"type": "function_call_output", "call_id": call.call_id, "output": "sent to " + PHONE})
    assert client.responses.create(model=MODEL, input=history, tools=[FLAT]).output_text == f"It was sent to {PHONE}."
    with client.responses.stream(model=MODEL, input=question, tools=[FLAT, {"type": "function", "name": "log", "parameters": {"type": "object"}}]) as stream:
        done = [e for e in stream if e.type == "response.function_call_arguments.done"]
        final = stream.get_final_response()
    assert [e.name for e in done] == ["send", "log"] and [i.name for i in final.output] == ["send", "log"], final


@check("a response, parsed")
def _():
    r = client.responses.parse(model=MODEL, input="Send a greeting to " + PHONE, text_format=Person)
    assert r.output_parsed.phones == [PHONE], r


@check("a response is refused by name")
def _():
    try:
        client.responses.create(model=MODEL, input="hi", tools=[{"type": "web_search"}])
    except openai.BadRequestError as e:
        assert (e.code, e.param) == ("unsupported_parameter", "tools[0].type"), e
    else:
        raise AssertionError("a tool that is none was taken")


@check("a response goes on from an earlier one")
def _():
    first = client.responses.create(model=MODEL, input="Send a greeting to " + PHONE, tools=[FLAT])
    (call,) = [i for i in first.output if i.type == "function_call"]
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "sent to " + PHONE}
    second = client.responses.create(model=MODEL, input=[result], previous_response_id=first.id)
    assert second.output_text == f"It was sent to {PHONE}." and second.previous_response_id == first.id, second
    assert client.responses.retrieve(second.id).output_text == second.output_text
    items = client.responses.input_items.list(second.id).data
    assert [i.type for i in items] == ["function_call_output"], items
    client.responses.delete(second.id)
    for act in (lambda: client.responses.retrieve(second.id), lambda: client.responses.create(model=MODEL, input="x", previous_response_id=second.id)):
        try:
            act()
        except openai.NotFoundError as e:
            assert e.code == "not_found", e
        else:
            raise AssertionError("a response that was deleted was found")
    forgotten = client.responses.create(model=MODEL, input="hi", store=False)
    try:
        client.responses.retrieve(forgotten.id)
    except openai.NotFoundError:
        pass
    else:
        raise AssertionError("a response that was not to be stored was found")


@check("one answer for one key")
def _():
    once = {"Idempotency-Key": "key-" + str(time.time())}
    first = client.chat.completions.with_raw_response.create(model=MODEL, messages=ASK, extra_headers=once)
    again = client.chat.completions.with_raw_response.create(model=MODEL, messages=ASK, extra_headers=once)
    assert again.parse().id == first.parse().id and again.headers["idempotent-replayed"] == "true"


print("all checks passed")
