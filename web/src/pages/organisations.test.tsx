import { cleanup, fireEvent, screen, waitFor, within } from '@testing-library/react';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';

import type { Schema } from '../api/client';
import { Projects } from '../components/Projects';
import { setUpLanguage } from '../i18n';
import { browser, json, press, refusal, server, show, signIn, write } from '../testkit';
import Organisations from './Organisations';

beforeAll(browser);
beforeEach(() => setUpLanguage('en'));
afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
});

const level = { labels: { cost_center: '4711' }, limits: { requests_per_minute: 0, tokens_per_minute: 9000, concurrent: 0 }, created_at: '2026-11-20T08:00:00Z' };
const organisation = (more: Partial<Schema['Organisation']>): Schema['Organisation'] => ({ id: 'group', name: 'First Group', operator: false, ...level, ...more });
const own = organisation({ id: 'default', name: 'Default', operator: true, labels: {} });
const suspended = organisation({ suspension: { since: '2026-11-24T08:00:00Z', by: 'u1', by_name: 'wang.fang', reason: 'contract ended' } });
const tenant = (id: string, of: string): Schema['Tenant'] => ({ id, name: `The ${id}`, organisation: of, operator: id === 'demo', ...level, labels: {} });
const tenants = { 'GET /tenants': () => json(200, { items: [tenant('bank', 'group'), tenant('court', 'group'), tenant('demo', 'default')] }) };
const admin = { roles: ['platform_admin'], permissions: ['tenants.read', 'tenants.write', 'budget.read', 'budget.write'] };

describe('Organisations', () => {
  it('show their tenants below them, labels, limits, budgets, and who is suspended and why', async () => {
    signIn({ roles: ['auditor'], permissions: ['tenants.read', 'budget.read'] });
    const sent = server({
      ...tenants,
      'GET /organisations': () => json(200, { items: [own, suspended] }),
      'GET /budgets': ({ query }) => json(200, { items: query.get('organisation') === 'group' ? [{ organisation: 'group', period: 'month', limit_nano: 5e9, spent_nano: 2e9, reserved_nano: 0, currency: 'CNY' }] : [] }),
    });
    show(<Organisations />);
    const table = await screen.findByRole('group', { name: 'Organisations' });
    await within(table).findByText('First Group');
    const ids = [...table.querySelectorAll('tbody tr td:first-child')].map((td) => td.textContent).filter((text) => text && text !== 'Id'); // a row that is measured repeats the heads
    expect(ids).toEqual(['default', 'demo', 'group', 'bank', 'court']);
    for (const text of ['cost_center=4711', /by wang\.fang: contract ended/]) within(table).getByText(text);
    await within(table).findByText(/onth.*2\.00.*5\.00/);
    screen.getByRole('region', { name: '2 organisations' });
    expect(screen.queryByRole('button', { name: /Suspend|Resume|Edit|Create|Move/ })).toBeNull(); // only to look at
    expect(sent.every((s) => s.method === 'GET')).toBe(true);
  });

  it('are created with labels, and suspended with a reason, but not the operator’s', async () => {
    signIn(admin);
    const sent = server({ ...tenants, 'GET /organisations': () => json(200, { items: [own, organisation({})] }), 'POST /organisations': () => json(201, own), 'POST /organisations/group/suspend': () => json(200, suspended) });
    show(<Organisations />);
    await screen.findByRole('region', { name: '2 organisations' });
    await press('Create organisation');
    write('Id', 'court-group');
    write('Name', 'Court');
    const labels = screen.getByLabelText('Labels');
    for (const text of ['cost center', 'system=core']) {
      fireEvent.change(labels, { target: { value: text } });
      fireEvent.keyDown(labels, { key: 'Enter', keyCode: 13 });
    }
    await press('Create organisation', screen.getByRole('dialog'));
    await within(screen.getByRole('dialog')).findAllByText(/Each as name=value/);
    expect(sent.some((s) => s.method === 'POST')).toBe(false); // one of the labels is none
    fireEvent.click(screen.getByRole('dialog').querySelector('.ant-select-selection-item-remove')!);
    await press('Create organisation', screen.getByRole('dialog'));
    await waitFor(() => expect(screen.queryByRole('dialog')).toBeNull());
    expect(sent.find((s) => s.method === 'POST')!.body).toEqual({ id: 'court-group', name: 'Court', labels: { system: 'core' }, limits: { requests_per_minute: 0, tokens_per_minute: 0, concurrent: 0 } });

    expect(screen.queryByRole('button', { name: 'Suspend default' })).toBeNull();
    await press('Suspend group');
    write('Why', 'contract ended');
    await press('Suspend', screen.getByRole('dialog'));
    await waitFor(() => expect(sent.find((s) => s.path === '/organisations/group/suspend')?.body).toEqual({ reason: 'contract ended' }));
  });

  it('are resumed by their suspension, get a budget, and say why a tenant cannot be moved', async () => {
    signIn(admin);
    const sent = server({
      ...tenants,
      'GET /organisations': () => json(200, { items: [own, suspended, organisation({ id: 'next', name: 'Next' })] }),
      'POST /organisations/group/resume': () => json(200, organisation({})),
      'PUT /budgets': () => json(200, {}),
      'POST /tenants/bank/move': () => refusal(409, 'conflict', 'Organisation group is suspended.'),
    });
    show(<Organisations />);
    await press('Resume group');
    await press('Resume', await screen.findByRole('dialog'));
    await waitFor(() => expect(sent.find((s) => s.path === '/organisations/group/resume')?.body).toEqual({ since: '2026-11-24T08:00:00Z' }));

    await press('Set budget of group');
    write('Limit', '12.5');
    await press('Set budget', screen.getAllByRole('dialog').at(-1));
    await waitFor(() => expect(sent.find((s) => s.path === '/budgets' && s.method === 'PUT')?.body).toEqual({ organisation: 'group', period: 'month', limit_nano: 12_500_000_000 }));

    await press('Move bank');
    fireEvent.mouseDown(screen.getByRole('combobox', { name: 'Organisation' }));
    fireEvent.click(await screen.findByTitle('Next · next'));
    await press('Move', screen.getAllByRole('dialog').at(-1));
    await screen.findByText(/Organisation group is suspended/);
    expect(sent.find((s) => s.path === '/tenants/bank/move')!.body).toEqual({ organisation: 'next' });
  });
});

describe('Projects', () => {
  const project = (more: Partial<Schema['Project']>): Schema['Project'] => ({ tenant: 'demo', id: 'shop', name: 'Shop', ...level, ...more });

  it('are listed, created, changed and suspended by who manages keys, and only looked at by others', async () => {
    signIn({ permissions: ['keys.read', 'keys.write'] });
    const sent = server({
      'GET /projects': () => json(200, { items: [project({})] }),
      'POST /projects': () => json(201, project({})),
      'PATCH /projects/shop': () => json(200, project({})),
      'POST /projects/shop/suspend': () => json(200, project({})),
    });
    show(<Projects />);
    await screen.findByText('cost_center=4711');
    await press('Create project');
    write('Id', 'call_center.1');
    write('Name', 'Calls');
    await press('Create project', screen.getByRole('dialog'));
    await waitFor(() => expect(sent.find((s) => s.method === 'POST')?.body).toEqual({ id: 'call_center.1', name: 'Calls', limits: { requests_per_minute: 0, tokens_per_minute: 0, concurrent: 0 } }));
    await waitFor(() => expect(screen.queryByRole('dialog')).toBeNull());
    await press('Edit shop');
    write('Requests at once', '3');
    await press('Save', screen.getByRole('dialog'));
    await waitFor(() => expect(sent.find((s) => s.method === 'PATCH')?.body).toEqual({ limits: { requests_per_minute: 0, tokens_per_minute: 9000, concurrent: 3 } }));
    await waitFor(() => expect(screen.queryByRole('dialog')).toBeNull());
    await press('Suspend shop');
    write('Why', 'a key has leaked');
    await press('Suspend', screen.getByRole('dialog'));
    await waitFor(() => expect(sent.find((s) => s.path === '/projects/shop/suspend')?.query.get('tenant')).toBe('demo'));
    cleanup();

    signIn({ permissions: ['keys.read'] });
    server({ 'GET /projects': () => json(200, { items: [project({})] }) });
    show(<Projects />);
    await screen.findByText('cost_center=4711');
    expect(screen.queryByRole('button', { name: /Suspend|Edit|Create/ })).toBeNull();
  });
});
