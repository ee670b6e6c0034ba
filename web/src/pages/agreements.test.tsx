import { cleanup, screen, waitFor } from '@testing-library/react';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';

import type { Schema } from '../api/client';
import { setUpLanguage } from '../i18n';
import { browser, json, press, server, show, signIn, write } from '../testkit';
import LabelAgreements from './LabelAgreements';

beforeAll(browser);
beforeEach(() => setUpLanguage('en'));
afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
});

const asked: Schema['LabelAgreement'] = {
  id: 'a1', tenant: 'demo', recipient: 'Example Press', contact: 'legal@example.com', purpose: 'drafts', text_digest: 'd1', state: 'asked',
  from: '2026-11-20T08:00:00Z', until: '2027-05-20T08:00:00Z', asked_by: 'u2', asked_name: 'sec', asked_at: '2026-11-20T08:00:00Z',
};
const list = (visible_label: Schema['Labelling']['visible_label'], ...items: Schema['LabelAgreement'][]): Schema['LabelAgreementPage'] => ({ items, labelling: { visible_label }, text: { body: 'the duties', digest: 'd1' } });

describe('Label agreements', () => {
  it('asks for one with the text that is accepted', async () => {
    signIn({ permissions: ['policy.read', 'policy.write'] });
    const sent = server({ 'GET /labels/agreements': () => json(200, list('application')), 'POST /labels/agreements': () => json(201, asked) });
    show(<LabelAgreements />);
    await screen.findByText(/Whoever shows answers to people/);
    await press('Ask for an agreement');
    await screen.findByText('the duties');
    write('Recipient', 'Example Press');
    write('Contact', 'legal@example.com');
    write('Purpose', 'drafts');
    await press('Ask for an agreement', document.querySelector<HTMLElement>('.ant-modal-footer')!);
    await waitFor(() => expect(sent.find((s) => s.method === 'POST')?.body).toMatchObject({ recipient: 'Example Press', contact: 'legal@example.com', purpose: 'drafts', text_digest: 'd1' }));
  });

  it('lets a second person approve, and revoke with a reason', async () => {
    signIn({ id: 'u1', permissions: ['policy.read', 'approvals.give'] });
    let state: Schema['LabelAgreement']['state'] = 'asked';
    const sent = server({
      'GET /labels/agreements': () => json(200, list('agreement', { ...asked, state })),
      'GET /labels/agreements/a1': () => json(200, { ...asked, state, text: 'the duties of then' }),
      'POST /labels/agreements/a1/approve': () => {
        state = 'in_force';
        return json(200, { ...asked, state });
      },
      'POST /labels/agreements/a1/revoke': () => json(200, { ...asked, state: 'revoked' }),
    });
    show(<LabelAgreements />);
    await screen.findByRole('button', { name: 'Decline the agreement of Example Press' });
    await press('Approve the agreement of Example Press');
    await screen.findByText('the duties of then');
    await press('Approve', document.querySelector<HTMLElement>('.ant-modal-footer')!);
    await screen.findByText('In force');
    await press('Revoke the agreement of Example Press');
    write('Reason', 'the purpose has changed');
    await press('Revoke', document.querySelector<HTMLElement>('.ant-modal-footer')!);
    await waitFor(() => expect(sent.find((s) => s.path.endsWith('/revoke'))?.body).toEqual({ reason: 'the purpose has changed' }));
  });

  it('does not let the asker approve', async () => {
    signIn({ id: 'u2', permissions: ['policy.read', 'policy.write', 'approvals.give'] });
    server({ 'GET /labels/agreements': () => json(200, list('agreement', asked)) });
    show(<LabelAgreements />);
    await screen.findByText('Example Press');
    expect(screen.queryByRole('button', { name: 'Approve the agreement of Example Press' })).toBeNull();
  });
});
