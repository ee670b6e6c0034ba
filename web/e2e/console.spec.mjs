// Drives the console in a real browser. Reads CONSOLE_URL, ADMIN_USER, ADMIN_PASSWORD; without CONSOLE_URL it starts the mock
// server on web/dist. SCREENSHOTS names a folder for pictures, CHROMIUM the browser. Exits with 1 and says why if anything fails.
import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';

import { chromium } from 'playwright-core';

import { startMock } from './mock-server.mjs';

const mock = process.env.CONSOLE_URL ? undefined : await startMock();
const base = (process.env.CONSOLE_URL ?? mock?.url ?? '').replace(/\/?$/, '/');
const user = process.env.ADMIN_USER ?? 'admin';
const password = process.env.ADMIN_PASSWORD ?? mock?.password ?? '';
const pictures = process.env.SCREENSHOTS;
if (pictures) mkdirSync(pictures, { recursive: true });

const words = {
  en: { user: 'User name', password: 'Password', signIn: 'Sign in', wrong: 'wrong', other: '中文', playground: 'Playground', message: 'Message', send: 'Send', done: 'Complete', masked: 'masked', receipt: 'Audit record', canonical: 'Record', verify: 'Verify integrity', start: 'Start verification', verified: 'Nothing was changed or removed', close: 'Close', audit: 'Audit', keys: 'API keys', create: 'Create key', name: 'Name', stored: 'I have stored it', revoke: 'Revoke', revoked: 'Revoked', usage: 'Usage and cost', rollouts: 'Rollouts', knowledge: 'Knowledge bases', policies: 'Policies', system: 'System', preview: 'Masking preview', previewButton: 'Preview masking', text: 'Text to check', home: 'Overview', account: 'Account of', out: 'Sign out', build: 'Build' },
  zh: { user: '用户名', password: '密码', signIn: '登录', wrong: '错误', other: 'English', playground: '试验台', message: '消息', send: '发送', done: '已完成', masked: '已脱敏', receipt: '审计记录', canonical: '记录原文', verify: '校验完整性', start: '开始校验', verified: '未发现改动或删除', close: '关闭', audit: '审计', keys: 'API 密钥', create: '创建密钥', name: '名称', stored: '我已保存', revoke: '吊销', revoked: '已吊销', usage: '用量与费用', rollouts: '灰度发布', knowledge: '知识库', policies: '治理策略', system: '系统', preview: '脱敏预览', previewButton: '预览脱敏', text: '待检查文本', home: '概览', account: '的账号', out: '退出登录', build: '构建信息' },
};
/** @typedef {import('playwright-core').Page} Page */
/** @typedef {typeof words.en} Words */

const wait = 60_000; // the first answer of a real model on a busy machine
/** @type {string[]} */
const trouble = [];
let expectRefusal = false; // the browser logs a refused sign-in as an error of its own

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--no-first-run', '--disable-quic'],
});

/** @param {Page} page @param {string} name */
async function picture(page, name) {
  if (!pictures) return;
  await page.waitForTimeout(400); // animations
  await page.screenshot({ path: join(pictures, `${name}.png`), fullPage: true });
}

/** @param {Page} page @param {string} name */
const open = (page, name) => page.getByRole('navigation').getByRole('link', { name, exact: true }).click();
/** @param {Page} page @param {string} name */
const heading = (page, name) => page.getByRole('heading', { level: 1, name }).waitFor();

/** @param {Page} page @param {Words} w @param {string} tag */
async function signIn(page, w, tag) {
  await page.goto(base);
  await page.getByLabel(w.user, { exact: true }).fill(user);
  await page.getByLabel(w.password, { exact: true }).fill('not-the-password');
  await picture(page, `${tag}-login`);
  expectRefusal = true;
  await page.getByRole('button', { name: w.signIn, exact: true }).click();
  await page.getByRole('alert').filter({ hasText: w.wrong }).waitFor();
  expectRefusal = false;
  await page.getByLabel(w.password, { exact: true }).fill(password);
  await page.getByRole('button', { name: w.signIn, exact: true }).click();
  await page.getByRole('navigation').waitFor({ timeout: wait });
  await page.waitForLoadState('networkidle');
  await picture(page, `${tag}-home`);
}

/** @param {Page} page @param {Words} w @param {string} tag @returns {Promise<void>} */
async function chat(page, w, tag) {
  await open(page, w.playground);
  await heading(page, w.playground);
  await page.getByRole('tab', { name: w.preview }).click();
  await page.getByLabel(w.text).fill('call 13812345678');
  await page.getByRole('button', { name: w.previewButton }).click();
  const masked = page.getByTestId('masked');
  await masked.waitFor();
  assert.ok(!(await masked.innerText()).includes('13812345678'), 'the preview shows the number to the model');
  await page.getByLabel(w.message, { exact: true }).fill('Repeat my phone number 13812345678 in one short sentence.');
  await page.getByRole('button', { name: w.send, exact: true }).click();
  await page.getByText(w.done, { exact: true }).waitFor({ timeout: wait });
  await page.getByText(w.masked).first().waitFor();
  await page.getByRole('tab').first().click();
  await picture(page, `${tag}-playground`);
  await page.waitForTimeout(1000); // a record becomes searchable a moment after it was written
  await page.getByRole('log').getByRole('link', { name: w.receipt }).click();
  const record = page.getByTestId('canonical');
  await record.waitFor({ timeout: wait });
  const text = await record.innerText();
  const event = JSON.parse(text);
  assert.ok(event.id && ['admitted', 'outcome'].includes(event.stage), `the receipt leads to a record, not to ${text}`);
  assert.ok(!text.includes('13812345678'), 'the audit record holds the number');
  assert.ok(event.findings?.some((/** @type {{ class: string, count: number }} */ f) => f.class.includes('mobile') && f.count > 0), 'the record names the class and count');
  await picture(page, `${tag}-audit-record`);
  await page.keyboard.press('Escape');
}

/** @param {Page} page @param {Words} w @param {string} tag */
async function audit(page, w, tag) {
  await open(page, w.audit);
  await heading(page, w.audit);
  await page.waitForLoadState('networkidle');
  await picture(page, `${tag}-audit`);
  await page.getByRole('button', { name: w.verify }).click();
  await page.getByRole('button', { name: w.start }).click();
  await page.getByText(w.verified).waitFor({ timeout: wait });
  await picture(page, `${tag}-verify`);
  await page.getByRole('dialog').getByRole('button', { name: w.close, exact: true }).last().click();
}

/** @param {Page} page @param {Words} w @param {string} tag */
async function keys(page, w, tag) {
  const name = `e2e-${tag}-${Date.now()}`;
  await open(page, w.keys);
  await heading(page, w.keys);
  await page.getByRole('button', { name: w.create }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel(w.name, { exact: true }).fill(name);
  await picture(page, `${tag}-key-form`);
  await dialog.getByRole('button', { name: w.create }).click();
  const secret = await page.getByTestId('secret').innerText();
  assert.match(secret, /^sk-sluice-/);
  await picture(page, `${tag}-key-secret`);
  await page.getByRole('button', { name: w.stored }).click();
  const row = page.getByRole('row').filter({ hasText: name });
  await row.waitFor();
  assert.ok(!(await page.content()).includes(secret.trim()), 'the secret is still on the page');
  await row.getByRole('button', { name: w.revoke }).click();
  await page.getByRole('dialog').getByRole('button', { name: w.revoke, exact: true }).click();
  await row.getByText(w.revoked, { exact: true }).waitFor();
  await picture(page, `${tag}-keys`);
}

/** @param {Page} page @param {Words} w @param {string} tag */
async function others(page, w, tag) {
  for (const name of /** @type {const} */ (['usage', 'rollouts', 'knowledge', 'policies', 'system'])) {
    await open(page, w[name]);
    await heading(page, w[name]);
    await page.waitForLoadState('networkidle');
    assert.equal(await page.getByRole('alert').filter({ hasText: 'client_' }).count(), 0, `${name} shows an error`);
    await picture(page, `${tag}-${name}`);
  }
  const rollout = page.getByRole('table').getByRole('link').first();
  await open(page, w.rollouts);
  await heading(page, w.rollouts);
  await page.waitForLoadState('networkidle');
  if (await rollout.count()) {
    await rollout.click();
    await page.waitForLoadState('networkidle');
    await picture(page, `${tag}-rollout`);
  }
}

/** @param {'en' | 'zh'} language @param {'light' | 'dark'} colorScheme */
async function run(language, colorScheme) {
  const context = await browser.newContext({ locale: language === 'zh' ? 'zh-CN' : 'en-US', colorScheme, viewport: { width: 1440, height: 900 } });
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  page.on('request', (r) => {
    const url = new URL(r.url());
    if (url.origin !== new URL(base).origin && !['data:', 'blob:'].includes(url.protocol)) trouble.push(`${language}: request to ${url.origin}`);
  });
  page.on('console', (m) => {
    if (m.type() === 'error' && !(expectRefusal && m.text().includes('401'))) trouble.push(`${language}: console: ${m.text()}`);
  });
  page.on('pageerror', (e) => trouble.push(`${language}: ${e}`));
  const w = words[language];
  try {
    await signIn(page, w, language);
    assert.equal(await page.locator('html').getAttribute('lang'), language === 'zh' ? 'zh-CN' : 'en');
    await chat(page, w, language);
    await audit(page, w, language);
    await keys(page, w, language);
    await others(page, w, language);
    // a reload keeps the session through the cookie, and a chosen language stays
    await page.reload();
    await page.getByRole('navigation').waitFor();
    await page.getByRole('button', { name: w.other }).click();
    const other = words[language === 'zh' ? 'en' : 'zh'];
    await page.getByRole('navigation').getByRole('link', { name: other.home }).waitFor();
    await page.reload();
    await page.getByRole('navigation').getByRole('link', { name: other.home }).waitFor();
    await page.getByRole('button', { name: other.account }).click();
    await page.getByRole('menuitem', { name: other.out }).click();
    await page.getByLabel(other.user, { exact: true }).waitFor();
  } catch (error) {
    await picture(page, `${language}-failed`);
    throw new Error(`${language}: ${error instanceof Error ? error.message : error}\n${trouble.join('\n')}`, { cause: error });
  } finally {
    await context.close();
  }
}

let failed = false;
try {
  await run('en', 'light');
  await run('zh', 'dark');
  assert.deepEqual(trouble, []);
  console.log('console: signed in, chatted, followed the receipt, verified, created and revoked a key in both languages');
} catch (error) {
  failed = true;
  console.error(error);
} finally {
  await browser.close();
  mock?.close();
}
process.exit(failed ? 1 : 0);
