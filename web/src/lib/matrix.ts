import type { Schema } from '../api/client';

export type Row = Schema['EngineMatrixRow'];
export type Cell = Schema['EngineMatrixCell'];

export const groups = ['conversation', 'tools', 'formats', 'sampling', 'media', 'operation', 'other'] as const;
export type Group = (typeof groups)[number];

const placed: Partial<Record<string, Group>> = {
  tools: 'tools',
  format: 'formats',
  sampling: 'sampling',
  logprobs: 'sampling',
  seed: 'sampling',
  in: 'media',
  out: 'media',
  ...Object.fromEntries(['chat', 'completions', 'embeddings', 'rerank', 'stream', 'usage', 'tokens', 'reasoning', 'choices', 'stop', 'echo'].map((f) => [f, 'conversation' as const])),
  ...Object.fromEntries(['hook', 'class', 'prefix', 'adapter', 'cancel', 'drain', 'batches'].map((f) => [f, 'operation' as const])),
};

/** Where a feature stands in the table. One that a newer server has stands under "other". */
export const groupOf = (feature: string): Group => placed[feature.split('.')[0]!] ?? 'other';

/** How a cell is shown: measured and claimed may be used, listed is what the engine says and nobody else, depends asks a condition. */
export type Shown = 'measured' | 'claimed' | 'listed' | 'depends' | 'no';

export function shownAs(cell: Cell): Shown {
  if (cell.usable === 'depends') return 'depends';
  if (cell.usable !== 'yes') return 'no';
  if (cell.status === 'listed') return 'listed';
  return cell.status === 'claimed' ? 'claimed' : 'measured';
}

/** A mode of execution as a cell. Its condition speaks of versions and devices, which only the server can compare. */
export function modeCell(row: Row, mode: string): Cell {
  const m = row.modes.find((x) => x.mode === mode);
  if (!m) return { feature: mode, status: 'missing', grade: 'E0', usable: 'no', why: 'missing' };
  const announced = m.status === 'roadmap';
  return { feature: mode, status: m.status, grade: m.grade, when: m.when, source: m.source, usable: announced ? 'no' : m.when ? 'depends' : 'yes', why: announced ? 'roadmap' : undefined };
}

export const missing = (feature: string): Cell => ({ feature, status: 'missing', grade: 'E0', usable: 'no', why: 'missing' });
export const cellOf = (row: Row, feature: string): Cell => row.cells.find((c) => c.feature === feature) ?? missing(feature);

export interface Ask {
  features: string[];
  tokens?: number; // of prompt and answer together
  least?: string; // grade
}

export interface Reason {
  kind: 'missing' | 'roadmap' | 'grade' | 'condition' | 'unknown' | 'listing' | 'depends' | 'tokens' | 'role' | 'state' | 'sick';
  feature?: string;
  detail?: string;
}

export interface Verdict {
  no: Reason[]; // why no such request goes there
  depends: Reason[]; // what has to hold for one to go there
}

/** What the router would decide of an instance, from the cells that the server sent. Which of those that are left gets the request, load decides. */
export function judge(row: Row, ask: Ask): Verdict {
  const out: Verdict = { no: [], depends: [] };
  if (row.state === 'sick') out.depends.push({ kind: 'sick' });
  else if (row.state !== 'ready') out.no.push({ kind: 'state', detail: row.state });
  if (row.roles && !row.roles.includes('joint')) out.no.push({ kind: 'role', detail: row.roles.join(', ') });
  if (ask.tokens && row.context_tokens && ask.tokens > row.context_tokens) out.no.push({ kind: 'tokens', detail: String(row.context_tokens) });
  for (const feature of new Set([...ask.features, ...(row.demanded ?? [])])) judgeCell(cellOf(row, feature), ask.least, out);
  return out;
}

function judgeCell(cell: Cell, least: string | undefined, out: Verdict) {
  const at = { feature: cell.feature, detail: cell.when };
  if (cell.why === 'demanded' || cell.why === 'role') return; // every cell says so, and the row's own demands and roles have said it already
  if (cell.usable === 'no') out.no.push({ ...at, kind: whys.find((w) => w === cell.why) ?? 'missing' });
  else if (least && cell.grade < least) out.no.push({ kind: 'grade', feature: cell.feature, detail: cell.grade });
  else if (cell.usable === 'depends') out.depends.push({ ...at, kind: 'depends' });
}

const whys = ['missing', 'roadmap', 'grade', 'condition', 'unknown', 'listing'] as const;

export interface Filter {
  pool?: string;
  vendor?: string;
  features: string[];
  usable: boolean; // only what can be used now
}

/** The instances that a filter leaves: with "usable", those that take requests now and can do all of the features, under a condition or not. */
export function filterRows(rows: Row[], f: Filter): Row[] {
  return rows.filter(
    (r) => (!f.pool || r.pool === f.pool) && (!f.vendor || r.device?.vendor === f.vendor) && (!f.usable || (r.state === 'ready' && judge(r, { features: f.features }).no.length === 0)),
  );
}

/** The features that a filter leaves: those chosen, or all; with "usable", without those that no instance shown can do. */
export function filterFeatures(all: string[], rows: Row[], f: Filter): string[] {
  const chosen = f.features.length > 0 ? all.filter((x) => f.features.includes(x)) : all;
  return f.usable ? chosen.filter((x) => rows.some((r) => cellOf(r, x).usable !== 'no')) : chosen;
}

export const rowKey = (r: Row) => `${r.pool}/${r.instance}/${r.model}`;
export const nameOf = (r: Row) => (r.pool === r.instance ? r.pool : `${r.pool}/${r.instance}`);
