import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { cleanup, configure, fireEvent, render, screen, waitFor, within } from '@testing-library/react';
import type { ReactNode } from 'react';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';

import { type Me, session, type SessionState } from '../api/session';
import { setUpLanguage } from '../i18n';
import { Unstyled } from '../testkit';
import { ErasuresModal } from './ErasuresModal';
import { ExportModal } from './ExportModal';
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

const withQueries = ({ children }: { children: ReactNode }) => (
  <Unstyled>
    <QueryClientProvider client={new QueryClient({ defaultOptions: { queries: { retry: false } } })}>{children}</QueryClientProvider>
  </Unstyled>
);

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
    const table = within(screen.getByLabelText('Legal holds', { selector: '[role=group]' }));
    expect(table.getByText('Records of tenant demo that meet all of this:')).toBeTruthy();
    expect(table.getByText('req_9')).toBeTruthy();
    expect(table.queryByText('case 3')).toBeNull();
    fireEvent.click(screen.getByLabelText('Show released holds, too'));
    expect(await table.findByText('Every record of tenant demo, past and future')).toBeTruthy();
    expect(table.getByText('chief')).toBeTruthy();
    // who may only read sees no way to change anything
    for (const name of ['Place a hold', 'Release hold “case 17”']) expect(button(name)).toBeUndefined();
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
    expect(screen.getByText(/A second person can let an erasure pass, on record/)).toBeTruthy();
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
    press('Release hold “case 17”');
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
  const stays = [{ code: 'records', count: 12 }, { code: 'unattributed', count: 3, until: '2026-12-01T00:00:00Z' }, { code: 'callers' }];
  const plan = (n: number) => ({
    tenant: 'demo', subject: digest, goes: { keys: n, contents: n * 3, values: n * 5, conversations: n }, stays, holds: [], records: n * 12, newest: n ? '2026-11-21T00:00:00Z' : undefined,
  });
  const answers = (n: number) => ({
    'GET /audit/erasures': () => json(200, { items: [{ ...erasure, record: 'rec-0', time: '2026-10-01T00:00:00Z', subject: 'cd'.repeat(32) }, erasure] }),
    'GET /audit/erasures/approvals': () => json(200, { items: [] }),
    'POST /audit/subjects': () => json(200, { digest }),
    'POST /audit/erasures/preview': () => json(200, plan(n)),
    'POST /audit/erasures': () => json(201, { ...erasure, record: 'rec-2', keys: n, contents: n * 3, values: n * 5, conversations: n, stays }),
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
    expect(document.querySelector('a:not([href])')).toBeNull(); // the keyboard does not reach these
  });

  it('destroys nothing before the name was checked and typed again', async () => {
    signIn('audit.read', 'audit.erase');
    const sent = server(answers(2));
    render(<ErasuresModal onClose={() => {}} onPerson={() => {}} onRecord={() => {}} />, { wrapper: withQueries });
    await screen.findAllByText(/^rec-/);
    press('Erase a person');
    const disabled = () => button('Erase for good')?.disabled;
    const name = screen.getByLabelText('Person');
    expect(disabled()).toBe(true);
    fireEvent.change(name, { target: { value: 'alice' } });
    press('Check the name');
    expect(await screen.findByText('There are records of this person.')).toBeTruthy();
    expect(within(screen.getByLabelText('Would be destroyed, for good')).getByText('10')).toBeTruthy(); // values
    expect(within(screen.getByLabelText('Stays, and why')).getByText(/^audit records: .* \(12\)$/)).toBeTruthy();
    expect(within(screen.getByLabelText('Stays, and why')).getByText(/^values kept without knowing of whom.*\(3, ≤ /)).toBeTruthy();
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
    await screen.findByText('There are records of this person.');
    fireEvent.change(again(), { target: { value: 'alice' } });
    expect(sent.some((s) => s.path === '/audit/erasures' && s.method === 'POST')).toBe(false);
    press('Erase for good');
    expect(await screen.findByText(/^Erased\. The record of it/)).toBeTruthy();
    expect(button('Download the certificate')).toBeUndefined(); // there is none in this answer
    expect(within(screen.getByLabelText('Destroyed')).getByText('6')).toBeTruthy(); // texts
    expect(within(screen.getByLabelText('Stays, and why')).getByText('what applications and their users got')).toBeTruthy();
    expect(sent.find((s) => s.path === '/audit/erasures' && s.method === 'POST')?.body).toEqual({ digest });
    expect(sent.every((s) => !s.query.includes('alice'))).toBe(true); // a name stands in no address
    expect(button('Erase for good')).toBeUndefined();
    expect(document.querySelector('a:not([href])')).toBeNull(); // the keyboard does not reach these
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
    expect(await screen.findByText(/没有此人的审计记录/)).toBeTruthy();
    fireEvent.change(screen.getByLabelText(/^再次输入名称/), { target: { value: '王芳' } });
    press('永久擦除');
    expect(await screen.findByText(/成功之前可能仍有副本残留/)).toBeTruthy();
    broken = false;
    press('永久擦除');
    expect(await screen.findByText(/没有销毁任何内容/)).toBeTruthy();
  });
});

describe('held erasures', () => {
  const digest = 'ab'.repeat(32);
  const covering = { id: 'h1', reason: 'case 17', created_at: '2026-11-20T00:00:00Z', created_by: 'chief', records: 7, examples: ['rec-7'] };
  const goes = { keys: 1, contents: 3, values: 5, conversations: 1 };
  const operators = { id: 'h2', created_at: '2026-11-20T00:00:00Z', released_at: '2026-11-21T00:00:00Z', records: 0, examples: [] };
  const plan = { tenant: 'demo', subject: digest, goes, stays: [{ code: 'callers' }], holds: [covering, operators], records: 7 };
  const asked = { id: 'a1', tenant: 'demo', kind: 'person', target: digest, reason: 'a court wants it', goes, holds: ['h1', 'h2'], asked_by: 'officer', created_at: '2026-11-22T00:00:00Z', expires_at: '2999-01-01T00:00:00Z' };

  it('are refused until somebody else approves, and say who declined and why', async () => {
    signIn('audit.read', 'audit.erase');
    let approvals: unknown[] = [];
    const sent = server({
      'GET /audit/erasures': () => json(200, { items: [] }),
      'GET /audit/erasures/approvals': () => json(200, { items: approvals }),
      'POST /audit/subjects': () => json(200, { digest }),
      'POST /audit/erasures/preview': () => json(200, plan),
      'POST /audit/erasures/approvals': () => {
        approvals = [{ ...asked, id: 'a2', approved_by: 'chief', approved_at: '2026-11-22T00:00:00Z' }];
        return json(201, asked);
      },
      'POST /audit/erasures': () => json(201, { tenant: 'demo', subject: digest, time: '2026-11-22T00:00:00Z', record: 'rec-8', certificate: 'rec-9', ...goes, stays: [], override: { approval: 'a2', approved_by: 'chief', holds: ['h1', 'h2'] } }),
      'GET /audit/records/rec-9/proof': () => json(409, { type: 't', title: 't', status: 409, detail: 'not sealed yet', code: 'conflict', request_id: 'r' }),
    });
    const onRecord = vi.fn();
    approvals = [{ ...asked, declined_by: 'chief', declined_at: '2026-11-22T00:00:00Z', decline_reason: 'the case is open' }];
    render(<ErasuresModal onClose={() => {}} onPerson={() => {}} onRecord={onRecord} />, { wrapper: withQueries });
    await screen.findByText('a court wants it');
    press('Erase a person');
    fireEvent.change(screen.getByLabelText('Person'), { target: { value: 'alice' } });
    press('Check the name');
    expect(await screen.findByText('2 legal holds cover this person, so nothing can be erased')).toBeTruthy();
    expect(screen.getByText('case 17')).toBeTruthy();
    expect(screen.getByText('Hold of the operator on all tenants')).toBeTruthy();
    expect(screen.getByText(/Released by you or on the command line/)).toBeTruthy();
    fireEvent.click(screen.getByText('rec-7'));
    expect(onRecord).toHaveBeenCalledWith('rec-7');
    expect(await screen.findByText('chief declined it: the case is open')).toBeTruthy();
    expect(button('Erase for good')?.disabled).toBe(true);
    expect(screen.queryByLabelText(/^Type the name again/)).toBeNull();
    fireEvent.change(screen.getByLabelText(/^Why it has to be erased/), { target: { value: 'a court wants it' } });
    press('Ask for approval');
    expect(await screen.findByText('chief approved it')).toBeTruthy();
    expect(sent.find((s) => s.method === 'POST' && s.path === '/audit/erasures/approvals')?.body).toEqual({ digest, reason: 'a court wants it' });
    press('Go on with the approval');
    fireEvent.change(await screen.findByLabelText(/^Type the name again/), { target: { value: 'alice' } });
    press('Erase for good');
    expect(await screen.findByText('Past the holds h1, h2, approved by chief (a2).')).toBeTruthy();
    expect(sent.find((s) => s.method === 'POST' && s.path === '/audit/erasures')?.body).toEqual({ digest, approval: 'a2' });
    press('Download the certificate');
    expect(await screen.findByText('not sealed yet')).toBeTruthy();
    expect(document.querySelector('a:not([href])')).toBeNull(); // the keyboard does not reach these
  });

  it('are approved or declined by whoever may hold, and not by the one who asked', async () => {
    signIn('audit.read', 'audit.hold');
    const sent = server({
      'GET /audit/erasures': () => json(200, { items: [] }),
      'GET /audit/erasures/approvals': () => json(200, { items: [{ ...asked, asked_by: 'zhao' }, { ...asked, id: 'a3', reason: 'mine' }] }),
      'POST /audit/erasures/approvals/a1/decline': () => json(200, { ...asked, declined_by: 'officer', declined_at: '2026-11-22T00:00:00Z', decline_reason: 'no' }),
    });
    render(<ErasuresModal onClose={() => {}} onPerson={() => {}} onRecord={() => {}} />, { wrapper: withQueries });
    await screen.findByText('mine');
    expect(button('Approve the erasure of officer: mine')).toBeUndefined();
    expect(button('Decline the erasure of officer: mine')).toBeUndefined();
    expect(button('Approve the erasure of zhao: a court wants it')).toBeTruthy();
    press('Decline the erasure of zhao: a court wants it');
    expect(button('Decline')?.disabled).toBe(true);
    fireEvent.change(screen.getByLabelText('Why; the asker sees it, and it is recorded'), { target: { value: 'no' } });
    press('Decline');
    await waitFor(() => expect(sent.find((s) => s.path.endsWith('/decline'))?.body).toEqual({ reason: 'no' }));
  });
});

describe('ExportModal', () => {
  it('shows the period with its zone and how many records it has, and exports exactly that', async () => {
    signIn('audit.read');
    URL.createObjectURL ??= () => 'blob:x';
    URL.revokeObjectURL ??= () => {};
    vi.spyOn(HTMLAnchorElement.prototype, 'click').mockImplementation(() => {});
    const sent = server({
      'GET /audit/export/size': () => json(200, { records: 1234, more: false }),
      'GET /audit/export': () => new Response('PK bundle', { status: 200, headers: { 'content-type': 'application/zip', 'content-length': '9' } }),
    });
    render(<ExportModal period={{}} onClose={() => {}} />, { wrapper: withQueries });
    expect(await screen.findByText('1,234 records')).toBeTruthy();
    expect(screen.getByText(/^Times are shown in your zone: /)).toBeTruthy();
    expect(screen.getByText(/cannot show by itself that nothing was left out/)).toBeTruthy();
    fireEvent.click(screen.getByLabelText('Last 7 days'));
    await waitFor(() => expect(sent.filter((s) => s.path === '/audit/export/size').length).toBe(2));
    press('Export evidence');
    expect(await screen.findByText('Saved: 9 byte')).toBeTruthy();
    const asked = new URLSearchParams(sent.find((s) => s.path === '/audit/export')!.query);
    expect(Date.parse(asked.get('to')!) - Date.parse(asked.get('from')!)).toBe(7 * 86_400_000);
    expect(sent.filter((s) => s.path === '/audit/export/size').at(-1)!.query).toBe(sent.find((s) => s.path === '/audit/export')!.query);
  });

  it('warns where there is no bound, and says why it failed', async () => {
    signIn('audit.read');
    server({
      'GET /audit/export/size': () => json(200, { records: 1_000_000, more: true }),
      'GET /audit/export': () => json(503, { type: 't', title: 't', status: 503, detail: 'the database is away', code: 'database_unavailable', request_id: 'r' }),
    });
    render(<ExportModal period={{ from: '2026-11-01T00:00:00Z' }} onClose={() => {}} />, { wrapper: withQueries });
    expect(await screen.findByText('1,000,000+ records')).toBeTruthy();
    press('Export evidence');
    expect(await screen.findByText('the database is away')).toBeTruthy();
  });
});

describe('figures of the audit log', () => {
  it('have the currency of the books', async () => {
    signIn('audit.read', 'audit.verify');
    const finding = { kind: 'sums', item: 'h/demo', tenant: 'demo', first_seen: '2026-11-20T00:00:00Z', last_seen: '2026-11-20T00:00:00Z', detail: { hour: '2026-11-20T00:00:00Z', books_requests: '2', books_tokens: '30', books_cost: '1500000001', records_requests: '2', records_tokens: '30', records_cost: '1' } };
    server({ 'GET /audit/reconciliation': () => json(200, { running: false, open: { sums: 1 }, currency: 'CNY', items: [finding], as_of: '2026-11-22T00:00:00Z' }), 'GET /audit/status': () => json(200, status) });
    render(<ReconcileModal onClose={() => {}} onRecord={() => {}} onRequest={() => {}} />, { wrapper: withQueries });
    expect(await screen.findByText('Books: requests 2, tokens 30, cost 1.500000001 CNY')).toBeTruthy();
    expect(screen.getByText('Records: requests 2, tokens 30, cost 0.000000001 CNY')).toBeTruthy();
  });

  it('are saved as a document in the language of the page', async () => {
    signIn('audit.read', 'audit.verify');
    URL.createObjectURL ??= () => 'blob:x';
    URL.revokeObjectURL ??= () => {};
    const saved: string[] = [];
    vi.spyOn(HTMLAnchorElement.prototype, 'click').mockImplementation(function (this: HTMLAnchorElement) {
      saved.push(this.download);
    });
    const report = { ok: true, records: 4, sealed: 4, unsealed: 0, wal_records: 4, checkpoint_size: 4, least_index: 0, root: 'ab', witnessed: [], problems: [] };
    const job = { id: 'v1', status: 'finished', done: 4, total: 4, started_at: '2026-01-01T00:00:00Z', finished_at: '2026-01-01T00:00:02Z', report };
    const sent = server({
      'POST /audit/verifications': () => json(202, job),
      'GET /audit/verifications/v1': () => json(200, job),
      'GET /audit/verifications/v1/report': () => new Response('%PDF', { status: 200, headers: { 'content-type': 'application/pdf' } }),
    });
    render(<VerifyModal onClose={() => {}} onRecord={() => {}} />, { wrapper: withQueries });
    press('Start verification');
    await screen.findByText('Report to file or to print:');
    press('PDF');
    await waitFor(() => expect(saved).toEqual(['verification-2026-01-01T000002.pdf']));
    expect(sent.find((s) => s.path.endsWith('/report'))?.query).toBe('?format=pdf');
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
