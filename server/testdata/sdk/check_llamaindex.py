"""Drives a running server with LlamaIndex: OpenAILike and OpenAILikeEmbedding. The model behind it is scripted.

Environment: BASE_URL (with /v1), API_KEY, MODEL, EMBED_MODEL. Prints one line per check and exits non-zero at the first failure. The model answers a question
by calling every tool with the last word of the question.
"""

import asyncio
import os
import time

import openai
import pydantic
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import FunctionTool
from llama_index.embeddings.openai_like import OpenAILikeEmbedding
from llama_index.llms.openai_like import OpenAILike

BASE, KEY, MODEL = os.environ["BASE_URL"], os.environ["API_KEY"], os.environ["MODEL"]
PHONE = "13800138000"
ASK = "Send a greeting to " + PHONE
WANT = {"to": PHONE, "text": 'hi "you"'}


def like(**more):
    return OpenAILike(**{"model": MODEL, "api_base": BASE, "api_key": KEY, "is_chat_model": True, "is_function_calling_model": True, "timeout": 60, "max_retries": 0, **more})


llm = like()


def check(name):
    def run(f):
        started = time.monotonic()
        f()
        print(f"ok {name} ({time.monotonic() - started:.1f} s)", flush=True)

    return run


@check("a chat and a completion, in one piece and streamed")
def _():
    question = [ChatMessage(role="system", content="Be kind."), ChatMessage(role="user", content=ASK)]
    r = llm.chat(question)
    assert r.message.content == "No tool." and r.raw.usage.total_tokens > 0, r
    assert "".join(p.delta or "" for p in llm.stream_chat(question)) == "No tool."
    assert llm.complete(ASK).text == "No tool."
    assert "".join(p.delta or "" for p in llm.stream_complete(ASK)) == "No tool."


@check("a completion of the endpoint for completions")
def _():
    plain = like(is_chat_model=False, is_function_calling_model=False)
    text = plain.complete("abc def").text
    assert text and "".join(p.delta or "" for p in plain.stream_complete("abc def")) == text, text


def send(to: str, text: str) -> str:
    """Sends a text."""
    return "sent to " + to


def log(to: str, text: str) -> str:
    """Writes a text down."""
    return "written"


TOOLS = [FunctionTool.from_defaults(fn=send), FunctionTool.from_defaults(fn=log)]


@check("calls, in one piece and streamed, and their results")
def _():
    r = llm.chat_with_tools(TOOLS, user_msg=ASK, allow_parallel_tool_calls=True)
    calls = llm.get_tool_calls_from_response(r)
    assert [(c.tool_name, c.tool_kwargs) for c in calls] == [("send", WANT), ("log", WANT)], calls
    *_, last = llm.stream_chat_with_tools(TOOLS, user_msg=ASK, allow_parallel_tool_calls=True)
    streamed = llm.get_tool_calls_from_response(last)
    assert [(c.tool_name, c.tool_kwargs) for c in streamed] == [("send", WANT), ("log", WANT)], streamed
    results = [ChatMessage(role="tool", content=str(t(**c.tool_kwargs)), additional_kwargs={"tool_call_id": c.tool_id}) for t, c in zip(TOOLS, calls)]
    done = llm.chat_with_tools(TOOLS, chat_history=[ChatMessage(role="user", content=ASK), r.message, *reversed(results)])
    assert done.message.content == f"It was sent to {PHONE}.", done


class Send(pydantic.BaseModel):
    """Sends a text."""

    to: str
    text: str


class Person(pydantic.BaseModel):
    """What the model is asked for."""

    name: str
    phones: list[str]


@check("structured output, by a call and by a schema")
def _():
    assert llm.structured_predict(Send, PromptTemplate("Send a greeting to {who}"), who=PHONE) == Send(**WANT)
    schema = {"type": "json_schema", "json_schema": {"name": "person", "schema": Person.model_json_schema()}}
    held = llm.complete(ASK, response_format=schema).text
    assert Person.model_validate_json(held) == Person(name="Ada", phones=[PHONE]), held


@check("asynchronously")
def _():
    async def run():
        r = await llm.achat([ChatMessage(role="user", content=ASK)])
        text = "".join([p.delta or "" async for p in await llm.astream_chat([ChatMessage(role="user", content=ASK)])])
        return r.message.content, text

    assert asyncio.run(run()) == ("No tool.", "No tool.")


@check("errors are those of the SDK beneath")
def _():
    for wrong, kind in (
        ({"model": "nothing"}, openai.NotFoundError),
        ({"api_key": "wrong"}, openai.AuthenticationError),
        ({"additional_kwargs": {"temperature": 9}}, openai.BadRequestError),
    ):
        try:
            like(**wrong).chat([ChatMessage(role="user", content=ASK)])
        except kind:
            continue
        raise AssertionError(f"expected {kind}")


@check("embeddings")
def _():
    embed = OpenAILikeEmbedding(model_name=os.environ["EMBED_MODEL"], api_base=BASE, api_key=KEY)
    vectors = embed.get_text_embedding_batch(["a", "b"])
    assert [len(v) for v in vectors] == [32, 32] and vectors[0] != vectors[1], vectors
    assert all(abs(x - y) < 1e-6 for x, y in zip(asyncio.run(embed.aget_query_embedding("a")), vectors[0]))


print("all checks passed")
