import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { App } from 'antd';
import { cleanup, configure, fireEvent, render, screen, waitFor } from '@testing-library/react';
import type { ReactNode } from 'react';
import { MemoryRouter } from 'react-router';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';

import type { Schema } from '../api/client';
import { type Me, session } from '../api/session';
import { setUpLanguage } from '../i18n';
import type { Turn } from '../lib/conversation';
import { citedPassage, marksIn, recordedPassage } from '../lib/passages';
import { AuditDrawer } from './AuditDrawer';
import { Governance, TurnView } from './TurnView';

const json = (status: number, body: unknown) => new Response(JSON.stringify(body), { status, headers: { 'content-type': 'application/json' } });

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

const fees: Schema['Citation'] = { number: 1, collection: 'kb', document: 'fees.md', document_id: 'd-1', title: 'Fees', section: 'Fees > Desk', version: 'v1', chunk: 4, text: 'The fee is 5 yuan.' };
const trees: Schema['Citation'] = { number: 2, collection: 'kb', document: 'trees.md', document_id: 'd-2', version: 'v3', chunk: 0, text_withheld: true };
const turn: Turn = { id: 1, question: 'What is it?', answer: 'Five yuan [1], see [1, 2] and [7].', state: 'done', extension: { citations: [fees, trees] } };

function signIn(...permissions: string[]) {
  const me: Me = { id: 'u', name: 'reader', kind: 'user', tenant: 'demo', roles: ['developer'], labels: [], permissions };
  vi.spyOn(session, 'snapshot').mockReturnValue({ status: 'in', me });
  vi.spyOn(session, 'subscribe').mockReturnValue(() => {});
}

/** Answers by method and path, and notes the bodies that were sent. */
function server(answers: Record<string, () => Response>) {
  const sent: unknown[] = [];
  vi.spyOn(session, 'fetch').mockImplementation(async (request) => {
    if (request.method === 'POST') sent.push(await request.json());
    return (answers[`${request.method} ${new URL(request.url).pathname.replace('/api/v1', '')}`] ?? (() => json(404, {})))();
  });
  return sent;
}

const show = (node: ReactNode) =>
  render(
    <QueryClientProvider client={new QueryClient()}>
      <App>
        <MemoryRouter>{node}</MemoryRouter>
      </App>
    </QueryClientProvider>,
  );

const view: Schema['PassageView'] = {
  collection: 'kb', document: 'fees.md', title: 'Fees', document_id: 'd-1', version: 'v1',
  items: [
    { chunk: 3, section: 'Fees', start: 0, end: 6, text: 'Before', quoted: false },
    { chunk: 4, section: 'Fees > Desk', start: 6, end: 24, text: 'The fee is 5 yuan.', quoted: true },
    { chunk: 5, section: 'Fees', start: 24, end: 29, text: 'After', quoted: false },
  ],
};

describe('marks', () => {
  it('cuts an answer at the numbers that citations have', () => {
    const parts = marksIn('Five [1]，见[1、2][9]. a[0]', [fees, trees]);
    expect(parts.map((p) => ('text' in p ? p.text : `<${p.mark}>`)).join('')).toBe('Five <[1]>，见[<1>、<2>][9]. a[0]');
    expect(marksIn('plain [1]', [])).toEqual([{ text: 'plain [1]' }]);
  });

  it('reads the names of passages', () => {
    expect(recordedPassage('办事/0b-1@v12#3')).toEqual({ collection: '办事', document_id: '0b-1', version: 'v12', chunk: 3 });
    expect(recordedPassage('kb/0b-1')).toBeUndefined();
    expect(citedPassage({ document: 'x' })).toBeUndefined();
  });
});

describe('an answer that was cut off', () => {
  it('says by what, and is not called complete', async () => {
    for (const [language, finish, said, complete] of [['en', 'content_filter', 'Cut by a content filter', 'Complete'], ['zh', 'content_filter', '被内容过滤器截断', '已完成'], ['en', 'length', 'Cut at the token limit', 'Complete']] as const) {
      await setUpLanguage(language);
      const { unmount } = show(<TurnView turn={{ id: 1, question: 'q', answer: 'a', state: 'done', finish }} />);
      expect(screen.getByText(said)).toBeTruthy();
      expect(screen.queryByText(complete)).toBeNull();
      unmount();
    }
  });
});

describe('a cited passage', () => {
  it('opens from its mark, highlighted between its neighbours', async () => {
    signIn('rag.search');
    const sent = server({ 'POST /rag/passages': () => json(200, view) });
    show(<TurnView turn={turn} />);
    const marks = screen.getAllByRole('button', { name: /Open source/ });
    expect(marks.map((m) => m.tagName)).toEqual(['BUTTON', 'BUTTON', 'BUTTON']); // Space presses them too
    expect(document.body.textContent).toContain('and [7].');
    fireEvent.click(screen.getAllByRole('button', { name: 'Open source 1: Fees' })[0]!);
    const quoted = await screen.findByTestId('quoted');
    expect(quoted.querySelector('mark')?.textContent).toBe('The fee is 5 yuan.');
    expect(screen.getAllByTestId('neighbour').map((n) => n.querySelector('.passage')?.textContent)).toEqual(['Before', 'After']);
    expect(document.body.textContent).toContain('fees.md · knowledge base kb · version v1');
    expect(sent).toEqual([{ collection: 'kb', document_id: 'd-1', version: 'v1', chunk: 4, neighbours: 1 }]);
  });

  it('says that its document was replaced, and shows no other text', async () => {
    await setUpLanguage('zh');
    signIn('rag.search');
    server({ 'POST /rag/passages': () => json(404, { type: 't', title: 't', status: 404, code: 'passage_replaced', detail: '版本 v1 已不再保留', request_id: 'r' }) });
    show(<Governance turn={turn} />);
    expect(document.body.textContent).toContain('The fee is 5 yuan.');
    expect(document.body.textContent).toContain('策略不允许显示该段落的原文');
    fireEvent.click(screen.getByRole('button', { name: 'Fees' }));
    await waitFor(() => expect(screen.getByRole('alert').textContent).toContain('版本 v1 已不再保留'));
    expect(screen.getByRole('alert').textContent).toContain('已更新');
    expect(screen.queryByTestId('quoted')).toBeNull();
  });

  it('is no link for whom a search would refuse', () => {
    signIn();
    show(<><TurnView turn={turn} /><Governance turn={turn} /></>);
    expect(screen.queryByRole('button')).toBeNull();
    expect(document.body.textContent).toContain('Five yuan [1], see [1, 2] and [7].');
  });

  it('opens from a record of the own tenant only', async () => {
    const entry = (tenant: string) => ({ index: 7, event: { id: 'e', time: 1, schema: 3, stage: 'outcome', tenant, documents: ['kb/d-1@v1#4'] } });
    signIn('rag.search', 'audit.read');
    const sent = server({ 'GET /audit/records/e': () => json(200, entry('demo')), 'GET /audit/records/f': () => json(200, entry('bank')), 'POST /rag/passages': () => json(200, view) });
    show(<AuditDrawer id="e" onClose={() => {}} onRequest={() => {}} />);
    fireEvent.click(await screen.findByRole('button', { name: 'kb/d-1@v1#4' }));
    expect((await screen.findByTestId('quoted')).textContent).toContain('The fee is 5 yuan.');
    expect(sent).toEqual([{ collection: 'kb', document_id: 'd-1', version: 'v1', chunk: 4, neighbours: 1 }]);
    cleanup();
    show(<AuditDrawer id="f" onClose={() => {}} onRequest={() => {}} />);
    expect(await screen.findByText('kb/d-1@v1#4')).toBeTruthy();
    expect(screen.queryByRole('button', { name: 'kb/d-1@v1#4' })).toBeNull();
  });
});
