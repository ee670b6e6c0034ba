// One person signs in at an OpenID provider into the role of a group, in both languages, signs out here and there, and is told when no group gives a
// role. PROVIDER is the address of the provider of server/testdata/oidc-provider.mjs; harness.mjs says what else this needs.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';

import { accessible, base, main, newPage, refused } from './harness.mjs';

const issuer = process.env.PROVIDER ?? '';

/** Says who signs in at the provider next. @param {string} id @param {string[]} groups */
async function person(id, ...groups) {
  const query = new URLSearchParams([['id', id], ...groups.map((g) => ['group', g])]);
  assert.ok((await fetch(`${issuer}/test/person?${query}`, { method: 'POST' })).ok);
}

/** @param {import('./harness.mjs').Language} language */
async function walk(language) {
  const texts = JSON.parse(readFileSync(new URL(`../src/locales/${language}.json`, import.meta.url), 'utf8'));
  /** @param {string} key @param {Record<string, string>} [values] @returns {string} */
  const t = (key, values = {}) => key.split('.').reduce((node, part) => node[part], texts).replace(/\{\{(\w+)\}\}/g, (/** @type {string} */ _, /** @type {string} */ name) => values[name]);
  const page = await newPage(language);
  const button = page.getByRole('button', { name: t('provider.signIn', { name: 'Example SSO' }), exact: true });

  await person(`ada-${language}`, 'devs');
  await page.goto(`${base}keys`);
  await button.waitFor();
  await accessible(page, `${language}-sign-in`);
  await button.click();
  await page.getByRole('heading', { level: 1, name: t('nav.keys') }).waitFor(); // where the person wanted to go
  assert.equal(await page.getByRole('navigation').getByRole('link', { name: t('nav.users'), exact: true }).count(), 0, 'a developer sees the accounts');
  await page.getByRole('button', { name: t('user.menu', { name: `corp:ada-${language}` }), exact: true }).click();
  await page.getByRole('menuitem', { name: t('user.signOut') }).click();
  await page.getByRole('button', { name: 'Yes, sign me out' }).click(); // the provider's page
  await button.waitFor();

  await person(`eve-${language}`, 'others');
  await refused(page, async () => { // the console asks whether there is a session, and there is none
    await button.click();
    await page.getByText(t('provider.refused.no_role')).waitFor();
    await button.waitFor();
  });
  await accessible(page, `${language}-no-role`);
  await page.context().close();
}

await main(async () => {
  await walk('en');
  await walk('zh');
}, 'signed in at a provider into a role, and refused without one');
