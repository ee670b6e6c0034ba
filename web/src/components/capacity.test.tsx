import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { cleanup, configure, fireEvent, render, screen, waitFor } from '@testing-library/react';
import type { ReactNode } from 'react';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';

import { session, type SessionState } from '../api/session';
import { setUpLanguage } from '../i18n';
import { outlook, type Schedule } from '../lib/schedule';
import { Unstyled } from '../testkit';
import { Capacity } from './Capacity';
import { Models } from './Models';

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

const shell = ({ children }: { children: ReactNode }) => (
  <Unstyled>
    <QueryClientProvider client={new QueryClient({ defaultOptions: { queries: { retry: false } } })}>{children}</QueryClientProvider>
  </Unstyled>
);

const button = (name: string) => [...document.querySelectorAll('button')].reverse().find((b) => b.textContent === name);
const press = (name: string) => fireEvent.click(button(name)!);
const field = (id: string) => document.querySelector<HTMLInputElement>(`#${id}`)!;

/** Answers every request with the capacity that is asked for, and notes what was sent. */
function open(answers: Record<string, unknown>) {
  const sent: { method: string; body?: Schedule }[] = [];
  const state = { status: 'in', me: { id: 'u', name: 'ops', kind: 'user', tenant: 'demo', roles: [], labels: [], permissions: ['capacity.read', 'capacity.write'] } } as SessionState;
  vi.spyOn(session, 'snapshot').mockReturnValue(state);
  vi.spyOn(session, 'subscribe').mockReturnValue(() => {});
  vi.spyOn(session, 'fetch').mockImplementation(async (request) => {
    const text = await request.clone().text();
    sent.push({ method: request.method, body: text ? (JSON.parse(text) as Schedule) : undefined });
    return json(200, { instances: [], ...(answers[request.method] as object) });
  });
  render(<Capacity />, { wrapper: shell });
  return sent;
}

const office: Schedule = { timezone: 'Asia/Shanghai', peak: [{ days: [1, 2, 3, 4, 5], from: '08:00', to: '22:00' }], peak_concurrency: 64, valley_concurrency: 32 };

describe('Capacity', () => {
  it('shows the slots and the memory of each engine, as far as it reports them', async () => {
    const load = { model: 'chat', running_sequences: 3, waiting_sequences: 1, kv_pages: 1000, kv_pages_in_use: 250 };
    open({
      GET: {
        scheduled: false,
        instances: [
          { name: 'native', kind: 'native', state: 'ready', concurrency_limit: 64, models: [{ ...load, kv_page_bytes: 2 ** 20 }] },
          { name: 'old', kind: 'worker', state: 'ready', models: [load] },
          { name: 'gone', kind: 'worker', state: 'unreachable', models: [] },
        ],
      },
    });
    await screen.findByText('Ready · 64 slots');
    await screen.findByText('chat: 3 running, 1 waiting, 250 of 1,000 KV pages · 250 of 1,000 MiB');
    await screen.findByText('chat: 3 running, 1 waiting, 250 of 1,000 KV pages');
    await screen.findByText('Does not answer');
    for (const name of ['Engine native', 'Engine old', 'Engine gone']) await screen.findByText(name);
  });

  it('begins with what holds now, and sends every day as no day', async () => {
    const sent = open({ GET: { scheduled: false, concurrency: 64, configured: 64 }, PUT: { scheduled: true, schedule: office, phase: 'peak', concurrency: 64, configured: 64 } });
    await screen.findByText('Set schedule');
    expect(button('Remove schedule')).toBeUndefined();
    press('Set schedule');
    await waitFor(() => expect(field('peak_concurrency').value).toBe('64'));
    expect(field('valley_concurrency').value).toBe('64');
    expect(await screen.findByText(/^Saving sets 64 requests at once now \((Peak|Valley)\); until now 64\.$/)).toBeTruthy();
    fireEvent.change(field('valley_concurrency'), { target: { value: '40' } });
    expect(await screen.findByText(/(64 → 40|40 → 64) at once (today|tomorrow) at (08|20):00/)).toBeTruthy();
    press('Save');
    await waitFor(() => expect(sent.at(-1)?.method).toBe('PUT'));
    expect(sent.at(-1)!.body).toMatchObject({ peak: [{ from: '08:00', to: '20:00' }], peak_concurrency: 64, valley_concurrency: 40 });
    expect(sent.at(-1)!.body!.peak[0]).not.toHaveProperty('days');
  });

  it('asks before it throttles the engine', async () => {
    const sent = open({ GET: { scheduled: false, concurrency: 64, configured: 64 }, PUT: { scheduled: true, schedule: office, phase: 'peak', concurrency: 64, configured: 64 } });
    await screen.findByText('Set schedule');
    press('Set schedule');
    await waitFor(() => expect(field('valley_concurrency')).toBeTruthy());
    fireEvent.change(field('valley_concurrency'), { target: { value: '1' } });
    press('Save');
    expect(await screen.findByText('Only 1 of now 64 requests at once?')).toBeTruthy();
    expect(sent.map((s) => s.method)).toEqual(['GET']);
    press('Save all the same');
    await waitFor(() => expect(sent.at(-1)?.method).toBe('PUT'));
  });

  it('says that more than the configuration admits nothing more', async () => {
    open({ GET: { scheduled: false, concurrency: 64, configured: 64 } });
    await screen.findByText('Set schedule');
    press('Set schedule');
    await waitFor(() => expect(field('peak_concurrency')).toBeTruthy());
    fireEvent.change(field('peak_concurrency'), { target: { value: '100' } });
    expect(await screen.findByText(/configured for 64 requests at once/)).toBeTruthy();
  });

  it('removes the schedule after it was asked', async () => {
    const free = { scheduled: false, concurrency: 64, configured: 64 };
    const sent = open({ GET: { scheduled: true, schedule: office, phase: 'valley', concurrency: 32, configured: 64 }, DELETE: free });
    await screen.findByText('Remove schedule');
    press('Remove schedule');
    await screen.findByText(/The configured 64 requests at once hold again/);
    expect(sent.map((s) => s.method)).toEqual(['GET']);
    press('Remove schedule');
    expect(await screen.findByText('None: capacity stays as configured.')).toBeTruthy();
    expect(sent.at(-1)!.method).toBe('DELETE');
  });

  it('needs a day', async () => {
    const sent = open({ GET: { scheduled: true, schedule: office, phase: 'peak', concurrency: 64, configured: 64 } });
    await screen.findByText('Change schedule');
    press('Change schedule');
    await waitFor(() => expect(document.querySelectorAll('.window input[type=checkbox]').length).toBe(7));
    for (const box of document.querySelectorAll<HTMLInputElement>('.window input[type=checkbox]:checked')) fireEvent.click(box);
    press('Save');
    expect(await screen.findByText('Choose at least one day.')).toBeTruthy();
    expect(sent.map((s) => s.method)).toEqual(['GET']);
  });
});

describe('Models', () => {
  it('gives every landmark a name of its own', async () => {
    vi.spyOn(session, 'fetch').mockImplementation(async () => json(200, { items: [] }));
    render(<Models />, { wrapper: shell });
    const names = (await screen.findAllByRole('region')).map((r) => r.getAttribute('aria-label') ?? document.getElementById(r.getAttribute('aria-labelledby')!)!.textContent);
    expect(names).toEqual(['Models and versions']);
  });
});

describe('outlook', () => {
  const at = (utc: string) => new Date(`${utc}Z`);
  it('follows the clock of the zone of the schedule', () => {
    // 2026-11-02 is a Monday; Shanghai is eight hours ahead of UTC.
    expect(outlook(office, at('2026-11-02T00:00:00'))).toEqual({ slot: 'peak', count: 64, next: { slot: 'valley', count: 32, days: 0, at: '22:00' } });
    expect(outlook(office, at('2026-11-02T14:00:00'))).toEqual({ slot: 'valley', count: 32, next: { slot: 'peak', count: 64, days: 1, at: '08:00' } });
    expect(outlook(office, at('2026-11-06T15:00:00'))).toEqual({ slot: 'valley', count: 32, next: { slot: 'peak', count: 64, days: 3, at: '08:00' } });
  });
  it('knows windows that pass midnight, and schedules that never change', () => {
    const night: Schedule = { ...office, peak: [{ days: [5], from: '22:00', to: '06:00' }] };
    expect(outlook(night, at('2026-11-06T19:00:00'))).toMatchObject({ slot: 'peak', next: { slot: 'valley', days: 0, at: '06:00' } });
    expect(outlook({ ...office, peak: [] }, at('2026-11-02T00:00:00'))).toEqual({ slot: 'valley', count: 32 });
    expect(outlook({ ...office, peak: [{ from: '00:00', to: '24:00' }] }, at('2026-11-02T00:00:00'))).toEqual({ slot: 'peak', count: 64 });
  });
  it('says nothing of what cannot be told yet', () => {
    expect(outlook({ ...office, timezone: 'Nowhere' }, at('2026-11-02T00:00:00'))).toBeUndefined();
    expect(outlook({ ...office, peak: [{ from: '8', to: '20:00' }] }, at('2026-11-02T00:00:00'))).toBeUndefined();
    expect(outlook({ ...office, peak_concurrency: undefined }, at('2026-11-02T00:00:00'))).toBeUndefined();
  });
});
