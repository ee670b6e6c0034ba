import { cleanup, screen, waitFor } from '@testing-library/react';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';

import type { Schema } from '../api/client';
import { marksOf } from '../components/WaterMarks';
import { setUpLanguage } from '../i18n';
import { hoursOption, requestsOf, worst } from '../lib/serviceLevel';
import { browser, json, press, server, show, signIn } from '../testkit';
import ServiceLevel from './ServiceLevel';

beforeAll(browser);
beforeEach(() => setUpLanguage('en'));
afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
});

const spread = { requests: 990, p50_us: 200_000, p95_us: 410_000, p99_us: 812_000, p999_us: 1_900_000, jitter: 1.05 };
const line: Schema['ServiceLevelLine'] = {
  model: 'm', requests: 1000, answered: 990, failures: 10, refused: 0, left: 0, fallbacks: 0, judged: 1000, good: 950, availability: 0.99, failure_rate: 0.01, good_share: 0.95, goodput: 0.25,
  first_token: spread, total: { ...spread, p95_us: 5_200_000 }, burning: 'fast',
  budgets: [
    { of: 'first_token', requests: 990, missed: 1, allowed: 49.5, left: 0.98, burn_1h: 0.02, burning: '' },
    { of: 'availability', requests: 1000, missed: 10, allowed: 1, left: -9, burn_1h: 20, burn_6h: 12, burn_3d: 10, burning: 'fast' },
  ],
};
const still: Schema['ServiceLevelLine'] = { model: 'n', requests: 7, answered: 0, failures: 0, refused: 7, left: 0, fallbacks: 0, judged: 0, good: 0, budgets: [], burning: '' };
const report: Schema['ServiceLevel'] = {
  from: '2026-11-20T08:00:00Z', to: '2026-11-20T10:00:00Z', zone: 'UTC', counted_from: '2026-11-01T00:00:00Z', as_of: '2026-11-20T10:00:00Z', budget_from: '2026-10-21T10:00:00Z', budget_to: '2026-11-20T10:00:00Z',
  objectives: [{ availability: 99.9 }], hours_over: 2, hours_with_traffic: 1, lines: [line, still], total: { ...line, model: undefined, requests: 1007, refused: 7 },
  hours: [{ at: '2026-11-20T08:00:00Z', requests: 1007, failures: 10, availability: 0.99, first_token_p95_us: 410_000, total_p95_us: 5_200_000 }, { at: '2026-11-20T09:00:00Z', requests: 0, failures: 0 }],
};

describe('Service level', () => {
  it('says first what burns, shows the numbers of the API, and leads from them to their requests', async () => {
    signIn({ permissions: ['usage.read', 'audit.read'] });
    server({ 'GET /sla': () => json(200, report) });
    show(<ServiceLevel />);
    const alert = await screen.findByText(/m: Availability, burn rates 20.00 \/ 12.00 \/ 10.00/);
    const rows = [...document.querySelectorAll('tbody tr, tfoot tr')].map((r) => r.textContent);
    expect(alert.compareDocumentPosition(document.querySelector('table')!) & Node.DOCUMENT_POSITION_FOLLOWING).toBeTruthy();
    const shown = rows.find((r) => r.startsWith('m'))!;
    for (const figure of ['1,000', '99%', '410 ms', '812 ms', '1.9 s', '5.2 s', '1.05', '0.25 /s', '-900%']) expect(shown, figure).toContain(figure);
    expect(rows.find((r) => r.startsWith('n'))).toContain('no data');
    expect(rows.find((r) => r.startsWith('n'))).not.toContain('100%');
    const links = [...document.querySelectorAll('tbody a')].map((a) => a.getAttribute('href'));
    expect(links).toHaveLength(2); // of the two models; failures and the total have no such list
    expect(links[0]).toBe('/audit?stage=outcome&from=2026-11-20T08%3A00%3A00Z&to=2026-11-20T10%3A00%3A00Z&model=m');
    expect(document.querySelectorAll('tfoot a')).toHaveLength(0);
    await press('Show as a table');
    await waitFor(() => expect([...document.querySelectorAll('table')].at(-1)!.textContent).toContain('no data'));
  });

  it('asks the server with what the filters say', async () => {
    signIn({ permissions: ['usage.read', 'capacity.read'] });
    const sent = server({ 'GET /sla': () => json(200, { ...report, objectives: [], lines: [still], total: still }) });
    show(<ServiceLevel />);
    await screen.findByText('No objective is set');
    expect([...document.querySelectorAll('tbody a')]).toHaveLength(0); // who may not read the log gets no link into it
    const q = sent[0]!.query;
    expect(Date.parse(q.get('to')!) - Date.parse(q.get('from')!)).toBe(24 * 3_600_000);
    expect(q.get('group_by')).toBe('model');
    expect(q.get('tenant')).toBeNull();
  });

  it('makes no bar of an hour without data, and no link to what the log cannot list', () => {
    const series = (hoursOption(report.hours, 'failures', 'en').series as { data: unknown[] }[])[0]!;
    expect(series.data).toEqual([10, null]);
    expect(requestsOf({ ...still, model: '' }, report)).toBeUndefined();
    expect(requestsOf({ ...still, class: 'batch' }, report)).toBeUndefined();
    expect(worst(line)?.of).toBe('availability');
  });

  it('tells what is not reported from nothing', () => {
    const instance = { pool: 'a', name: 'a', kind: 'remote', state: 'ready', since: '', weight: 1, draining: false, configured: true, running: 0, models: [] } as unknown as Schema['Instance'];
    const [silent, page, own] = marksOf(
      [instance, { ...instance, name: 'b', metrics: { requests_waiting: 0, kv_usage_ratio: 0.5 } }, { ...instance, name: 'c' }],
      [{ name: 'c', kind: 'worker', state: 'ready', models: [{ model: 'm', running_sequences: 1, waiting_sequences: 3, kv_pages: 10, kv_pages_in_use: 4 }] }],
    );
    expect([silent!.waiting, silent!.kv]).toEqual([undefined, undefined]);
    expect([page!.waiting, page!.kv]).toEqual([0, 0.5]);
    expect([own!.waiting, own!.kv]).toEqual([3, 0.4]);
  });
});
