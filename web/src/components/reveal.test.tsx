import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { App } from 'antd';
import { act, cleanup, configure, fireEvent, render, screen, waitFor } from '@testing-library/react';
import { MemoryRouter, useLocation } from 'react-router';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';

import type { Schema } from '../api/client';
import { type Me, session, type SessionState } from '../api/session';
import { setUpLanguage } from '../i18n';
import Reveal from '../pages/Reveal';
import { Unstyled } from '../testkit';
import { Revealed } from './Revealed';

const json = (status: number, body: unknown) => new Response(JSON.stringify(body), { status, headers: { 'content-type': 'application/json' } });
const refusal = (code: string, detail = code) => json(403, { type: 't', title: 't', status: 403, detail, code, request_id: 'req_1' });

beforeAll(() => {
  configure({ asyncUtilTimeout: 30_000 }); // on a busy machine
  window.matchMedia ??= ((query: string) => ({ matches: false, media: query, addEventListener: () => {}, removeEventListener: () => {}, addListener: () => {}, removeListener: () => {} })) as unknown as typeof window.matchMedia;
  Element.prototype.scrollIntoView = () => Promise.resolve() as never; // as newer browsers do
  vi.stubGlobal('ResizeObserver', class { observe() {} unobserve() {} disconnect() {} });
});
beforeEach(() => setUpLanguage('en'));
afterEach(() => {
  cleanup();
  vi.useRealTimers();
  vi.restoreAllMocks();
  localStorage.clear();
});

function signIn(...permissions: string[]) {
  const me: Me = { id: 'u', name: 'officer', kind: 'user', tenant: 'demo', roles: ['compliance'], labels: [], permissions };
  const state: SessionState = { status: 'in', me };
  vi.spyOn(session, 'snapshot').mockReturnValue(state);
  vi.spyOn(session, 'subscribe').mockReturnValue(() => {});
}

const phone = '13800138000';
const text = 'call ⟦手机·K7Q2F⟧ or ⟦邮箱·ABCDE⟧';
const answer: Schema['RevealAnswer'] = {
  text: `call ${phone} or ⟦邮箱·ABCDE⟧`,
  values: [
    { token: '⟦手机·K7Q2F⟧', class: 'cn_mobile', grade: 3, shown: 'clear', value: phone },
    { token: '⟦邮箱·ABCDE⟧', class: 'email', grade: 5, shown: 'token' },
  ],
};

interface Sent {
  method: string;
  path: string;
  body?: Schema['RevealRequest'];
}

/** Answers by method and path, and notes what was asked. */
function server(answers: Record<string, (sent: Sent) => Response>) {
  const sent: Sent[] = [];
  vi.spyOn(session, 'fetch').mockImplementation(async (request) => {
    const s: Sent = { method: request.method, path: new URL(request.url).pathname.replace('/api/v1', ''), body: request.method === 'POST' ? await request.json().catch(() => undefined) : undefined };
    sent.push(s);
    return (answers[`${s.method} ${s.path}`] ?? (() => json(200, { items: [] })))(s);
  });
  return sent;
}

const Address = () => <output data-testid="address">{useLocation().search}</output>;

function show(client = new QueryClient({ defaultOptions: { queries: { retry: false } } })) {
  const view = render(
    <Unstyled>
      <App>
        <QueryClientProvider client={client}>
          <MemoryRouter initialEntries={['/reveal?request=req_7']}>
            <Reveal />
            <Address />
          </MemoryRouter>
        </QueryClientProvider>
      </App>
    </Unstyled>,
  );
  return { client, ...view };
}

const field = (id: string) => document.querySelector<HTMLInputElement>(`#${id}`)!;
const fill = (id: string, value: string) => fireEvent.change(field(id), { target: { value } });
const button = (name: string) => [...document.querySelectorAll('button')].find((b) => (b.getAttribute('aria-label') ?? b.textContent) === name);
const press = (name: string) => fireEvent.click(button(name)!);
const submit = () => fireEvent.submit(document.querySelector('form')!);

function fillIn() {
  fill('reveal-text', text);
  fill('reveal-purpose', 'complaint');
}

describe('Reveal', () => {
  it('shows how much of each value may be seen and why not more, and leaves nothing behind', async () => {
    signIn('masking.reveal');
    const sent = server({ 'POST /reveal': () => json(200, answer) });
    const { client, unmount } = show();
    expect(field('reveal-name').value).toBe('req_7');
    fillIn();
    submit();
    expect((await screen.findByTestId('revealed')).textContent).toBe(answer.text);
    expect(sent.find((s) => s.path === '/reveal')?.body).toEqual({ request: 'req_7', purpose: 'complaint', text });
    expect(document.body.textContent).toContain('E-mail address · Grade 5 of 5');
    expect(screen.getByText(/No rule of the policy shows this class/)).toBeTruthy();
    expect(JSON.stringify(client.getQueryCache().getAll().map((q) => q.state.data))).not.toContain(phone);
    expect(screen.getByTestId('address').textContent).toBe('?request=req_7');
    expect(JSON.stringify({ ...localStorage, ...sessionStorage })).not.toContain(phone);
    press('Hide now');
    await waitFor(() => expect(document.body.textContent).not.toContain(phone));
    await waitFor(() => expect(client.getMutationCache().getAll()).toEqual([]));
    expect(field('reveal-text').value).toBe(text); // what was typed stays
    unmount();
  });

  it('offers the purposes that the policy names', async () => {
    signIn('masking.reveal');
    const sent = server({ 'GET /reveal/purposes': () => json(200, { items: ['complaint', 'court_order'] }), 'POST /reveal': () => json(200, answer) });
    show();
    fill('reveal-text', text);
    await waitFor(() => expect(sent.some((s) => s.path === '/reveal/purposes')).toBe(true));
    fill('reveal-purpose', 'court');
    const option = (title: string) => document.querySelector(`.ant-select-item-option[title=${title}]`);
    await waitFor(() => expect(option('court_order')).toBeTruthy());
    fireEvent.click(option('court_order')!);
    submit();
    await screen.findByTestId('revealed');
    expect(sent.find((s) => s.path === '/reveal')?.body?.purpose).toBe('court_order');
  });

  it('asks for the tokens that were chosen only', async () => {
    signIn('masking.reveal');
    const sent = server({ 'POST /reveal': () => json(200, { values: [answer.values[0]] }) });
    show();
    fillIn();
    press('⟦邮箱·ABCDE⟧');
    expect(button('⟦邮箱·ABCDE⟧')?.getAttribute('aria-pressed')).toBe('false');
    expect(screen.getByText('Tokens: 1 of 2 chosen')).toBeTruthy();
    submit();
    await screen.findByText(phone);
    expect(sent.find((s) => s.path === '/reveal')?.body).toEqual({ request: 'req_7', purpose: 'complaint', tokens: ['⟦手机·K7Q2F⟧'] });
  });

  it('has the user sign in again without losing the form, and goes on by itself', async () => {
    signIn('masking.reveal');
    let fresh = false;
    const sent = server({ 'POST /reveal': () => (fresh ? json(200, answer) : refusal('reauthenticate', 'Sign in again.')) });
    const again = vi.spyOn(session, 'again').mockImplementation(async (password) => {
      if (password !== 'right') throw new Error('wrong');
      fresh = true;
    });
    show();
    fillIn();
    submit();
    const password = await screen.findByLabelText('Password of officer');
    expect(screen.getByText('Sign in again.')).toBeTruthy();
    fireEvent.change(password, { target: { value: 'wrong' } });
    press('Sign in');
    await waitFor(() => expect(document.querySelector('.ant-modal [role=alert]')).toBeTruthy()); // refused, and still there
    fireEvent.change(password, { target: { value: 'right' } });
    fireEvent.keyDown(password, { key: 'Enter', code: 'Enter', keyCode: 13 });
    await screen.findByTestId('revealed');
    expect(again).toHaveBeenCalledTimes(2);
    expect(sent.filter((s) => s.path === '/reveal')).toHaveLength(2);
    expect(field('reveal-purpose').value).toBe('complaint');
  });

  it('asks a second person, waits, and shows the values with the approval', async () => {
    signIn('masking.reveal');
    const asked = { id: 'apr_1', tenant: 'demo', target: 'd1', purpose: 'complaint', shown: [{ class: 'cn_mobile', shown: 'clear', count: 1 }], asked_by: 'officer', created_at: new Date().toISOString(), expires_at: new Date(Date.now() + 3_600_000).toISOString() };
    let approved = {};
    const sent = server({
      'POST /reveal': (s) => (s.body?.approval === 'apr_1' ? json(200, answer) : refusal('approval_required', '20 values need a second person.')),
      'POST /reveal/approvals': () => json(201, asked),
      'GET /reveal/approvals': () => json(200, { items: [{ ...asked, ...approved }] }),
    });
    show();
    fillIn();
    submit();
    await screen.findByText('A second person has to approve this');
    press('Ask for approval');
    await screen.findByText(/Approval apr_1 was asked for/);
    expect(sent.find((s) => s.path === '/reveal/approvals' && s.method === 'POST')?.body).toEqual({ request: 'req_7', purpose: 'complaint', text });
    approved = { approved_by: 'boss', approved_at: new Date().toISOString() };
    await screen.findByText('boss approved it');
    fireEvent.click([...document.querySelectorAll('[role=status] button')].at(-1)!);
    await screen.findByTestId('revealed');
    expect(sent.filter((s) => s.path === '/reveal').at(-1)?.body?.approval).toBe('apr_1');
  });

  it('lets those who may approve do so for others, after a look, and not for themselves', async () => {
    signIn('masking.reveal', 'masking.approve');
    const base = { tenant: 'demo', target: 'd1', purpose: 'court order', shown: [{ class: 'cn_mobile', shown: 'clear', count: 25 }], created_at: new Date().toISOString(), expires_at: new Date(Date.now() + 3_600_000).toISOString() };
    const items = [{ ...base, id: 'apr_1', asked_by: 'clerk' }, { ...base, id: 'apr_2', asked_by: 'officer' }, { ...base, id: 'apr_3', asked_by: 'clerk', expires_at: base.created_at }];
    const sent = server({ 'GET /reveal/approvals': () => json(200, { items }), 'POST /reveal/approvals/apr_1/approve': () => json(200, items[0]) });
    show();
    await screen.findAllByText('clerk');
    expect([...document.querySelectorAll('button')].filter((b) => b.textContent === 'Approve')).toHaveLength(1);
    expect(screen.getByText('Expired')).toBeTruthy();
    press('Approve the reveal of clerk: court order');
    await screen.findByText('clerk will see these values, once. Purpose: court order');
    expect(sent.some((s) => s.path.endsWith('/approve'))).toBe(false);
    fireEvent.click(document.querySelector('.ant-modal-confirm .ant-btn-primary')!);
    await waitFor(() => expect(sent.some((s) => s.path === '/reveal/approvals/apr_1/approve')).toBe(true));
  });

  it('says in Chinese that a text has no tokens', async () => {
    await setUpLanguage('zh');
    signIn('masking.reveal');
    server({ 'POST /reveal': () => json(200, { values: [] }) });
    show();
    fill('reveal-text', '没有');
    fill('reveal-purpose', '投诉');
    submit();
    await screen.findByText('文本中没有假名。');
  });
});

describe('Revealed', () => {
  it('hides the values after three minutes, and when the page is left', () => {
    vi.useFakeTimers();
    const onHide = vi.fn();
    render(<Revealed answer={answer} onHide={onHide} />);
    expect(screen.getByText('Hidden again in 3:00')).toBeTruthy();
    act(() => vi.advanceTimersByTime(61_000));
    expect(screen.getByText('Hidden again in 1:59')).toBeTruthy();
    expect(onHide).not.toHaveBeenCalled();
    act(() => vi.advanceTimersByTime(119_000));
    expect(onHide).toHaveBeenCalledTimes(1);
    act(() => window.dispatchEvent(new Event('pagehide')) as never);
    expect(onHide).toHaveBeenCalledTimes(2);
  });
});
