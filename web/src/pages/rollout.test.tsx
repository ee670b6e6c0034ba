import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { cleanup, configure, fireEvent, render, screen, waitFor, within } from '@testing-library/react';
import { App } from 'antd';
import { MemoryRouter, Route, Routes } from 'react-router';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';

import type { Schema } from '../api/client';
import { session, type SessionState } from '../api/session';
import { StartRollout } from '../components/StartRollout';
import { setUpLanguage } from '../i18n';
import { Unstyled } from '../testkit';
import Rollout from './Rollout';

const json = (status: number, body: unknown) => new Response(JSON.stringify(body), { status, headers: { 'content-type': 'application/json' } });

beforeAll(() => {
  configure({ asyncUtilTimeout: 30_000 }); // on a busy machine
  window.matchMedia ??= ((query: string) => ({ matches: false, media: query, addEventListener: () => {}, removeEventListener: () => {}, addListener: () => {}, removeListener: () => {} })) as unknown as typeof window.matchMedia;
  Element.prototype.scrollIntoView ??= () => {};
  vi.stubGlobal('ResizeObserver', class { observe() {} unobserve() {} disconnect() {} });
});
beforeEach(() => setUpLanguage('en'));
afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
});

const thresholds: Schema['RolloutThresholds'] = { min_requests: 4, max_error_rate_basis: 1000, error_margin_basis: 500, latency_quantile_basis: 9500, max_latency_ratio_percent: 150, latency_floor_ms: 50, promote_alpha: 0.01, abort_alpha: 0.01, looks: 4 };
const check = (over: Partial<Schema['RolloutMetric']>): Schema['RolloutMetric'] => ({
  name: 'error_rate', title: 'error rate against stable', unit: 'ratio', baseline: { value: 0, samples: 6 }, candidate: { value: 0.035, samples: 3 }, limit: 0.05, limit_text: 'at most 5 points above stable (5%)',
  state: 'unproven', proof: 'not proven yet to hold', broken_p: 1, broken_alpha: 0.001, holds_p: 0.3, holds_alpha: 0.01, ...over,
});
const evaluation: Schema['RolloutEvidence'] = {
  at: '2026-11-20T10:00:00Z', stage: 'canary-20', hash: 'ab12', kept: false, stable: { since: '2026-11-20T09:59:00Z', requests: 6, errors: 0, first_token_us: 100_000, total_us: 900_000 },
  candidate: { since: '2026-11-20T09:59:00Z', requests: 5, errors: 1, first_token_us: 120_000, total_us: 950_000 },
  metrics: [check({ needs: { stable: 400, candidate: 1200 } }), check({ name: 'total_latency', title: 'duration (P95)', unit: 'us', baseline: { value: 900_000, samples: 6 }, candidate: { value: 950_000, samples: 5 }, state: 'holds', limit: 1_350_000, limit_text: 'at most 1.5 times stable (1,350 ms)', proof: 'proven' })],
  thresholds, verdict: 'inconclusive', reason_code: 'error_rate', reason: 'error rate against stable: candidate 3.5%',
};
const running: Schema['Rollout'] = {
  id: 'r1', model: 'm', stable: 'v1', candidate: 'v2', phase: 'holding', step: 0, share_basis: 2000, steps: [20, 100], thresholds, dwell_seconds: 300, deadline_seconds: 7200, poll_seconds: 10, awaiting_approval: false,
  started_at: '2026-11-20T09:58:00Z', started_by: 'alice', entered_at: '2026-11-20T09:59:00Z', checked_at: evaluation.at, evidence: evaluation, verdict: 'inconclusive', reason: evaluation.reason, reason_code: evaluation.reason_code,
  history: [{ from: 'starting', to: 'baseline', share_basis: 0, at: '2026-11-20T09:58:00Z', actor: 'alice', by_system: false, reason: 'try it' }],
};

function show(rollout: Schema['Rollout']) {
  const state = { status: 'in', me: { id: 'u', name: 'ops', kind: 'user', tenant: 'demo', roles: [], labels: [], permissions: ['rollout.read', 'rollout.write'] } } as SessionState;
  vi.spyOn(session, 'snapshot').mockReturnValue(state);
  vi.spyOn(session, 'subscribe').mockReturnValue(() => {});
  vi.spyOn(session, 'fetch').mockImplementation(async () => json(200, rollout));
  render(
    <Unstyled>
      <App>
        <QueryClientProvider client={new QueryClient({ defaultOptions: { queries: { retry: false } } })}>
          <MemoryRouter initialEntries={['/rollouts/r1']}>
            <Routes>
              <Route path="/rollouts/:id" element={<Rollout />} />
            </Routes>
          </MemoryRouter>
        </QueryClientProvider>
      </App>
    </Unstyled>,
  );
}

describe('Rollout', () => {
  it('names what holds the step, and is green only when nothing does', async () => {
    show(running);
    expect((await screen.findByRole('status')).textContent).toMatch(/^Held by: error rate against stable/);
    expect(document.querySelectorAll('.ant-progress').length).toBe(2);
    expect(document.querySelectorAll('.ant-progress-status-success').length).toBe(0);
    cleanup();
    show({ ...running, phase: 'canary', verdict: 'same', reason: 'every limit is proven to hold', evidence: { ...evaluation, verdict: 'same' } });
    expect((await screen.findByRole('status')).textContent).toMatch(/^Every limit is proven to hold/);
    expect(document.querySelectorAll('.ant-progress-status-success').length).toBe(2);
  });

  it('shows the counts of the evaluation that was judged, every check with limit, state and forecast, and every threshold', async () => {
    show({ ...running, accept_losses: ['tools', 'context_tokens'] });
    await screen.findByText('tools, context_tokens');
    const text = (await screen.findByRole('region', { name: 'Traffic' })).textContent!;
    expect(text).toContain('6 requests (4 needed), 0 failed (0%)');
    expect(text).toContain('5 requests (4 needed), 1 failed (20%)');
    for (const limit of ['5 percentage points', '50 ms', 'P95', '150%']) expect(text).toContain(limit);
    const checks = within(screen.getByRole('group', { name: 'Checks' }));
    expect(checks.getByText('Allowed: at most 5 points above stable (5%)')).toBeTruthy();
    expect(checks.getByText('Not proven yet')).toBeTruthy();
    expect(checks.getByText(/Requests still needed, about: stable 400, candidate 1,200/)).toBeTruthy();
    expect(checks.getByText('950 ms')).toBeTruthy();
  });

  it('says what happened, when, by whom and why after the end, and keeps the evidence readable', async () => {
    const end = { from: 'canary-20', to: 'aborted', share_basis: 0, at: '2026-11-20T10:00:05Z', actor: 'bob', by_system: false, reason: 'phones ring', evidence: 'ab12', look: { ...evaluation, kept: true } };
    show({ ...running, phase: 'aborted', share_basis: 0, finished_at: end.at, evidence: { ...evaluation, kept: true }, history: [...running.history!, end] });
    const banner = (await screen.findByRole('status')).textContent!;
    for (const part of ['Aborted at Canary 20 %: v1 answers all traffic', 'bob', 'phones ring']) expect(banner).toContain(part);
    expect(banner).not.toContain('Held by');
    fireEvent.click(screen.getByText('What Canary 20 % was left on'));
    const kept = await screen.findByText('ab12');
    const text = kept.closest('.ant-collapse')!.textContent!;
    for (const part of ['5 requests, 1 failed (20%), first token P95 120 ms, duration P95 950 ms', 'Not proven yet', 'Errors above stable 5 percentage points']) expect(text).toContain(part);
    const names = screen.getAllByRole('region').map((r) => r.getAttribute('aria-label') ?? document.getElementById(r.getAttribute('aria-labelledby')!)!.textContent);
    expect(new Set(names).size, names.join()).toBe(names.length);
  });

  it.each([
    ['rolled_back', 'Rolled back at Canary 20 %', 'error'],
    ['failed', 'Failed at Canary 20 %', 'error'],
    ['completed', 'Completed: v2 answers all traffic', 'success'],
  ] as const)('tells %s from the others', async (phase, title, kind) => {
    const end = { from: 'canary-20', to: phase, share_basis: 0, at: '2026-11-20T10:00:05Z', actor: 'rollout', by_system: true, reason: 'the deadline of the step passed', reason_code: 'deadline' };
    show({ ...running, phase, history: [end] });
    const banner = await screen.findByRole('status');
    expect(banner.textContent).toContain(title);
    expect(banner.textContent).toContain('the rollout itself');
    expect(banner.textContent).toContain('The deadline of the step passed');
    expect(banner.className).toContain(`ant-alert-${kind}`);
  });

  it('shows the interval of every gate over the steps, the next analysis, and that a trial is one', async () => {
    const gate = check({ name: 'total_p95', title: 'duration (P95)', unit: 'us', interval: { value: 0.01, low: -0.02, high: 0.04, limit: 0.05 } });
    const left = { ...evaluation, kept: true, look: 2, looks: 3, hash: 'cd34', metrics: [gate] };
    const move = { from: 'canary-20', to: 'canary-40', share_basis: 4000, at: '2026-11-20T10:00:05Z', actor: 'rollout', by_system: true, reason: 'proven', look: left };
    show({ ...running, preset: 'trial', without: [{ gate: 'accuracy', reason: 'no suite yet' }], next_analysis_at: '2026-11-21T10:00:00Z', history: [...running.history!, move], evidence: { ...evaluation, metrics: [{ ...gate, interval: { ...gate.interval!, high: 0.2 } }] } });
    const course = within(await screen.findByRole('region', { name: 'Intervals over the steps' }));
    expect(course.getByText('-2% … +4%')).toBeTruthy();
    expect(course.getByText('-2% … +20%')).toBeTruthy();
    const text = screen.getByRole('region', { name: 'Traffic' }).textContent!;
    for (const part of ['A trial', 'no suite yet', 'The next planned analysis']) expect(text).toContain(part);
  });

  it('speaks of one request', async () => {
    show({ ...running, evidence: { ...evaluation, stable: { ...evaluation.stable, requests: 1 } } });
    expect((await screen.findByRole('region', { name: 'Traffic' })).textContent).toContain('1 request (4 needed)');
  });
});

describe('StartRollout', () => {
  it('shows every threshold with unit, default and a sentence, and sends them all', async () => {
    const sent: Record<string, unknown>[] = [];
    vi.spyOn(session, 'fetch').mockImplementation(async (request) => {
      if (request.method === 'POST') {
        sent.push((await request.clone().json()) as Record<string, unknown>);
        return json(201, running);
      }
      return json(200, { items: [{ name: 'm', stable: 'v1', versions: [{ model: 'm', version: 'v1' }, { model: 'm', version: 'v2' }] }] });
    });
    render(
      <QueryClientProvider client={new QueryClient()}>
        <MemoryRouter>
          <StartRollout onClose={() => {}} />
        </MemoryRouter>
      </QueryClientProvider>,
    );
    const pick = async (label: string, text: string) => {
      fireEvent.mouseDown(screen.getByLabelText(label));
      fireEvent.click((await screen.findAllByText(text)).at(-1)!);
    };
    expect(document.querySelector<HTMLInputElement>('#dwell_seconds')!.value).toBe('259200'); // three days, in the preset standard
    expect(document.querySelector('#margin_percent')).toBeNull();
    await pick('Preset', 'Trial');
    await waitFor(() => expect(document.querySelector('#margin_percent')).toBeTruthy());
    for (const [id, value] of Object.entries({ min_requests: '50', error_percent: '5', margin_percent: '5', latency_percent: '150', quantile_percent: '95', floor_ms: '50', promote_percent: '1', abort_percent: '1' })) {
      const input = document.querySelector<HTMLInputElement>(`#${id}`)!;
      expect(input.value, id).toBe(value);
      const item = input.closest('.ant-form-item')!.textContent!;
      expect(item, id).toMatch(/\((requests|%|percentage points|ms)\)/);
      expect(item, id).toMatch(/[a-z]{3,}.*\. Default [\d,]+ /);
    }
    const choose = async (label: string, text: string) => {
      const input = screen.getByLabelText(label);
      await waitFor(() => expect((input as HTMLInputElement).disabled).toBe(false));
      fireEvent.mouseDown(input);
      fireEvent.click((await screen.findAllByText(text)).at(-1)!);
    };
    await choose('Model', 'm');
    await choose('Candidate version', 'v2');
    fireEvent.change(screen.getByLabelText('Accepted losses'), { target: { value: 'tools, context_tokens,' } });
    fireEvent.change(document.querySelector('#margin_percent')!, { target: { value: '1.5' } });
    fireEvent.change(document.querySelector('#promote_percent')!, { target: { value: '0.1' } });
    fireEvent.click([...document.querySelectorAll('button')].find((b) => b.textContent === 'Start rollout')!);
    await waitFor(() => expect(sent.length).toBe(1));
    expect(sent[0]).toMatchObject({ model: 'm', candidate: 'v2', preset: 'trial', min_requests: 50, max_error_rate_basis: 500, error_margin_basis: 150, max_latency_ratio_percent: 150, latency_quantile_basis: 9500, latency_floor_ms: 50, promote_alpha: 0.001, abort_alpha: 0.01, poll_seconds: 10, accept_losses: ['tools', 'context_tokens'] });
  }, 120_000); // opening lists takes long on a busy machine
});
