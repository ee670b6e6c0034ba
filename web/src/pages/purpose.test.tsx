import { cleanup, fireEvent, screen, waitFor } from '@testing-library/react';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';

import type { Schema } from '../api/client';
import { PassageDrawer } from '../components/PassageDrawer';
import { setUpLanguage } from '../i18n';
import { browser, json, press, refusal, type Sent, server, show, signIn, write } from '../testkit';
import Knowledge from './Knowledge';
import Playground from './Playground';

beforeAll(browser);
beforeEach(() => {
  sessionStorage.clear();
  signIn({ permissions: ['playground.use', 'rag.read', 'rag.search'] });
  return setUpLanguage('en');
});
afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
});

const fees: Schema['PassageView'] = { collection: 'kb', document: 'fees.md', document_id: 'd-1', version: 'v1', items: [{ chunk: 4, start: 0, end: 18, text: 'The fee is 5 yuan.', quoted: true }] };
const passage = { collection: 'kb', document_id: 'd-1', version: 'v1', chunk: 4 };

/** A server whose policy takes these purposes when it is asked; it refuses what states none of them, and says nothing of the policy's to the console. */
function demanding(purposes: () => string[]) {
  const unless = (answer: () => Response) => (s: Sent) =>
    purposes().length === 0 || purposes().includes(s.headers.get('x-sluice-purpose') ?? '') ? answer() : refusal(403, 'purpose_required', `Send one of: ${purposes().join(', ')}.`);
  return server({
    'GET /me': () => json(200, { purposes: purposes().length ? purposes() : undefined }),
    'GET /playground/models': () => json(200, { items: ['chat'] }),
    'GET /rag/collections': () => json(200, { items: [{ name: 'kb', title: '', documents: 1, labels: [] }] }),
    'POST /rag/search': unless(() => json(200, { items: [{ ...passage, document: 'fees.md', text: 'The fee is 5 yuan.', start: 0, end: 18, score: 1 }], findings: [] })),
    'POST /rag/passages': unless(() => json(200, fees)),
    'POST /playground/chat/completions': unless(() => new Response('data: {"choices":[{"delta":{"content":"Five yuan."}}]}\n\ndata: [DONE]\n\n', { headers: { 'content-type': 'text/event-stream' } })),
  });
}

const stated = (sent: Sent[]) => sent.filter((s) => s.method === 'POST').map((s) => s.headers.get('x-sluice-purpose'));
const button = (name: string) => screen.getByText(name, { selector: 'button span' }).closest('button')!;

async function choose(label: string, purpose: string) {
  fireEvent.mouseDown(await screen.findByLabelText(label));
  fireEvent.click(await screen.findByText(purpose, { selector: '.ant-select-item-option-content' }));
}

describe('a purpose that the policy demands', () => {
  it('is chosen before anything is sent from the playground, and remembered', async () => {
    const sent = demanding(() => ['support', 'billing']);
    const first = show(<Playground />);
    const choice = await screen.findByLabelText('Purpose');
    expect(choice.getAttribute('aria-required')).toBe('true');
    screen.getByText('Choose one: the policy asks for it');
    await screen.findByText('chat');
    write('Message', 'What is the fee?');
    expect(button('Send').disabled).toBe(true);
    fireEvent.keyDown(screen.getByLabelText('Message'), { key: 'Enter', keyCode: 13 });
    expect(stated(sent)).toEqual([]);
    await choose('Purpose', 'billing');
    await press('Send');
    await screen.findByText('Five yuan.');
    first.unmount();

    show(<Playground />);
    await screen.findByText('billing');
    await screen.findByText('chat');
    write('Message', 'And the form?');
    await press('Send');
    await screen.findByText('Five yuan.');
    expect(stated(sent)).toEqual(['billing', 'billing']);
    cleanup();

    signIn({ id: 'u2', permissions: ['playground.use'] }); // the next person says it for himself
    show(<Playground />);
    await screen.findByText('Choose one: the policy asks for it');
  });

  it('is chosen before a search', async () => {
    await setUpLanguage('zh');
    const sent = demanding(() => ['support']);
    show(<Knowledge />);
    await screen.findByText('请选择，策略要求说明用途');
    write('问题', '费用');
    expect(button('检 索') /* the kit's own space, which App switches off */.disabled).toBe(true);
    fireEvent.keyDown(screen.getByLabelText('问题'), { key: 'Enter', keyCode: 13 });
    expect(stated(sent)).toEqual([]);
    await choose('用途', 'support');
    await press('检 索');
    await screen.findByText('The fee is 5 yuan.');
    expect(stated(sent)).toEqual(['support']);
  });

  it('is chosen before a cited passage is opened', async () => {
    const sent = demanding(() => ['support']);
    const first = show(<PassageDrawer passage={passage} onClose={() => {}} />);
    await choose('Purpose', 'support');
    await screen.findByTestId('quoted');
    expect(screen.queryByLabelText('Purpose')).toBeNull();
    first.unmount();
    show(<PassageDrawer passage={passage} onClose={() => {}} />);
    await screen.findByTestId('quoted');
    expect(stated(sent)).toEqual(['support', 'support']);
  });

  it('is not asked for where the policy demands none', async () => {
    const sent = demanding(() => []);
    show(<><Playground /><Knowledge /><PassageDrawer passage={passage} onClose={() => {}} /></>);
    await screen.findByTestId('quoted');
    await screen.findByText('chat');
    write('Message', 'What is the fee?');
    await press('Send');
    await screen.findByText('Five yuan.');
    expect(screen.queryByLabelText('Purpose')).toBeNull();
    expect(stated(sent)).toEqual([null, null]);
  });

  it('is asked for once a newer policy refuses, and one that it no longer takes is not sent', async () => {
    let purposes: string[] = [];
    const sent = demanding(() => purposes);
    show(<Knowledge />);
    await screen.findByLabelText('Question');
    purposes = ['support'];
    write('Question', 'fee');
    await waitFor(() => expect(button('Search').disabled).toBe(false));
    await press('Search');
    await choose('Purpose', 'support');
    await press('Search');
    await screen.findByText('The fee is 5 yuan.');
    purposes = ['billing'];
    await press('Search');
    await screen.findByText('Choose one: the policy asks for it');
    await choose('Purpose', 'billing');
    await press('Search');
    await screen.findByText('The fee is 5 yuan.');
    expect(stated(sent)).toEqual([null, 'support', 'support', 'billing']);
  });
});
