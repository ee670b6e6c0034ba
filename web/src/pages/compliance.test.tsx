import { cleanup, fireEvent, screen, waitFor, within } from '@testing-library/react';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';

import type { Schema } from '../api/client';
import { setUpLanguage } from '../i18n';
import { browser, json, press, server, show, signIn } from '../testkit';
import Compliance from './Compliance';

beforeAll(browser);
beforeEach(() => {
  setUpLanguage('en');
  signIn({ permissions: ['audit.read'] });
});
afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
});

const matrix: Schema['ComplianceMatrix'] = {
  evaluated_at: '2026-11-28T09:00:00Z', tenant: 'demo', counts: { broken: 1, operator: 1 },
  sources: [
    { id: 'a', name: 'Law A', clauses: [{ at: 'Art. 1', duty: 'Keep logs', state: 'broken', controls: ['logs'] }] },
    { id: 'b', name: 'Law B', note: 'From a second source.', clauses: [{ at: 'Art. 2', duty: 'Train people', state: 'operator', controls: [], operator: 'training' }] },
  ],
  controls: [{ id: 'logs', name: 'Logs are kept', state: 'broken', facts: [{ name: 'Days', value: '7' }], remedy: 'Raise the days', tests: ['TestPrune'], page: '/audit' }],
};

describe('The compliance matrix', () => {
  it('leads from a clause that does not hold to its control, its figures and its evidence', async () => {
    server({ 'GET /compliance/matrix': () => json(200, matrix) });
    show(<Compliance />);
    const law = await screen.findByRole('region', { name: 'Law A' });
    expect(within(law).getAllByText('Broken').length).toBe(2);
    await press('Logs are kept');
    const drawer = await screen.findByRole('dialog');
    for (const text of ['7', 'Raise the days', 'TestPrune']) expect(within(drawer).getByText(text)).toBeTruthy();
    expect(within(drawer).getByRole('link', { name: 'Open the evidence' }).getAttribute('href')).toContain('/audit');
  });

  it('shows only the clauses in the state that is chosen', async () => {
    server({ 'GET /compliance/matrix': () => json(200, matrix) });
    show(<Compliance />);
    fireEvent.click(await screen.findByText('Operator 1'));
    await waitFor(() => expect(screen.queryByRole('region', { name: 'Law A' })).toBeNull());
    expect(screen.getByText('Only the operator: training')).toBeTruthy();
  });
});
