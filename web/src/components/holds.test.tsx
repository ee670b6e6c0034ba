import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { cleanup, configure, fireEvent, render, screen, waitFor, within } from '@testing-library/react';
import type { ReactNode } from 'react';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';

import { type Me, session, type SessionState } from '../api/session';
import { setUpLanguage } from '../i18n';
import { ErasuresModal } from './ErasuresModal';
import { HoldsModal } from './HoldsModal';
import { ReconcileModal } from './ReconcileModal';
import { VerifyModal } from './VerifyModal';

const json = (status: number, body: unknown) => new Response(body === undefined ? null : JSON.stringify(body), { status, headers: { 'content-type': 'application/json' } });

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

const withQueries = ({ children }: { children: ReactNode }) => <QueryClientProvider client={new QueryClient({ defaultOptions: { queries: { retry: false } } })}>{children}</QueryClientProvider>;

function signIn(...permissions: string[]) {
  const me: Me = { id: 'u', name: 'officer', kind: 'user', tenant: 'demo', roles: ['compliance'], labels: [], permissions };
  const state: SessionState = { status: 'in', me };
  vi.spyOn(session, 'snapshot').mockReturnValue(state);
  vi.spyOn(session, 'subscribe').mockReturnValue(() => {});
}

/** The button of a name. Asking by role computes the name of everything there is, which takes jsdom seconds. */
const button = (name: string) => [...document.querySelectorAll('button')].find((b) => (b.getAttribute('aria-label') ?? b.textContent) === name);
const press = (name: string) => fireEvent.click(button(name)!);

interface Sent {
  method: string;
  path: string;
  query: string;
  body?: unknown;
}

/** Answers by method and path, and notes what was asked. */
function server(answers: Record<string, (sent: Sent) => Response>) {
  const sent: Sent[] = [];
  vi.spyOn(session, 'fetch').mockImplementation(async (request) => {
    const url = new URL(request.url);
    const text = await request.clone().text();
    const s: Sent = { method: request.method, path: url.pathname.replace('/api/v1', ''), query: url.search, body: text ? JSON.parse(text) : undefined };
    sent.push(s);
    return answers[`${s.method} ${s.path}`]?.(s) ?? json(404, { type: 't', title: 't', status: 404, detail: `no ${s.method} ${s.path}`, code: 'not_found', request_id: 'r' });
  });
  return sent;
}

const hold = { id: 'h1', tenant: 'demo', reason: 'case 17', from: '2026-11-01T00:00:00Z', request: 'req_9', created_at: '2026-11-20T00:00:00Z', created_by: 'officer' };
const gone = { id: 'h2', tenant: 'demo', reason: 'case 3', created_at: '2026-01-20T00:00:00Z', created_by: 'officer', released_at: '2026-02-20T00:00:00Z', released_by: 'chief' };
const status = {
  as_of: '2026-11-22T00:00:00Z', since: '2026-11-22T00:00:00Z', whole: false, checkpoint: { size: 9 }, problems: [], modes: [], losses: [], reconciliation: { running: false, open: 1 }, verifying: false,
  retention: { records_days: 190, sensitive_days: 1096, archives: true, least_index: 768 },
};

describe('HoldsModal', () => {
  it('says what each hold covers, and shows released ones when asked', async () => {
    signIn('audit.read');
    server({ 'GET /audit/holds': () => json(200, { items: [hold, gone] }) });
    render(<HoldsModal onClose={() => {}} />, { wrapper: withQueries });
    expect(await screen.findByText('1 hold is in force.')).toBeTruthy();
    const table = within(screen.getByLabelText('Legal holds', { selector: 'section' }));
    expect(table.getByText('Records of tenant demo that meet all of this:')).toBeTruthy();
    expect(table.getByText('req_9')).toBeTruthy();
    expect(table.queryByText('case 3')).toBeNull();
    fireEvent.click(screen.getByLabelText('Show released holds, too'));
    expect(await table.findByText('Every record of tenant demo, past and future')).toBeTruthy();
    expect(table.getByText('chief')).toBeTruthy();
    // who may only read sees no way to change anything
    for (const name of ['Place a hold', 'Release the hold “case 17”']) expect(button(name)).toBeUndefined();
  });

  it('shows what a hold will cover before it is placed, and wants a reason', async () => {
    signIn('audit.read', 'audit.hold');
    const items: unknown[] = [];
    const sent = server({
      'GET /audit/holds': () => json(200, { items }),
      'GET /audit/status': () => json(200, status),
      'POST /audit/holds': (s) => {
        items.push({ ...hold, ...(s.body as object), from: undefined });
        return json(201, items[0]);
      },
    });
    render(<HoldsModal onClose={() => {}} />, { wrapper: withQueries });
    expect((await screen.findAllByText('No hold is in force.')).length).toBeGreaterThan(0);
    press('Place a hold');
    const covers = screen.getByTestId('covers');
    expect(covers.textContent).toContain('Every record of tenant demo');
    expect(covers.className).toContain('warning'); // that is a lot
    expect(await screen.findByText(/Records below index 768 were pruned before/)).toBeTruthy();
    expect(screen.getByText(/does not keep a person's texts from being erased/)).toBeTruthy();
    fireEvent.change(screen.getByLabelText('Request id'), { target: { value: ' req_5 ' } });
    await waitFor(() => expect(screen.getByTestId('covers').textContent).toContain('meet all of this:Request id req_5'));
    press('Place a hold');
    expect(await screen.findByText('Please fill this in.')).toBeTruthy();
    expect(sent.filter((s) => s.method === 'POST')).toEqual([]);
    fireEvent.change(screen.getByLabelText('Reason'), { target: { value: 'case 18' } });
    press('Place a hold');
    expect(await screen.findByText('1 hold is in force.')).toBeTruthy();
    expect(sent.find((s) => s.method === 'POST')?.body).toEqual({ request: 'req_5', reason: 'case 18' });
  });

  it('releases with a reason only, and shows why that failed', async () => {
    signIn('audit.read', 'audit.hold');
    const sent = server({
      'GET /audit/holds': () => json(200, { items: [hold] }),
      'POST /audit/holds/h1/release': () => json(409, { type: 't', title: 't', status: 409, detail: 'the hold was released before', code: 'conflict', request_id: 'req_1' }),
    });
    render(<HoldsModal onClose={() => {}} />, { wrapper: withQueries });
    await screen.findByText('req_9');
    press('Release the hold “case 17”');
    expect(screen.getByText(/pruned into the archives at the next pruning/)).toBeTruthy();
    expect(screen.getByText('req_9')).toBeTruthy();
    press('Release hold');
    expect(await screen.findByText('Please fill this in.')).toBeTruthy();
    expect(sent.some((s) => s.method === 'POST')).toBe(false);
    fireEvent.change(screen.getByLabelText('Why it is released'), { target: { value: 'closed' } });
    press('Release hold');
    expect((await screen.findByText('the hold was released before')).closest('[role=alert]')).toBeTruthy();
    expect(sent.find((s) => s.method === 'POST')).toMatchObject({ query: '?tenant=demo', body: { reason: 'closed' } });
  });
});

describe('ErasuresModal', () => {
  const digest = 'ab'.repeat(32);
  const erasure = { tenant: 'demo', subject: digest, time: '2026-11-20T00:00:00Z', record: 'rec-1' };
  const answers = (keys: number) => ({
    'GET /audit/erasures': () => json(200, { items: [{ ...erasure, record: 'rec-0', time: '2026-10-01T00:00:00Z', subject: 'cd'.repeat(32) }, erasure] }),
    'POST /audit/subjects': () => json(200, { digest }),
    'GET /audit/records': () => json(200, { items: keys ? [{ index: 4, event: { id: 'e', time: '2026-11-21T00:00:00Z' } }] : [], as_of: '2026-11-22T00:00:00Z' }),
    'POST /audit/erasures': () => json(201, { ...erasure, record: 'rec-2', keys, contents: keys * 3 }),
  });

  it('lists who was erased, newest first, with the way to the records', async () => {
    signIn('audit.read');
    server(answers(1));
    const onPerson = vi.fn();
    const onRecord = vi.fn();
    render(<ErasuresModal onClose={() => {}} onPerson={onPerson} onRecord={onRecord} />, { wrapper: withQueries });
    const records = await screen.findAllByText(/^rec-/);
    expect(records.map((r) => r.textContent)).toEqual(['rec-1', 'rec-0']);
    fireEvent.click(records[0]!);
    expect(onRecord).toHaveBeenCalledWith('rec-1');
    fireEvent.click(screen.getByLabelText(`Records of ${digest.slice(0, 12)}`));
    expect(onPerson).toHaveBeenCalledWith(digest);
    expect(button('Erase a person')).toBeUndefined();
  });

  it('destroys nothing before the name was checked and typed again', async () => {
    signIn('audit.read', 'audit.erase');
    const sent = server(answers(2));
    render(<ErasuresModal onClose={() => {}} onPerson={() => {}} onRecord={() => {}} />, { wrapper: withQueries });
    await screen.findAllByText(/^rec-/);
    press('Erase a person');
    expect(within(screen.getByLabelText('Stays')).getByText(/every record, receipt, proof and bundle/)).toBeTruthy();
    expect(within(screen.getByLabelText('Destroyed, for good')).getByText(/under a legal hold/)).toBeTruthy();
    const disabled = () => button('Erase for good')?.disabled;
    const name = screen.getByLabelText('Person');
    expect(disabled()).toBe(true);
    fireEvent.change(name, { target: { value: 'alice' } });
    press('Check the name');
    expect(await screen.findByText('There are records made on behalf of this person.')).toBeTruthy();
    expect(screen.getByText(/Erased before, at/)).toBeTruthy();
    const again = () => screen.getByLabelText(/^Type the name again/);
    fireEvent.change(again(), { target: { value: 'alicia' } });
    expect(disabled()).toBe(true);
    fireEvent.change(again(), { target: { value: 'alice' } });
    expect(disabled()).toBe(false);
    fireEvent.change(name, { target: { value: 'alic' } }); // another name was not checked
    expect(disabled()).toBe(true);
    fireEvent.change(name, { target: { value: 'alice' } });
    expect(disabled()).toBe(true);
    press('Check the name');
    await screen.findByText('There are records made on behalf of this person.');
    fireEvent.change(again(), { target: { value: 'alice' } });
    expect(sent.some((s) => s.path === '/audit/erasures' && s.method === 'POST')).toBe(false);
    press('Erase for good');
    expect(await screen.findByText('Erased: 2 keys and 6 texts were destroyed.')).toBeTruthy();
    expect(sent.find((s) => s.path === '/audit/erasures' && s.method === 'POST')?.body).toEqual({ digest });
    expect(sent.every((s) => !s.query.includes('alice'))).toBe(true); // a name stands in no address
    expect(button('Erase for good')).toBeUndefined();
  });

  it('says in Chinese that nothing was kept, and that a failed erasure is to be repeated', async () => {
    await setUpLanguage('zh');
    signIn('audit.read', 'audit.erase');
    let broken = true;
    server({ ...answers(0), 'POST /audit/erasures': () => (broken ? json(503, { type: 't', title: 't', status: 503, detail: '数据库不可用', code: 'database_unavailable', request_id: 'req_2' }) : json(201, { ...erasure, keys: 0, contents: 0 })) });
    render(<ErasuresModal onClose={() => {}} onPerson={() => {}} onRecord={() => {}} />, { wrapper: withQueries });
    await screen.findAllByText(/^rec-/);
    press('擦除某人');
    fireEvent.change(screen.getByLabelText('人员'), { target: { value: '王芳' } });
    press('核对名称');
    expect(await screen.findByText(/没有代表此名称的记录/)).toBeTruthy();
    fireEvent.change(screen.getByLabelText(/^再次输入名称/), { target: { value: '王芳' } });
    press('永久擦除');
    expect(await screen.findByText(/成功之前可能仍有副本残留/)).toBeTruthy();
    broken = false;
    press('永久擦除');
    expect(await screen.findByText(/没有销毁任何内容/)).toBeTruthy();
  });
});

describe('figures of the audit log', () => {
  it('have the currency of the books', async () => {
    signIn('audit.read', 'audit.verify');
    const finding = { kind: 'sums', item: 'h/demo', tenant: 'demo', first_seen: '2026-11-20T00:00:00Z', last_seen: '2026-11-20T00:00:00Z', detail: { hour: '2026-11-20T00:00:00Z', books_requests: '2', books_tokens: '30', books_cost: '1500000001', records_requests: '2', records_tokens: '30', records_cost: '1' } };
    server({ 'GET /audit/reconciliation': () => json(200, { running: false, open: { sums: 1 }, currency: 'CNY', items: [finding], as_of: '2026-11-22T00:00:00Z' }), 'GET /audit/status': () => json(200, status) });
    render(<ReconcileModal onClose={() => {}} onRecord={() => {}} onRequest={() => {}} />, { wrapper: withQueries });
    expect(await screen.findByText('Books: 2 requests, 30 tokens, cost 1.500000001 CNY')).toBeTruthy();
    expect(screen.getByText('Records: 2 requests, 30 tokens, cost 0.000000001 CNY')).toBeTruthy();
  });

  it('say where verification begins after a pruning, and nothing where none was', async () => {
    const report = { ok: true, records: 4, sealed: 4, unsealed: 0, wal_records: 4, checkpoint_size: 1028, least_index: 1024, root: 'ab', witnessed: [], problems: [] };
    const job = { id: 'v1', status: 'finished', done: 4, total: 4, started_at: '2026-01-01T00:00:00Z', finished_at: '2026-01-01T00:00:02Z', report };
    server({ 'POST /audit/verifications': () => json(202, job), 'GET /audit/verifications/v1': () => json(200, job) });
    const { unmount } = render(<VerifyModal onClose={() => {}} onRecord={() => {}} />, { wrapper: withQueries });
    press('Start verification');
    expect(await screen.findByText(/Records below index 1,024 were pruned into archives/)).toBeTruthy();
    unmount();
    report.least_index = 0;
    render(<VerifyModal onClose={() => {}} onRecord={() => {}} />, { wrapper: withQueries });
    press('Start verification');
    expect(await screen.findByText(/Nothing was changed or removed/)).toBeTruthy();
    expect(screen.queryByText(/Records below index/)).toBeNull();
  });
});
