import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { cleanup, configure, fireEvent, render, screen, waitFor, within } from '@testing-library/react';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';

import { session } from '../api/session';
import { setUpLanguage } from '../i18n';
import { Findings } from './TurnView';
import { MaskingPreview } from './MaskingPreview';
import type { MaskingRequest, PreviewResult } from './MaskingResult';
import { PolicyTrial } from './PolicyTrial';

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

const phone = '13800138000';
const found = (action: PreviewResult['spans'][number]['action'], masked: string): PreviewResult => ({
  masked,
  restored: `call ${phone}`,
  blocked: action === 'block',
  spans: [{ start: 5, end: 16, class: 'cn_mobile', action, score: 1, form: 0.85, grade: 3, reasons: [{ name: 'label_before', weight: 0.4 }, { name: 'ordinary', weight: -0.1 }, { name: 'base64', weight: 0 }] }],
});

/** Answers every request, and notes it. */
function server(answer: (body: MaskingRequest) => Response) {
  const requests: MaskingRequest[] = [];
  vi.spyOn(session, 'fetch').mockImplementation(async (request) => {
    const body = (await request.json()) as MaskingRequest;
    requests.push(body);
    return answer(body);
  });
  return requests;
}

const queries = () => new QueryClient({ defaultOptions: { queries: { retry: false } } });
const type = (text: string) => fireEvent.change(screen.getByLabelText('Text to check'), { target: { value: text } });
const part = (name: string) => within(document.querySelector<HTMLElement>(`[role=group][aria-label="${name}"], section[aria-label="${name}"]`)!);

describe('MaskingPreview', () => {
  it('shows what was found, what the model sees and what the caller gets, and says why', async () => {
    const requests = server(() => json(200, found('token', 'call ⟦手机·K7Q2F⟧')));
    render(<QueryClientProvider client={queries()}><MaskingPreview text="" /></QueryClientProvider>);
    type(`call ${phone}`);
    fireEvent.keyDown(screen.getByLabelText('Text to check'), { key: 'Enter', code: 'Enter', keyCode: 13, ctrlKey: true });
    await screen.findByTestId('masked');
    expect(requests).toEqual([{ text: `call ${phone}`, direction: 'request' }]);
    expect(screen.getByTestId('masked').textContent).toBe('call ⟦手机·K7Q2F⟧');
    expect(screen.getByTestId('restored').textContent).toBe(`call ${phone}`);
    const mark = document.querySelector('mark')!;
    expect(mark.textContent).toBe(`${phone} Mobile number · Pseudonym (token)`);
    expect(mark.tabIndex).toBe(0);
    fireEvent.focus(mark); // the keyboard's way; pointing does the same
    const why = await screen.findByTestId('why');
    for (const text of ['Grade 3 of 5', 'Score 1.00', '0.85 Its form alone', '+0.40 A label that names it', '-0.10 It is an ordinary word', 'Stood in base64', 'Together 1.15; more than 1']) {
      expect(why.textContent).toContain(text);
    }
    expect(mark.getAttribute('aria-describedby')).toBeTruthy(); // a screen reader reads it out
  });

  it('shows a refused text as such, and nothing as sent', async () => {
    await setUpLanguage('zh');
    server(() => json(200, found('block', 'call ⟦手机·K7Q2F⟧')));
    render(<QueryClientProvider client={queries()}><MaskingPreview text={`call ${phone}`} /></QueryClientProvider>);
    fireEvent.click(screen.getByText('预览脱敏'));
    expect((await screen.findByRole('status')).textContent).toContain('已拦截');
    expect(screen.getByTestId('masked').textContent).toBe('无');
    expect(screen.getByTestId('restored').textContent).toBe('无');
  });

  it('shows of an answer what its caller sees, and keeps no text in any cache', async () => {
    const requests = server(() => json(200, found('redact', 'call 〔已屏蔽:手机〕')));
    const client = queries();
    const view = render(<QueryClientProvider client={client}><MaskingPreview text={`call ${phone}`} /></QueryClientProvider>);
    fireEvent.mouseDown(screen.getByLabelText('Where the text comes from'));
    fireEvent.click(await screen.findByText('Answer: model to caller'));
    fireEvent.click(screen.getByText('Preview masking'));
    await screen.findByTestId('masked');
    expect(requests[0]?.direction).toBe('answer');
    expect(document.querySelector('section[aria-label="The model sees"]')).toBeNull();
    expect(part('The caller gets back').getByTestId('masked').textContent).toBe('call 〔已屏蔽:手机〕');
    view.unmount();
    await waitFor(() => expect(client.getMutationCache().getAll()).toEqual([]));
    expect(client.getQueryCache().getAll()).toEqual([]);
  });
});

describe('PolicyTrial', () => {
  it('sets the policy in force beside the draft and says what would change', async () => {
    const requests = server((body) => json(200, body.yaml ? found('partial', 'call 138****8000') : found('token', 'call ⟦手机·K7Q2F⟧')));
    const client = queries();
    const view = render(<QueryClientProvider client={client}><PolicyTrial yaml="schema: 2" /></QueryClientProvider>);
    type(`call ${phone}`);
    fireEvent.click(screen.getByText('Try'));
    const table = await screen.findByRole('table');
    expect(table.textContent).toContain('Mobile numberPseudonym (token)Shown in part (partial)1');
    expect(requests).toEqual([{ text: `call ${phone}`, direction: 'request' }, { text: `call ${phone}`, direction: 'request', yaml: 'schema: 2' }]);
    expect(part('Policy in force').getByTestId('masked').textContent).toBe('call ⟦手机·K7Q2F⟧');
    expect(part('Draft').getByTestId('masked').textContent).toBe('call 138****8000');
    view.rerender(<QueryClientProvider client={client}><PolicyTrial yaml="schema: 2 # other" /></QueryClientProvider>);
    expect(screen.getByText('The draft has changed since. Try again.')).toBeTruthy();
  });

  it('says that a draft would refuse the text', async () => {
    server((body) => json(200, body.yaml ? found('block', 'x') : found('token', 'x')));
    render(<QueryClientProvider client={queries()}><PolicyTrial yaml="schema: 2" /></QueryClientProvider>);
    type(`call ${phone}`);
    fireEvent.click(screen.getByText('Try'));
    await screen.findByText('The draft would refuse this text; the policy in force lets it through.');
  });

  it('shows the mistake of a draft in its own column', async () => {
    server((body) => (body.yaml ? json(400, { type: 't', title: 't', status: 400, detail: 'schema must be 2', code: 'invalid_policy', request_id: 'req_1' }) : json(200, found('token', 'call ⟦手机·K7Q2F⟧'))));
    render(<QueryClientProvider client={queries()}><PolicyTrial yaml="schema: 9" /></QueryClientProvider>);
    type(`call ${phone}`);
    fireEvent.click(screen.getByText('Try'));
    await screen.findByText('schema must be 2');
    expect(part('Draft').getByRole('alert').textContent).toContain('schema must be 2');
    expect((await screen.findByTestId('masked')).closest('section[aria-label="Policy in force"]')).toBeTruthy();
    expect(screen.queryByText('What would change')).toBeNull();
  });
});

describe('Findings', () => {
  const now = ['token', 'redact', 'hash', 'block', 'observe'];
  const before = ['masked', 'redacted', 'hashed', 'blocked', 'passed'];
  const cells = (actions: string[], restored?: number) => {
    render(<Findings findings={actions.map((action) => ({ direction: 'request', class: 'cn_mobile', action, count: 1, restored }))} />);
    const texts = [...document.querySelectorAll('tbody tr td:nth-child(3)')].map((c) => c.textContent);
    cleanup();
    return texts;
  };

  it('has one name for an action, whenever the record was written', () => {
    expect(cells(now)).toEqual(['Pseudonym (token)', 'Redacted (redact)', 'Digest (hash)', 'Blocked (block)', 'Counted, stays (observe)']);
    expect(cells(before)).toEqual(cells(now));
    setUpLanguage('zh');
    expect(cells(before)).toEqual(['假名（token）', '屏蔽（redact）', '摘要（hash）', '拦截（block）', '仅计数（observe）']);
  });

  it('says how often values were put back', () => {
    expect(cells(['token'], 2)).toEqual(['Pseudonym (token)put back 2×']);
  });
});
