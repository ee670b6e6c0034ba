// What the browser tests share: a browser, pages that notice what must not happen, axe, pictures, and calls of the management API.
// CONSOLE_URL, ADMIN_USER and ADMIN_PASSWORD say where and as whom; SCREENSHOTS names a folder for pictures, CHROMIUM the browser,
// SLOWER how many times slower than it is the browser shall be.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';

import { chromium } from 'playwright-core';

/** @typedef {import('playwright-core').Page} Page */
/** @typedef {'en' | 'zh'} Language */

export const base = (process.env.CONSOLE_URL ?? 'http://127.0.0.1:8080/console/').replace(/\/?$/, '/');
export const admin = { user: process.env.ADMIN_USER ?? 'admin', password: process.env.ADMIN_PASSWORD ?? '' };
const wait = 60_000; // ms; the first answer of a real model on a busy machine

const pictures = process.env.SCREENSHOTS;
if (pictures) mkdirSync(pictures, { recursive: true });

export const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--no-first-run', '--disable-quic'],
});

/** What must not happen and did. @type {string[]} */
export const trouble = [];
const refusals = new WeakSet(); // pages that expect one: the browser logs a refused request as an error of its own
const unanswered = new WeakMap(); // a page's requests to the management API

/** A page in a context of its own. @param {Language} language @param {'light' | 'dark'} [colorScheme] */
export async function newPage(language, colorScheme = 'light') {
  const context = await browser.newContext({ locale: language === 'zh' ? 'zh-CN' : 'en-US', colorScheme, reducedMotion: 'reduce', viewport: { width: 1440, height: 900 }, permissions: ['clipboard-read', 'clipboard-write'] });
  const page = await context.newPage();
  if (process.env.SLOWER) await (await context.newCDPSession(page)).send('Emulation.setCPUThrottlingRate', { rate: Number(process.env.SLOWER) });
  page.setDefaultTimeout(wait);
  const requests = new Set();
  unanswered.set(page, requests);
  page.on('requestfinished', (r) => requests.delete(r));
  page.on('requestfailed', (r) => requests.delete(r));
  page.on('request', (r) => {
    const url = new URL(r.url());
    if (url.pathname.startsWith('/api/')) requests.add(r);
    if (![new URL(base).origin, process.env.PROVIDER].includes(url.origin) && !['data:', 'blob:'].includes(url.protocol)) trouble.push(`${language}: request to ${url.origin}`);
  });
  page.on('console', (m) => {
    if (m.type() === 'error' && !(refusals.has(page) && /\b4\d\d\b/.test(m.text()))) trouble.push(`${language}: console: ${m.text()} ${m.location().url}`);
  });
  page.on('pageerror', (e) => trouble.push(`${language}: ${e}`));
  return page;
}

/** Does something that the server is to refuse. @template T @param {Page} page @param {() => Promise<T>} act @returns {Promise<T>} */
export async function refused(page, act) {
  refusals.add(page);
  try {
    return await act();
  } finally {
    refusals.delete(page);
  }
}

/**
 * Waits until the page is all there: the navigation stands before the page that it leads to is loaded, and that before its contents.
 * @param {Page} page
 */
export async function settled(page) {
  await page.locator('h1').first().waitFor();
  const until = Date.now() + wait;
  for (;;) {
    await page.waitForFunction(() => !document.querySelector('.ant-spin-spinning, .ant-skeleton-active, .ant-btn-loading') // pale while it works
      && document.getAnimations().every((a) => a.playState !== 'running' || a.effect?.getComputedTiming().iterations === Infinity)); // half-faded text has no contrast
    const open = [...unanswered.get(page)].map((r) => r.url());
    if (open.length === 0) return;
    assert.ok(Date.now() < until, `${page.url()} still waits for ${open.join(' ')}`);
    await page.waitForEvent('requestfinished', { timeout: 1000 }).catch(() => undefined); // or it failed, or was answered before we listened
  }
}

/** @param {Page} page @param {string} name */
export async function picture(page, name) {
  if (!pictures) return;
  await page.waitForTimeout(400); // animations
  await page.screenshot({ path: join(pictures, `${name}.png`), fullPage: true });
}

/** A picture for the READMEs: the size and the colours of its neighbours in docs/images. @param {Page} page @param {string} name */
export async function readmePicture(page, name) {
  if (!pictures) return;
  const wide = page.viewportSize();
  const dark = await page.evaluate(() => matchMedia('(prefers-color-scheme: dark)').matches);
  await page.emulateMedia({ colorScheme: 'light' });
  await page.setViewportSize({ width: 1360, height: 820 });
  await page.waitForTimeout(1500); // the colours change slowly
  await page.screenshot({ path: join(pictures, `${name}.png`) });
  await page.emulateMedia({ colorScheme: dark ? 'dark' : 'light' });
  if (wide) await page.setViewportSize(wide);
}

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/**
 * Holds what the page shows now against every rule of axe, best practices too.
 * @param {Page} page @param {string} where what an error calls it
 */
export async function accessible(page, where) {
  await settled(page);
  if (!(await page.evaluate(() => 'axe' in globalThis))) await page.evaluate(axe);
  const found = await page.evaluate(async () => {
    const { violations } = await /** @type {any} */ (globalThis).axe.run(document, { resultTypes: ['violations'], rules: { 'label-content-name-mismatch': { enabled: true } } });
    return violations.map((/** @type {any} */ v) => `${v.id}: ${v.help}\n${v.nodes.map((/** @type {any} */ n) => `    ${n.target.join(' ')}\n    ${n.html.slice(0, 200)}`).join('\n')}`);
  });
  if (found.length > 0) assert.fail(`${where} (${page.url()}):\n${found.join('\n')}`);
}

/** @param {Page} page @param {string} name */
export const open = (page, name) => page.getByRole('navigation').getByRole('link', { name, exact: true }).click();
/** @param {Page} page @param {string} name */
export const heading = (page, name) => page.getByRole('heading', { level: 1, name }).waitFor();

/** Calls the management API beside the browser. @param {string} method @param {string} path @param {unknown} [body] @param {string} [token] */
export async function api(method, path, body, token) {
  const reply = await fetch(new URL(`/api/v1${path}`, base), {
    method,
    headers: { 'content-type': 'application/json', ...(token ? { authorization: `Bearer ${token}` } : {}) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await reply.text();
  assert.ok(reply.ok, `${method} ${path}: ${reply.status} ${text}`);
  return text ? JSON.parse(text) : undefined;
}

/** Asks until there is an answer: a record can be found, and proved, a moment after it was written. @template T @param {() => Promise<T>} ask @returns {Promise<T>} */
export async function until(ask) {
  for (const end = Date.now() + wait; ; ) {
    try {
      return await ask();
    } catch (error) {
      if (Date.now() > end) throw error;
    }
    await setTimeout(200);
  }
}

/** Waits until the records of a request can be found and proved, and returns them. @param {string} request @param {string} by a token */
export function recorded(request, by) {
  return until(async () => {
    const { items } = await api('GET', `/audit/records?request=${request}`, undefined, by);
    assert.ok(items.length === 2 && items.every((/** @type {{ index: number }} */ r) => r.index >= 0), `${request} has ${items.length} records, or they are not sealed`); // admitted and outcome
    return items;
  });
}

/** @param {{ user: string, password: string }} who */
export const token = async (who) => (await api('POST', '/session', who)).access_token;

/** Ends the process with what went wrong, if anything did. @param {() => Promise<void>} test @param {string} done */
export async function main(test, done) {
  let failed = false;
  try {
    await test();
    assert.deepEqual(trouble, []);
    console.log(done);
  } catch (error) {
    failed = true;
    console.error(error, trouble.join('\n'));
  } finally {
    await browser.close();
  }
  process.exit(failed ? 1 : 0);
}
