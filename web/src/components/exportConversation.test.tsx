import { cleanup, fireEvent, screen, waitFor } from '@testing-library/react';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';

import { setUpLanguage } from '../i18n';
import type { Turn } from '../lib/conversation';
import { browser, refusal, server, show, signIn } from '../testkit';
import { ExportConversation } from './ExportConversation';

beforeAll(browser);
beforeEach(() => setUpLanguage('en'));
afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
});

const aigc = (id: string) => ({ Label: '1', ContentProducer: 'Sluice', ProduceID: id, ReservedCode1: 'c', ContentPropagator: '', PropagateID: '', ReservedCode2: '' });
const turn = (id: number, more: Partial<Turn>): Turn => ({ id, question: `q${id}`, answer: `a${id}`, state: 'done', extension: { label: { AIGC: aigc(`r${id}`) } }, ...more });

async function exportAs(format: string) {
  fireEvent.click(screen.getByRole('button', { name: 'Save the conversation' }));
  fireEvent.click(await screen.findByText(`Save as ${format}`));
}

describe('The export of a conversation', () => {
  it('has the answered turns and the label of the last one, and the server makes the file', async () => {
    signIn({ permissions: ['playground.use'] });
    const saved: string[] = [];
    URL.createObjectURL = () => 'blob:x';
    URL.revokeObjectURL = () => {};
    vi.spyOn(HTMLAnchorElement.prototype, 'click').mockImplementation(function (this: HTMLAnchorElement) {
      saved.push(this.download);
    });
    const sent = server({ 'POST /labels/answers': () => new Response('file', { status: 200, headers: { 'content-type': 'application/octet-stream' } }) });
    show(<ExportConversation turns={[turn(1, {}), turn(2, {}), turn(3, { state: 'stopped' })]} />);
    await exportAs('DOCX');
    await waitFor(() => expect(saved).toEqual(['r2.docx']));
    expect(sent[0]?.body).toEqual({
      format: 'docx',
      label: aigc('r2'),
      turns: [
        { role: 'user', text: 'q1' },
        { role: 'assistant', text: 'a1' },
        { role: 'user', text: 'q2' },
        { role: 'assistant', text: 'a2' },
      ],
    });
  });

  it('says why there is no file', async () => {
    signIn({ permissions: ['playground.use'] });
    server({ 'POST /labels/answers': () => refusal(400, 'invalid_value', 'not made here') });
    show(<ExportConversation turns={[turn(1, {})]} />);
    await exportAs('PDF');
    await screen.findByText(/not made here/);
  });

  it('waits for an answer with a label', () => {
    signIn({ permissions: ['playground.use'] });
    show(<ExportConversation turns={[turn(1, { extension: undefined }), turn(2, { state: 'failed' })]} />);
    expect(screen.getByRole('button', { name: 'Save the conversation' })).toHaveProperty('disabled', true);
  });
});
