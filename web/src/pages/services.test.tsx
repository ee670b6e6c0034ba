import { cleanup, screen, waitFor } from '@testing-library/react';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';

import type { Schema } from '../api/client';
import { setUpLanguage } from '../i18n';
import { browser, json, press, refusal, server, show, signIn, write } from '../testkit';
import { Invitation } from './Invitation';
import ServiceAccounts from './ServiceAccounts';

beforeAll(browser);
beforeEach(() => setUpLanguage('en'));
afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
});

const account: Schema['ServiceAccount'] = {
  id: 'svc-1', tenant: 'demo', project: '', name: 'crm', roles: ['application'], labels: [], scopes: [], models: [], networks: [], limits: { requests_per_minute: 0, tokens_per_minute: 0, concurrent: 0 },
  owner: { id: 'u1', name: 'officer' }, state: 'active', has_secret: true, keys: [], created_at: '2026-11-20T08:00:00Z', created_by: { id: 'u1' }, expires_at: '2027-11-20T08:00:00Z',
};

describe('Service accounts', () => {
  it('shows the secret of a new one once', async () => {
    signIn({ permissions: ['users.read', 'users.write'] });
    const sent = server({
      'GET /service-accounts': () => json(200, { items: [] }),
      'POST /service-accounts': () => json(201, { account, secret: 'ss-sluice-secret', token_url: 'https://ai.example.com/oauth2/token' }),
    });
    show(<ServiceAccounts />);
    await press('Create service account');
    write('Name', 'crm');
    await press('Create service account', document.querySelector<HTMLElement>('.ant-modal-footer')!);
    await waitFor(() => expect(screen.getByTestId('secret').textContent).toContain('ss-sluice-secret'));
    expect(sent.find((s) => s.method === 'POST')?.body).toEqual({ name: 'crm', roles: ['application'] });
    screen.getByText('https://ai.example.com/oauth2/token');
  });

  it('lets who only reads change nothing', async () => {
    signIn({ permissions: ['users.read'] });
    server({ 'GET /service-accounts': () => json(200, { items: [account] }) });
    show(<ServiceAccounts />);
    await screen.findByText('crm');
    expect(screen.queryByRole('button', { name: 'Disable crm' })).toBeNull();
    expect(screen.queryByRole('button', { name: 'Create service account' })).toBeNull();
  });
});

describe('Invitation', () => {
  it('shows whose it is, and accepts it with a password', async () => {
    location.hash = '#si-sluice-token';
    const sent = server({
      'POST /invitations/show': () => json(200, { name: 'wang.fang', tenant: 'bank', roles: ['developer'], invited_by: 'officer', expires_at: '2026-11-30T08:00:00Z' }),
      'POST /invitations/accept': () => json(201, { name: 'wang.fang', tenant: 'bank', roles: ['developer'] }),
    });
    show(<Invitation />);
    for (const text of ['officer', 'bank', 'wang.fang', 'Developer']) await screen.findByText(text);
    write('Choose a password', 'seven tundra kettles hum');
    write('New password, once more', 'seven tundra kettles hum');
    await press('Accept the invitation');
    await screen.findByText('The account wang.fang is ready.');
    expect(sent.at(-1)?.body).toEqual({ token: 'si-sluice-token', password: 'seven tundra kettles hum' });
  });

  it('says that one cannot be accepted', async () => {
    server({ 'POST /invitations/show': () => refusal(404, 'invalid_invitation', 'It was accepted before.') });
    show(<Invitation />);
    await screen.findByText('It was accepted before.');
    expect(screen.queryByRole('button', { name: 'Accept the invitation' })).toBeNull();
  });
});
