import { act, cleanup, fireEvent, screen, waitFor } from '@testing-library/react';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';

import type { Schema } from '../api/client';
import { setUpLanguage } from '../i18n';
import { checkInput } from '../lib/batchInput';
import { browser, json, press, refusal, server, show, signIn } from '../testkit';
import Batches from './Batches';

beforeAll(browser);
beforeEach(() => {
  setUpLanguage('en');
  signIn({ permissions: ['batches.use'] });
});
afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
});

const batch: Schema['Batch'] = {
  id: 'batch_0123456789abcdef0123456789abcdef', endpoint: '/v1/chat/completions', state: 'in_progress', class: 'batch', total: 4, completed: 1, failed: 1,
  created_at: '2026-11-20T08:00:00Z', expires_at: '2026-11-21T08:00:00Z', input: true, output: false, errors: false,
};
const line = (id: string, more: object = {}) => JSON.stringify({ custom_id: id, method: 'POST', url: '/v1/chat/completions', body: { model: 'small', messages: [] }, ...more });

async function choose(text: string) {
  const file = new File([text], 'night.jsonl');
  file.text = () => Promise.resolve(text);
  await waitFor(() => expect(document.querySelector('input[type=file]')).toBeTruthy());
  await act(async () => {
    fireEvent.change(document.querySelector('input[type=file]')!, { target: { files: [file] } });
    await Promise.resolve();
  });
}

describe('Batches', () => {
  it('explains itself where there are none', async () => {
    server({});
    show(<Batches />);
    await screen.findByText(/No batch yet/);
    screen.getByText(/purpose=batch/);
  });

  it('shows how far each is, and cancels', async () => {
    const sent = server({ 'GET /batches': () => json(200, { items: [batch] }), [`POST /batches/${batch.id}/cancel`]: () => json(200, { ...batch, state: 'cancelling' }) });
    show(<Batches />);
    await screen.findByText('1 answered, 1 failed, of 4');
    expect(screen.getByText('50%')).toBeTruthy();
    await press(`Cancel batch ${batch.id}`);
    await press('Cancel batch');
    await waitFor(() => expect(sent.some((s) => s.method === 'POST')).toBe(true));
  });

  it('says what is wrong with a file before it is sent', async () => {
    const sent = server({});
    show(<Batches />);
    await press('New batch');
    await choose(`${line('a')}\n${line('a')}\nnothing\n`);
    await screen.findByText('custom_id stands in an earlier line');
    screen.getByText('it is no JSON object');
    await press('Start batch');
    expect(sent.filter((s) => s.method === 'POST')).toEqual([]);
  });

  it('stores the file and starts the batch, and shows a refusal with its remedy', async () => {
    let full = true;
    const sent = server({
      'POST /batches/files': () => json(200, { id: 'file-1', filename: 'night.jsonl', bytes: 9 }),
      'POST /batches': () => (full ? refusal(429, 'batch_limit_exceeded', 'Wait until one has ended.') : json(201, batch)),
      [`GET /batches/${batch.id}`]: () => json(200, { ...batch, state: 'failed', problems: [], failures: [{ custom_id: 'w7', code: 'not_allowed', status: 403 }] }),
    });
    show(<Batches />);
    await press('New batch');
    await choose(`${line('a')}\n${line('b')}\n`);
    await press('Start batch');
    await screen.findByText('Wait until one has ended.');
    full = false;
    await press('Start batch');
    await screen.findByText('w7');
    screen.getByText('not_allowed');
    expect(sent.filter((s) => s.path === '/batches' && s.method === 'POST').at(-1)?.body).toEqual({ file: 'file-1', endpoint: '/v1/chat/completions' });
  });
});

describe('checkInput', () => {
  it('finds what the server would refuse', () => {
    const codes = (text: string) => checkInput(text).problems.map((p) => `${p.line} ${p.code}`);
    expect(codes('\n\n')).toEqual(['0 empty_file']);
    expect(codes(`${line('a')}\n\n${line('b', { method: 'GET' })}`)).toEqual(['3 invalid_method']);
    expect(codes(`${line('a')}\n${line('b', { url: '/v1/embeddings' })}`)).toEqual(['2 mismatched_url']);
    expect(codes(line('a', { body: [] }))).toEqual(['1 invalid_body']);
    expect(codes(line('a', { body: { stream: true } }))).toEqual(['1 streaming_not_supported']);
    expect(codes(line('', {}))).toEqual(['1 missing_custom_id']);
    expect(checkInput(`${line('a')}\n${line('b')}`)).toEqual({ lines: 2, endpoint: '/v1/chat/completions', models: ['small'], problems: [] });
  });
});
