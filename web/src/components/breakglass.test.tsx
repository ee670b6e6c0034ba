import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { cleanup, configure, fireEvent, render, screen, waitFor } from '@testing-library/react';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';

import { type Me, session, type SessionState } from '../api/session';
import { setUpLanguage } from '../i18n';
import { BreakGlassBanner, OpenBreakGlass } from './BreakGlass';

const json = (status: number, body: unknown) => new Response(JSON.stringify(body), { status, headers: { 'content-type': 'application/json' } });
const use = { id: 'use-1', seal: 's', reason: 'nobody can sign in', source: '10.0.0.1', started_at: '2026-11-26T03:00:00Z', expires_at: '2026-11-26T04:00:00Z', open: true, review_due_at: '2026-11-29T03:00:00Z' };

beforeAll(() => {
  configure({ asyncUtilTimeout: 30_000 });
  window.matchMedia ??= ((query: string) => ({ matches: false, media: query, addEventListener: () => {}, removeEventListener: () => {}, addListener: () => {}, removeListener: () => {} })) as unknown as typeof window.matchMedia;
  vi.stubGlobal('ResizeObserver', class { observe() {} unobserve() {} disconnect() {} });
});
beforeEach(() => setUpLanguage('en'));
afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
});

function show(kind: string, ...permissions: string[]) {
  const me: Me = { id: 'u', name: 'aud', kind, tenant: 'demo', roles: ['auditor'], labels: [], permissions };
  const state: SessionState = { status: 'in', me };
  vi.spyOn(session, 'snapshot').mockReturnValue(state);
  vi.spyOn(session, 'subscribe').mockReturnValue(() => {});
  const sent: [string, unknown][] = [];
  vi.spyOn(session, 'fetch').mockImplementation(async (request) => {
    const text = await request.clone().text();
    sent.push([`${request.method} ${new URL(request.url).pathname}`, text ? JSON.parse(text) : undefined]);
    return json(200, request.method === 'GET' ? { enabled: true, seals: [], uses: [use, { ...use, id: 'use-2', reviewed_at: use.started_at, open: false }] } : use);
  });
  render(
    <QueryClientProvider client={new QueryClient({ defaultOptions: { queries: { retry: false } } })}>
      <BreakGlassBanner />
    </QueryClientProvider>,
  );
  return sent;
}

describe('break-glass', () => {
  it('tells a reviewer of what is open, and closes its review with what was found', async () => {
    const sent = show('user', 'breakglass.review');
    fireEvent.click(await screen.findByText('Look'));
    const close = screen.getByText('Close the review').closest('button')!;
    expect(close.disabled).toBe(true);
    fireEvent.change(screen.getByLabelText('What its records were found to show'), { target: { value: ' fine ' } });
    fireEvent.click(close);
    await waitFor(() => expect(sent).toContainEqual(['POST /api/v1/break-glass/uses/use-1/review', { reason: 'fine' }]));
    expect(screen.getAllByText(/nobody can sign in/).length).toBeLessThan(4); // the reviewed one is not shown
  });

  it('asks for nothing where somebody may not review, and marks the emergency itself', () => {
    expect(show('break_glass')).toEqual([]);
    expect(screen.getByText(/This is an emergency session/)).toBeTruthy();
  });

  it('opens a session with both halves and the reason', async () => {
    const opened = vi.spyOn(session, 'emergency').mockResolvedValue();
    render(<OpenBreakGlass onBack={() => {}} />);
    for (const [label, value] of [['First part', ' bg-a '], ['Second part', 'bg-b'], ['What happened', 'locked out']]) {
      fireEvent.change(screen.getByLabelText(label!), { target: { value } });
    }
    fireEvent.click(screen.getByLabelText('Open the emergency session'));
    await waitFor(() => expect(opened).toHaveBeenCalledWith(['bg-a', 'bg-b'], 'locked out'));
  });
});
