import { createParser, type EventSourceMessage } from 'eventsource-parser';

/**
 * Reads a server-sent event stream, which the network may cut anywhere. An event that the end of the stream cuts off is dropped, as the
 * standard says. Leaving the loop cancels the stream, which tells the server to stop.
 */
export async function* readEvents(stream: ReadableStream<Uint8Array>): AsyncGenerator<EventSourceMessage> {
  const reader = stream.getReader();
  const decoder = new TextDecoder(); // drops a leading BOM, keeps a cut UTF-8 sequence until its rest arrives
  const events: EventSourceMessage[] = [];
  const parser = createParser({ onEvent: (event) => events.push(event) });
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      parser.feed(decoder.decode(value, { stream: true }));
      yield* events.splice(0);
    }
  } finally {
    await reader.cancel().catch(() => undefined); // an aborted stream rejects; it is over either way
  }
}
