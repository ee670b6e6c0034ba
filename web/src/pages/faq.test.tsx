import { cleanup, fireEvent, screen, waitFor } from '@testing-library/react';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';

import { setUpLanguage } from '../i18n';
import { browser, json, press, server, show, signIn, write } from '../testkit';
import Knowledge from './Knowledge';

beforeAll(browser);
beforeEach(() => setUpLanguage('en'));
afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
});

const entry = {
  id: 'e-1', question: 'Where is desk 7?', similar: ['desk 7, where'], negative: ['Where was desk 7?'], answer: 'On floor 2.', labels: ['staff'],
  in_effect: true, version: 'v1', revision: 3, valid_from: '2020-01-01T00:00:00Z', valid_until: '2030-01-01T00:00:00Z',
};
const answers = {
  'GET /me': () => json(200, {}),
  'GET /rag/collections': () => json(200, { items: [{ name: 'kb', title: '', documents: 1, labels: [] }] }),
  'GET /rag/collections/kb/documents': () => json(200, { items: [] }),
  'GET /rag/collections/kb/glossary': () => json(200, { items: [] }),
  'GET /rag/collections/kb/faq': () => json(200, { items: [entry] }),
  'POST /rag/collections/kb/faq': () => json(201, {}),
  'POST /rag/search': () =>
    json(200, {
      items: [{ collection: 'kb', document: 'faq-1', document_id: 'e-1', version: 'v1', chunk: 0, text: 'On floor 2.', start: 0, end: 11, score: 1, faq_score: 0.934 }],
      findings: [],
      answered_by: 'faq',
    }),
};

describe('the FAQ of a knowledge base', () => {
  it('is shown to who writes it, who adds an entry, and changes one with what it has', async () => {
    signIn({ permissions: ['rag.read', 'rag.write'] });
    const sent = server(answers);
    show(<Knowledge />);
    await screen.findByText('On floor 2.');
    write('Question', 'Is there tea?');
    write('Answer', 'Yes.');
    const negative = screen.getByLabelText('Negative questions');
    fireEvent.change(negative, { target: { value: 'Is there coffee?' } });
    fireEvent.keyDown(negative, { key: 'Enter', keyCode: 13 });
    await press('Save entry');
    await waitFor(() => expect(sent.filter((s) => s.method === 'POST')).toHaveLength(1));
    expect(sent.find((s) => s.method === 'POST')!.body).toEqual({ question: 'Is there tea?', negative: ['Is there coffee?'], answer: 'Yes.' });
    await press('Where is desk 7?');
    write('Answer', 'On floor 3.');
    await press('Save entry');
    await waitFor(() => expect(sent.filter((s) => s.method === 'POST')).toHaveLength(2));
    expect(sent.filter((s) => s.method === 'POST')[1]!.body).toEqual({
      id: 'e-1', question: entry.question, similar: entry.similar, negative: entry.negative, answer: 'On floor 3.', valid_until: entry.valid_until,
    });
  });

  it('keeps when an entry begins that is not in effect yet, and says so', async () => {
    signIn({ permissions: ['rag.read', 'rag.write'] });
    const sent = server({ ...answers, 'GET /rag/collections/kb/faq': () => json(200, { items: [{ ...entry, in_effect: false, valid_from: '2029-01-01T00:00:00Z' }] }) });
    show(<Knowledge />);
    await screen.findByText('Not in effect');
    await press('Where is desk 7?');
    const labels = screen.getByLabelText('Access labels');
    fireEvent.change(labels, { target: { value: 'hall' } });
    fireEvent.keyDown(labels, { key: 'Enter', keyCode: 13 });
    await press('Save entry');
    await waitFor(() => expect(sent.filter((s) => s.method === 'POST')).toHaveLength(1));
    expect(sent.find((s) => s.method === 'POST')!.body).toMatchObject({ id: 'e-1', valid_from: '2029-01-01T00:00:00Z', valid_until: entry.valid_until, labels: ['staff', 'hall'] });
  });

  it('says in a search what would answer, and is not asked for by who cannot write it', async () => {
    signIn({ permissions: ['rag.read', 'rag.search'] });
    const sent = server(answers);
    show(<Knowledge />);
    await screen.findByLabelText('Question');
    write('Question', 'desk 7');
    await press('Search');
    await screen.findByText('FAQ 0.93');
    await screen.findByText(/without a model/);
    expect(sent.some((s) => s.path.includes('/faq'))).toBe(false);
  });
});
