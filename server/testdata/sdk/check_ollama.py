"""Drives a running server with the official Ollama SDK. The models behind it are scripted.

Environment: BASE_URL (with /v1), API_KEY, MODEL, EMBED_MODEL. Prints one line per check and exits non-zero at the first failure. The model
answers a question by calling every tool with the last word of the question.
"""

import asyncio
import os
import time

import ollama
import pydantic

MODEL, EMBED = os.environ["MODEL"], os.environ["EMBED_MODEL"]
HOST = os.environ["BASE_URL"].removesuffix("/v1")
HEADERS = {"Authorization": "Bearer " + os.environ["API_KEY"]}
client = ollama.Client(host=HOST, headers=HEADERS, timeout=60)
PHONE = "13800138000"
ASK = [{"role": "user", "content": "Send a greeting to " + PHONE}]


def check(name):
    def run(f):
        started = time.monotonic()
        f()
        print(f"ok {name} ({time.monotonic() - started:.1f} s)", flush=True)

    return run


def send(to: str, text: str) -> str:
    """Sends a text.

    Args:
      to: a telephone number
      text: the text
    """
    return "It was sent to " + to


@check("the models, by the names that the list has")
def _():
    names = [m.model for m in client.list().models]
    assert MODEL + ":latest" in names and EMBED + ":latest" in names, names
    shown = client.show(MODEL + ":latest")
    assert shown.capabilities == ["completion", "tools"], shown
    assert shown.modelinfo[shown.modelinfo["general.architecture"] + ".context_length"] > 0, shown
    assert MODEL + ":latest" in [m.model for m in client.ps().models]


@check("a chat")
def _():
    r = client.chat(MODEL, messages=ASK, options={"num_predict": 50, "temperature": 0, "num_ctx": 4096})
    assert r.done and r.done_reason == "stop" and r.message.role == "assistant" and r.message.content == "No tool.", r
    assert r.model == MODEL and r.prompt_eval_count > 0 and r.eval_count > 0 and r.total_duration > 0, r


@check("a chat in a stream, under the name with its tag")
def _():
    parts = list(client.chat(MODEL + ":latest", messages=ASK, stream=True))
    assert "".join(p.message.content for p in parts) == "No tool." and len(parts) > 2, parts
    assert [p.done for p in parts].count(True) == 1 and parts[-1].done and parts[-1].eval_count > 0, parts[-1]
    assert parts[-1].model == MODEL + ":latest", parts[-1]


@check("a call of a tool, and its result")
def _():
    r = client.chat(MODEL, messages=ASK, tools=[send])
    call = r.message.tool_calls[0]
    assert call.function.name == "send" and call.function.arguments == {"to": PHONE, "text": 'hi "you"'}, r
    result = {"role": "tool", "tool_name": "send", "content": send(**call.function.arguments)}
    r = client.chat(MODEL, messages=[*ASK, r.message, result], tools=[send])
    assert r.message.content == f"It was sent to {PHONE}.", r


@check("calls of tools in a stream")
def _():
    calls = [c for p in client.chat(MODEL, messages=ASK, tools=[send], stream=True) for c in p.message.tool_calls or []]
    assert len(calls) == 1 and calls[0].function.arguments["to"] == PHONE, calls


class Person(pydantic.BaseModel):
    name: str
    phones: list[str]


@check("an answer in the form of a schema")
def _():
    r = client.chat(MODEL, messages=ASK, format=Person.model_json_schema())
    assert Person.model_validate_json(r.message.content) == Person(name="Ada", phones=[PHONE]), r
    assert Person.model_validate_json(client.chat(MODEL, messages=ASK, format="json").message.content).phones == [PHONE]


@check("a generation, whole and in a stream")
def _():
    r = client.generate(MODEL, "Send a greeting to " + PHONE, system="Be kind.")
    assert r.response == "No tool." and r.done, r
    parts = list(client.generate(MODEL, "Send a greeting to " + PHONE, stream=True))
    assert "".join(p.response for p in parts) == "No tool." and parts[-1].done, parts


@check("loading a model and letting go of it")
def _():
    assert client.generate(MODEL).done_reason == "load"
    assert client.generate(MODEL, keep_alive=0).done_reason == "unload"


@check("vectors")
def _():
    r = client.embed(EMBED, input=["call " + PHONE, "b"])
    assert len(r.embeddings) == 2 and len(r.embeddings[0]) == 32 and r.prompt_eval_count > 0, r
    assert client.embeddings(EMBED, prompt="b").embedding == r.embeddings[1]


def refused(status, words, f):
    try:
        f()
    except ollama.ResponseError as e:
        assert e.status_code == status and words in e.error and "{" not in e.error, (e.status_code, e.error)
    else:
        raise AssertionError("expected a refusal")


@check("refusals")
def _():
    refused(404, "nothing", lambda: client.chat("nothing", messages=ASK))
    refused(400, "messages[0].images", lambda: client.chat(MODEL, messages=[{"role": "user", "content": "look", "images": [b"picture"]}]))
    refused(404, "nothing", lambda: list(client.chat("nothing", messages=ASK, stream=True)))
    stranger = ollama.Client(host=HOST, headers={"Authorization": "Bearer sk-sluice-nobody"})
    refused(401, "API key", lambda: stranger.list())


@check("what is not offered")
def _():
    for ask in (client.pull, client.push, client.delete, lambda name: client.copy(name, "another")):
        refused(404, "not offered here", lambda: ask(MODEL))


@check("the asynchronous client")
def _():
    async def ask():
        asynchronous = ollama.AsyncClient(host=HOST, headers=HEADERS)
        return [p.message.content async for p in await asynchronous.chat(MODEL, messages=ASK, stream=True)]

    assert "".join(asyncio.run(ask())) == "No tool."


print("all checks passed")
