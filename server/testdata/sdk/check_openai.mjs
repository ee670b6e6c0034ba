// Drives a running server with the official OpenAI SDK for JavaScript. The model behind it is scripted.
//
// Environment: BASE_URL (with /v1), API_KEY, MODEL, EMBED_MODEL, and DEAD_KEY (revoked), SPENT_KEY (without budget), NARROW_KEY (vectors only) and
// HURRIED_KEY (one request a minute). Prints one line per check and exits non-zero at the first failure. The model answers a question by calling every tool
// with the last word of the question, and what begins with "Slowly" with two words, after which it is silent.

import assert from "node:assert/strict";
import OpenAI, { toFile } from "openai";
import { zodResponseFormat, zodTextFormat, zodFunction } from "openai/helpers/zod";
import { z } from "zod";

const { BASE_URL, API_KEY, MODEL, EMBED_MODEL, DEAD_KEY, SPENT_KEY, NARROW_KEY, HURRIED_KEY } = process.env;
const client = new OpenAI({ baseURL: BASE_URL, apiKey: API_KEY, timeout: 60_000 });
const PHONE = "13800138000";
const ASK = [{ role: "user", content: "Send a greeting to " + PHONE }];
const PARAMETERS = {
  type: "object",
  properties: { to: { type: "string", enum: [PHONE, "nobody"] }, text: { type: "string" } },
  required: ["to", "text"],
  additionalProperties: false,
};
const SEND = { type: "function", function: { name: "send", description: "Sends a text, not to " + PHONE, parameters: PARAMETERS, strict: true } };
const LOG = { type: "function", function: { name: "log", parameters: { type: "object" } } };
const FLAT = { type: "function", ...SEND.function };
const SENT = { to: PHONE, text: 'hi "you"' };
const Person = z.object({ name: z.string(), phones: z.array(z.string()) });
const chat = (more = {}, options = {}) => client.chat.completions.create({ model: MODEL, messages: ASK, ...more }, options);

async function check(name, run) {
  const started = performance.now();
  await run();
  console.log(`ok ${name} (${((performance.now() - started) / 1000).toFixed(1)} s)`);
}

async function collect(stream) {
  const out = [];
  for await (const event of stream) out.push(event);
  return out;
}

await check("models", async () => {
  const models = await collect(client.models.list());
  const mine = models.find((m) => m.id === MODEL);
  assert.ok(mine && models.some((m) => m.id === EMBED_MODEL), JSON.stringify(models));
  assert.ok(mine.sluice.capabilities.includes("chat") && mine.sluice.status === "ready", JSON.stringify(mine));
  assert.equal((await client.models.retrieve(MODEL)).id, MODEL);
});

await check("chat, its usage, its headers and its receipt", async () => {
  const { data: r, response, request_id } = await chat().withResponse();
  assert.equal(r.object, "chat.completion");
  assert.deepEqual([r.choices[0].message.role, r.choices[0].message.content, r.choices[0].finish_reason], ["assistant", "No tool.", "stop"]);
  assert.ok(r.usage.total_tokens === r.usage.prompt_tokens + r.usage.completion_tokens && r.usage.total_tokens > 0);
  assert.ok(request_id && request_id === r._request_id && request_id === response.headers.get("x-request-id"));
  assert.ok(r.sluice.receipt && r.sluice.receipt === response.headers.get("x-sluice-receipt") && r.sluice.label);
  assert.ok(Number(response.headers.get("x-ratelimit-limit-requests")) > 0);
});

await check("chat, streamed, with usage", async () => {
  const chunks = await collect(await chat({ stream: true, stream_options: { include_usage: true } }));
  const pieces = chunks.flatMap((c) => c.choices);
  assert.equal(pieces.map((c) => c.delta.content ?? "").join(""), "No tool.");
  assert.deepEqual(pieces.map((c) => c.delta.role).filter(Boolean), ["assistant"]);
  assert.deepEqual(pieces.map((c) => c.finish_reason).filter(Boolean), ["stop"]);
  assert.equal(new Set(chunks.map((c) => c.id)).size, 1);
  const last = chunks.at(-1);
  assert.ok(last.choices.length === 0 && last.usage.completion_tokens > 0 && chunks.slice(0, -1).every((c) => !c.usage), JSON.stringify(last));
});

await check("moderation: what the policy would do, and no category that nobody has examined", async () => {
  const r = await client.moderations.create({ input: ["hello", "call " + PHONE] });
  assert.deepEqual(r.results.map((x) => x.flagged), [false, true]);
  assert.ok(r.model.startsWith("sluice-detectors@") && r.sluice.receipt && r.sluice.not_examined.includes("violence"), JSON.stringify(r));
  for (const x of r.results) assert.ok(Object.keys(x.categories).length === 13 && Object.values(x.categories).every((told) => told === null), JSON.stringify(x));
  assert.deepEqual(r.results[1].sluice.findings.map((f) => [f.class, f.action, f.count]), [["cn_mobile", "token", 1]]);
  const picture = { type: "image_url", image_url: { url: "https://x.example/a.png" } };
  await refused(OpenAI.BadRequestError, 400, "unsupported_parameter", "input[0].type", client.moderations.create({ input: [picture] }));
});

await check("two choices, in one piece and in a stream", async () => {
  const r = await chat({ n: 2 });
  assert.deepEqual(r.choices.map((c) => c.index), [0, 1]);
  const texts = ["", ""];
  for await (const chunk of await chat({ n: 2, stream: true })) for (const c of chunk.choices) texts[c.index] += c.delta.content ?? "";
  assert.deepEqual(texts, r.choices.map((c) => c.message.content));
});

await check("logprobs", async () => {
  const question = [{ role: "user", content: "Say something." }]; // without a value that is masked, for which they are withheld
  const r = await chat({ messages: question, logprobs: true, top_logprobs: 2 });
  const tokens = r.choices[0].logprobs.content;
  assert.equal(tokens.map((t) => t.token).join(""), r.choices[0].message.content);
  assert.ok(tokens.every((t) => t.logprob <= 0 && t.top_logprobs.length === 2), JSON.stringify(tokens));
  const chunks = await collect(await chat({ messages: question, logprobs: true, stream: true }));
  assert.deepEqual(chunks.flatMap((c) => c.choices).flatMap((c) => c.logprobs?.content ?? []).map((t) => t.token), tokens.map((t) => t.token));
});

await check("parallel calls, streamed, put together by hand and by the helper", async () => {
  const calls = [];
  let finish;
  for await (const chunk of await chat({ tools: [SEND, LOG], stream: true })) {
    for (const c of chunk.choices) {
      finish = c.finish_reason ?? finish;
      for (const d of c.delta.tool_calls ?? []) {
        if (!calls[d.index]) {
          assert.ok(d.index === calls.length && d.id && d.type === "function" && d.function.name, JSON.stringify(d));
          calls[d.index] = { id: d.id, name: d.function.name, text: "" };
        }
        calls[d.index].text += d.function.arguments ?? "";
      }
    }
  }
  assert.equal(finish, "tool_calls");
  assert.deepEqual(calls.map((c) => c.name), ["send", "log"]);
  assert.ok(calls.every((c) => JSON.parse(c.text).to === PHONE) && calls[0].id !== calls[1].id);
  const seen = [];
  const stream = client.chat.completions.stream({ model: MODEL, messages: ASK, tools: [SEND, LOG] });
  stream.on("tool_calls.function.arguments.done", (c) => seen.push(c.name));
  const whole = (await stream.finalChatCompletion()).choices[0].message.tool_calls;
  assert.deepEqual(seen, ["send", "log"]);
  assert.deepEqual(JSON.parse(whole[1].function.arguments), SENT);
});

await check("tools that the helper runs", async () => {
  const told = [];
  const send = zodFunction({
    name: "send", parameters: z.object({ to: z.string(), text: z.string() }),
    function: (args) => { told.push(args); return "sent to " + args.to; },
  });
  const runner = client.chat.completions.runTools({ model: MODEL, messages: ASK, tools: [send] });
  assert.equal(await runner.finalContent(), `It was sent to ${PHONE}.`);
  assert.deepEqual(told, [SENT]);
});

await check("an answer held to a schema, parsed", async () => {
  const want = { name: "Ada", phones: [PHONE] };
  const format = zodResponseFormat(Person, "person");
  assert.deepEqual((await client.chat.completions.parse({ model: MODEL, messages: ASK, response_format: format })).choices[0].message.parsed, want);
  const stream = client.chat.completions.stream({ model: MODEL, messages: ASK, response_format: format });
  assert.deepEqual((await stream.finalChatCompletion()).choices[0].message.parsed, want);
});

await check("completions and embeddings", async () => {
  const r = await client.completions.create({ model: MODEL, prompt: "abc def", echo: true, max_tokens: 3 });
  assert.ok(r.object === "text_completion" && r.choices[0].text.startsWith("abc def"), JSON.stringify(r));
  const packed = await client.embeddings.create({ model: EMBED_MODEL, input: ["a", "b"] }); // the SDK asks for base64
  assert.deepEqual(packed.data.map((d) => [d.index, d.embedding.length]), [[0, 32], [1, 32]]);
  const plain = await client.embeddings.create({ model: EMBED_MODEL, input: "a", encoding_format: "float" });
  assert.ok(plain.data[0].embedding.every((x, i) => Math.abs(x - packed.data[0].embedding[i]) < 1e-6));
  assert.ok(plain.usage.total_tokens > 0);
});

await check("responses, in one piece, streamed and parsed", async () => {
  const r = await client.responses.create({ model: MODEL, input: ASK[0].content, instructions: "Be kind." });
  assert.deepEqual([r.object, r.status, r.output_text], ["response", "completed", "No tool."]);
  const events = await collect(await client.responses.create({ model: MODEL, input: "hi", stream: true }));
  assert.deepEqual(events.map((e) => e.sequence_number), events.map((_, i) => i));
  assert.deepEqual([events[0].type, events.at(-1).type], ["response.created", "response.completed"]);
  const stream = client.responses.stream({ model: MODEL, input: ASK, tools: [FLAT, { type: "function", ...LOG.function }] });
  const output = (await stream.finalResponse()).output;
  assert.deepEqual(output.map((i) => [i.type, i.name]), [["function_call", "send"], ["function_call", "log"]]);
  const parsed = await client.responses.parse({ model: MODEL, input: ASK[0].content, text: { format: zodTextFormat(Person, "person") } });
  assert.deepEqual(parsed.output_parsed, { name: "Ada", phones: [PHONE] });
});

await check("a response goes on from an earlier one", async () => {
  const first = await client.responses.create({ model: MODEL, input: ASK[0].content, tools: [FLAT] });
  const call = first.output.find((i) => i.type === "function_call");
  assert.deepEqual(JSON.parse(call.arguments), SENT);
  const result = { type: "function_call_output", call_id: call.call_id, output: "sent to " + PHONE };
  const second = await client.responses.create({ model: MODEL, input: [result], previous_response_id: first.id });
  assert.deepEqual([second.output_text, second.previous_response_id], [`It was sent to ${PHONE}.`, first.id]);
  assert.equal((await client.responses.retrieve(second.id)).output_text, second.output_text);
  assert.deepEqual((await collect(client.responses.inputItems.list(second.id))).map((i) => i.type), ["function_call_output"]);
  await client.responses.delete(second.id);
  await assert.rejects(client.responses.retrieve(second.id), OpenAI.NotFoundError);
});

await check("files and batches", async () => {
  const line = (id, body) => JSON.stringify({ custom_id: id, method: "POST", url: "/v1/chat/completions", body });
  const text = [line("right", { model: MODEL, messages: ASK }), line("wrong", { model: MODEL })].join("\n");
  const file = await client.files.create({ file: await toFile(Buffer.from(text), "night.jsonl"), purpose: "batch" });
  assert.deepEqual([file.filename, file.purpose, file.bytes], ["night.jsonl", "batch", Buffer.byteLength(text)]);
  assert.ok((await collect(client.files.list({ purpose: "batch", limit: 1 }))).some((f) => f.id === file.id));
  assert.equal((await client.files.retrieve(file.id)).id, file.id);
  assert.equal(await (await client.files.content(file.id)).text(), text);
  let batch = await client.batches.create({ input_file_id: file.id, endpoint: "/v1/chat/completions", completion_window: "24h", metadata: { what: "night" } });
  for (let i = 0; i < 300 && !["completed", "failed", "expired", "cancelled"].includes(batch.status); i++) {
    await new Promise((resolve) => setTimeout(resolve, 100));
    batch = await client.batches.retrieve(batch.id);
  }
  assert.deepEqual([batch.status, batch.request_counts.completed, batch.request_counts.failed], ["completed", 1, 1], JSON.stringify(batch));
  const result = JSON.parse(await (await client.files.content(batch.output_file_id)).text());
  assert.deepEqual([result.custom_id, result.response.body.choices[0].message.content], ["right", "No tool."]);
  const failure = JSON.parse(await (await client.files.content(batch.error_file_id)).text());
  assert.deepEqual([failure.custom_id, failure.response.status_code], ["wrong", 400]);
  assert.ok((await collect(client.batches.list())).some((b) => b.id === batch.id));
  await assert.rejects(client.batches.cancel(batch.id), OpenAI.ConflictError);
  assert.ok((await client.files.delete(file.id)).deleted);
});

/** The SDK throws its class, which says why. */
async function refused(kind, status, code, param, asked) {
  await assert.rejects(asked, (e) => {
    assert.ok(e instanceof kind, `${e}`);
    assert.deepEqual([e.status, e.code, e.param ?? null], [status, code, param], `${e}`);
    assert.ok(e.requestID && e.message, `${e}`);
    return true;
  });
}

const as = (apiKey, options = {}) => new OpenAI({ baseURL: BASE_URL, apiKey, maxRetries: 0, ...options }).chat.completions.create({ model: MODEL, messages: ASK });

await check("classes of errors", async () => {
  await refused(OpenAI.AuthenticationError, 401, "invalid_api_key", null, as("sk-sluice-nothing"));
  await refused(OpenAI.AuthenticationError, 401, "expired_api_key", null, as(DEAD_KEY));
  await refused(OpenAI.PermissionDeniedError, 403, "key_scope", null, as(NARROW_KEY));
  await refused(OpenAI.NotFoundError, 404, "model_not_found", "model", chat({ model: "nothing" }));
  await refused(OpenAI.NotFoundError, 404, "not_offered", null, client.images.generate({ prompt: "a cat" }));
  await refused(OpenAI.BadRequestError, 400, "invalid_value", "temperature", chat({ temperature: 9 }));
  await refused(OpenAI.BadRequestError, 400, "invalid_value", "tools[0].function.name", chat({ tools: [{ type: "function", function: { name: "f g" } }] }));
  await refused(OpenAI.BadRequestError, 400, "model_not_capable", "model", chat({ model: EMBED_MODEL }));
});

await check("429: when to come back, and when not to", async () => {
  await as(HURRIED_KEY);
  await assert.rejects(as(HURRIED_KEY), (e) => {
    assert.ok(e instanceof OpenAI.RateLimitError && e.code === "rate_limit_exceeded", `${e}`);
    assert.ok(Number(e.headers.get("retry-after")) > 0 && Number(e.headers.get("retry-after-ms")) > 0, JSON.stringify([...e.headers]));
    return true;
  });
  let attempts = 0;
  const counting = (...args) => { attempts++; return fetch(...args); };
  await refused(OpenAI.RateLimitError, 429, "project_spend_limit_exceeded", null, as(SPENT_KEY, { maxRetries: 2, fetch: counting }));
  assert.equal(attempts, 1, "a spent budget was tried again");
});

await check("leaving a stream", async () => {
  const stream = await chat({ messages: [{ role: "user", content: "Slowly, please." }], stream: true });
  let text = "";
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta.content ?? "";
    if (text) stream.controller.abort();
  }
  assert.ok(text.length > 0 && text.length < 20, text);
  assert.equal((await chat()).choices[0].message.content, "No tool.");
});

console.log("all checks passed");
