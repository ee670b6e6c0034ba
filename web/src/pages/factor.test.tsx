import { cleanup, fireEvent, screen, waitFor } from '@testing-library/react';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';

import { api, call } from '../api/client';
import { ApiError } from '../api/errors';
import { session } from '../api/session';
import { OwnFactor } from '../components/OwnFactor';
import { StepUp } from '../components/StepUp';
import { setUpLanguage } from '../i18n';
import { browser, json, press, refusal, server, show, signIn, write } from '../testkit';
import { FirstFactor } from './FirstFactor';
import { Login } from './Login';

beforeAll(browser);
beforeEach(() => setUpLanguage('en'));
afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
});

const secret = { secret: 'JBSWY3DPEHPK3PXP', uri: 'otpauth://totp/sluice:officer?secret=JBSWY3DPEHPK3PXP' };

describe('the second factor', () => {
  it('is asked for at the sign-in of an account that has one', async () => {
    const login = vi.spyOn(session, 'login').mockImplementation(async (_user, _password, code) => {
      if (!code) throw new ApiError('second_factor_required', 'A code is needed.', 401);
      throw new ApiError('wrong_code', 'The code is wrong.', 403);
    });
    show(<Login />);
    expect(screen.queryByLabelText('Code')).toBeNull();
    write('User name', 'officer');
    write('Password', 'a long password');
    await press('Sign in');
    await screen.findByLabelText('Code');
    expect(screen.queryByText('A code is needed.')).toBeNull();
    write('Code', '123456');
    await press('Sign in');
    await screen.findByText('The code is wrong.');
    expect(login.mock.calls).toEqual([
      ['officer', 'a long password', undefined],
      ['officer', 'a long password', '123456'],
    ]);
  });

  it('is enrolled before anything else where it must be, and its recovery codes stay until they are noted', async () => {
    signIn({ second_factor: { available: true, enrolled: false, must_enrol: true } });
    server({ 'POST /me/second-factor/totp': () => json(201, secret) });
    const confirm = vi.spyOn(session, 'confirmFactor').mockResolvedValue(['AAAA-BBBB-CCCC', 'DDDD-EEEE-FFFF']);
    const refresh = vi.spyOn(session, 'refreshMe').mockResolvedValue();
    show(<FirstFactor />);
    await press('Set up an authenticator app');
    expect((await screen.findByTestId('secret')).textContent).toContain(secret.secret);
    write('Code', '123456');
    await press('Put in force');
    const codes = await screen.findByTestId('recovery');
    for (const code of ['AAAA-BBBB-CCCC', 'DDDD-EEEE-FFFF']) expect(codes.textContent).toContain(code);
    expect(confirm).toHaveBeenCalledWith('123456');
    expect(refresh).not.toHaveBeenCalled();
    await press('I have noted them');
    expect(refresh).toHaveBeenCalled();
  });

  it('is removed by its owner, who shows it again where the server wants it', async () => {
    signIn({ second_factor: { available: true, enrolled: true, must_enrol: false } });
    let fresh = false;
    const sent = server({ 'DELETE /me/second-factor': () => (fresh ? json(204, null) : refusal(403, 'step_up_required', 'Show it again.')) });
    const showFactor = vi.spyOn(session, 'showFactor').mockImplementation(async () => void (fresh = true));
    vi.spyOn(session, 'refreshMe').mockResolvedValue();
    const close = vi.fn();
    show(
      <>
        <OwnFactor onClose={close} />
        <StepUp />
      </>,
    );
    await press('Remove');
    await screen.findByText('Show it again.');
    fireEvent.change(screen.getByLabelText('Code'), { target: { value: '654321' } });
    await press('Go on');
    await waitFor(() => expect(close).toHaveBeenCalled());
    expect(showFactor).toHaveBeenCalledWith('654321');
    expect(sent.filter((s) => s.method === 'DELETE')).toHaveLength(2);
  });

  it('leaves the refusal where nobody shows it', async () => {
    signIn({});
    const sent = server({ 'POST /keys': () => refusal(403, 'step_up_required', 'Show it again.') });
    show(<StepUp />);
    const made = call(api.POST('/keys', { body: { name: 'app' } })).catch((e: unknown) => e);
    await screen.findByText('Show it again.');
    await press('Cancel');
    expect(await made).toMatchObject({ code: 'step_up_required' });
    expect(sent).toHaveLength(1);
  });
});
