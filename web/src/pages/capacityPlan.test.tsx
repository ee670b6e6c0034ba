import { cleanup, screen, waitFor } from '@testing-library/react';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';

import type { Schema } from '../api/client';
import { setUpLanguage } from '../i18n';
import { planOption } from '../lib/capacityPlan';
import { browser, json, press, server, show, signIn, write } from '../testkit';
import CapacityPlan from './CapacityPlan';

vi.mock('../components/Chart', () => ({ Chart: ({ label }: { label: string }) => <div role="img" aria-label={label} /> }));

beforeAll(browser);
beforeEach(() => setUpLanguage('en'));
afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
});

const decision: Schema['ScalingDecision'] = {
  at: '2026-11-20T10:00:00Z', ready: 3, starting: 1, draining: 0, failed: 0, rate: 12.5, slot: 'peak', floor: 2, wanted: 6, winner: 'rate', before: 3, target: 4, needs: { rate: 6 }, limits: ['max'], alarms: ['capacity_line'],
  line: 6, lead_seconds: 120, cost: 0, joules: 0, forecast: { low: 10, mid: 14, high: 19, at: 19, error: 0.1 },
};
const pool: Schema['ScaledPool'] = {
  pool: 'chat', min: 1, max: 4, head_room: 1.4, latest: decision, decisions: [decision],
  plan: [
    { at: '2026-11-20T10:00:00Z', slot: 'peak', floor: 2, instances: 3, forecast: decision.forecast },
    { at: '2026-11-20T10:15:00Z', slot: 'peak', floor: 2, instances: 4 },
  ],
};

describe('Capacity', () => {
  it('tells the line that is not carried, the reasons, and demands a number until a time', async () => {
    signIn({ permissions: ['capacity.read', 'capacity.write'] });
    const sent = server({ 'GET /scaling': () => json(200, { items: [pool] }), 'GET /capacity': () => json(200, { scheduled: false, instances: [] }), 'PUT /scaling/chat/override': () => json(204, undefined) });
    show(<CapacityPlan />);
    await screen.findByText('The pool does not carry 1.40 times its peak');
    screen.getByText('takes 6 instances, may have 4');
    expect(screen.getAllByText('Arriving requests').length).toBeGreaterThan(0);
    expect(screen.getAllByText(/of ten values eight lie between 10.00 and 19.00/)).toHaveLength(1);
    await press('Demanded by a person');
    write('Reason', 'a demonstration');
    await press('Demand', document.querySelector<HTMLElement>('.ant-modal')!);
    await waitFor(() => expect(sent.some((s) => s.method === 'PUT')).toBe(true));
    const body = sent.find((s) => s.method === 'PUT')!.body as { target: number; until: string; reason: string };
    expect(body.target).toBe(4);
    expect(body.reason).toBe('a demonstration');
    expect(Math.abs(Date.parse(body.until) - Date.now() - 2 * 3_600_000)).toBeLessThan(60_000);
  });

  it('says that nothing is scaled', async () => {
    signIn({ permissions: ['capacity.read'] });
    server({ 'GET /scaling': () => json(200, { items: [] }), 'GET /capacity': () => json(200, { scheduled: false, instances: [] }) });
    show(<CapacityPlan />);
    await screen.findByText(/No pool is scaled/);
    expect(screen.queryByText('Demanded by a person')).toBeNull();
  });

  it('draws what was and what is planned, and nothing where nothing is known', () => {
    const series = planOption(pool, 'en', { target: 't', plan: 'p', floor: 'f' }).series as { name: string; data: (number | null)[] }[];
    const of = (name: string) => series.find((s) => s.name === name)!.data;
    expect(of('p').slice(47, 50)).toEqual([null, 4, null]); // the more of both quarters
    expect(of('t').slice(47, 50)).toEqual([null, 4, null]);
  });
});
