import { cleanup, fireEvent, screen, waitFor, within } from '@testing-library/react';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';

import type { Schema } from '../api/client';
import { session } from '../api/session';
import { setUpLanguage } from '../i18n';
import { oneTimePassword } from '../lib/password';
import { browser, json, press, refusal, server, show, signIn, write } from '../testkit';
import { FirstPassword } from './FirstPassword';
import Users from './Users';

beforeAll(browser);
beforeEach(() => setUpLanguage('en'));
afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
});

const user = (more: Partial<Schema['User']>): Schema['User'] => ({
  id: 'u2', tenant: 'demo', name: 'wang.fang', roles: ['developer'], labels: ['public'], disabled: false, must_change_password: false, second_factor: false, created_at: '2026-11-20T08:00:00Z', ...more,
});
const me = user({ id: 'u1', name: 'officer', roles: ['security_admin'], last_sign_in_at: new Date(Date.now() - 7_200_000).toISOString() });
const roles: Schema['Role'][] = [
  { name: 'platform_admin', permissions: ['keys.read', 'users.write'], conflicts: ['security_admin', 'auditor', 'application'] },
  { name: 'security_admin', permissions: ['keys.read', 'users.write'], conflicts: ['platform_admin', 'auditor', 'application'] },
  { name: 'auditor', permissions: ['keys.read'], conflicts: ['platform_admin', 'security_admin', 'application'] },
  { name: 'developer', permissions: ['keys.own'], conflicts: ['application'] },
  { name: 'application', permissions: [], conflicts: ['developer'] },
];
const officer = { roles: ['security_admin'], permissions: ['users.read', 'users.write'] };
const answers = (...users: Schema['User'][]) => ({ 'GET /users': () => json(200, { items: users }), 'GET /roles': () => json(200, { items: roles }) });

describe('Users and roles', () => {
  it('shows people with state and last sign-in, and nothing to do with oneself', async () => {
    signIn(officer);
    server(answers(me, user({ disabled: true }), user({ id: 'u3', name: 'new', must_change_password: true })));
    show(<Users />);
    const table = await screen.findByRole('group', { name: 'Users' });
    await within(table).findByText('wang.fang');
    for (const text of ['Disabled', 'One-time password', '2 hours ago']) within(table).getByText(text);
    screen.getByRole('region', { name: '3 users' });
    expect(screen.queryByRole('button', { name: 'Edit officer' })).toBeNull();
    screen.getByLabelText('Enable wang.fang');
  });

  it('offers nothing to do with a platform administrator but to another one', async () => {
    const root = user({ id: 'u9', name: 'root', roles: ['platform_admin'] });
    signIn(officer);
    server(answers(me, root, user({})));
    show(<Users />);
    await screen.findByRole('button', { name: 'Edit wang.fang' });
    expect(screen.queryByRole('button', { name: /root/ })).toBeNull();
    cleanup();
    signIn({ ...officer, roles: ['platform_admin'] });
    server(answers(me, root));
    show(<Users />);
    for (const act of ['Edit root', 'Reset password of root', 'Disable root']) await screen.findByRole('button', { name: act });
  });

  it('shows which role may do what, and what excludes what', async () => {
    signIn(officer);
    server(answers(me));
    show(<Users />);
    const row = (await screen.findByRole('rowheader', { name: /Manage users/ })).closest('tr')!;
    expect([...row.querySelectorAll('td')].map((c) => c.firstElementChild?.getAttribute('aria-label'))).toEqual(['granted', 'granted', 'not granted', 'not granted', 'not granted']);
    const conflicts = screen.getByRole('rowheader', { name: 'Excludes' }).closest('tr')!;
    expect(conflicts.querySelectorAll('td')[2]!.textContent).toBe('Platform administratorSecurity administratorApplication');
  });

  it('creates somebody with a one-time password that is shown once', async () => {
    signIn(officer);
    const sent = server({ ...answers(me), 'POST /users': () => json(201, user({ must_change_password: true })) });
    show(<Users />);
    await screen.findByRole('region', { name: '1 user' });
    await press('Create user');
    write('Name', 'wang.fang');
    const box = (name: string) => screen.getByRole<HTMLInputElement>('checkbox', { name });
    expect(screen.queryByRole('checkbox', { name: 'Platform administrator' })).toBeNull(); // only one of them makes another
    expect(screen.queryByRole('checkbox', { name: 'Application' })).toBeNull();
    fireEvent.click(box('Auditor'));
    await waitFor(() => expect(box('Security administrator').disabled).toBe(true));
    fireEvent.click(box('Developer'));
    await press('Create user', screen.getByRole('dialog'));
    const shown = (await screen.findByTestId('once')).textContent!.trim();
    const body = sent.find((s) => s.method === 'POST')!.body as Schema['NewUser'];
    expect(body).toEqual({ name: 'wang.fang', password: shown, roles: ['auditor', 'developer'], must_change_password: true });
    expect(shown).toMatch(/^[A-Za-z0-9]{20}$/);
    await press('I have noted it');
    await waitFor(() => expect(document.body.textContent).not.toContain(shown));
  });

  it('changes roles, resets, disables and enables', async () => {
    signIn(officer);
    const sent = server({
      ...answers(me, user({}), user({ id: 'u3', name: 'gone', disabled: true })),
      'PATCH /users/u2': () => json(200, user({})),
      'POST /users/u2/password-reset': () => json(200, { user: user({ must_change_password: true }), password: 'once-only-password' }),
      'POST /users/u2/disable': () => json(200, user({ disabled: true })),
      'POST /users/u3/enable': () => json(200, user({ id: 'u3' })),
    });
    const asked = () => sent.filter((s) => s.method !== 'GET').map((s) => `${s.method} ${s.path} ${s.query.get('tenant')}`);
    show(<Users />);
    await press('Edit wang.fang');
    fireEvent.click(screen.getByRole('checkbox', { name: 'Auditor' }));
    await press('Save');
    await waitFor(() => expect(sent.find((s) => s.method === 'PATCH')?.body).toEqual({ roles: ['auditor', 'developer'], labels: ['public'] }));

    await press('Reset password of wang.fang');
    screen.getByText(/All sessions of the user end/);
    await press('Reset password', screen.getAllByText('Reset the password of wang.fang?').at(-1)!.closest('.ant-modal') as HTMLElement);
    expect((await screen.findByTestId('once')).textContent).toContain('once-only-password');
    await press('I have noted it');

    await press('Disable wang.fang');
    await press('Disable', screen.getAllByText('Disable wang.fang?').at(-1)!.closest('.ant-modal') as HTMLElement);
    await press('Enable gone');
    await waitFor(() => expect(asked()).toEqual(['PATCH /users/u2 demo', 'POST /users/u2/password-reset demo', 'POST /users/u2/disable demo', 'POST /users/u3/enable demo']));
  });

  it('says why the server refused', async () => {
    signIn(officer);
    server({ ...answers(me, user({})), 'PATCH /users/u2': () => refusal(409, 'conflict', 'This is the last platform administrator.') });
    show(<Users />);
    await press('Edit wang.fang');
    await press('Save');
    expect((await screen.findByRole('alert')).textContent).toContain('the last platform administrator');
  });

  it('only shows, to who may only look', async () => {
    signIn({ roles: ['auditor'], permissions: ['users.read'] });
    server(answers(me, user({})));
    show(<Users />);
    await screen.findByRole('region', { name: '2 users' });
    expect(screen.queryByRole('button', { name: /Edit|Disable|Create|Reset/ })).toBeNull();
  });
});

describe('FirstPassword', () => {
  it('takes a new password twice and sends it once', async () => {
    signIn({ must_change_password: true });
    const change = vi.spyOn(session, 'changePassword').mockResolvedValue();
    show(<FirstPassword />);
    screen.getByText(/set by somebody else/);
    write('Current password', 'the one-time password');
    write('New password', 'a password of my own');
    write('New password, once more', 'a passwort of my own');
    await press('Change password');
    await screen.findByText('The two do not match.');
    expect(change).not.toHaveBeenCalled();
    write('New password, once more', 'a password of my own');
    await press('Change password');
    await waitFor(() => expect(change).toHaveBeenCalledExactlyOnceWith('the one-time password', 'a password of my own'));
  });
});

describe('oneTimePassword', () => {
  it('differs each time', () => {
    const made = new Set(Array.from({ length: 100 }, oneTimePassword));
    expect(made.size).toBe(100);
    for (const p of made) expect(p).toMatch(/^[A-HJ-NP-Za-km-z2-9]{20}$/);
  });
});
