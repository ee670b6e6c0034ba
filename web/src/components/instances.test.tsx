import { cleanup, screen, waitFor, within } from '@testing-library/react';
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
