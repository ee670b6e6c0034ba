import { describe, expect, it } from 'vitest';

import type { Schema } from '../api/client';
import { judge, type Part, witnessLevel, worst } from './auditStatus';

const now = '2026-11-22T03:00:00Z';
const before = (seconds: number) => new Date(Date.parse(now) - seconds * 1000).toISOString();

const fine: Schema['AuditStatus'] = {
  as_of: now,
  since: before(86_400),
  whole: true,
  checkpoint: { size: 100, root: 'r', seen_at: before(7200) },
  waiting: 0,
  unsealed: 0,
  problems: [],
  witnesses: [],
  modes: [{ tenant: '', mode: 'strict' }],
  losses: [],
  reconciliation: { running: false, open: 0, finished_at: before(1800) },
  verification: { finished_at: before(3600), ok: true, records: 100, problems: 0 },
  verifying: false,
  retention: { records_days: 190, sensitive_days: 1096, archives: true, least_index: 0 },
};

describe('the state of the audit log', () => {
  it('is in order when nothing is wrong, however old the last checkpoint of a quiet log is', () => {
    expect(judge(fine)).toEqual({ capture: 'ok', shipping: 'ok', sealing: 'ok', witnesses: 'off', reconciliation: 'ok', verification: 'ok', retention: 'ok' });
    expect(worst(Object.values(judge(fine)))).toBe('ok');
  });

  const cases: [string, Partial<Schema['AuditStatus']>, Partial<Record<Part, string>>][] = [
    ['a disk fails', { problems: [{ code: 'device' }] }, { capture: 'bad' }],
    ['records were lost', { losses: [{ tenant: 'a', records: 1 }] }, { capture: 'bad' }],
    ['somebody chose to answer without records', { modes: [{ tenant: '', mode: 'strict' }, { tenant: 'a', mode: 'best-effort' }] }, { capture: 'warn' }],
    ['the database is away', { problems: [{ code: 'database' }], witnesses: undefined, oldest_waiting: before(1) }, { shipping: 'bad', sealing: 'off', witnesses: 'off', reconciliation: 'off' }],
    ['records have just been written', { oldest_waiting: before(2), waiting: 3 }, {}],
    ['records wait a minute', { oldest_waiting: before(60), waiting: 3 }, { shipping: 'warn' }],
    ['records wait long', { oldest_waiting: before(600), waiting: 3 }, { shipping: 'bad' }],
    ['the database was rewritten', { problems: [{ code: 'rewritten' }] }, { sealing: 'bad' }],
    ['nothing is sealed while records come', { unsealed: 5 }, { sealing: 'bad' }],
    ['sealing is slow', { unsealed: 5, checkpoint: { size: 1, seen_at: before(120) } }, { sealing: 'warn' }],
    ['it was sealed just now', { unsealed: 5, checkpoint: { size: 1, seen_at: before(1) } }, {}],
    ['a cosignature does not hold', { problems: [{ code: 'cosignature' }], witnesses: undefined }, { witnesses: 'bad' }],
    ['findings are open', { reconciliation: { running: false, open: 2, finished_at: before(60) } }, { reconciliation: 'warn' }],
    ['nobody reconciles', { reconciliation: { running: false, open: 0, finished_at: before(4 * 3600) } }, { reconciliation: 'warn' }],
    ['nobody reconciled for days', { reconciliation: { running: false, open: 0, finished_at: before(3 * 86_400) } }, { reconciliation: 'bad' }],
    ['it never did', { reconciliation: { running: false, open: 0 } }, { reconciliation: 'off' }],
    ['verification failed', { verification: { finished_at: now, ok: false, records: 1, problems: 1 } }, { verification: 'bad' }],
    ['nothing is ever archived', { retention: { records_days: 190, sensitive_days: 1096, archives: false } }, {}],
    ['nobody verified', { verification: undefined }, { verification: 'off' }],
  ];
  it.each(cases)('%s', (_, change, want) => {
    expect(judge({ ...fine, ...change })).toEqual({ ...judge(fine), ...want });
  });

  it('says of a witness how long it was away, not how much came meanwhile', () => {
    const at = Date.parse(now);
    expect(witnessLevel({ witness: 'w', size: 90, behind: 0, time: before(1e6) }, at)).toBe('ok');
    expect(witnessLevel({ witness: 'w', size: 90, behind: 10_000, time: before(60) }, at)).toBe('ok');
    expect(witnessLevel({ witness: 'w', size: 90, behind: 1, time: before(900) }, at)).toBe('warn');
    expect(witnessLevel({ witness: 'w', size: 90, behind: 1, time: before(7200) }, at)).toBe('bad');
    expect(witnessLevel({ witness: 'w', size: 0, behind: 100 }, at)).toBe('warn');
  });
});
