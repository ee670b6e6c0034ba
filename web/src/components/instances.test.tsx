import { cleanup, fireEvent, screen, waitFor, within } from '@testing-library/react';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';

import type { Schema } from '../api/client';
import { setUpLanguage } from '../i18n';
import { browser, json, press, refusal, server, show, signIn } from '../testkit';
import { Instances } from './Instances';

beforeAll(browser);
beforeEach(() => setUpLanguage('en'));
afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
});

const instance = (more: Partial<Schema['Instance']>): Schema['Instance'] => ({
  pool: 'chat', name: 'gpu-1', kind: 'remote', state: 'ready', since: '2026-11-26T08:00:00Z', weight: 4, draining: false, configured: true, running: 3, models: ['qwen'], ...more,
});
const sick = instance({ name: 'gpu-2', state: 'sick', cause: 'connection refused', configured: false, zone: 'room-2' });

describe('Instances', () => {
  it('shows how each is and why, and nothing to press to who only looks', async () => {
    signIn({ roles: ['auditor'], permissions: ['system.read'] });
    server({ 'GET /instances': () => json(200, { items: [instance({}), sick] }) });
    show(<Instances />);
    const table = await screen.findByRole('group', { name: 'Instances' });
    for (const text of ['Ready', 'Failing', /connection refused/, 'room-2']) await within(table).findByText(text);
    expect(screen.queryByRole('button', { name: /Drain|Remove/ })).toBeNull();
  });

  it('registers an upstream with what it can do, and leaves out what was left empty', async () => {
    signIn({ roles: ['platform_admin'], permissions: ['system.read', 'models.write'] });
    let refused = true;
    const sent = server({
      'GET /instances': () => json(200, { items: [instance({})] }),
      'POST /pools/fleet/instances': () => (refused ? refusal(409, 'conflict', 'No network is listed.') : json(201, sick)),
    });
    show(<Instances />);
    await press('Register instance');
    const dialog = await screen.findByRole('dialog', { name: 'Register instance' });
    const fill = (label: string, value: string, nth = 0) => fireEvent.change(within(dialog).getAllByLabelText(label)[nth]!, { target: { value } });
    await press('Register instance', dialog);
    await waitFor(() => expect(within(dialog).getAllByText('Please fill this in.')).toHaveLength(4));
    expect(sent.some((s) => s.method === 'POST')).toBe(false);
    for (const [label, value] of [['Pool', 'fleet'], ['Instance', 'gpu-2'], ['Address', 'http://10.2.0.7:8000/v1'], ['Dialect', 'vllm'], ['Weight', '3'], ['Zone', 'room-2'], ['Name in the pool', 'qwen'], ['Context in tokens', '4096']] as const) fill(label, value);
    fireEvent.mouseDown(within(dialog).getByLabelText('What it can do'));
    fireEvent.click(await screen.findByText('Tools'));
    await press('Add model', dialog);
    await within(dialog).findByText('Model 2');
    fill('Name in the pool', 'vectors', 1);
    fill('Size of vectors', '1024', 1);
    await press('Register instance', dialog);
    await screen.findByText(/No network is listed/);
    refused = false;
    await press('Register instance', dialog);
    await waitFor(() => expect(screen.queryByRole('dialog')).toBeNull());
    expect(sent.filter((s) => s.method === 'POST').at(-1)?.body).toEqual({
      name: 'gpu-2', base_url: 'http://10.2.0.7:8000/v1', dialect: 'vllm', weight: 3, zone: 'room-2',
      models: [{ id: 'qwen', context_tokens: 4096, tools: true }, { id: 'vectors', embed_dim: 1024 }],
    });
    expect(sent.filter((s) => s.path === '/instances').length).toBeGreaterThan(1);
  });

  it('weighs', async () => {
    signIn({ roles: ['platform_admin'], permissions: ['system.read', 'models.write'] });
    const sent = server({ 'GET /instances': () => json(200, { items: [instance({})] }), 'PATCH /pools/chat/instances/gpu-1': () => json(200, instance({ weight: 9 })) });
    show(<Instances />);
    await press('Change weight of chat/gpu-1');
    const dialog = await screen.findByRole('dialog', { name: 'Change weight of chat/gpu-1' });
    const weight = within(dialog).getByLabelText<HTMLInputElement>('Weight');
    expect(weight.value).toBe('4');
    fireEvent.change(weight, { target: { value: '9' } });
    await press('Change weight', dialog);
    await waitFor(() => expect(sent.find((s) => s.method === 'PATCH')?.body).toEqual({ weight: 9 }));
    await waitFor(() => expect(screen.queryByRole('dialog')).toBeNull());
  });

  it('drains, and removes only what was registered', async () => {
    signIn({ roles: ['platform_admin'], permissions: ['system.read', 'models.write'] });
    const sent = server({
      'GET /instances': () => json(200, { items: [instance({}), sick] }),
      'PATCH /pools/chat/instances/gpu-1': () => json(200, instance({ draining: true, state: 'draining' })),
      'DELETE /pools/chat/instances/gpu-2': () => refusal(503, 'database_unavailable', 'The database cannot be reached.'),
    });
    show(<Instances />);
    await press('Drain chat/gpu-1');
    await waitFor(() => expect(sent.find((s) => s.method === 'PATCH')?.body).toEqual({ draining: true }));
    expect(screen.queryByRole('button', { name: 'Remove chat/gpu-1' })).toBeNull();
    await press('Remove chat/gpu-2');
    await press('Remove', await screen.findByRole('dialog'));
    await screen.findByText(/The database cannot be reached/);
  });
});
