import { cleanup, fireEvent, screen, waitFor, within } from '@testing-library/react';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';

import type { Schema } from '../api/client';
import { setUpLanguage } from '../i18n';
import { browser, json, press, refusal, server, show, signIn, write } from '../testkit';
import Keys from './Keys';

beforeAll(browser);
beforeEach(() => setUpLanguage('en'));
afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
});

const defaults: Schema['KeyDefaults'] = { lifetime_days: 30, limits: { requests_per_minute: 6000, tokens_per_minute: 2000000, concurrent: 256 }, own_keys: 20, base_url: 'https://ai.example/v1' };
const key = (more: Partial<Schema['Key']>): Schema['Key'] => ({
  id: 'abc', tenant: 'demo', project: 'hotline', name: 'bot', prefix: 'sk-sluice-abc', labels: ['public'], scopes: [], models: [], networks: [], label_mode: 'policy', limits: { requests_per_minute: 7, tokens_per_minute: 0, concurrent: 0 },
  state: 'active', created_at: '2026-11-20T08:00:00Z', created_by: { id: 'u1', name: 'admin' }, expires_at: '2099-11-20T08:00:00Z', ...more,
});
const secret = 'sk-sluice-abc-0123456789';
const created: Schema['CreatedKey'] = {
  key: key({}), secret, base_url: defaults.base_url,
  curl: 'curl https://ai.example/v1/chat/completions -H "Authorization: Bearer $SLUICE_API_KEY"',
  python: 'import os\nfrom openai import OpenAI\n\nclient = OpenAI(base_url="https://ai.example/v1", api_key=os.environ["SLUICE_API_KEY"])\n',
  first_calls: [
    { dialect: 'openai', language: 'ts', text: 'import OpenAI from "openai";' },
    { dialect: 'anthropic', language: 'java', text: 'public class FirstCall {}' },
  ],
};
const admin = { permissions: ['keys.read', 'keys.write', 'keys.own'] };
const developer = { permissions: ['keys.own'], labels: ['public', 'hr'] };
const answers = (...keys: Schema['Key'][]) => ({ 'GET /keys': () => json(200, { items: keys }), 'GET /keys/defaults': () => json(200, defaults), 'POST /keys': () => json(201, created) });

describe('API keys', () => {
  it('show limits, owner, last use and state, and count in the singular, too', async () => {
    signIn(admin);
    server(answers(key({ owner: { id: 'u7', name: 'wang.fang' }, state: 'suspended', last_used_at: new Date(Date.now() - 180_000).toISOString() })));
    show(<Keys />);
    const table = await screen.findByRole('group', { name: 'API keys' });
    await within(table).findByText('wang.fang');
    for (const text of ['Suspended', '3 minutes ago', '7 requests/min', 'As the policy says', 'hotline', 'public']) within(table).getByText(text);
    await within(table).findByText('2,000,000 (default) tokens/min');
    screen.getByRole('region', { name: '1 key' });
    cleanup();
    server(answers(key({}), key({ id: 'def' })));
    show(<Keys />);
    await screen.findByRole('region', { name: '2 keys' });
  });

  it('say when a key ends that names no end, as the server has it', async () => {
    signIn(admin);
    server(answers());
    show(<Keys />);
    await screen.findByText('No keys yet. Create one to let an application in.');
    await press('Create key');
    await screen.findByText('At the end of this day. Left empty, the key ends 30 days after it was created.');
    expect(screen.queryByText(/does not expire/)).toBeNull();
    expect(screen.getByLabelText('Tokens per minute').getAttribute('placeholder')).toBe('2,000,000');
  });

  it('come with the base URL and lines to copy, this once', async () => {
    signIn(admin);
    const sent = server(answers());
    show(<Keys />);
    await screen.findByText(/No keys yet/);
    await press('Create key');
    write('Name', 'bot');
    write('Requests at once', '3');
    await press('Create key', screen.getByRole('dialog'));
    await screen.findByTestId('secret');
    const dialog = screen.getByRole('dialog');
    within(dialog).getByText('https://ai.example/v1');
    within(dialog).getByText(`curl https://ai.example/v1/chat/completions -H "Authorization: Bearer ${secret}"`);
    expect(dialog.textContent).toContain(`api_key="${secret}"`);
    expect(dialog.textContent).not.toContain('import os');
    within(dialog).getByText('import OpenAI from "openai";');
    fireEvent.mouseDown(within(dialog).getByRole('combobox', { name: 'In other languages and dialects' }));
    fireEvent.click(await screen.findByText('Anthropic · Java'));
    within(dialog).getByText('public class FirstCall {}');
    expect(sent.find((s) => s.method === 'POST')?.body).toEqual({ name: 'bot', label_mode: 'policy', limits: { requests_per_minute: 0, tokens_per_minute: 0, concurrent: 3 } });
    await press('I have stored it');
    await waitFor(() => expect(document.body.textContent).not.toContain(secret));
  });

  it('can be edited: only what was touched is sent', async () => {
    signIn(admin);
    const sent = server({ ...answers(key({})), 'PATCH /keys/abc': () => json(200, key({ name: 'robot' })) });
    show(<Keys />);
    await press('Edit bot');
    write('Name', 'robot');
    write('Requests at once', '9');
    await press('Save');
    await waitFor(() => expect(sent.find((s) => s.method === 'PATCH')?.body).toEqual({ name: 'robot', limits: { requests_per_minute: 7, tokens_per_minute: 0, concurrent: 9 } }));
  });

  it('are a developer’s own: no owner column, no mode that hides the label, a day by which they end', async () => {
    signIn(developer);
    server(answers());
    show(<Keys />);
    await screen.findByText(/^These keys are yours/);
    expect(screen.queryByRole('columnheader', { name: 'Owner' })).toBeNull();
    await press('Create key');
    await screen.findByText(/A key of your own ends 30 days after it was created at the latest/);
    expect(screen.queryByRole('radio', { name: 'Metadata only' })).toBeNull();
    screen.getByRole('radio', { name: 'Visible text too' });
  });

  it('name a project of the tenant, which is chosen and not written, and none that is suspended', async () => {
    signIn(admin);
    const project = { tenant: 'demo', labels: {}, limits: { requests_per_minute: 0, tokens_per_minute: 0, concurrent: 0 }, created_at: '2026-11-20T08:00:00Z' };
    const sent = server({
      ...answers(),
      'GET /projects': () => json(200, { items: [{ ...project, id: 'shop', name: 'Shop' }, { ...project, id: 'closed', name: 'Closed', suspension: { since: '2026-11-24T08:00:00Z', reason: 'leak' } }] }),
    });
    show(<Keys />);
    await screen.findByText(/No keys yet/);
    await press('Create key');
    const dialog = screen.getByRole('dialog');
    write('Name', 'bot');
    fireEvent.mouseDown(within(dialog).getByRole('combobox', { name: 'Project' }));
    fireEvent.click(await screen.findByTitle('Shop · shop'));
    expect(screen.queryByTitle('Closed · closed')).toBeNull();
    await press('Create key', dialog);
    await waitFor(() => expect(sent.find((s) => s.method === 'POST')?.body).toMatchObject({ name: 'bot', project: 'shop' }));
  });

  it('of a developer’s own are only narrowed, and the form says up to what', async () => {
    signIn(developer);
    const sent = server({ ...answers(key({ owner: { id: 'u7', name: 'wang.fang' } })), 'PATCH /keys/abc': () => json(200, key({})) });
    show(<Keys />);
    await screen.findByText(/You can have 20 that are neither revoked nor expired/);
    await press('Edit bot');
    await screen.findByText(/You can only shorten the life of the key/);
    screen.getByText(/You can lower them; an administrator can raise them/);
    for (const most of ['At most 7', 'At most 2,000,000', 'At most 256']) screen.getByText(most);
    const field = screen.getByLabelText('Requests per minute');
    write('Requests per minute', '9');
    fireEvent.blur(field);
    expect((field as HTMLInputElement).value).toBe('7');
    write('Requests per minute', '5');
    await press('Save');
    await waitFor(() => expect(sent.find((s) => s.method === 'PATCH')?.body).toEqual({ limits: { requests_per_minute: 5, tokens_per_minute: 0, concurrent: 0 } }));
    cleanup();
    signIn(admin);
    server(answers(key({ owner: { id: 'u7', name: 'wang.fang' } })));
    show(<Keys />);
    await press('Edit bot');
    await screen.findByText('At the end of this day.');
    expect(screen.queryByText(/At most/)).toBeNull();
  });

  it('say who can help somebody who may not see them, and offer nothing', async () => {
    signIn({ permissions: [] });
    server({ 'GET /keys': () => refusal(403, 'not_allowed', 'This action needs the permission keys.read.') });
    show(<Keys />);
    expect((await screen.findByRole('alert')).textContent).toContain('A security administrator of tenant demo can tell you');
    expect(screen.queryByRole('button', { name: /Create/ })).toBeNull();
    expect(screen.queryByText(/Create one/)).toBeNull();
    expect(screen.queryByText(/No keys yet/)).toBeNull();
  });

  it('show what they are bound to and where they were used, and are bound in the form', async () => {
    signIn(admin);
    const bound = key({ scopes: ['chat', 'admin-read'], models: ['smol*'], networks: ['10.0.0.0/8'], last_used_at: '2026-11-20T08:00:00Z', last_used_from: '10.1.2.0/24' });
    const sent = server({ ...answers(bound), 'PATCH /keys/abc': () => json(200, bound) });
    show(<Keys />);
    await screen.findByText('Scopes: Chat, Read the management API');
    for (const text of ['Models: smol*', 'Networks: 10.0.0.0/8', '10.1.2.0/24']) screen.getByText(text);
    await press('Edit bot');
    const networks = screen.getByLabelText('Networks');
    fireEvent.change(networks, { target: { value: '192.0.2.7,' } });
    await press('Save');
    await waitFor(() => expect(sent.find((s) => s.method === 'PATCH')?.body).toEqual({ networks: ['10.0.0.0/8', '192.0.2.7'] }));
  });

  it('can be rotated, and the secret before ended', async () => {
    signIn(admin);
    const sent = server({ ...answers(key({})), 'POST /keys/abc/rotate': () => json(200, created) });
    show(<Keys />);
    await press('Rotate bot');
    write('Overlap in hours', '72');
    await press('Rotate', screen.getByRole('dialog'));
    await screen.findByText('Give it to the applications before the overlap is over.');
    expect((await screen.findByTestId('secret')).textContent).toContain(secret);
    expect(sent.find((s) => s.method === 'POST')?.body).toEqual({ overlap_hours: 72 });
    await press('I have stored it');
    await waitFor(() => expect(document.body.textContent).not.toContain(secret));
    cleanup();
    const again = server({ ...answers(key({ former_secret: { expires_at: '2099-11-20T08:00:00Z' } })), 'POST /keys/abc/retire': () => json(200, key({})) });
    show(<Keys />);
    await screen.findByText('Two secrets');
    await press('Rotate bot');
    await screen.findByText('It has not been used.');
    await press('End the secret before now');
    await waitFor(() => expect(again.some((s) => s.method === 'POST')).toBe(true));
  });

  it('speak Chinese', async () => {
    await setUpLanguage('zh');
    signIn(admin);
    server(answers(key({ state: 'suspended' })));
    show(<Keys />);
    await screen.findByText('已暂停');
    screen.getByRole('region', { name: '1 个密钥' });
  });
});
