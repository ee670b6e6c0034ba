// One person enrols a security key and an authenticator app in the console of a running server, signs in with each and with a recovery code, shows the key
// again where it is wanted, and removes it. The key is Chromium's own virtual authenticator. harness.mjs says what this needs.
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { readFileSync } from 'node:fs';

import { accessible, admin, api, base, main, newPage, refused, token } from './harness.mjs';

const texts = JSON.parse(readFileSync(new URL('../src/locales/en.json', import.meta.url), 'utf8'));
/** @param {string} key @param {Record<string, string>} [values] @returns {string} */
const t = (key, values = {}) => key.split('.').reduce((node, part) => node[part], texts).replace(/\{\{(\w+)\}\}/g, (/** @type {string} */ _, /** @type {string} */ name) => values[name]);

const who = { user: 'keeper', password: 'a long enough password' };
const page = await newPage('en');
const button = (/** @type {string} */ name) => page.getByRole('button', { name, exact: true }).last();
const press = (/** @type {string} */ name) => button(name).click();

/** A virtual security key that verifies its user. It says how many keys it holds. */
async function plugIn() {
  const cdp = await page.context().newCDPSession(page);
  await cdp.send('WebAuthn.enable');
  const { authenticatorId } = await cdp.send('WebAuthn.addVirtualAuthenticator', {
    options: { protocol: 'ctap2', transport: 'usb', hasResidentKey: true, hasUserVerification: true, isUserVerified: true, automaticPresenceSimulation: true },
  });
  return async () => (await cdp.send('WebAuthn.getCredentials', { authenticatorId })).credentials;
}

/** RFC 6238, as an authenticator app computes it. @param {string} secret base32 @param {number} later time steps */
function totp(secret, later) {
  const bits = [...secret].map((c) => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(c).toString(2).padStart(5, '0')).join('');
  const key = Buffer.from(bits.match(/.{8}/g)?.map((b) => parseInt(b, 2)) ?? []);
  const step = Buffer.alloc(8);
  step.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 30_000) + later));
  const mac = createHmac('sha1', key).update(step).digest();
  return String((mac.readUInt32BE(mac.readUInt8(19) & 15) & 0x7fffffff) % 1_000_000).padStart(6, '0');
}

/** Gives the password, and the rest by show. @param {() => Promise<void>} [show] */
async function signIn(show) {
  await page.getByLabel(t('login.user'), { exact: true }).fill(who.user);
  await page.getByLabel(t('login.password'), { exact: true }).fill(who.password);
  await refused(page, async () => {
    await press(t('login.submit'));
    await show?.();
    await page.getByRole('navigation').waitFor();
  });
}

/** @param {string} code */
const withCode = (code) => async () => {
  await page.getByLabel(t('factor.code'), { exact: true }).fill(code);
  await press(t('login.submit'));
};

/** @param {string} item */
async function menu(item) {
  await press(t('user.menu', { name: who.user }));
  await page.getByRole('menuitem', { name: t(item) }).click();
}

async function signOut() {
  await menu('user.signOut');
  await page.getByLabel(t('login.user'), { exact: true }).waitFor();
}

/** Notes the recovery codes that the page shows. */
async function recoveryCodes() {
  const codes = (await page.getByTestId('recovery').innerText()).trim().split(/\s+/);
  assert.equal(codes.length, 10);
  await press(t('factor.noted'));
  await page.getByRole('dialog').waitFor({ state: 'hidden' });
  return codes;
}

await main(async () => {
  const held = await plugIn();
  await api('POST', '/users', { name: who.user, password: who.password, roles: ['security_admin'] }, await token(admin));
  await page.goto(base);
  await signIn();

  await menu('user.factor');
  await page.getByLabel(t('factor.keyName'), { exact: true }).fill('desk');
  await accessible(page, 'enrol');
  await press(t('factor.addKey'));
  await recoveryCodes();
  assert.equal((await held()).length, 1);

  await signOut();
  await signIn(async () => {
    await button(t('factor.useKey')).waitFor();
    await accessible(page, 'sign-in');
    await press(t('factor.useKey'));
  });
  assert.ok((await held()).every((k) => k.signCount > 1), 'the key has not signed');

  await menu('user.factor');
  await press(t('factor.add'));
  await press(t('factor.start'));
  const secret = (await page.getByTestId('secret').innerText()).trim();
  await page.getByLabel(t('factor.code'), { exact: true }).fill(totp(secret, 0));
  await press(t('factor.confirm'));
  const codes = await recoveryCodes();

  await signOut();
  await signIn(withCode(totp(secret, 1))); // that of now has confirmed it
  await signOut();
  await signIn(withCode(codes[0] ?? ''));

  await menu('user.factor');
  await button(t('factor.removeName', { name: 'desk' })).waitFor();
  await accessible(page, 'factors');
  // The server wants it shown again after minutes; the first answer is as it would be then.
  await page.route('**/api/v1/me/second-factors/*', (route) => route.fulfill({ status: 403, contentType: 'application/problem+json', json: { type: 't', title: 't', status: 403, code: 'step_up_required', detail: 'Too long ago.', request_id: 'r' } }), { times: 1 });
  await refused(page, async () => {
    await press(t('factor.removeName', { name: 'desk' }));
    await page.getByText('Too long ago.').waitFor();
    await button(t('factor.useKey')).waitFor();
    await press(t('factor.useKey'));
    await button(t('factor.removeName', { name: 'desk' })).waitFor({ state: 'detached' });
  });
  await button(t('factor.removeName', { name: t('factor.app') })).waitFor();
}, 'security key, authenticator app and recovery code: enrolled, used, removed');
