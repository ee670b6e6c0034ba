import { cleanup, screen, waitFor, within } from '@testing-library/react';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';

import type { Schema } from '../api/client';
import { setUpLanguage } from '../i18n';
import { browser, json, press, refusal, server, show, signIn, write } from '../testkit';
import Tenants from './Tenants';

beforeAll(browser);
beforeEach(() => setUpLanguage('en'));
afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
});

const tenant = (more: Partial<Schema['Tenant']>): Schema['Tenant'] => ({
  id: 'bank', name: 'First Bank', organisation: 'default', labels: {}, operator: false, limits: { requests_per_minute: 0, tokens_per_minute: 9000, concurrent: 0 }, created_at: '2026-11-20T08:00:00Z', ...more,
});
const operator = tenant({ id: 'demo', name: 'Demo', operator: true });
const suspended = tenant({ id: 'court', name: 'Court', suspension: { since: '2026-11-24T08:00:00Z', by: 'u1', by_name: 'wang.fang', reason: 'contract ended' } });
const admin = { roles: ['platform_admin'], permissions: ['tenants.read', 'tenants.write'] };

describe('Tenants', () => {
  it('shows who is suspended, by whom and why, and what each may ask', async () => {
    signIn({ roles: ['auditor'], permissions: ['tenants.read'] });
    server({ 'GET /tenants': () => json(200, { items: [tenant({}), suspended, operator] }) });
    show(<Tenants />);
    const table = await screen.findByRole('group', { name: 'Tenants' });
    await within(table).findByText('First Bank');
    for (const text of ['Active', 'Suspended', 'Operator', /by wang\.fang: contract ended/]) within(table).getByText(text);
    within(table).getAllByText('9,000');
    screen.getByRole('region', { name: '3 tenants' });
    expect(screen.queryByRole('button', { name: /Suspend|Resume|Edit|Create/ })).toBeNull(); // only to look at
  });

  it('offers nothing for a tenant that has left for good', async () => {
    signIn(admin);
    server({ 'GET /tenants': () => json(200, { items: [{ ...suspended, closed_at: '2026-11-25T08:00:00Z' }] }) });
    show(<Tenants />);
    await screen.findByText('Closed');
    expect(screen.queryByRole('button', { name: /court/i })).toBeNull();
  });

  it('suspends with a reason only, and not the tenant that runs the installation', async () => {
    signIn(admin);
    const sent = server({
      'GET /tenants': () => json(200, { items: [tenant({}), operator] }),
      'POST /tenants/bank/suspend': () => json(200, suspended),
    });
    show(<Tenants />);
    await press('Suspend bank');
    expect(screen.queryByRole('button', { name: 'Suspend demo' })).toBeNull();
    const dialog = screen.getByRole('dialog');
    expect(within(dialog).getByRole<HTMLButtonElement>('button', { name: 'Suspend' }).disabled).toBe(true);
    write('Why', '  contract ended ');
    await press('Suspend', dialog);
    await waitFor(() => expect(screen.queryByRole('dialog')).toBeNull());
    expect(sent.find((s) => s.method === 'POST')!.body).toEqual({ reason: 'contract ended' });
    expect(sent.filter((s) => s.method === 'GET' && s.path.startsWith('/tenants')).length).toBe(2); // the list is read again
  });

  it('resumes, and says why it could not', async () => {
    signIn(admin);
    const sent = server({ 'GET /tenants': () => json(200, { items: [suspended] }), 'POST /tenants/court/resume': () => refusal(503, 'database_unavailable', 'The database cannot be reached.') });
    show(<Tenants />);
    await press('Resume court');
    await press('Resume', await screen.findByRole('dialog'));
    await waitFor(() => expect(sent.find((s) => s.method === 'POST')?.body).toEqual({ since: '2026-11-24T08:00:00Z' }));
    await screen.findByText(/The database cannot be reached/);
  });

  it('creates a tenant with limits, and changes what was entered', async () => {
    signIn(admin);
    const sent = server({
      'GET /tenants': () => json(200, { items: [tenant({})] }),
      'POST /tenants': () => json(201, tenant({})),
      'PATCH /tenants/bank': () => json(200, tenant({})),
    });
    show(<Tenants />);
    await screen.findByRole('region', { name: '1 tenant' });
    await press('Create tenant');
    write('Id', 'Bank!');
    write('Name', 'Court');
    await press('Create tenant', screen.getByRole('dialog'));
    await within(screen.getByRole('dialog')).findAllByText(/cannot be changed later/);
    expect(sent.some((s) => s.method === 'POST')).toBe(false);
    write('Id', 'court');
    write('Requests per minute', '60');
    await press('Create tenant', screen.getByRole('dialog'));
    await waitFor(() => expect(screen.queryByRole('dialog')).toBeNull());
    expect(sent.find((s) => s.method === 'POST')!.body).toEqual({ id: 'court', name: 'Court', limits: { requests_per_minute: 60, tokens_per_minute: 0, concurrent: 0 } });

    await press('Edit bank');
    write('Name', 'Second Bank');
    await press('Save', screen.getByRole('dialog'));
    await waitFor(() => expect(sent.find((s) => s.method === 'PATCH')?.body).toEqual({ name: 'Second Bank' }));
  });
});
