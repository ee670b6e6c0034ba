import { createCache, StyleProvider } from '@ant-design/cssinjs';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { act, configure, fireEvent, render, screen, waitFor } from '@testing-library/react';
import { App } from 'antd';
import type { ReactNode } from 'react';
import { MemoryRouter } from 'react-router';
import { expect, vi } from 'vitest';

import { type Me, session } from './api/session';

/** What tests of whole pages have in common: a browser as far as the kit needs one, a signed-in user, and a server that is told what to answer. */
export function browser() {
  configure({ asyncUtilTimeout: 30_000 }); // on a busy machine
  window.matchMedia ??= ((query: string) => ({ matches: false, media: query, addEventListener: () => {}, removeEventListener: () => {}, addListener: () => {}, removeListener: () => {} })) as unknown as typeof window.matchMedia;
  Element.prototype.scrollIntoView = () => Promise.resolve() as never;
  vi.stubGlobal('ResizeObserver', class { observe() {} unobserve() {} disconnect() {} });
}

export function signIn(me: Partial<Me>) {
  const whole: Me = { id: 'u1', name: 'officer', kind: 'user', tenant: 'demo', roles: [], labels: [], permissions: [], ...me };
  const state = { status: 'in' as const, me: whole };
  vi.spyOn(session, 'snapshot').mockReturnValue(state);
  vi.spyOn(session, 'subscribe').mockReturnValue(() => {});
}

export interface Sent {
  method: string;
  path: string;
  query: URLSearchParams;
  headers: Headers;
  body?: unknown;
}

export const json = (status: number, body: unknown) => new Response(status === 204 ? null : JSON.stringify(body), { status, headers: { 'content-type': 'application/json' } });
export const refusal = (status: number, code: string, detail = code) => json(status, { type: 't', title: 't', status, detail, code, request_id: 'req_1' });

/** Answers by method and path, and notes what was asked. */
export function server(answers: Record<string, (sent: Sent) => Response>): Sent[] {
  const sent: Sent[] = [];
  vi.spyOn(session, 'fetch').mockImplementation(async (request) => {
    const url = new URL(request.url);
    const text = request.method === 'GET' ? '' : await request.text();
    const s: Sent = { method: request.method, path: url.pathname.replace('/api/v1', ''), query: url.searchParams, headers: request.headers, body: text && request.headers.get('content-type')?.startsWith('application/json') ? JSON.parse(text) : undefined };
    sent.push(s);
    return (answers[`${s.method} ${s.path}`] ?? (() => json(200, { items: [] })))(s);
  });
  return sent;
}

/** What is shown without its styles: looking them up takes most of the time of a query by role. The browser tests have them. */
export const Unstyled = ({ children }: { children: ReactNode }) => (
  <StyleProvider cache={createCache()} mock="server">
    {children}
  </StyleProvider>
);

/** Shows a page as the shell does, without its styles. */
export function show(page: ReactNode) {
  return render(
    <Unstyled>
      <App>
        <QueryClientProvider client={new QueryClient({ defaultOptions: { queries: { retry: false } } })}>
          <MemoryRouter>
            <main>{page}</main>
          </MemoryRouter>
        </QueryClientProvider>
      </App>
    </Unstyled>,
  );
}

/** Presses a button by its name. Queries by role are slow where there are tables. */
export async function press(name: string, within: HTMLElement = document.body) {
  const find = () => [...within.querySelectorAll('button')].filter((b) => (b.getAttribute('aria-label') ?? b.textContent).trim() === name).at(-1);
  await waitFor(() => expect(find(), name).toBeTruthy());
  await act(async () => {
    fireEvent.click(find()!);
    await Promise.resolve();
  });
}

export function write(label: string | RegExp, text: string) {
  fireEvent.change(screen.getByLabelText(label), { target: { value: text } });
}
