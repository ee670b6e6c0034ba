import type { Schema } from './client';
import { ApiError, errorFromReply, isAbort, toApiError } from './errors';
import { session } from './session';
import { readEvents } from './sse';

export type Extension = Schema['Extension'];

export interface ChatMessage {
  role: 'user' | 'assistant' | 'system';
  content: string;
}

export interface ChatRequest {
  model: string;
  messages: ChatMessage[];
  temperature?: number;
  max_tokens?: number;
  rag?: { collection: string; top_k?: number };
}

export interface ChatUsage {
  prompt_tokens: number;
  completion_tokens: number;
}

export type ChatEvent =
  | { kind: 'text'; text: string }
  | { kind: 'extension'; extension: Extension }
  | { kind: 'usage'; usage: ChatUsage }
  | { kind: 'finish'; reason: string };

interface Chunk {
  choices?: { delta?: { content?: string | null; refusal?: string | null }; finish_reason?: string | null }[];
  usage?: ChatUsage | null;
  sluice?: Extension;
  error?: { message?: string; code?: string | null; type?: string };
}

/** Streams one answer through the governed pipeline; header has the purpose where the policy demands one. Throws an ApiError when it is refused, fails or stops without its end mark. */
export async function* streamChat(body: ChatRequest, signal: AbortSignal, header: Record<string, string> = {}): AsyncGenerator<ChatEvent> {
  const request = new Request(new URL('/api/v1/playground/chat/completions', location.origin), {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'text/event-stream', ...header },
    body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } }),
    signal,
  });
  try {
    const reply = await session.fetch(request);
    const requestId = reply.headers.get('x-request-id') ?? '';
    if (!reply.ok || !reply.body) throw errorFromReply(reply.status, await reply.json().catch(() => undefined), requestId);
    yield* chatEvents(reply.body, requestId);
  } catch (error) {
    throw isAbort(error) ? error : toApiError(error);
  }
}

export async function* chatEvents(stream: ReadableStream<Uint8Array>, requestId: string): AsyncGenerator<ChatEvent> {
  for await (const { data } of readEvents(stream)) {
    if (data.startsWith('[DONE]')) return;
    let chunk: Chunk;
    try {
      chunk = JSON.parse(data) as Chunk;
    } catch {
      throw new ApiError('client_stream', 'unreadable event', 0, requestId);
    }
    if (chunk.error) throw errorFromReply(0, chunk, requestId);
    for (const choice of chunk.choices ?? []) {
      const text = (choice.delta?.content ?? '') + (choice.delta?.refusal ?? ''); // why there is no answer is read like one
      if (text) yield { kind: 'text', text };
      if (choice.finish_reason) yield { kind: 'finish', reason: choice.finish_reason };
    }
    if (chunk.sluice) yield { kind: 'extension', extension: chunk.sluice };
    if (chunk.usage) yield { kind: 'usage', usage: chunk.usage };
  }
  throw new ApiError('client_stream', 'the stream ended without its end mark', 0, requestId);
}
