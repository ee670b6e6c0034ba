import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { App } from 'antd';
import { cleanup, configure, fireEvent, render, screen, waitFor } from '@testing-library/react';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';

import type { Schema } from '../api/client';
import { session } from '../api/session';
import { setUpLanguage } from '../i18n';
import { datedAs, DocumentDrawer, instant, local } from './DocumentDrawer';

beforeAll(() => {
  configure({ asyncUtilTimeout: 30_000 }); // on a busy machine
  window.matchMedia ??= ((query: string) => ({ matches: false, media: query, addEventListener: () => {}, removeEventListener: () => {}, addListener: () => {}, removeListener: () => {} })) as unknown as typeof window.matchMedia;
  vi.stubGlobal('ResizeObserver', class { observe() {} unobserve() {} disconnect() {} });
});
beforeEach(() => setUpLanguage('en'));
afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
});

const second: Schema['DocumentVersion'] = {
  version: 'v2', mime: 'text/plain', chunks: 1, created_at: '2026-03-01T12:00:00.123456Z', valid_from: '2026-03-01T12:00:00.123456Z', in_effect: true, revision: 9,
};

describe('dates of a version', () => {
  it('sends only what was changed', () => {
    const from = local(second.valid_from);
    expect(datedAs(second, { from, until: '' })).toEqual({ revision: 9 });
    expect(datedAs(second, { from, until: '2026-04-01T00:00:00' })).toEqual({ revision: 9, valid_until: instant('2026-04-01T00:00:00') });
    expect(datedAs(second, { from: '2026-03-02T00:00:00' })).toEqual({ revision: 9, valid_from: instant('2026-03-02T00:00:00') });
    const ends = { ...second, valid_until: '2026-05-01T00:00:00.000001Z' };
    expect(datedAs(ends, { from, until: local(ends.valid_until) })).toEqual({ revision: 9 });
    expect(datedAs(ends, { from, until: '' })).toEqual({ revision: 9, no_end: true });
  });

  it('ends a version without moving its beginning', async () => {
    vi.spyOn(session, 'snapshot').mockReturnValue({ status: 'in', me: { id: 'u', name: 'w', kind: 'user', tenant: 'demo', roles: ['developer'], labels: [], permissions: ['rag.write'] } });
    vi.spyOn(session, 'subscribe').mockReturnValue(() => {});
    const sent: unknown[] = [];
    vi.spyOn(session, 'fetch').mockImplementation(async (request) => {
      if (request.method === 'PATCH') sent.push(await request.json());
      return new Response(JSON.stringify(request.method === 'PATCH' ? second : { items: [second] }), { status: 200, headers: { 'content-type': 'application/json' } });
    });
    const document = { id: 'd-1', name: 'rule.txt', restricted: false } as Schema['Document'];
    render(
      <QueryClientProvider client={new QueryClient()}>
        <App>
          <DocumentDrawer collection="kb" document={document} onClose={() => {}} />
        </App>
      </QueryClientProvider>,
    );
    fireEvent.click(await screen.findByRole('button', { name: 'Change dates' }));
    fireEvent.change(await screen.findByLabelText('Until'), { target: { value: '2026-04-01T00:00:00' } });
    fireEvent.click(screen.getByRole('button', { name: 'Save' }));
    await waitFor(() => expect(sent).toHaveLength(1));
    expect(sent[0]).toEqual({ revision: 9, valid_until: instant('2026-04-01T00:00:00') });
  });
});

describe('a damaged access rule', () => {
  it('is replaced by what is saved, which lets nobody in unless somebody says so', async () => {
    vi.spyOn(session, 'snapshot').mockReturnValue({ status: 'in', me: { id: 'u', name: 's', kind: 'user', tenant: 'demo', roles: ['security_admin'], labels: [], permissions: ['rag.access'] } });
    vi.spyOn(session, 'subscribe').mockReturnValue(() => {});
    const sent: unknown[] = [];
    vi.spyOn(session, 'fetch').mockImplementation(async (request) => {
      const json = { headers: { 'content-type': 'application/json' } };
      if (!request.url.endsWith('/access')) return new Response(JSON.stringify({ items: [second] }), { status: 200, ...json });
      if (request.method === 'GET') return new Response(JSON.stringify({ error: { code: 'conflict', message: 'its access rule is damaged' } }), { status: 409, ...json });
      const body: Record<string, unknown> = await request.json();
      sent.push(body);
      return new Response(JSON.stringify({ ...body, revision: 12, sections: [] }), { status: 200, ...json });
    });
    const document = { id: 'd-2', name: 'rule.txt', restricted: true, labels: ['staff'] } as Schema['Document'];
    render(
      <QueryClientProvider client={new QueryClient()}>
        <App>
          <DocumentDrawer collection="kb" document={document} onClose={() => {}} />
        </App>
      </QueryClientProvider>,
    );
    expect(await screen.findByText(/What you save here replaces it/)).toBeTruthy();
    fireEvent.click(screen.getByRole('button', { name: 'Save' }));
    await waitFor(() => expect(sent).toHaveLength(1));
    expect(sent[0]).toEqual({ labels: ['staff'], revision: 0, rule: { restricted: true, allow: [], parts: [] } });
  });
});
