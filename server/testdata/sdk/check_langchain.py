"""Drives a running server with LangChain: ChatOpenAI, over chats and over responses, OpenAIEmbeddings and ChatAnthropic. The model behind it is scripted.

Environment: BASE_URL (with /v1), API_KEY, MODEL, EMBED_MODEL. Prints one line per check and exits non-zero at the first failure. The model answers a question
by calling every tool with the last word of the question.
"""

import asyncio
import os
import time

import anthropic
import openai
import pydantic
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings

BASE, KEY, MODEL = os.environ["BASE_URL"], os.environ["API_KEY"], os.environ["MODEL"]
LOOP = asyncio.new_event_loop()  # one for all: clients of LangChain share their connections
PHONE = "13800138000"
ASK = "Send a greeting to " + PHONE
WANT = {"to": PHONE, "text": 'hi "you"'}


class Person(pydantic.BaseModel):
    """What the model is asked for."""

    name: str
    phones: list[str]


class Send(pydantic.BaseModel):
    """Sends a text."""

    to: str
    text: str


@tool
def send(to: str, text: str) -> str:
    """Sends a text."""
    return "sent to " + to


@tool
def log(to: str, text: str) -> str:
    """Writes a text down."""
    return "written"


def check(name):
    def run(f):
        started = time.monotonic()
        f()
        print(f"ok {name} ({time.monotonic() - started:.1f} s)", flush=True)

    return run


def models():
    """The clients that are held to the same checks."""
    return {
        "ChatOpenAI": ChatOpenAI(model=MODEL, base_url=BASE, api_key=KEY, timeout=60, stream_usage=True),
        "ChatOpenAI over responses": ChatOpenAI(model=MODEL, base_url=BASE, api_key=KEY, timeout=60, use_responses_api=True),
        "ChatAnthropic": ChatAnthropic(model_name=MODEL, base_url=BASE.removesuffix("/v1"), api_key=KEY, timeout=60, max_tokens=500),
    }


def everything(chat):
    said = chat.invoke([SystemMessage("Be kind."), HumanMessage(ASK)])
    assert said.text == "No tool." and said.usage_metadata["input_tokens"] > 0 and said.usage_metadata["output_tokens"] > 0, said

    whole = None
    pieces = []
    for piece in chat.stream(ASK):
        pieces.append(piece.text)
        whole = piece if whole is None else whole + piece
    assert "".join(pieces) == "No tool." and whole.usage_metadata["output_tokens"] > 0, whole

    armed = chat.bind_tools([send, log])
    calls = armed.invoke(ASK)
    assert [(c["name"], c["args"]) for c in calls.tool_calls] == [("send", WANT), ("log", WANT)], calls
    results = [t.invoke(c) for t, c in zip([send, log], calls.tool_calls)]
    assert all(isinstance(r, ToolMessage) for r in results), results
    done = armed.invoke([HumanMessage(ASK), calls, *reversed(results)])
    assert done.text == f"It was sent to {PHONE}.", done

    whole = None
    for piece in armed.stream(ASK):
        whole = piece if whole is None else whole + piece
    assert [(c["name"], c["args"]) for c in whole.tool_calls] == [("send", WANT), ("log", WANT)], whole

    assert chat.with_structured_output(Person, method="json_schema").invoke(ASK) == Person(name="Ada", phones=[PHONE])
    assert chat.with_structured_output(Send, method="function_calling").invoke(ASK) == Send(**WANT)
    assert [m.text for m in chat.batch([ASK, ASK])] == ["No tool."] * 2

    async def later():
        said = await chat.ainvoke(ASK)
        return said.text, "".join([p.text async for p in chat.astream(ASK)])

    assert LOOP.run_until_complete(later()) == ("No tool.", "No tool.")


for name, client in models().items():
    check(name)(lambda client=client: everything(client))


@check("errors are those of the SDK beneath")
def _():
    for chat, kind in (
        (ChatOpenAI(model="nothing", base_url=BASE, api_key=KEY), openai.NotFoundError),
        (ChatOpenAI(model=MODEL, base_url=BASE, api_key="wrong"), openai.AuthenticationError),
        (ChatOpenAI(model=MODEL, base_url=BASE, api_key=KEY, temperature=9), openai.BadRequestError),
        (ChatAnthropic(model_name="nothing", base_url=BASE.removesuffix("/v1"), api_key=KEY), anthropic.NotFoundError),
    ):
        try:
            chat.invoke(ASK)
        except kind:
            continue
        raise AssertionError(f"expected {kind}")


@check("embeddings")
def _():
    # What it does by default, tokens of an OpenAI model in place of texts, no other server understands.
    embed = OpenAIEmbeddings(model=os.environ["EMBED_MODEL"], base_url=BASE, api_key=KEY, check_embedding_ctx_length=False)
    vectors = embed.embed_documents(["a", "b"])
    assert [len(v) for v in vectors] == [32, 32] and vectors[0] != vectors[1], vectors
    assert all(abs(x - y) < 1e-6 for x, y in zip(LOOP.run_until_complete(embed.aembed_query("a")), vectors[0]))
    short = OpenAIEmbeddings(model=os.environ["EMBED_MODEL"], base_url=BASE, api_key=KEY, check_embedding_ctx_length=False, dimensions=8)
    assert len(short.embed_query("a")) == 8


print("all checks passed")
