import { act, cleanup, fireEvent, screen, waitFor, within } from '@testing-library/react';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';

import type { Schema } from '../api/client';
import { setUpLanguage } from '../i18n';
import { browser, json, press, refusal, server, show, signIn } from '../testkit';
import Engines from './Engines';

beforeAll(browser);
beforeEach(async () => {
  await setUpLanguage('en');
  signIn({ roles: ['auditor'], permissions: ['system.read'] });
});
afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
});

const features = ['chat', 'tools', 'format.regex', 'made.up'];
const cell = (feature: string, more: Partial<Schema['EngineMatrixCell']>): Schema['EngineMatrixCell'] => ({ feature, status: 'missing', grade: 'E0', usable: 'no', why: 'missing', ...more });
const contracted: Schema['EngineMatrixRow'] = {
  pool: 'chat', instance: 'npu-1', kind: 'remote', profile: 'vllm-ascend', state: 'ready', model: 'qwen', engine_model: 'qwen', evidence: 'contract',
  engine: 'vLLM-Ascend', version: '0.11.0', device: { vendor: 'huawei', family: 'ascend' }, context_tokens: 4096,
  modes: [{ mode: 'graph', status: 'claimed', grade: 'E1', when: 'version.cann >= "8.0"' }],
  cells: [
    cell('chat', { status: 'validated', grade: 'E3', usable: 'yes', why: undefined }),
    cell('tools', { status: 'claimed', grade: 'E1', usable: 'depends', why: 'unknown', when: 'batch <= 8', owner: 'engine', source: 'docs-tools', fallback: 'ignored', note: 'with its own parser' }),
    cell('format.regex', { status: 'claimed', grade: 'E1', why: 'condition', when: 'device.vendor == "nvidia"' }),
    cell('made.up', {}),
  ],
};
const listed: Schema['EngineMatrixRow'] = {
  pool: 'old', instance: 'old', kind: 'remote', state: 'draining', model: 'small', engine_model: 'small', evidence: 'listed', modes: [],
  cells: [cell('chat', { status: 'listed', usable: 'yes', why: undefined }), ...features.slice(1).map((f) => cell(f, {}))],
};

async function open(rows: Schema['EngineMatrixRow'][]) {
  server({ 'GET /engine-matrix': () => json(200, { features, rows }) });
  show(<Engines />);
  await screen.findByRole('heading', { name: 'Engines' });
}

const button = (name: string) => [...document.querySelectorAll('button')].find((b) => b.getAttribute('aria-label') === name);

async function pick(select: string, option: string) {
  const box = screen.getByRole('combobox', { name: select });
  fireEvent.mouseDown(box);
  const found = await waitFor(() => {
    const all = [...document.querySelectorAll('.ant-select-dropdown:not(.ant-select-dropdown-hidden) .ant-select-item-option-content')].filter((o) => o.textContent === option);
    expect(all.length, option).toBeGreaterThan(0);
    return all.at(-1)!;
  });
  await act(async () => {
    fireEvent.click(found);
    await Promise.resolve();
  });
}

describe('Engines', () => {
  it('shows each cell by a sign and a word, not by colour alone', async () => {
    await open([contracted, listed]);
    await waitFor(() => expect(button('Chat, chat/npu-1, qwen: measured E3')?.textContent).toBe('✓ E3'));
    expect(button('Tool calls, chat/npu-1, qwen: depends on a condition E1')?.textContent).toBe('? E1');
    expect(button('Regular expression, chat/npu-1, qwen: not usable')?.textContent).toBe('–');
    expect(button('Chat, old, small: listed')?.textContent).toBe('◦');
    expect(button('made.up, chat/npu-1, qwen: not usable')).toBeTruthy(); // of a newer server, by its own name
    expect(button('As a graph, chat/npu-1, qwen: depends on a condition E1')).toBeTruthy();
    const table = screen.getByRole('region', { name: 'Matrix of features' });
    for (const text of ['vLLM-Ascend 0.11.0', 'huawei ascend', '4,096', 'Capability contract', 'Its own list only', 'Draining']) within(table).getByText(text);
  });

  it('tells all that is known of a cell when it is pressed', async () => {
    await open([contracted]);
    await press('Tool calls, chat/npu-1, qwen: depends on a condition E1');
    const detail = await waitFor(() => {
      const found = document.querySelector<HTMLElement>('.cell-detail');
      expect(found).toBeTruthy();
      return found!;
    });
    for (const text of ['batch <= 8', 'docs-tools', 'with its own parser', 'the engine', '0.11.0', 'it is dropped without a word', 'E1 · documented by its owner']) within(detail).getByText(text);
  });

  it('filters by pool and by what is usable now', async () => {
    await open([contracted, listed]);
    await waitFor(() => expect(button('Chat, old, small: listed')).toBeTruthy());
    fireEvent.click(screen.getByRole('checkbox', { name: 'Usable now' }));
    await waitFor(() => expect(button('Chat, old, small: listed')).toBeUndefined());
    expect(button('Tool calls, chat/npu-1, qwen: depends on a condition E1')).toBeTruthy();
    expect(button('Regular expression, chat/npu-1, qwen: not usable')).toBeUndefined();
    await pick('Pool', 'old');
    await screen.findByText('Nothing matches these filters.');
    await press('Clear the filters');
    await waitFor(() => expect(button('Chat, old, small: listed')).toBeTruthy());
  });

  it('says which instances a request can go to, and why not to the others', async () => {
    await open([contracted, listed]);
    await screen.findByText('Choose at least one need.');
    await pick('What the request needs', 'Tool calls');
    expect((await screen.findByText('1 of 2 can take it.')).closest('[role=status]')).toBeTruthy();
    within(screen.getByRole('list', { name: 'Can take the request' })).getByText('Tool calls: only while batch <= 8.');
    const others = screen.getByRole('list', { name: 'Cannot take the request' });
    within(others).getByText('Tool calls: nobody says that it can.');
    within(others).getByText('It takes no new requests: Draining.');
    fireEvent.change(screen.getByRole('spinbutton', { name: 'Prompt and answer, in tokens' }), { target: { value: '5000' } });
    await screen.findByText('It takes at most 4,096 in prompt and answer together.');
    await screen.findByText('0 of 2 can take it.');
    await screen.findByText(/load and weight decide/);
  });

  it('says so where there is nothing, and where it fails', async () => {
    await open([]);
    await screen.findByText('There is no instance that answers.');
    expect(screen.queryByText('Where can a request go?')).toBeNull();
    cleanup();
    server({ 'GET /engine-matrix': () => refusal(503, 'database_unavailable', 'The database cannot be reached.') });
    show(<Engines />);
    await screen.findByText(/The database cannot be reached/);
  });
});
