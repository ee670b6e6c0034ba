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

const factor = (id: string, kind: 'totp' | 'webauthn', name: string) => ({ id, kind, name, created_at: '2026-11-26T08:00:00Z', sign_count: 0, backed_up: false });

/** A browser with a security key that makes and signs bytes. */
function withKey() {
  const bytes = (text: string) => new TextEncoder().encode(text).buffer;
  const create = vi.fn(async (_: CredentialCreationOptions) => ({ id: 'a2V5', rawId: bytes('key'), response: { clientDataJSON: bytes('made'), attestationObject: bytes('object') } }));
  const get = vi.fn(async (_: CredentialRequestOptions) => ({ id: 'a2V5', rawId: bytes('key'), response: { clientDataJSON: bytes('signed'), authenticatorData: bytes('data'), signature: bytes('signature') } }));
  vi.stubGlobal('PublicKeyCredential', class {});
  Object.defineProperty(navigator, 'credentials', { value: { create, get }, configurable: true });
  return { create, get };
}

const asked = { challenge: 'Y2hhbGxlbmdl', rpId: 'localhost', userVerification: 'required', allowCredentials: [{ type: 'public-key', id: 'a2V5' }] };
const signed = { id: 'a2V5', rawId: 'a2V5', type: 'public-key', response: { clientDataJSON: 'c2lnbmVk', authenticatorData: 'ZGF0YQ', signature: 'c2lnbmF0dXJl' } };

describe('a security key', () => {
  it('signs in, and signs something new after a refusal', async () => {
    const { get } = withKey();
    const wants = () => new ApiError('second_factor_required', 'More is needed.', 401, '', [], { kinds: ['webauthn'], key: asked });
    const login = vi.spyOn(session, 'login').mockRejectedValue(wants());
    const loginWithKey = vi.spyOn(session, 'loginWithKey').mockRejectedValueOnce(new ApiError('wrong_assertion', 'The key was refused.', 403)).mockResolvedValueOnce();
    show(<Login />);
    write('User name', 'officer');
    write('Password', 'a long password');
    await press('Sign in');
    await press('Use a security key');
    await screen.findByText('The key was refused.');
    expect(login).toHaveBeenCalledTimes(2);
    await press('Use a security key');
    await waitFor(() => expect(loginWithKey).toHaveBeenCalledTimes(2));
    expect(loginWithKey).toHaveBeenLastCalledWith('officer', 'a long password', signed);
    const key = get.mock.calls[0]![0].publicKey!;
    expect([new TextDecoder().decode(key.challenge), new TextDecoder().decode(key.allowCredentials![0]!.id), key.userVerification]).toEqual(['challenge', 'key', 'required']);
  });

  it('is enrolled under a name', async () => {
    const { create } = withKey();
    signIn({ second_factor: { available: true, enrolled: false, must_enrol: true, key_origins: [location.origin] } });
    server({ 'POST /me/second-factor/webauthn': () => json(201, { challenge: 'Y2hhbGxlbmdl', rp: { id: 'localhost', name: 'sluice' }, user: { id: 'dTE', name: 'officer', displayName: 'officer' } }) });
    const confirm = vi.spyOn(session, 'confirmKey').mockResolvedValue(['AAAA-BBBB-CCCC']);
    show(<FirstFactor />);
    write('Name of the security key', 'desk');
    await press('Add a security key');
    expect((await screen.findByTestId('recovery')).textContent).toContain('AAAA-BBBB-CCCC');
    expect(confirm).toHaveBeenCalledWith('desk', { id: 'a2V5', rawId: 'a2V5', type: 'public-key', response: { clientDataJSON: 'bWFkZQ', attestationObject: 'b2JqZWN0', transports: [] } });
    expect(new TextDecoder().decode(create.mock.calls[0]![0].publicKey!.user.id)).toBe('u1');
  });

  it('says why there can be none', async () => {
    withKey();
    signIn({ second_factor: { available: true, enrolled: false, must_enrol: true, keys_off: 'They need https.' } });
    const { unmount } = show(<FirstFactor />);
    await screen.findByText('They need https.');
    unmount();
    signIn({ second_factor: { available: true, enrolled: false, must_enrol: true, key_origins: ['https://elsewhere.example'] } });
    show(<FirstFactor />);
    await screen.findByText('Security keys work on https://elsewhere.example only.');
  });

  it('is shown again where the server wants it', async () => {
    withKey();
    signIn({ second_factor: { available: true, enrolled: true, must_enrol: false, key_origins: [location.origin] } });
    let fresh = false;
    server({
      'GET /me/second-factors': () => json(200, { items: [factor('f2', 'webauthn', 'desk')] }),
      'POST /me/second-factor/webauthn/challenge': () => json(200, asked),
      'POST /keys': () => (fresh ? json(201, { secret: 's' }) : refusal(403, 'step_up_required', 'Show it again.')),
    });
    const showFactor = vi.spyOn(session, 'showFactor').mockImplementation(async () => void (fresh = true));
    show(<StepUp />);
    const made = call(api.POST('/keys', { body: { name: 'app' } }));
    await press('Use a security key');
    expect(await made).toMatchObject({ secret: 's' });
    expect(showFactor).toHaveBeenCalledWith({ assertion: signed });
  });
});

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
    let items = [factor('f1', 'totp', ''), factor('f2', 'webauthn', 'desk')];
    const sent = server({
      'GET /me/second-factors': () => json(200, { items }),
      'DELETE /me/second-factors/f2': () => {
        if (!fresh) return refusal(403, 'step_up_required', 'Show it again.');
        items = items.slice(0, 1);
        return json(204, null);
      },
      'DELETE /me/second-factors/f1': () => {
        items = [];
        return json(204, null);
      },
    });
    const showFactor = vi.spyOn(session, 'showFactor').mockImplementation(async () => void (fresh = true));
    vi.spyOn(session, 'refreshMe').mockResolvedValue();
    const close = vi.fn();
    show(
      <>
        <OwnFactor onClose={close} />
        <StepUp />
      </>,
    );
    await press('Remove desk');
    await screen.findByText('Show it again.');
    fireEvent.change(screen.getByLabelText('Code'), { target: { value: '654321' } });
    await press('Go on');
    await waitFor(() => expect(screen.queryByText('desk')).toBeNull());
    expect(showFactor).toHaveBeenCalledWith({ code: '654321' });
    expect(close).not.toHaveBeenCalled();
    await press('Remove Authenticator app');
    await waitFor(() => expect(close).toHaveBeenCalled());
    expect(sent.filter((s) => s.method === 'DELETE')).toHaveLength(3);
  });

  it('leaves the refusal where nobody shows it', async () => {
    signIn({});
    const sent = server({ 'POST /keys': () => refusal(403, 'step_up_required', 'Show it again.') });
    show(<StepUp />);
    const made = call(api.POST('/keys', { body: { name: 'app' } })).catch((e: unknown) => e);
    await screen.findByText('Show it again.');
    await press('Cancel');
    expect(await made).toMatchObject({ code: 'step_up_required' });
    expect(sent.filter((s) => s.method === 'POST')).toHaveLength(1);
  });
});
