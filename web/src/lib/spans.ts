import type { Schema } from '../api/client';

export type Span = Schema['MaskingSpan'];

export interface Piece {
  text: string;
  span?: Span;
}

/** Whether two ranges share a byte. */
const overlap = (a: Span, b: Span) => a.start < b.end && b.start < a.end;

/** Spans that can be shown side by side, in order: what is done to a text comes before what is only counted in it. The rest are those that overlap. */
export function layOut(spans: Span[]): { shown: Span[]; rest: Span[] } {
  const shown: Span[] = [];
  const rest: Span[] = [];
  for (const span of [...spans.filter((s) => s.action !== 'observe'), ...spans.filter((s) => s.action === 'observe')]) {
    (shown.some((s) => overlap(s, span)) ? rest : shown).push(span);
  }
  return { shown: shown.sort((a, b) => a.start - b.start), rest };
}

/** Cuts text at spans, whose offsets count UTF-8 bytes. Spans that overlap or lie outside are left out. */
export function cutAtSpans(text: string, spans: Span[]): Piece[] {
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

/** What masking leaves in a text: tokens ⟦…⟧, and labels 〔…〕 of what was hidden or became a digest. */
export function cutAtMarks(text: string): { text: string; mark: boolean }[] {
  return text
    .split(/(⟦[^⟦⟧]*⟧|〔[^〔〕]*〕)/)
    .map((part, i) => ({ text: part, mark: i % 2 === 1 }))
    .filter((p) => p.text);
}

export interface Change {
  class: string;
  start: number;
  before?: Span['action'];
  after?: Span['action'];
  count: number;
}

/** What two policies do differently to one text: a row for each class and pair of actions, in the order of the text. */
export function changes(before: Span[], after: Span[]): Change[] {
  const place = (s: Span) => `${s.class} ${s.start} ${s.end}`;
  const old = new Map(before.map((s) => [place(s), s]));
  const now = new Map(after.map((s) => [place(s), s]));
  const rows = new Map<string, Change>();
  for (const key of new Set([...old.keys(), ...now.keys()])) {
    const [b, a] = [old.get(key), now.get(key)];
    if (b?.action === a?.action) continue;
    const span = (a ?? b)!;
    const row = rows.get(`${span.class} ${b?.action} ${a?.action}`) ?? { class: span.class, start: span.start, before: b?.action, after: a?.action, count: 0 };
    rows.set(`${span.class} ${b?.action} ${a?.action}`, { ...row, start: Math.min(row.start, span.start), count: row.count + 1 });
  }
  return [...rows.values()].sort((x, y) => x.start - y.start);
}
