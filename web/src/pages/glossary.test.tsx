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

const answers = {
  'GET /me': () => json(200, {}),
  'GET /rag/collections': () => json(200, { items: [{ name: 'kb', title: '', documents: 1, labels: [] }] }),
  'GET /rag/collections/kb/documents': () => json(200, { items: [] }),
  'GET /rag/collections/kb/glossary': () => json(200, { items: [{ id: 'g-1', term: 'housing fund', synonyms: ['HPF', '公积金'], updated_at: '2026-01-01T00:00:00Z' }] }),
  'POST /rag/collections/kb/glossary': () => new Response(null, { status: 204 }),
  'POST /rag/search': () =>
    json(200, {
      items: [{ collection: 'kb', document: 'a.md', document_id: 'd', version: 'v1', chunk: 0, text: 'The fund pays.', start: 0, end: 14, score: 1 }],
      findings: [],
      expanded: [{ term: 'housing fund', found: 'HPF', added: ['housing fund', '公积金'] }],
    }),
};

describe('the glossary of a knowledge base', () => {
  it('is shown to who writes it, who adds a term with its synonyms', async () => {
    signIn({ permissions: ['rag.read', 'rag.write'] });
    const sent = server(answers);
    show(<Knowledge />);
    await screen.findByText('HPF · 公积金');
    write('Term', 'tram card');
    const synonyms = screen.getByLabelText('Synonyms');
    fireEvent.change(synonyms, { target: { value: '公交卡' } });
    fireEvent.keyDown(synonyms, { key: 'Enter', keyCode: 13 });
    await press('Save term');
    await waitFor(() => expect(sent.some((s) => s.method === 'POST')).toBe(true));
    expect(sent.find((s) => s.method === 'POST')!.body).toEqual({ terms: [{ term: 'tram card', synonyms: ['公交卡'] }] });
  });

  it('says what it has added to a search, and is not asked for by who cannot write it', async () => {
    signIn({ permissions: ['rag.read', 'rag.search'] });
    const sent = server(answers);
    show(<Knowledge />);
    await screen.findByLabelText('Question');
    write('Question', 'HPF');
    await press('Search');
    await screen.findByText('“HPF” was searched as housing fund, 公积金, too.');
    expect(sent.some((s) => s.path.includes('glossary'))).toBe(false);
  });
});
