import { cleanup, screen, waitFor, within } from '@testing-library/react';
import dayjs from 'dayjs';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';

import type { Schema } from '../api/client';
import { MachineCosts } from '../components/MachineCosts';
import { RequestBill } from '../components/RequestBill';
import { session } from '../api/session';
import { setUpLanguage } from '../i18n';
import { barRows, barTotal, measured, stackOption } from '../lib/cost-chart';
import { exactNano } from '../lib/format';
import { browser, json, refusal, server, show, signIn } from '../testkit';
import Costs from './Costs';

vi.mock('../components/Chart', () => ({ Chart: ({ label }: { label: string }) => <div role="img" aria-label={label} /> }));

beforeAll(browser);
beforeEach(async () => {
  await setUpLanguage('en');
  signIn({ permissions: ['usage.read', 'capacity.read'] });
});
afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
});

const month = dayjs().format('YYYY-MM');
const before = dayjs().subtract(1, 'month').format('YYYY-MM');
type Row = Schema['EnergyReportRow'];
const row = (model: string, more: Partial<Row>): Row => ({ model, method: 'measured', requests: 1, unknown_requests: 0, prompt_tokens: 10, output_tokens: 100, cost_nano: 0, ...more });
const report = (of: string, rows: Row[], total: Partial<Row>): Schema['EnergyReport'] => ({ tenant: 'demo', month: of, state: 'provisional', currency: 'CNY', pue: 1, rows, total: row('', total) });

const now = report(
  month,
  [row('glm', { cost_nano: 1_234_567_891, energy_uj: 2_000_000, joules_per_1000_tokens: 20, tokens_per_joule: 50 }), row('glm', { method: '', unknown_requests: 1, cost_nano: 9 }), row('qwen', { cost_nano: 3_000_000_000, energy_uj: 500_000 })],
  { method: 'measured', requests: 3, unknown_requests: 1, output_tokens: 300, cost_nano: 4_234_567_900, energy_uj: 2_500_000 },
);
const then = report(before, [row('glm', { cost_nano: 100 })], { method: '', unknown_requests: 1, cost_nano: 100 });

const answers = {
  'GET /energy-report': ({ query }: { query: URLSearchParams }) => {
    const of = query.get('month');
    return of === month ? json(200, now) : of === before ? json(200, then) : refusal(404, 'not_found');
  },
  'GET /energy-factors': () => json(200, { items: [] }),
  'GET /cost-books': () => json(200, { items: [] }),
  'GET /cost-report': () => refusal(404, 'not_found'),
};

describe('Cost and energy', () => {
  it('has bars and rows that sum to the totals of the server, and no zero for what is unknown', () => {
    const bars = [{ name: before, report: then }, { name: month, report: now }, { name: 'none' }];
    const total = barTotal(bars)!;
    expect([total.cost_nano, total.energy_uj, total.requests, total.unknown_requests]).toEqual([4_234_568_000, 2_500_000, 4, 2]);
    expect([total.joules_per_1000_tokens, total.location_ug]).toEqual([undefined, undefined]);
    for (const measure of ['cost', 'energy', 'carbon'] as const) {
      const series = stackOption(bars, measure, 'CNY', 'en').series as { data: (number | null)[] }[];
      const stacked = series.flatMap((s) => s.data).reduce<number>((sum, v) => sum + (v ?? 0), 0);
      const listed = barRows(bars).reduce((sum, r) => sum + (measured(r, measure) ?? 0), 0);
      expect([stacked, listed], measure).toEqual([measured(total, measure) ?? 0, measured(total, measure) ?? 0]);
      if (measure === 'carbon') expect(series.flatMap((s) => s.data).every((v) => v === null)).toBe(true);
    }
  });

  it('adds rates up only where all energy is known', () => {
    const whole = report(month, [], { energy_uj: 4_000_000, output_tokens: 200, requests: 2 });
    expect(barTotal([{ name: 'a', report: whole }, { name: 'b', report: whole }])).toMatchObject({ energy_uj: 8_000_000, joules_per_1000_tokens: 20, tokens_per_joule: 50, requests_per_kilojoule: 500 });
  });

  it('shows the table with its total, and says unknown', async () => {
    server(answers);
    show(<Costs />);
    const table = await screen.findByRole('group', { name: 'Cost and energy' });
    await waitFor(() => expect(within(table).getAllByText('qwen')).toHaveLength(1));
    const cells = [...table.querySelectorAll<HTMLElement>('tbody [title$="CNY"]')].map((c) => c.title);
    const sum = [...table.querySelectorAll<HTMLElement>('tfoot [title$="CNY"]')].map((c) => c.title);
    expect(sum).toEqual([`${exactNano(4_234_568_000)} CNY`]);
    expect(cells.map((c) => Math.round(parseFloat(c) * 1e9)).reduce((a, b) => a + b, 0)).toBe(4_234_568_000);
    expect(within(table).getAllByText('unknown').length).toBeGreaterThan(3);
    expect(within(table).queryByText('0 J')).toBeNull();
    await screen.findByText(/No cost book was effective/);
  });

  it('asks for one report after the other, and for a total says that some is not known', async () => {
    const asked: string[] = [];
    const held: (() => void)[] = [];
    vi.spyOn(session, 'fetch').mockImplementation(async (request) => {
      const url = new URL(request.url);
      if (!url.pathname.endsWith('/energy-report')) return json(200, { items: [] });
      await new Promise<void>((answer) => held.push(answer));
      asked.push(url.searchParams.get('month')!);
      return answers['GET /energy-report']({ query: url.searchParams });
    });
    signIn({ permissions: ['usage.read'] });
    show(<Costs />);
    const table = await screen.findByRole('group', { name: 'Cost and energy' });
    for (let i = 0; i < 6; i++) {
      await waitFor(() => expect([asked.length, held.length]).toEqual([i, 1])); // the next one comes when the one before has its answer
      held.pop()!();
    }
    await waitFor(() => expect(within(table).getAllByText('unknown, at least 2.5 J')).toHaveLength(1));
    expect([asked.length, asked.at(-1), held.length]).toEqual([6, month, 0]);
  });

  it('shows what machines cost, and what of it is not known', async () => {
    const engine: Schema['CostEngine'] = {
      name: 'rack-a', models: ['glm'], requests: 4, repeated: 1, repeated_tokens: 9, answered: 3, good: 2, untimed: 0, prompt_tokens: 1, cached_tokens: 0, completion_tokens: 2, energy_uj: 0, energy_method: '', at_least_nano: 7_000_000_000,
      lines: [{ kind: 'rent', nano: 7_000_000_000, at_least_nano: 7_000_000_000, basis: 'declared' }, { kind: 'power_idle', at_least_nano: 0, missing: 'idle_watts' }],
      assumptions: [{ name: 'machines', value: '2', source: 'inventory 14', date: '2026-09-05' }],
    };
    const costs: Schema['CostReport'] = { month, from: '', until: '', whole: false, book: 'v3', book_digest: '', currency: 'CNY', engines: [engine], unassigned: [{ model: 'm3', requests: 1, tokens: 1 }] };
    server({ ...answers, 'GET /cost-books': () => json(200, { items: [{}] }), 'GET /cost-report': () => json(200, { after: costs, changes: [] }) });
    show(<MachineCosts month={month} />);
    await screen.findByText('rack-a · glm');
    const part = document.querySelector<HTMLElement>('section')!;
    within(part).getByText('unknown: idle_watts');
    within(part).getByText('unknown, at least ¥7.00');
    within(part).getByText('inventory 14');
    screen.getByText(/has the model m3/);
    within(part).getByText('3, 2 in time, 0 not known; 1 more were given again');
  });
});

describe('The bill of a request', () => {
  it('is explained line by line, with lines that sum to it', async () => {
    const bill: Schema['RequestBill'] = {
      request: 'r1', at: '2026-11-28T08:00:00Z', action: 'chat.completions', model: 'glm', price_book: 'v2', price_book_digest: 'ab'.repeat(32), currency: 'CNY', cost_nano: 4_700, estimated: true, energy_method: '',
      lines: [{ kind: 'input', quantity: 7, unit_price_nano: 100, amount_nano: 700 }, { kind: 'output', quantity: 4, unit_price_nano: 1000, amount_nano: 4000 }],
    };
    const sent = server({ 'GET /usage/r1': () => json(200, bill), 'GET /energy-factors': () => json(200, { items: [] }) });
    show(<RequestBill request="r1" tenant="acme" />);
    const table = await screen.findByRole('group', { name: 'Bill of the request' });
    const amounts = [...table.querySelectorAll('tr td:last-child')].map((c) => c.textContent);
    expect(amounts.filter(Boolean).slice(1)).toEqual(['0.0000007', '0.000004', '0.0000047']);
    screen.getByText('v2 · abababababab');
    screen.getByText('unknown'); // the energy
    screen.getByText(/estimated/);
    expect(sent.find((s) => s.path === '/usage/r1')?.query.get('tenant')).toBe('acme');
  });
});
