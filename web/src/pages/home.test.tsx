import { cleanup, screen, waitFor } from '@testing-library/react';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';

import type { Schema } from '../api/client';
import { setUpLanguage } from '../i18n';
import { browser, json, press, server, show, signIn } from '../testkit';
import Home from './Home';

beforeAll(browser);
beforeEach(() => setUpLanguage('en'));
afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
});

const budget: Schema['Budget'] = { tenant: 'demo', key: 'abc', period: 'day', limit_nano: 10_000, spent_nano: 6360, reserved_nano: 0, currency: 'CNY' };

describe('Budgets', () => {
  it('are removed after a question that names what is no longer limited', async () => {
    signIn({ permissions: ['budget.read', 'budget.write'] });
    let budgets = [budget, { ...budget, key: undefined }];
    const sent = server({
      'GET /budgets': () => json(200, { items: budgets }),
      'DELETE /budgets': () => {
        budgets = budgets.slice(1);
        return json(204, undefined);
      },
    });
    show(<Home />);
    await press('Remove the budget: Key abc, per day');
    await screen.findByText(/Nothing limits any more what it covered: Key abc, per day, ¥0.00001/);
    expect(sent.some((s) => s.method === 'DELETE')).toBe(false);
    await press('Remove', document.querySelector<HTMLElement>('.ant-modal')!);
    await waitFor(() => expect(sent.filter((s) => s.method === 'DELETE').map((s) => s.query.toString())).toEqual(['tenant=demo&key=abc&period=day']));
    await waitFor(() => expect(screen.queryByLabelText('Remove the budget: Key abc, per day')).toBeNull());
    screen.getByLabelText('Remove the budget: Tenant demo, per day');
  });

  it('are only shown to who may not set them', async () => {
    signIn({ permissions: ['budget.read'] });
    server({ 'GET /budgets': () => json(200, { items: [budget] }) });
    show(<Home />);
    await screen.findByText(/Key abc/);
    expect(screen.queryByText('Remove')).toBeNull();
  });
});
