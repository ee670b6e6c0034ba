import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { act, cleanup, configure, fireEvent, render, renderHook, screen, waitFor } from '@testing-library/react';
import type { ReactNode } from 'react';
import { MemoryRouter, useLocation } from 'react-router';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';

import { ApiError } from '../api/errors';
import { session } from '../api/session';
import { setUpLanguage } from '../i18n';
import { useConversation } from '../lib/conversation';
import { useFilters } from '../lib/url';
import { Login } from '../pages/Login';
import { DataTable } from './DataTable';
import { Boundary, Failure } from './Failure';
import { Providers } from './Providers';
import { ReconcileModal } from './ReconcileModal';
import { VerifyModal } from './VerifyModal';

const json = (status: number, body: unknown) => new Response(JSON.stringify(body), { status, headers: { 'content-type': 'application/json' } });

beforeAll(() => {
  configure({ asyncUtilTimeout: 30_000 }); // on a busy machine
  // jsdom lays nothing out; the kit asks for these
  window.matchMedia ??= ((query: string) => ({ matches: false, media: query, addEventListener: () => {}, removeEventListener: () => {}, addListener: () => {}, removeListener: () => {} })) as unknown as typeof window.matchMedia;
  vi.stubGlobal('ResizeObserver', class { observe() {} unobserve() {} disconnect() {} });
});
beforeEach(() => setUpLanguage('en'));
afterEach(cleanup);

const withQueries = ({ children }: { children: ReactNode }) => <QueryClientProvider client={new QueryClient()}>{children}</QueryClientProvider>;

describe('Failure', () => {
  it('shows the sentence, the code, the fields and the request id, and retries', () => {
    const retry = vi.fn();
    render(<Failure error={new ApiError('invalid_policy', 'The policy document is not valid.', 400, 'req_7', [{ field: 'rules[0]', detail: 'unknown class' }])} retry={retry} />);
    const alert = screen.getByRole('alert');
    for (const text of ['The policy document is not valid.', 'invalid_policy', 'req_7', 'rules[0]', 'unknown class']) expect(alert.textContent).toContain(text);
    fireEvent.click(screen.getByRole('button', { name: 'Try again' }));
    expect(retry).toHaveBeenCalledOnce();
  });

  it('shows workflows that are switched off as a fact, not as an error', () => {
    render(<Failure error={new ApiError('workflows_off', 'Workflows are switched off here.', 409, 'req_8')} retry={() => {}} />);
    expect(screen.getByRole('alert').className).toContain('ant-alert-info');
    expect(screen.queryByRole('button')).toBeNull();
  });

  it('says who changes roles where a role is missing, and only there', () => {
    const help = 'Roles decide who may do what.';
    for (const [code, status] of [['not_allowed', 403], ['purpose_required', 403], ['second_person_required', 403], ['approval_required', 403], ['model_not_allowed', 403], ['blocked_content', 403], ['policy_changed', 409]] as const) {
      const { unmount } = render(<Failure error={new ApiError(code, 'No.', status)} />);
      expect(screen.getByRole('alert').textContent!.includes(help), code).toBe(code === 'not_allowed');
      unmount();
    }
  });

  it('says in Chinese that the server cannot be reached', async () => {
    await setUpLanguage('zh');
    render(<Failure error={new TypeError('Failed to fetch')} />);
    expect(screen.getByRole('alert').textContent).toContain('无法连接服务器');
    expect(document.documentElement.lang).toBe('zh-CN');
  });
});

describe('Boundary', () => {
  it('keeps a crash inside and recovers', () => {
    vi.spyOn(console, 'error').mockImplementation(() => {});
    let broken = true;
    const Part = () => {
      if (broken) throw new Error('bug');
      return <p>fine</p>;
    };
    render(
      <>
        <p>the rest</p>
        <Boundary fallback={(retry) => <Failure error={new ApiError('client_crash', '')} retry={retry} />}>
          <Part />
        </Boundary>
      </>,
    );
    expect(screen.getByText('the rest')).toBeTruthy();
    broken = false;
    fireEvent.click(screen.getByRole('button', { name: 'Try again' }));
    expect(screen.getByText('fine')).toBeTruthy();
  });
});

describe('DataTable', () => {
  it('shows rows, the total that the server gave, and opens rows', () => {
    const onOpen = vi.fn();
    const columns = [{ key: 'n', title: 'N', render: (r: { n: number }) => `value ${r.n}`, csv: (r: { n: number }) => r.n }];
    render(<DataTable name="Numbers" columns={columns} rows={[{ n: 1 }, { n: 2 }]} rowKey={(r) => String(r.n)} total={{ n: 99 }} onOpen={onOpen} />);
    expect(screen.getByRole('group', { name: 'Numbers' }).textContent).toContain('value 99');
    fireEvent.click(screen.getByText('value 2'));
    expect(onOpen).toHaveBeenCalledWith({ n: 2 });
  });

  it('says why a list is empty', () => {
    render(<DataTable name="Keys" columns={[]} rows={[]} rowKey={() => ''} empty="No keys yet." />);
    expect(screen.getByText('No keys yet.')).toBeTruthy();
  });
});

describe('Login', () => {
  it('shows why a sign-in was refused', async () => {
    const refused = { type: 't', title: 't', status: 401, detail: 'The user name or the password is wrong.', code: 'invalid_login', request_id: 'req_2' };
    vi.stubGlobal('fetch', async (asked: Request | string) => ((typeof asked === 'string' ? asked : asked.url).includes('providers') ? json(200, { items: [] }) : json(401, refused)));
    render(
      <QueryClientProvider client={new QueryClient()}>
        <Login />
      </QueryClientProvider>,
    );
    fireEvent.change(screen.getByLabelText('User name'), { target: { value: 'admin' } });
    fireEvent.change(screen.getByLabelText('Password'), { target: { value: 'x' } });
    fireEvent.click(screen.getByRole('button', { name: 'Sign in' }));
    expect((await screen.findByRole('alert')).textContent).toContain('invalid_login');
  });
});

describe('a provider', () => {
  const here = location;
  const away = () => {
    const assign = vi.fn();
    vi.stubGlobal('location', { pathname: location.pathname, search: location.search, hash: location.hash, assign });
    return () => new URL(assign.mock.lastCall![0] as string, 'http://here');
  };
  afterEach(() => {
    vi.stubGlobal('location', here);
    history.replaceState(null, '', '/');
  });

  it('says once why a sign-in was refused, and forgets it in the address', async () => {
    history.replaceState({ key: 'a' }, '', '/compliance?control=books&sign_in=no_role&request=req-9#x');
    vi.stubGlobal('fetch', async () => json(200, { items: [{ name: 'corp', label: 'Example SSO' }] }));
    render(<Providers />, { wrapper: withQueries });
    expect(screen.getByRole('alert').textContent).toContain('req-9');
    expect([location.href, history.state]).toEqual([`${location.origin}/compliance?control=books#x`, { key: 'a' }]);
    const button = await screen.findByRole('button', { name: 'Sign in with Example SSO' });
    const target = away();
    fireEvent.click(button);
    expect(target().pathname).toBe('/oidc/corp/login');
    expect(target().searchParams.get('return')).toBe('/compliance?control=books');
    expect(target().searchParams.get('fresh')).toBeNull();
  });

  it('is asked again where the sign-in is too old', () => {
    const old = new ApiError('reauthenticate', 'This needs a newer sign-in.', 403);
    const { unmount } = render(<Failure error={old} />);
    expect(screen.queryByRole('button')).toBeNull();
    unmount();
    const signedIn = { user: 'corp:ada', me: { id: 'u', name: 'corp:ada', kind: 'user', tenant: 'demo', roles: [], labels: [], permissions: [], provider: 'corp' } };
    vi.spyOn(session, 'snapshot').mockReturnValue(signedIn as unknown as ReturnType<typeof session.snapshot>);
    render(<Failure error={old} />);
    const target = away();
    fireEvent.click(screen.getByRole('button', { name: 'Sign in at the provider' }));
    expect(target().searchParams.get('fresh')).toBe('1');
  });
});

describe('VerifyModal', () => {
  it('follows the job and names the damaged record', async () => {
    const running = { id: 'v1', status: 'running', done: 1, total: 4, started_at: '2026-01-01T00:00:00Z' };
    const report = { ok: false, records: 4, sealed: 4, unsealed: 0, wal_records: 4, checkpoint_size: 4, root: 'ab', witnessed: [{ witness: 'w.example', size: 3, time: '2026-01-01T00:00:01Z' }], problems: [{ kind: 'leaf', record: 'rec-3', index: 2, cause: 'the payload differs' }] };
    const replies = [running, { ...running, done: 3 }, { ...running, status: 'finished', done: 4, finished_at: '2026-01-01T00:00:02Z', report }];
    vi.spyOn(session, 'fetch').mockImplementation(async (request) => json(request.method === 'POST' ? 202 : 200, replies.length > 1 ? replies.shift() : replies[0]));
    const onRecord = vi.fn();
    render(<VerifyModal onClose={() => {}} onRecord={onRecord} />, { wrapper: withQueries });
    fireEvent.click(screen.getByRole('button', { name: 'Start verification' }));
    fireEvent.click(await screen.findByText('rec-3'));
    expect(onRecord).toHaveBeenCalledWith('rec-3');
    expect(screen.getByText('Record changed')).toBeTruthy();
    expect(screen.getByText('w.example')).toBeTruthy();
    expect(screen.getByText(/The log is damaged. Problems found: 1/)).toBeTruthy();
  });
});

describe('ReconcileModal', () => {
  it('shows that it runs as soon as it is asked for, and what was found when it is over', async () => {
    let open = 0;
    let finished = '2026-01-01T00:00:00Z';
    let running = false;
    const sent: string[] = [];
    vi.spyOn(session, 'fetch').mockImplementation(async (request) => {
      const path = new URL(request.url, 'http://localhost').pathname;
      sent.push(`${request.method} ${path.slice(path.indexOf('/audit'))}`);
      if (request.method === 'POST') {
        running = true;
        return new Response(null, { status: 202 });
      }
      if (path.endsWith('/status')) return json(200, { reconciliation: { running, open, finished_at: finished } });
      return json(200, { running, open: open ? { sums: open } : {}, items: [], started_at: finished, finished_at: finished, hours: 48, repaired: 0, as_of: finished });
    });
    render(<ReconcileModal onClose={() => {}} onRecord={() => {}} onRequest={() => {}} />, { wrapper: withQueries });
    await screen.findByText('Log and books agree.');
    const button = screen.getByRole('button', { name: /Reconcile now/ });
    const loading = () => button.classList.contains('ant-btn-loading');
    expect(loading()).toBe(false);
    fireEvent.click(button);
    await waitFor(() => expect(sent.at(-1)).toBe('GET /audit/status'));
    expect(sent.at(-2)).toBe('POST /audit/reconciliation'); // at once, nothing in between
    await waitFor(() => expect(loading()).toBe(true));
    open = 2;
    finished = '2026-01-01T01:00:00Z';
    running = false;
    await screen.findByText(/2 places where log and books/);
    await waitFor(() => expect(loading()).toBe(false));
  });
});

describe('useConversation', () => {
  const chunks = (...data: (object | string)[]) => data.map((d) => new TextEncoder().encode(`data: ${typeof d === 'string' ? d : JSON.stringify(d)}\n\n`));
  const text = (content: string) => ({ choices: [{ delta: { content } }] });

  function answer(parts: Uint8Array[], open = false) {
    const sent: { messages: { role: string; content: string }[] }[] = [];
    vi.spyOn(session, 'fetch').mockImplementation(async (request) => {
      sent.push(await request.clone().json());
      const stream = new ReadableStream<Uint8Array>({
        start(controller) {
          parts.forEach((p) => controller.enqueue(p));
          if (!open) controller.close();
          request.signal.addEventListener('abort', () => controller.error(request.signal.reason));
        },
      });
      return new Response(stream, { headers: { 'x-request-id': 'req_3' } });
    });
    return sent;
  }

  it('collects an answer and sends complete turns as history', async () => {
    const sent = answer(chunks(text('Hel'), text('lo'), { choices: [], sluice: { receipt: 'r1', findings: [] } }, '[DONE]'));
    const { result } = renderHook(() => useConversation());
    await act(() => result.current.ask('hi', { model: 'm' }, result.current.turns));
    expect(result.current.turns).toMatchObject([{ question: 'hi', answer: 'Hello', state: 'done', extension: { receipt: 'r1' } }]);
    await act(() => result.current.ask('more', { model: 'm' }, result.current.turns));
    expect(sent[1]?.messages.map((m) => m.content)).toEqual(['hi', 'Hello', 'more']);
  });

  it('keeps what arrived when it is stopped, and does not send it as history', async () => {
    answer(chunks(text('partial')), true);
    const { result } = renderHook(() => useConversation());
    let asking: Promise<void> = Promise.resolve();
    act(() => {
      asking = result.current.ask('hi', { model: 'm' }, []);
    });
    await waitFor(() => expect(result.current.turns[0]?.answer).toBe('partial'));
    act(() => result.current.stop());
    await act(() => asking);
    expect(result.current.turns).toMatchObject([{ answer: 'partial', state: 'stopped' }]);
    expect(result.current.busy).toBe(false);
    const later = answer(chunks('[DONE]'));
    await act(() => result.current.ask('again', { model: 'm' }, result.current.turns));
    expect(later[0]?.messages.map((m) => m.content)).toEqual(['again']);
  });

  it('shows a refusal with its code', async () => {
    vi.spyOn(session, 'fetch').mockImplementation(async () => json(403, { type: 't', title: 't', status: 403, detail: 'blocked', code: 'blocked_content', request_id: 'req_4' }));
    const { result } = renderHook(() => useConversation());
    await act(() => result.current.ask('hi', { model: 'm' }, []));
    expect(result.current.turns[0]).toMatchObject({ state: 'failed', error: { code: 'blocked_content', requestId: 'req_4' } });
  });

  it('does not call a cut stream complete', async () => {
    answer(chunks(text('half')));
    const { result } = renderHook(() => useConversation());
    await act(() => result.current.ask('hi', { model: 'm' }, []));
    expect(result.current.turns[0]).toMatchObject({ state: 'failed', answer: 'half', error: { code: 'client_stream', requestId: 'req_3' } });
  });
});

describe('useFilters', () => {
  it('keeps filters in the address and leaves defaults out', () => {
    const wrapper = ({ children }: { children: ReactNode }) => <MemoryRouter initialEntries={['/audit?actor=k1&x=1']}>{children}</MemoryRouter>;
    const { result } = renderHook(() => ({ filters: useFilters({ actor: '', stage: 'all' }), search: useLocation().search }), { wrapper });
    expect(result.current.filters[0]).toEqual({ actor: 'k1', stage: 'all' });
    act(() => result.current.filters[1]({ stage: 'outcome', actor: '' }));
    expect(result.current.filters[0]).toEqual({ actor: '', stage: 'outcome' });
    expect(result.current.search).toBe('?x=1&stage=outcome');
  });
});
