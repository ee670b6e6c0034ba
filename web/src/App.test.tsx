import { act, cleanup, fireEvent, render, screen } from '@testing-library/react';
import { afterEach, beforeAll, describe, it, vi } from 'vitest';

import { session } from './api/session';
import { App } from './App';
import { setUpLanguage } from './i18n';
import { browser, json } from './testkit';

beforeAll(async () => {
  browser();
  await setUpLanguage('en');
});
afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

describe('App', () => {
  it('shows the next user what is theirs, though the page is loaded already', async () => {
    let name = '';
    vi.stubGlobal('fetch', async (input: Request | string, init?: RequestInit) => {
      const request = input instanceof Request ? input : new Request(new URL(input, location.origin), init);
      switch (`${request.method} ${new URL(request.url).pathname}`) {
        case 'POST /api/v1/session':
          return json(200, { access_token: 't', token_type: 'Bearer', expires_at: '' });
        case 'DELETE /api/v1/session':
          return json(204, undefined);
        case 'GET /api/v1/me':
          return json(200, { id: name, name, kind: 'user', tenant: name, roles: [], labels: [], permissions: ['budget.read'] });
        default:
          return json(200, { items: [{ tenant: name, period: 'month', limit_nano: 1, spent_nano: 0, reserved_nano: 0, currency: 'CNY' }] });
      }
    });
    await session.restore();
    render(<App />);
    for (name of ['first', 'second']) {
      fireEvent.change(await screen.findByLabelText('User name'), { target: { value: name } });
      fireEvent.change(screen.getByLabelText('Password'), { target: { value: 'pw' } });
      fireEvent.click(screen.getByText('Sign in', { selector: 'button span' }));
      await screen.findByLabelText(new RegExp(`${name}.*onth`));
      await act(() => session.logout());
    }
  });
});
