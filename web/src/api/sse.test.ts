import { describe, expect, it, vi } from 'vitest';

import { chatEvents } from './chat';
import { ApiError } from './errors';
import { readEvents } from './sse';

const bytes = (text: string) => new TextEncoder().encode(text);

function streamOf(parts: Uint8Array[], onCancel = () => {}): ReadableStream<Uint8Array> {
  const queue = [...parts];
  return new ReadableStream({
    pull(controller) {
      const next = queue.shift();
      if (next) controller.enqueue(next);
      else controller.close();
    },
    cancel: onCancel,
  });
}

async function collect<T>(events: AsyncIterable<T>): Promise<T[]> {
  const out: T[] = [];
  for await (const event of events) out.push(event);
  return out;
}

const text = ': hello\r\ndata: 一🙂\ndata:two\r\n\r\nevent: note\rid: 7\rdata: {"a":1}\r\rretry: 5\ndata\n\nunknown: x\n\ndata:  spaced\n\ndata: cut off';
const want = [{ data: '一🙂\ntwo' }, { event: 'note', data: '{"a":1}', id: '7' }, { data: '' }, { data: ' spaced' }];

describe('readEvents', () => {
  it('gives the same events however the bytes are split', async () => {
    const all = bytes(text);
    for (let size = 1; size <= all.length; size++) {
      const parts: Uint8Array[] = [];
      for (let i = 0; i < all.length; i += size) parts.push(all.slice(i, i + size));
      expect(await collect(readEvents(streamOf(parts))), `pieces of ${size}`).toEqual(want);
    }
  });

  it('gives the same events for every single cut', async () => {
    const all = bytes(text);
    for (let i = 0; i <= all.length; i++) {
      expect(await collect(readEvents(streamOf([all.slice(0, i), all.slice(i)]))), `cut at ${i}`).toEqual(want);
    }
  });

  it('drops a byte order mark', async () => {
    expect(await collect(readEvents(streamOf([bytes('\ufeffdata: x\n\n')])))).toEqual([{ data: 'x' }]);
  });

  it('reads a long line that comes in many pieces', async () => {
    const parts = [bytes('data: '), ...Array.from({ length: 2000 }, () => bytes('x'.repeat(100))), bytes('\n\n')];
    const [event] = await collect(readEvents(streamOf(parts)));
    expect(event?.data.length).toBe(200_000);
  });

  it('cancels the stream when the loop is left', async () => {
    const cancelled = vi.fn();
    for await (const event of readEvents(streamOf([bytes('data: a\n\n'), bytes('data: b\n\n')], cancelled))) {
      expect(event.data).toBe('a');
      break;
    }
    expect(cancelled).toHaveBeenCalledOnce();
  });

  it('passes an abort on', async () => {
    const abort = new DOMException('stopped', 'AbortError');
    const stream = new ReadableStream<Uint8Array>({ pull: (controller) => controller.error(abort) });
    await expect(collect(readEvents(stream))).rejects.toBe(abort);
  });
});

describe('chatEvents', () => {
  const sse = (...chunks: (object | string)[]) =>
    streamOf([bytes(chunks.map((c) => `data: ${typeof c === 'string' ? c : JSON.stringify(c)}\n\n`).join(''))]);

  it('reads text, finish, extension and usage up to the end mark', async () => {
    const events = await collect(
      chatEvents(
        sse(
          { choices: [{ delta: { role: 'assistant' } }] },
          { choices: [{ delta: { content: 'Hi' } }] },
          { choices: [{ delta: {}, finish_reason: 'stop' }], sluice: { receipt: 'r1' } },
          { choices: [], usage: { prompt_tokens: 3, completion_tokens: 1 } },
          '[DONE]',
          { choices: [{ delta: { content: 'never' } }] },
        ),
        'q',
      ),
    );
    expect(events).toEqual([
      { kind: 'text', text: 'Hi' },
      { kind: 'finish', reason: 'stop' },
      { kind: 'extension', extension: { receipt: 'r1' } },
      { kind: 'usage', usage: { prompt_tokens: 3, completion_tokens: 1 } },
    ]);
  });

  it('throws the error that the stream carries', async () => {
    const error = await collect(chatEvents(sse({ error: { message: 'gone', code: 'engine_unavailable', type: 'server_error' } }), 'q')).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(ApiError);
    expect(error).toMatchObject({ code: 'engine_unavailable', detail: 'gone', requestId: 'q' });
  });

  it('reads why there is no answer like one', async () => {
    const events = await collect(chatEvents(sse({ choices: [{ delta: { refusal: 'Not here.' }, finish_reason: 'stop' }] }, '[DONE]'), 'q'));
    expect(events).toEqual([
      { kind: 'text', text: 'Not here.' },
      { kind: 'finish', reason: 'stop' },
    ]);
  });

  it('does not take a cut stream for an answer', async () => {
    await expect(collect(chatEvents(sse({ choices: [{ delta: { content: 'Hal' } }] }), 'q'))).rejects.toMatchObject({ code: 'client_stream' });
  });

  it('refuses an event that is not JSON', async () => {
    await expect(collect(chatEvents(sse('{"choices":'), 'q'))).rejects.toMatchObject({ code: 'client_stream' });
  });
});
