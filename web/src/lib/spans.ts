import type { Schema } from '../api/client';

export interface Piece {
  text: string;
  span?: Schema['MaskingSpan'];
}

/** Cuts text at spans, whose offsets count UTF-8 bytes. Spans that overlap or lie outside are left out. */
export function cutAtSpans(text: string, spans: Schema['MaskingSpan'][]): Piece[] {
  const bytes = new TextEncoder().encode(text);
  const decode = (from: number, to: number) => new TextDecoder().decode(bytes.subarray(from, to));
  const pieces: Piece[] = [];
  let at = 0;
  for (const span of [...spans].sort((a, b) => a.start - b.start)) {
    if (span.start < at || span.end <= span.start || span.end > bytes.length) continue;
    if (span.start > at) pieces.push({ text: decode(at, span.start) });
    pieces.push({ text: decode(span.start, span.end), span });
    at = span.end;
  }
  if (at < bytes.length) pieces.push({ text: decode(at, bytes.length) });
  return pieces;
}
