import type { Schema } from '../api/client';

/** Names a passage as a citation does. */
export type PassageRef = Pick<Schema['PassageRequest'], 'collection' | 'document_id' | 'version' | 'chunk'>;

/** The passage that a citation names, if it says enough. */
export function citedPassage(c: Schema['Citation']): PassageRef | undefined {
  if (!c.collection || !c.document_id || !c.version || c.chunk === undefined) return undefined;
  return { collection: c.collection, document_id: c.document_id, version: c.version, chunk: c.chunk };
}

/** Reads how audit records name a passage: collection/document@version#chunk. */
export function recordedPassage(name: string): PassageRef | undefined {
  const m = /^([^/]+)\/([^@]+)@([^#]+)#(\d+)$/.exec(name);
  return m ? { collection: m[1]!, document_id: m[2]!, version: m[3]!, chunk: Number(m[4]) } : undefined;
}

export type Part = { text: string } | { mark: string; citation: Schema['Citation'] };

/** Cuts an answer at its marks, such as [1] and [1, 2]; a number that no citation has is text. */
export function marksIn(answer: string, citations: Schema['Citation'][]): Part[] {
  const parts: Part[] = [];
  let text = '';
  const flush = () => {
    if (text) parts.push({ text });
    text = '';
  };
  for (const piece of answer.split(/(\[\d+(?:\s*[,，、]\s*\d+)*\])/)) {
    if (!/^\[\d/.test(piece)) {
      text += piece;
      continue;
    }
    for (const token of /^\[\d+\]$/.test(piece) ? [piece] : piece.split(/(\d+)/)) {
      const number = /^\[?(\d+)\]?$/.exec(token)?.[1];
      const citation = number && citations.find((c) => c.number === Number(number));
      if (!citation) {
        text += token;
        continue;
      }
      flush();
      parts.push({ mark: token, citation });
    }
  }
  flush();
  return parts;
}
