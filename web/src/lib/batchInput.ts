/** What is wrong with a line of a batch, by the codes that the server has for it. */
export interface InputProblem {
  line: number; // 0: the whole file
  code: 'empty_file' | 'invalid_json_line' | 'missing_custom_id' | 'duplicate_custom_id' | 'invalid_method' | 'mismatched_url' | 'invalid_body' | 'streaming_not_supported';
}

export interface CheckedInput {
  lines: number;
  endpoint?: string; // that the first good line names
  models: string[]; // that lines ask for
  problems: InputProblem[]; // at most maxProblems
}

export const endpoints = ['/v1/chat/completions', '/v1/completions', '/v1/embeddings'];
const maxProblems = 20;

/** Looks at the lines of a batch before they are sent, as the server does: so that what it would refuse in a minute is seen at once. */
export function checkInput(text: string): CheckedInput {
  const out: CheckedInput = { lines: 0, models: [], problems: [] };
  const ids = new Set<string>();
  text.split('\n').forEach((raw, i) => {
    if (!raw.trim()) return;
    out.lines++;
    const code = lineProblem(raw, ids, out);
    if (code && out.problems.length < maxProblems) out.problems.push({ line: i + 1, code });
  });
  if (out.lines === 0) out.problems.push({ line: 0, code: 'empty_file' });
  return out;
}

const isObject = (v: unknown): v is Record<string, unknown> => typeof v === 'object' && v !== null && !Array.isArray(v);

function lineProblem(raw: string, ids: Set<string>, out: CheckedInput): InputProblem['code'] | undefined {
  let line: unknown;
  try {
    line = JSON.parse(raw);
  } catch {
    return 'invalid_json_line';
  }
  if (!isObject(line)) return 'invalid_json_line';
  if (typeof line.custom_id !== 'string' || line.custom_id === '') return 'missing_custom_id';
  if (line.method !== 'POST') return 'invalid_method';
  if (typeof line.url !== 'string' || !endpoints.includes(line.url)) return 'mismatched_url';
  out.endpoint ??= line.url;
  if (line.url !== out.endpoint) return 'mismatched_url';
  if (!isObject(line.body)) return 'invalid_body';
  if (line.body.stream === true) return 'streaming_not_supported';
  if (ids.has(line.custom_id)) return 'duplicate_custom_id';
  ids.add(line.custom_id);
  const model = line.body.model;
  if (typeof model === 'string' && !out.models.includes(model) && out.models.length < 5) out.models.push(model);
  return undefined;
}
