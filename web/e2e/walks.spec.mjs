// Three people use the console of a running server, each under the roles of his own and in both languages: a developer, an administrator and a
// compliance officer. Each walk goes where using the product once went wrong. Words are read from the locales, so that the walks are about
// what happens; harness.mjs says what they need. VERIFY names the program sluice-verify, and LOG_KEY is the public key of the log; without them the downloads
// are not checked.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { accessible, admin, api, base, heading, main, newPage, open, picture, recorded, refused, settled, token, until } from './harness.mjs';

/** @typedef {import('playwright-core').Page} Page */
/** @typedef {import('playwright-core').Locator} Locator */
/** @typedef {import('./harness.mjs').Language} Language */
/** @typedef {{ language: Language, page: Page, t: (key: string, values?: Record<string, string | number>) => string, tag: string }} Walk */

const locale = (/** @type {Language} */ l) => JSON.parse(readFileSync(new URL(`../src/locales/${l}.json`, import.meta.url), 'utf8'));
const texts = { en: locale('en'), zh: locale('zh') };

/** A text of the console, in the singular or plural that its count asks for. @param {Language} language @returns {Walk['t']} */
const words = (language) => (key, values = {}) => {
  const at = (/** @type {string} */ path) => path.split('.').reduce((node, part) => node?.[part], texts[language]);
  const text = at(key) ?? at(`${key}_${new Intl.PluralRules(language).select(Number(values.count))}`);
  assert.equal(typeof text, 'string', `${language}.json has no ${key}`);
  return text.replace(/\{\{(\w+)\}\}/g, (/** @type {string} */ _, /** @type {string} */ name) => {
    assert.ok(name in values, `${key} wants ${name}`);
    return String(values[name]);
  });
};

const downloads = mkdtempSync(join(tmpdir(), 'sluice-walks-'));
const long = 'a long enough password';
const phone = '13812345678';
let made = 0;

/** An account of its own, whose password is the person's. @param {string} name @param {string[]} roles */
async function account(name, ...roles) {
  const who = { user: `${name}-${++made}`, password: long };
  await api('POST', '/users', { name: who.user, password: who.password, roles }, await token(admin));
  return who;
}

/** @param {Walk} w @param {{ user: string, password: string }} who */
async function signIn({ page, t }, who) {
  await page.goto(base);
  await page.getByLabel(t('login.user'), { exact: true }).fill(who.user);
  await page.getByLabel(t('login.password'), { exact: true }).fill(who.password);
  await page.getByRole('button', { name: t('login.submit'), exact: true }).click();
}

/** Goes to a page by the menu. @param {Walk} w @param {string} name */
async function visit({ page, t }, name) {
  await open(page, t(`nav.${name}`));
  await heading(page, t(`nav.${name}`));
}

/** Looks at what the page shows: a picture, and every rule of axe. @param {Walk} w @param {string} name */
async function look({ page, tag }, name) {
  await picture(page, `${tag}-${name}`);
  await accessible(page, `${tag}-${name}`);
}

/** @param {Page | Locator} page @param {string} name */
const button = (page, name) => page.getByRole('button', { name, exact: true });
/** The dialog on top. @param {Page} page */
const dialog = (page) => page.getByRole('dialog').last();
/** @param {Walk} w @param {string} name */
async function press({ page }, name) {
  await dialog(page).getByRole('button', { name, exact: true }).last().click();
}
/** @param {Page} page */
const closed = (page) => page.getByRole('dialog').first().waitFor({ state: 'hidden' });

/** Chooses from a list in a dialog or on the page. @param {Page} page @param {Locator} field @param {string} value */
async function choose(page, field, value) {
  await field.click();
  await page.locator('.ant-select-dropdown:visible').getByText(value, { exact: true }).last().click();
}

/** Saves what a button downloads and returns where. @param {Walk} w @param {() => Promise<unknown>} act */
async function saved({ page, tag }, act) {
  const [file] = await Promise.all([page.waitForEvent('download'), act()]);
  const path = join(downloads, `${tag}-${file.suggestedFilename()}`);
  await file.saveAs(path);
  return path;
}

/** What sluice-verify says of a file when nobody gave it a key: consistent. @param {string} path */
function verified(path) {
  if (!process.env.VERIFY) return '';
  try {
    execFileSync(process.env.VERIFY, [path], { encoding: 'utf8' });
  } catch (error) {
    const { status, stdout, stderr } = /** @type {{ status: number, stdout: string, stderr: string }} */ (error);
    assert.equal(status, 2, `${path}: ${stdout} ${stderr}`);
    return stdout;
  }
  return assert.fail(`${path} proves itself without a key`);
}

/** What sluice-verify says of a file to somebody who has nothing but it and the public key of the log, in a folder of his own. @param {string} path @param {0 | 3} expected what it ends with: 3 for what is not what the log signed */
function elsewhere(path, expected) {
  if (!process.env.VERIFY || !process.env.LOG_KEY) return '';
  const cwd = mkdtempSync(join(tmpdir(), 'sluice-elsewhere-'));
  const { status, stdout, stderr } = spawnSync(process.env.VERIFY, ['--key', process.env.LOG_KEY, path], { encoding: 'utf8', cwd, env: {} });
  assert.equal(status, expected, `${path}: ${stdout} ${stderr}`);
  return stdout;
}

// ---------------------------------------------------------------- developer

/** @param {Walk} w */
async function developer(w) {
  const { page, t, tag } = w;
  await signIn(w, await account(`dev-${tag}`, 'developer'));
  await page.getByRole('navigation').waitFor();
  await look(w, 'home');
  await ownKey(w);
  await documents(w);
  await cited(w);
  await batch(w);
  assert.equal(await page.getByRole('navigation').getByRole('link', { name: t('nav.users') }).count(), 0, 'a developer sees the users');
}

/** A key of one's own says how long it lives, where the API is and how to call it; that works as it stands there. @param {Walk} w */
async function ownKey(w) {
  const { page, t, tag } = w;
  await visit(w, 'keys');
  await look(w, 'no-keys');
  await button(page, t('keys.create')).click();
  await dialog(page).getByText(t('keys.expiresOwn', { count: 365 })).waitFor();
  await dialog(page).getByLabel(t('keys.name'), { exact: true }).fill(`own-${tag}`);
  await dialog(page).getByLabel(t('keys.requests'), { exact: true }).fill('30');
  await look(w, 'key-form');
  await press(w, t('keys.create'));
  const secret = (await page.getByTestId('secret').innerText()).trim();
  const curl = await page.getByLabel(t('keys.tryCurl')).innerText();
  assert.ok(curl.includes(secret), 'the line to try lacks the key');
  await look(w, 'new-key');
  const answer = JSON.parse(execFileSync('bash', ['-c', curl.replace(/^curl /, 'curl -s ')], { encoding: 'utf8', env: { ...process.env, no_proxy: '127.0.0.1' } }));
  assert.equal(answer.object, 'chat.completion', JSON.stringify(answer));
  await button(page, t('keys.stored')).click();
  await closed(page);
  const row = page.getByRole('row').filter({ hasText: `own-${tag}` });
  await row.getByText('30', { exact: false }).first().waitFor();
  await page.getByRole('region', { name: t('keys.count', { count: 1 }), exact: true }).waitFor();
  await row.getByRole('button', { name: t('keys.editName', { name: `own-${tag}` }) }).click();
  await dialog(page).getByLabel(t('keys.name'), { exact: true }).fill(`own-${tag} hotline`);
  await press(w, t('keys.save'));
  await row.getByText(`own-${tag} hotline`).waitFor();
  await look(w, 'keys');
}

/** A file is checked before it is sent, and its lines are answered in the person's name. @param {Walk} w */
async function batch(w) {
  const { page, t } = w;
  const line = (/** @type {string} */ id, /** @type {string} */ model) => JSON.stringify({ custom_id: id, method: 'POST', url: '/v1/chat/completions', body: { model, max_tokens: 4, messages: [{ role: 'user', content: 'Hello.' }] } });
  const file = (/** @type {string[]} */ ...lines) => ({ name: 'lines.jsonl', mimeType: 'application/jsonl', buffer: Buffer.from(lines.join('\n')) });
  await visit(w, 'batches');
  await button(page, t('batches.new')).click();
  await dialog(page).locator('input[type=file]').setInputFiles(file('no line'));
  await dialog(page).getByText(t('batches.wrongFile')).waitFor();
  await dialog(page).locator('input[type=file]').setInputFiles(file(line('good', 'smollm2-135m-instruct'), line('bad', 'nobody')));
  await dialog(page).getByText(t('batches.checked')).waitFor();
  await look(w, 'new-batch');
  await press(w, t('batches.start'));
  await dialog(page).getByText(t('batches.counts', { completed: 1, failed: 1, total: 2 })).waitFor();
  await dialog(page).getByRole('row').filter({ hasText: 'bad' }).getByText('model_not_found').waitFor();
  await look(w, 'batch');
  await page.keyboard.press('Escape');
  await closed(page);
  await look(w, 'batches');
}

/** A search shows what a document says, and says that it counted and showed it. @param {Walk} w */
async function documents(w) {
  const { page, t, tag } = w;
  await visit(w, 'knowledge');
  await button(page, t('knowledge.create')).click();
  await dialog(page).getByLabel(t('knowledge.name'), { exact: true }).fill(`faq-${tag}`);
  await press(w, t('knowledge.create'));
  await closed(page);
  await page.getByRole('region', { name: `faq-${tag}`, exact: true }).waitFor(); // it is the one that is open
  await page.locator('input[type=file]').setInputFiles({ name: 'office.md', mimeType: 'text/markdown', buffer: Buffer.from(`# Opening hours\n\nThe office in Nanjing opens at nine. The duty officer answers ${phone}.\n`) });
  await page.getByRole('cell', { name: 'office.md' }).waitFor();
  await page.getByRole('searchbox', { name: t('knowledge.query') }).fill('duty officer');
  await button(page, t('knowledge.search')).click();
  await page.getByText(phone).first().waitFor();
  const findings = page.getByRole('table', { name: t('findings.title') });
  await findings.getByText(t('label.finding.observe'), { exact: true }).waitFor();
  assert.equal(await findings.getByText(t('label.finding.token'), { exact: true }).count(), 0, 'a value that is shown is called hidden');
  await look(w, 'knowledge');
}

/** An answer names its sources with their text, and each can be opened. @param {Walk} w */
async function cited(w) {
  const { page, t, tag } = w;
  await visit(w, 'playground');
  await choose(page, page.getByLabel(t('playground.collection'), { exact: true }), `faq-${tag}`);
  await page.getByLabel(t('playground.maxTokens'), { exact: true }).fill('8');
  await page.getByLabel(t('playground.message'), { exact: true }).fill(`When does the office open? Call me at ${phone}.`);
  await button(page, t('playground.send')).click();
  await page.getByText(t('playground.length')).or(page.getByText(t('playground.done'))).first().waitFor();
  const shown = await page.getByRole('log').innerText();
  assert.ok(!/[⟦⟧]/.test(shown), `a part of a pseudonym is shown: ${shown}`);
  const source = page.getByRole('listitem').filter({ hasText: 'The office in Nanjing opens at nine.' });
  await source.getByRole('button').first().click();
  assert.ok((await page.getByTestId('quoted').innerText()).includes(phone), 'the cited passage is not shown');
  await look(w, 'passage');
  await page.keyboard.press('Escape');
  await closed(page);
  await look(w, 'playground');
}

// ---------------------------------------------------------------- administrator

/** @param {Walk} w */
async function administrator(w) {
  const { page, tag } = w;
  await api('POST', '/model-versions', { model: 'smollm2-135m-instruct', version: `walk-${tag}`, engine: 'native', engine_model: 'smollm2-135m-instruct', precision: 'q4_1' }, await token(admin));
  await signIn(w, await account(`boss-${tag}`, 'platform_admin'));
  await page.getByRole('navigation').waitFor();
  await people(w);
  await ownPassword(w);
  await policies(w);
  await budgets(w);
  await schedule(w);
  await rollout(w);
}

/** Somebody is let in with a password for once, gets other roles, is shut out and let in again. @param {Walk} w */
async function people(w) {
  const { page, t, tag, language } = w;
  const name = `clerk-${tag}`;
  await visit(w, 'users');
  await button(page, t('users.create')).click();
  await dialog(page).getByLabel(t('users.name'), { exact: true }).fill(name);
  await dialog(page).getByLabel(t('label.role.auditor'), { exact: true }).check();
  await dialog(page).getByLabel(t('label.role.security_admin'), { exact: true }).and(page.locator(':disabled')).waitFor(); // they exclude each other
  await look(w, 'user-form');
  await press(w, t('users.create'));
  const once = (await page.getByTestId('once').innerText()).trim();
  await look(w, 'one-time-password');
  await button(page, t('users.handed')).click();
  await closed(page);
  const row = page.getByRole('row').filter({ hasText: name });
  await row.getByText(t('users.mustChange'), { exact: true }).waitFor();

  const other = { ...w, page: await newPage(language) };
  await signIn(other, { user: name, password: once });
  await heading(other.page, t('password.title'));
  assert.equal(await other.page.getByRole('navigation').count(), 0, 'a one-time password opens the console');
  await look(other, 'first-password');
  await other.page.getByLabel(t('password.current'), { exact: true }).fill(once);
  await other.page.getByLabel(t('password.next'), { exact: true }).fill(long);
  await other.page.getByLabel(t('password.again'), { exact: true }).fill(long);
  await button(other.page, t('password.submit')).click();
  await other.page.getByRole('navigation').getByRole('link', { name: t('nav.audit'), exact: true }).waitFor();
  await settled(other.page); // what the first page asks as an auditor would be refused once the roles are others

  await row.getByRole('button', { name: t('users.editName', { name }) }).click();
  await dialog(page).getByLabel(t('label.role.auditor'), { exact: true }).uncheck();
  await dialog(page).getByLabel(t('label.role.developer'), { exact: true }).check();
  await press(w, t('users.save'));
  await row.getByText(t('label.role.developer'), { exact: true }).waitFor();
  await row.getByRole('button', { name: t('users.disableName', { name }) }).click();
  await press(w, t('users.disable'));
  await row.getByText(t('users.disabled'), { exact: true }).waitFor();
  await refused(other.page, async () => {
    await other.page.reload();
    await other.page.getByLabel(t('login.user'), { exact: true }).waitFor();
  });
  await row.getByRole('button', { name: t('users.enableName', { name }) }).click();
  await row.getByRole('button', { name: t('users.disableName', { name }) }).waitFor();
  await look(w, 'users');
  await other.page.context().close();
}

/** @param {Walk} w */
async function ownPassword({ page, t }) {
  await page.getByRole('banner').getByRole('button').last().click();
  await page.getByRole('menuitem', { name: t('user.password') }).click();
  await dialog(page).getByLabel(t('password.current'), { exact: true }).fill(long);
  await dialog(page).getByLabel(t('password.next'), { exact: true }).fill(`${long}, changed`);
  await dialog(page).getByLabel(t('password.again'), { exact: true }).fill(`${long}, changed`);
  await dialog(page).getByRole('button', { name: t('password.submit'), exact: true }).click();
  await page.getByText(t('password.done')).waitFor();
  await closed(page);
}

/** A draft is still there after a visit elsewhere, and is published for whom one says, after a look at what it changes. @param {Walk} w */
async function policies(w) {
  const { page, t, tag } = w;
  const { tenant } = await api('GET', '/me', undefined, await token(admin));
  await visit(w, 'policies');
  const text = page.getByLabel(t('policy.text'), { exact: true });
  const before = await text.inputValue();
  await text.fill(before.replace(/^name: .*$/m, `name: walk ${tag}`));
  await page.getByRole('status').getByText(t('policy.draft'), { exact: true }).waitFor();
  await visit(w, 'usage');
  await visit(w, 'policies');
  await page.getByRole('status').getByText(t('policy.draft'), { exact: true }).waitFor();
  assert.match(await text.inputValue(), new RegExp(`^name: walk ${tag}$`, 'm'), 'the draft is lost');
  await page.reload();
  await page.getByRole('status').getByText(t('policy.draft'), { exact: true }).waitFor();
  await look(w, 'policy-draft');
  await button(page, t('policy.publish')).click();
  await dialog(page).getByText(t('policy.targetAll')).waitFor();
  await dialog(page).getByLabel(t('policy.targetTenant', { tenant })).check();
  await dialog(page).getByText(`name: walk ${tag}`).waitFor();
  await look(w, 'policy-publish');
  await press(w, t('policy.publish'));
  await closed(page);
  const made = new RegExp(`^${tenant}@\\d+$`);
  await page.getByRole('region', { name: made }).waitFor();
  assert.equal(await page.getByText(t('policy.draft'), { exact: true }).count(), 0, 'what was published is still called a draft');
  const versions = page.getByRole('group', { name: t('nav.policies') });
  await versions.getByText(made).first().waitFor();
  assert.ok(!/[0-9a-f]{8}-[0-9a-f]{4}-7/.test(await versions.innerText()), 'a publisher is shown as an id');
  await button(page, t('policy.compare')).click();
  await dialog(page).getByText(t('policy.compareFrom'), { exact: true }).waitFor();
  await look(w, 'policy-compare');
  await page.keyboard.press('Escape');
  await closed(page);
}

/** A request that does not fit says so in amounts; a budget can be taken away. @param {Walk} w */
async function budgets(w) {
  const { page, t } = w;
  const by = await token(admin);
  const key = await api('POST', '/keys', { name: `budget-${w.tag}` }, by);
  await open(page, t('nav.home'));
  await button(page, t('budget.set')).click();
  await choose(page, dialog(page).getByLabel(t('budget.for'), { exact: true }), `budget-${w.tag} · ${key.key.prefix}…`);
  await dialog(page).getByLabel(t('budget.limit'), { exact: true }).fill('0.00001');
  await look(w, 'budget-form');
  await press(w, t('budget.set'));
  await closed(page);
  const name = t('home.keyBudget', { key: key.key.id });
  const remove = page.getByRole('button', { name: t('budget.removeName', { name, period: t('label.period.month') }) });
  await remove.waitFor();
  const reply = await fetch(new URL('/v1/chat/completions', base), {
    method: 'POST',
    headers: { authorization: `Bearer ${key.secret}`, 'content-type': 'application/json', 'accept-language': w.language },
    body: JSON.stringify({ model: 'smollm2-135m-instruct', max_tokens: 400, messages: [{ role: 'user', content: 'Hello' }] }),
  });
  const { error } = await reply.json();
  assert.equal(reply.status, 429);
  assert.equal(error.code, 'request_exceeds_budget', JSON.stringify(error));
  assert.match(error.message, /0\.00001\b[^]*max_tokens/, 'the sentence has no amounts or no remedy');
  await look(w, 'budgets');
  await remove.click();
  await press(w, t('budget.remove'));
  await remove.waitFor({ state: 'detached' });
}

/** The schedule begins with what holds now, says what it will do, and can be taken away. @param {Walk} w */
async function schedule(w) {
  const { page, t } = w;
  await visit(w, 'system');
  await button(page, t('capacity.edit')).click();
  const peak = dialog(page).getByLabel(t('capacity.peakCount'), { exact: true });
  const now = Number(await peak.inputValue());
  assert.ok(now > 1, `the form begins with ${now} requests at once`);
  assert.equal(await dialog(page).getByLabel(t('capacity.valleyCount'), { exact: true }).inputValue(), String(now));
  await dialog(page).getByLabel(t('capacity.valleyCount'), { exact: true }).fill('1');
  await look(w, 'schedule');
  await dialog(page).getByRole('button', { name: t('capacity.save'), exact: true }).click();
  await press(w, t('capacity.lowSave')); // one is far below what holds now
  await closed(page);
  await button(page, t('capacity.removeSchedule')).click();
  await press(w, t('capacity.removeSchedule'));
  await closed(page);
  await page.getByText(t('capacity.none')).waitFor();
  const { concurrency } = await api('GET', '/capacity', undefined, await token(admin));
  assert.equal(concurrency, now, 'the engine is not back at what it is configured for');
  await look(w, 'system');
}

/** A rollout that was aborted keeps what it stood on, and says so in the language of the reader. @param {Walk} w */
async function rollout(w) {
  const { page, t, tag, language } = w;
  const version = `walk-${tag}`;
  await visit(w, 'rollouts');
  await button(page, t('rollout.start')).first().click();
  await choose(page, dialog(page).getByLabel(t('rollout.model'), { exact: true }), 'smollm2-135m-instruct');
  await choose(page, dialog(page).getByLabel(t('rollout.candidate'), { exact: true }), `${version} · q4_1`);
  await choose(page, dialog(page).getByLabel(t('rollout.preset'), { exact: true }), t('rollout.presets.trial'));
  await dialog(page).getByText(t('rollout.advanced'), { exact: true }).click();
  for (const [name, value] of /** @type {const} */ ([['min_requests', '4'], ['margin_percent', '3'], ['poll_seconds', '1']])) {
    await dialog(page).locator(`#${name}`).fill(value);
  }
  await look(w, 'rollout-form');
  await press(w, t('rollout.start'));
  await page.getByRole('region', { name: t('rollout.history') }).getByText(t('label.phase.baseline')).waitFor();
  const key = await api('POST', '/keys', { name: `rollout-${tag}` }, await token(admin));
  for (let i = 0; i < 6; i++) {
    await fetch(new URL('/v1/chat/completions', base), {
      method: 'POST',
      headers: { authorization: `Bearer ${key.secret}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'smollm2-135m-instruct', max_tokens: 2, messages: [{ role: 'user', content: 'Hello' }] }),
    });
  }
  const traffic = page.getByRole('region', { name: t('rollout.traffic') });
  const sixRequests = language === 'zh' ? /6 个请求/ : /6 requests/;
  await traffic.getByText(sixRequests).first().waitFor();
  await look(w, 'rollout');
  await button(page, t('rollout.abort')).click();
  await dialog(page).getByLabel(t('rollout.reason')).fill('seen enough');
  await press(w, t('rollout.abort'));
  const history = page.getByRole('region', { name: t('rollout.history') });
  await history.getByText(t('label.phase.aborted')).first().waitFor();
  await button(page, t('rollout.abort')).waitFor({ state: 'detached' });
  const banner = await traffic.getByRole('status').first().innerText();
  assert.ok(banner.includes('seen enough'), `the banner does not say why it ended: ${banner}`);
  await history.getByRole('button').first().click(); // what it was left on
  await history.getByText(sixRequests).first().waitFor();
  await history.getByText(/[0-9a-f]{12}/).first().waitFor();
  if (language === 'zh') assert.ok(!/(error_rate|not yet proven|stable 0)/.test(await page.getByRole('main').innerText()), 'an English sentence on a Chinese page');
  await look(w, 'rollout-aborted');
}

// ---------------------------------------------------------------- compliance

const reveals = "schema: 2\nname: reveals\nmodels: ['*']\npurposes: []\npseudonyms: session\nlabel: metadata\ncollections: ['*']\nrecord: masked\nentities:\n  default: {request: token, passage: token, answer: observe}\ngrades: {default: 3}\nreveal:\n  second: 100\n  rules:\n    - {roles: [compliance], purposes: [complaint], classes: [cn_mobile], grade: 3, show: clear}\n";

/** @param {Walk} w */
async function compliance(w) {
  const { page, tag } = w;
  const by = await token(admin);
  await api('POST', '/policies', { yaml: reveals }, by);
  const key = await api('POST', '/keys', { name: `hotline-${tag}` }, by);
  const person = `citizen-${tag}`;
  const session = `case-${tag}`;
  const reply = await fetch(new URL('/v1/chat/completions', base), {
    method: 'POST',
    headers: { authorization: `Bearer ${key.secret}`, 'content-type': 'application/json', 'x-sluice-session': session },
    body: JSON.stringify({ model: 'smollm2-135m-instruct', user: person, max_tokens: 4, messages: [{ role: 'user', content: `My number is ${phone}.` }] }),
  });
  assert.equal(reply.status, 200, await reply.clone().text());
  const request = reply.headers.get('x-request-id') ?? '';

  await signIn(w, await account(`officer-${tag}`, 'compliance'));
  await page.getByRole('navigation').waitFor();
  const pseudonym = await proof(w, request);
  await revealed(w, session, pseudonym, phone);
  await origin(w, key.secret);
  await hold(w, person);
  await erase(w, person);
  await revealed(w, session, pseudonym, '');
  await evidence(w);
}

/** A record is found by its request; its proof is checked by what ships. Returns a pseudonym of the kept text. @param {Walk} w @param {string} request */
async function proof(w, request) {
  const { page, t } = w;
  await recorded(request, await token(admin));
  await page.goto(new URL(`audit?request=${request}`, base).href);
  await heading(page, t('nav.audit'));
  await page.getByRole('group', { name: t('nav.audit') }).getByRole('row').filter({ hasText: request }).last().click();
  await page.getByTestId('canonical').waitFor();
  const event = JSON.parse(await page.getByTestId('canonical').innerText());
  assert.ok(event.findings.every((/** @type {{ action: string }} */ f) => f.action !== 'masked'), 'a new record has an old word');
  await look(w, 'record');
  const said = verified(await saved(w, () => button(dialog(page), t('audit.proof')).click()));
  if (said) assert.ok(said.includes(event.id), `the proof names no record: ${said}`);
  await button(dialog(page), t('audit.readTexts')).click();
  const kept = await page.locator('[data-testid^=kept-]').first().innerText();
  const pseudonym = kept.match(/⟦[^⟦⟧]+⟧/)?.[0];
  assert.ok(pseudonym && !kept.includes(phone), `no pseudonym was kept: ${kept}`);
  await page.keyboard.press('Escape');
  return pseudonym;
}

/** What stands behind a pseudonym is shown, or nothing any more. @param {Walk} w @param {string} session @param {string} pseudonym @param {string} value */
async function revealed(w, session, pseudonym, value) {
  const { page, t, tag } = w;
  await visit(w, 'reveal');
  await page.getByTitle(t('reveal.session'), { exact: true }).click();
  await page.getByLabel(t('reveal.where'), { exact: true }).last().fill(session);
  await page.getByLabel(t('reveal.text'), { exact: true }).fill(pseudonym);
  await page.getByLabel(t('reveal.purpose'), { exact: true }).fill('complaint');
  await page.keyboard.press('Tab');
  await button(page, t('reveal.show')).click();
  const shown = page.getByTestId('revealed');
  await shown.waitFor();
  const text = await shown.innerText();
  assert.equal(text.includes(phone), value !== '', `${tag}: ${text}`);
  if (value) await look(w, 'reveal');
}

/** A hold on a person. @param {Walk} w @param {string} person */
async function hold(w, person) {
  const { page, t } = w;
  await visit(w, 'audit');
  await button(page, t('holds.title')).click();
  await press(w, t('holds.place'));
  await dialog(page).getByLabel(t('holds.person'), { exact: true }).fill(person);
  await dialog(page).getByLabel(t('holds.reason'), { exact: true }).fill(`case of ${w.tag}`);
  await look(w, 'hold-form');
  await press(w, t('holds.place'));
  await dialog(page).getByRole('row').filter({ hasText: `case of ${w.tag}` }).waitFor();
  assert.ok(!(await page.content()).includes(person), 'the hold shows the name of the person');
  await look(w, 'holds');
  await press(w, t('verify.close'));
  await closed(page);
}

/** The hold refuses the erasure until a second person lets it pass; what goes and what stays is said before and after. @param {Walk} w @param {string} person */
async function erase(w, person) {
  const { page, t, tag } = w;
  await button(page, t('erasures.title')).click();
  await press(w, t('erasures.start'));
  await dialog(page).getByLabel(t('erasures.person'), { exact: true }).fill(person);
  await dialog(page).getByRole('button', { name: t('erasures.check'), exact: true }).click();
  await dialog(page).getByText(t('erasures.heldTitle', { count: 1 })).waitFor();
  await dialog(page).getByText(`case of ${tag}`).first().waitFor();
  for (const region of ['destroys', 'stays']) await dialog(page).getByRole('region', { name: t(`erasures.${region}`) }).waitFor();
  assert.ok(await dialog(page).getByRole('button', { name: t('erasures.erase'), exact: true }).isDisabled(), 'what is held can be erased');
  await look(w, 'erasure-held');
  const second = await token(await account(`second-${tag}`, 'compliance'));
  const waiting = async () => (await api('GET', '/audit/erasures/approvals', undefined, second)).items.find((/** @type {{ reason: string }} */ a) => a.reason.endsWith(tag));
  const ask = async (/** @type {string} */ reason) => {
    await dialog(page).getByLabel(t('erasures.askReason')).fill(`${reason} ${tag}`);
    await dialog(page).getByRole('button', { name: t('approval.ask'), exact: true }).click();
    await dialog(page).getByText(t('erasures.waiting')).waitFor();
    return (await waiting()).id;
  };
  await api('POST', `/audit/erasures/approvals/${await ask('first try')}/decline`, { reason: 'say which law' }, second);
  await dialog(page).getByText('say which law').waitFor();
  await api('POST', `/audit/erasures/approvals/${await ask('by article 47')}/approve`, {}, second);
  await dialog(page).getByRole('button', { name: t('erasures.goOn'), exact: true }).click();
  await dialog(page).getByLabel(t('erasures.again')).fill(person);
  await press(w, t('erasures.erase'));
  await dialog(page).getByText(t('erasures.done')).waitFor();
  const gone = await dialog(page).getByRole('region', { name: t('erasures.gone') }).innerText();
  assert.match(gone.replaceAll(/\s+/g, ' '), /[1-9]/, `nothing was destroyed: ${gone}`);
  await look(w, 'erased');
  await until(async () => { // proved only once it is sealed
    const { items } = await api('GET', '/audit/records?action=audit.erase&limit=1', undefined, second);
    assert.ok(items[0]?.index >= 0, 'the erasure is not sealed');
  });
  const certificate = await saved(w, () => dialog(page).getByRole('button', { name: t('erasures.certificate') }).click());
  const said = verified(certificate);
  if (said) assert.ok(said.includes('audit.erase'), `the certificate is of no erasure: ${said}`);
  await press(w, t('holds.back'));
  await press(w, t('verify.close'));
  await closed(page);
}

/** A signed answer leads to its request, with evidence that checks itself elsewhere; one word changed, and it is another text. @param {Walk} w @param {string} key */
async function origin(w, key) {
  const { page, t } = w;
  const reply = await fetch(new URL('/v1/chat/completions', base), {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', 'x-sluice-sign': 'jws' },
    body: JSON.stringify({ model: 'smollm2-135m-instruct', max_tokens: 80, min_tokens: 64, messages: [{ role: 'user', content: 'Tell me about the harbour.' }] }),
  });
  const body = await reply.text();
  assert.equal(reply.status, 200, body);
  const request = reply.headers.get('x-request-id') ?? '';
  await recorded(request, await token(admin));
  const answer = JSON.parse(body);
  await visit(w, 'provenance');
  const ask = async (/** @type {string} */ text, /** @type {string} */ signature, /** @type {string} */ conclusion) => {
    await page.getByLabel(t('provenance.text'), { exact: true }).fill(text);
    await page.getByLabel(t('provenance.signature'), { exact: true }).fill(signature);
    await button(page, t('provenance.ask')).click();
    await page.getByTestId('conclusion').filter({ hasText: t(`label.provenanceConclusion.${conclusion}`) }).waitFor();
  };
  await ask(`${answer.choices[0].message.content} forged`, answer.sluice.signature, 'other_text');
  await look(w, 'forged');
  await ask(body, '', 'unchanged');
  await look(w, 'origin');
  const said = verified(await saved(w, () => button(page, t('provenance.evidence')).click()));
  if (process.env.VERIFY) assert.ok(said.includes(request), `the evidence does not name the request: ${said}`);
  await edited(w, ask, answer.choices[0].message.content, request);
}

/**
 * A paragraph that lost its signature, and was edited a little, is found by the registry of answers. The evidence convinces whoever has the public key of the log, and convinces
 * nobody once it was changed.
 * @param {Walk} w @param {(text: string, signature: string, conclusion: string) => Promise<void>} ask @param {string} answer @param {string} request
 */
async function edited(w, ask, answer, request) {
  const { page, t } = w;
  const kept = answer.split(' ');
  kept.splice(1, 1, 'another');
  const text = kept.slice(0, -2).join('  ').replaceAll(', ', '，');
  await ask(text, '', 'derived');
  const registry = page.getByTestId('mark-registry');
  await registry.getByText(t('label.provenanceResult.partial'), { exact: true }).waitFor();
  await registry.getByText(t('label.provenanceReason.registry_part')).waitFor();
  await look(w, 'edited');
  const path = await saved(w, () => button(page, t('provenance.evidence')).click());
  if (!process.env.VERIFY || !process.env.LOG_KEY) return;
  const said = elsewhere(path, 0);
  assert.ok(said.includes(request), `the evidence does not name the request: ${said}`);
  const forged = readFileSync(path);
  const middle = forged.length >> 1;
  forged.writeUInt8(forged.readUInt8(middle) ^ 1, middle);
  const copy = path.replace(/\.zip$/, '-forged.zip');
  writeFileSync(copy, forged);
  elsewhere(copy, 3);
}

/** The evidence of a period: how many records it has is said before, and what ships checks it. @param {Walk} w */
async function evidence(w) {
  const { page, t } = w;
  await visit(w, 'audit');
  await button(page, t('audit.export')).click();
  await dialog(page).getByLabel(t('export.days', { days: 7 }), { exact: true }).check();
  await dialog(page).getByRole('status').filter({ hasText: /\d/ }).first().waitFor();
  await look(w, 'export');
  const said = verified(await saved(w, () => press(w, t('audit.export'))));
  if (process.env.VERIFY) assert.ok(said, 'the bundle was not checked');
  await press(w, t('verify.close'));
  await closed(page);
}

// ----------------------------------------------------------------

const walks = { developer, administrator, compliance };
const only = process.env.WALK;

await main(async () => {
  for (const language of /** @type {const} */ (['en', 'zh'])) {
    for (const [name, walk] of Object.entries(walks)) {
      if (only && !only.split(',').includes(name)) continue;
      const page = await newPage(language, language === 'zh' ? 'dark' : 'light');
      const tag = `${language}-${name}`;
      try {
        await walk({ language, page, t: words(language), tag });
      } catch (error) {
        await picture(page, `${tag}-failed`);
        throw new Error(`${tag}: ${error instanceof Error ? error.message : error}`, { cause: error });
      } finally {
        await page.context().close();
      }
    }
  }
}, 'walks: a developer, an administrator and a compliance officer did their work in both languages');
