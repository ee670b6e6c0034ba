import { cleanup, screen, waitFor, within } from '@testing-library/react';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';

import type { Schema } from '../api/client';
import { setUpLanguage } from '../i18n';
import { browser, json, press, refusal, server, show, signIn, write } from '../testkit';
import Provenance from './Provenance';

beforeAll(browser);
beforeEach(() => {
  setUpLanguage('en');
  signIn({ permissions: ['audit.read'] });
});
afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
});

const verdict: Schema['ProvenanceVerdict'] = {
  schema: 'sluice.provenance/2', issuer: 'log', tenant: 'demo', time: '2026-11-27T09:00:00Z', subject: { kind: 'text', bytes: 90, sha256: 'ab12', characters: 90 },
  conclusion: 'derived', contradictions: [], limits: ['changes', 'registry', 'truth'],
  marks: {
    label: { result: 'cannot_say', reason: 'label_bare', confidence: 'none' },
    credentials: { result: 'refuted', reason: 'credentials_changed', confidence: 'public_key', code: 'assertion.dataHash.mismatch' },
    signature: { result: 'absent', reason: 'signature_none', confidence: 'none' },
    watermark: { result: 'confirmed', reason: 'watermark_found', confidence: 'statistics', log10_p: -11.5, key: 'wk_1', model: 'qwen', counted_tokens: 140, least_tokens: 40 },
    registry: { result: 'partial', reason: 'registry_part', confidence: 'comparison', share: 0.873, verified_letters: 130, compared_letters: 160, since: '2026-01-05T08:00:00Z', requests: ['req-1'] },
  },
  requests: [{ id: 'req-1', by: ['registry'], time: '2026-11-26T09:00:00Z', model: 'qwen', version: '1', records: ['a', 'b'] }], more_requests: false,
};

describe('Where a text comes from', () => {
  it('shows the conclusion, what it does not prove, and every mark', async () => {
    const sent = server({ 'POST /audit/provenance': () => json(200, verdict) });
    show(<Provenance />);
    write('Text', 'a paragraph that was edited a little');
    write('Signature that came with it (optional)', ' a.b.c ');
    await press('Where does it come from?');
    expect((await screen.findByTestId('conclusion')).textContent).toContain('Most of the text, or all of it');
    expect(sent[0]?.body).toEqual({ text: 'a paragraph that was edited a little', signature: 'a.b.c' });
    screen.getByText(/Numbers, names and negations/);
    expect(screen.getByTestId('mark-credentials').textContent).toContain('What does not hold: assertion.dataHash.mismatch');
    const registry = within(screen.getByTestId('mark-registry'));
    registry.getByText('130 of 160 letters and numerals found letter for letter: about 87.3% of the text, without wording that very many answers have');
    registry.getByText(/^The first answer was registered at .*2026/);
    registry.getByText('found in part');
    within(screen.getByTestId('mark-watermark')).getByText('A text written without the key scores as high with a probability of at most 10^-11');
    expect(screen.getByRole('link', { name: 'Records' }).getAttribute('href')).toBe('/audit?request=req-1');
  });

  it('names contradictions first', async () => {
    server({ 'POST /audit/provenance': () => json(200, { ...verdict, conclusion: 'contradictory', contradictions: ['borrowed_sign'], limits: ['truth'] }) });
    show(<Provenance />);
    write('Text', 'forged');
    await press('Where does it come from?');
    const box = await screen.findByTestId('conclusion');
    expect(box.textContent).toContain('contradict each other');
    expect(box.textContent).toContain('was made for another answer than this text');
  });

  it('sends a file, and says why evidence is not there yet', async () => {
    const sent = server({ 'POST /audit/provenance': () => json(200, verdict), 'POST /audit/provenance/evidence': () => refusal(409, 'conflict', 'The record is not sealed yet.') });
    show(<Provenance />);
    const input = document.querySelector<HTMLInputElement>('input[type=file]')!;
    const file = Object.assign(new File(['你好'], '信.txt'), { arrayBuffer: async () => new TextEncoder().encode('你好').buffer }); // jsdom has none
    Object.defineProperty(input, 'files', { value: [file] });
    input.dispatchEvent(new Event('change', { bubbles: true }));
    await screen.findByText('信.txt');
    await press('Where does it come from?');
    await screen.findByTestId('conclusion');
    expect(sent[0]?.body).toEqual({ name: '信.txt', content: '5L2g5aW9' });
    await press('Export the evidence');
    await waitFor(() => screen.getByText('The record is not sealed yet.'));
  });
});
