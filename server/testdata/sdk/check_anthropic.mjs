// Drives a running server with the official Anthropic SDK for JavaScript. The model behind it is scripted.
//
// Environment: BASE_URL (with /v1), API_KEY, MODEL, and DEAD_KEY (revoked), SPENT_KEY (without budget), NARROW_KEY (vectors only) and HURRIED_KEY (one
// request a minute). Prints one line per check and exits non-zero at the first failure. The model answers a question by calling every tool with the last word
// of the question, and what begins with "Slowly" with two words, after which it is silent.

import assert from "node:assert/strict";
import Anthropic from "@anthropic-ai/sdk";
import { zodOutputFormat } from "@anthropic-ai/sdk/helpers/zod";
import { z } from "zod";

const { API_KEY, MODEL, DEAD_KEY, SPENT_KEY, NARROW_KEY, HURRIED_KEY } = process.env;
const baseURL = process.env.BASE_URL.replace(/\/v1$/, "");
const client = new Anthropic({ baseURL, apiKey: API_KEY, timeout: 60_000 });
const PHONE = "13800138000";
const ASK = [{ role: "user", content: "Send a greeting to " + PHONE }];
const SEND = {
  name: "send",
  description: "Sends a text, not to " + PHONE,
  input_schema: { type: "object", properties: { to: { type: "string", enum: [PHONE, "nobody"] }, text: { type: "string" } }, required: ["to", "text"] },
};
const LOG = { name: "log", input_schema: { type: "object" } };
const SENT = { to: PHONE, text: 'hi "you"' };
const asked = (more = {}) => ({ model: MODEL, max_tokens: 500, messages: ASK, ...more });

async function check(name, run) {
  const started = performance.now();
  await run();
  console.log(`ok ${name} (${((performance.now() - started) / 1000).toFixed(1)} s)`);
}

await check("a message, its usage and its id", async () => {
  const { data: m, response, request_id } = await client.messages.create(asked({ system: "Be kind." })).withResponse();
  assert.deepEqual([m.type, m.role, m.model, m.stop_reason], ["message", "assistant", MODEL, "end_turn"]);
  assert.deepEqual(m.content.map((b) => [b.type, b.text]), [["text", "No tool."]]);
  assert.ok(m.id.startsWith("msg_") && m.usage.input_tokens > 0 && m.usage.output_tokens > 0);
  assert.ok(request_id && request_id === response.headers.get("x-request-id") && m.sluice.receipt === response.headers.get("x-sluice-receipt"));
  assert.ok(Number(response.headers.get("anthropic-ratelimit-requests-limit")) > 0);
});

await check("a stop sequence, and a limit", async () => {
  const stopped = await client.messages.create(asked({ stop_sequences: ["tool"] }));
  assert.deepEqual([stopped.content[0].text, stopped.stop_reason, stopped.stop_sequence], ["No ", "stop_sequence", "tool"]);
  assert.equal((await client.messages.create(asked({ max_tokens: 1 }))).stop_reason, "max_tokens");
});

await check("a stream, raw and by the helper", async () => {
  const kinds = [];
  let text = "";
  for await (const e of await client.messages.create(asked({ stream: true }))) {
    kinds.push(e.type);
    if (e.type === "content_block_delta") text += e.delta.text;
  }
  assert.deepEqual([kinds[0], kinds.at(-1), text], ["message_start", "message_stop", "No tool."]);
  let heard = "";
  const m = await client.messages.stream(asked()).on("text", (t) => { heard += t; }).finalMessage();
  assert.deepEqual([heard, m.content[0].text, m.stop_reason], ["No tool.", "No tool.", "end_turn"]);
  assert.ok(m.usage.input_tokens > 0 && m.usage.output_tokens > 0);
});

await check("a call, and its result", async () => {
  const m = await client.messages.create(asked({ tools: [SEND] }));
  const call = m.content[0];
  assert.deepEqual([m.stop_reason, call.type, call.name, call.input], ["tool_use", "tool_use", "send", SENT]);
  const result = { role: "user", content: [{ type: "tool_result", tool_use_id: call.id, content: "sent to " + PHONE }] };
  const done = await client.messages.create(asked({ messages: [...ASK, { role: "assistant", content: m.content }, result], tools: [SEND] }));
  assert.equal(done.content[0].text, `It was sent to ${PHONE}.`);
  const chosen = await client.messages.create(asked({ tools: [SEND], tool_choice: { type: "tool", name: "send", disable_parallel_tool_use: true } }));
  assert.equal(chosen.stop_reason, "tool_use");
});

await check("parallel calls, streamed", async () => {
  const parts = [];
  const m = await client.messages.stream(asked({ tools: [SEND, LOG] })).on("inputJson", (part) => parts.push(part)).finalMessage();
  assert.deepEqual(m.content.map((b) => [b.name, b.input]), [["send", SENT], ["log", SENT]]);
  assert.ok(m.content[0].id !== m.content[1].id && parts.length > 4 && m.stop_reason === "tool_use");
});

await check("structured outputs, parsed", async () => {
  const format = zodOutputFormat(z.object({ name: z.string(), phones: z.array(z.string()) }));
  const m = await client.messages.parse(asked({ output_config: { format } }));
  assert.deepEqual(m.parsed_output, { name: "Ada", phones: [PHONE] });
});

await check("tokens are counted, and models listed", async () => {
  const n = await client.messages.countTokens({ model: MODEL, messages: ASK, tools: [SEND] });
  assert.ok(n.input_tokens > 0);
  const names = [];
  for await (const m of client.models.list()) names.push(m.id);
  assert.ok(names.includes(MODEL), `${names}`);
  assert.deepEqual([(await client.models.retrieve(MODEL)).type, (await client.models.retrieve(MODEL)).id], ["model", MODEL]);
});

/** The SDK throws its class, which says why, after one attempt. */
async function refused(kind, status, type, code, request, apiKey = API_KEY) {
  let attempts = 0;
  const counting = (...args) => { attempts++; return fetch(...args); };
  const api = new Anthropic({ baseURL, apiKey, maxRetries: 2, fetch: counting });
  await assert.rejects(api.messages.create(request), (e) => {
    assert.ok(e instanceof kind, `${e}`);
    assert.deepEqual([e.status, e.type, e.error.error.type, e.error.error.code], [status, type, type, code], `${e}`);
    assert.ok(e.requestID && e.requestID === e.error.request_id, `${e}`);
    return true;
  });
  assert.equal(attempts, 1, "it was tried again");
}

await check("classes of errors", async () => {
  await refused(Anthropic.AuthenticationError, 401, "authentication_error", "invalid_api_key", asked(), "wrong");
  await refused(Anthropic.AuthenticationError, 401, "authentication_error", "expired_api_key", asked(), DEAD_KEY);
  await refused(Anthropic.PermissionDeniedError, 403, "permission_error", "key_scope", asked(), NARROW_KEY);
  await refused(Anthropic.NotFoundError, 404, "not_found_error", "model_not_found", asked({ model: "nothing" }));
  await refused(Anthropic.BadRequestError, 400, "invalid_request_error", "invalid_value", asked({ temperature: 3 }));
  await refused(Anthropic.APIError, 402, "billing_error", "project_spend_limit_exceeded", asked(), SPENT_KEY);
  const hurried = new Anthropic({ baseURL, apiKey: HURRIED_KEY, maxRetries: 0 });
  await hurried.messages.create(asked());
  await assert.rejects(hurried.messages.create(asked()), (e) => {
    assert.ok(e instanceof Anthropic.RateLimitError && e.type === "rate_limit_error", `${e}`);
    assert.ok(Number(e.headers.get("retry-after")) > 0);
    return true;
  });
});

await check("a bearer token", async () => {
  const api = new Anthropic({ baseURL, apiKey: null, authToken: API_KEY });
  assert.equal((await api.messages.create(asked())).content[0].text, "No tool.");
});

await check("leaving a stream", async () => {
  const stream = await client.messages.create(asked({ messages: [{ role: "user", content: "Slowly, please." }], stream: true }));
  let text = "";
  for await (const e of stream) {
    if (e.type !== "content_block_delta") continue;
    text += e.delta.text;
    stream.controller.abort();
  }
  assert.ok(text.length > 0 && text.length < 20, text);
});

console.log("all checks passed");
