export interface ServerEvent {
  event: string;
  data: string;
  id: string;
}

/**
 * Reads a server-sent event stream. Events may be cut anywhere by the network, end their lines with LF, CRLF or CR, and hold
 * several data lines; comments keep the connection alive. An event that the end of the stream cuts off is dropped, as the
 * standard says. Leaving the loop cancels the stream, which tells the server to stop.
 */
export async function* readEvents(stream: ReadableStream<Uint8Array>): AsyncGenerator<ServerEvent> {
  const reader = stream.getReader();
  const decoder = new TextDecoder(); // drops a leading BOM, keeps a cut UTF-8 sequence until its rest arrives
  const parser = new EventParser();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      const text = done ? decoder.decode() : decoder.decode(value, { stream: true });
      yield* parser.push(text);
      if (done) return;
    }
  } finally {
    await reader.cancel().catch(() => undefined); // an aborted stream rejects; it is over either way
  }
}

class EventParser {
  private rest = '';
  private skipNewline = false; // the last line ended with CR; an LF that follows belongs to it
  private data: string[] = [];
  private event = '';
  private id = '';

  *push(text: string): Generator<ServerEvent> {
    let buffer = this.rest + text;
    if (this.skipNewline && text !== '') {
      if (text.startsWith('\n')) buffer = buffer.slice(1);
      this.skipNewline = false;
    }
    let start = 0;
    // the rest holds no line end, so a long line is scanned once however many pieces it comes in
    for (let i = this.rest.length; i < buffer.length; i++) {
      const c = buffer[i];
      if (c !== '\n' && c !== '\r') continue;
      const event = this.line(buffer.slice(start, i));
      if (c === '\r') {
        if (buffer[i + 1] === '\n') i++;
        else if (i + 1 === buffer.length) this.skipNewline = true;
      }
      start = i + 1;
      if (event) yield event;
    }
    this.rest = buffer.slice(start);
  }

  private line(line: string): ServerEvent | undefined {
    if (line === '') return this.dispatch();
    const colon = line.indexOf(':');
    if (colon === 0) return undefined; // a comment
    const field = colon < 0 ? line : line.slice(0, colon);
    let value = colon < 0 ? '' : line.slice(colon + 1);
    if (value.startsWith(' ')) value = value.slice(1);
    if (field === 'data') this.data.push(value);
    else if (field === 'event') this.event = value;
    else if (field === 'id' && !value.includes('\0')) this.id = value;
    return undefined; // retry and unknown fields: nothing reconnects here
  }

  private dispatch(): ServerEvent | undefined {
    const { data, event } = this;
    this.data = [];
    this.event = '';
    if (data.length === 0) return undefined;
    return { event: event || 'message', data: data.join('\n'), id: this.id };
  }
}
