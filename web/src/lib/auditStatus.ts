import type { Schema } from '../api/client';

export type Level = 'ok' | 'off' | 'warn' | 'bad';
export const parts = ['capture', 'shipping', 'sealing', 'witnesses', 'reconciliation', 'verification', 'retention'] as const;
export type Part = (typeof parts)[number];

const second = 1000;
const minute = 60 * second;
const hour = 60 * minute;

const rank: Level[] = ['off', 'ok', 'warn', 'bad'];

/** The worst of some levels; what is switched off or has not happened yet counts for nothing. */
export function worst(levels: Level[]): Level {
  return levels.reduce((a, b) => (rank.indexOf(b) > rank.indexOf(a) ? b : a), 'ok');
}

/** How each part of the audit log is doing. A level is a promise: bad means that somebody must act now, warn that somebody should look today. */
export function judge(s: Schema['AuditStatus']): Record<Part, Level> {
  const now = Date.parse(s.as_of); // ages are the server's, whatever clock the reader has
  const age = (at: string | undefined) => (at === undefined ? 0 : now - Date.parse(at));
  const trouble = (code: Schema['AuditTrouble']['code']) => s.problems.some((p) => p.code === code);
  const away = trouble('database');
  const late = (ms: number, warn: number, bad: number): Level => (ms > bad ? 'bad' : ms > warn ? 'warn' : 'ok');
  const lost = s.losses.some((l) => l.records > 0);
  const waits = age(s.oldest_waiting);
  return {
    capture: trouble('device') || lost ? 'bad' : s.modes.some((m) => m.mode === 'best-effort') ? 'warn' : 'ok',
    shipping: away ? 'bad' : late(waits, 30 * second, 5 * minute),
    sealing: trouble('rewritten') ? 'bad' : away ? 'off' : (s.unsealed ?? 0) > 0 ? late(age(s.checkpoint.seen_at ?? s.since), minute, 10 * minute) : 'ok',
    witnesses: trouble('cosignature') ? 'bad' : s.witnesses?.length ? worst(s.witnesses.map((w) => witnessLevel(w, now))) : 'off',
    reconciliation: away ? 'off' : s.reconciliation.open > 0 ? 'warn' : !s.reconciliation.finished_at ? 'off' : late(age(s.reconciliation.finished_at), 3 * hour, 24 * hour),
    verification: !s.verification ? 'off' : s.verification.ok ? 'ok' : 'bad',
    retention: 'ok', // for information: nothing about it is urgent
  };
}

/** A witness that is behind catches up within its own pause; one that never came, or stays away, watches nothing. */
export function witnessLevel(w: Schema['WitnessStanding'], now: number): Level {
  if (w.behind === 0) return 'ok';
  const away = w.time === undefined ? 10 * minute + 1 : now - Date.parse(w.time);
  return away > hour ? 'bad' : away > 10 * minute ? 'warn' : 'ok';
}
