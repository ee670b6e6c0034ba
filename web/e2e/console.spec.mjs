// Drives the console of a running server in a real browser, page by page, in both languages; harness.mjs says what it needs. Exits with 1 and
// says why if anything fails.
import assert from 'node:assert/strict';

import { accessible, admin, api, base, heading, main, newPage, open, picture, readmePicture, recorded, refused, settled, token, until } from './harness.mjs';

const words = {
  en: {
    user: 'User name',
    password: 'Password',
    signIn: 'Sign in',
    wrong: 'wrong',
    other: '中文',
    playground: 'Playground',
    message: 'Message',
    send: 'Send',
    done: /^(Complete|Cut at the token limit)$/,
    masked: 'masked',
    receipt: 'Audit record',
    canonical: 'Record',
    verify: 'Verify integrity',
    start: 'Start verification',
    verified: 'Nothing was changed or removed',
    close: 'Close',
    audit: 'Audit',
    logState: 'State of the audit log',
    inOrder: 'All in order',
    reconciliation: 'Reconciliation',
    reconcileNow: 'Reconcile now',
    agree: 'Log and books agree.',
    holds: 'Legal holds',
    place: 'Place a hold',
    covers: 'Every record of tenant demo',
    requestId: 'Request id',
    release: 'Release hold',
    releaseThis: 'Release hold “',
    why: 'Why it is released',
    noHold: 'No hold is in force.',
    inForce: 'In force',
    erasures: 'Erasures',
    erasePerson: 'Erase a person',
    person: 'Person',
    check: 'Check the name',
    again: /^Type the name again/,
    erase: 'Erase for good',
    nothingKept: 'Nothing was kept of this person',
    back: 'Back',
    stays: 'Stays, and why',
    keys: 'API keys',
    create: 'Create key',
    name: 'Name',
    stored: 'I have stored it',
    revoke: 'Revoke',
    revoked: 'Revoked',
    usage: 'Usage and cost',
    sla: 'Service level',
    capacity: 'Capacity',
    costs: 'Cost and energy',
    rollouts: 'Rollouts',
    knowledge: 'Knowledge bases',
    policies: 'Policies',
    engines: 'Engines',
    registerInstance: 'Register instance',
    system: 'System',
    approvals: 'Approvals',
    tenants: 'Tenants',
    organisations: 'Organisations',
    agreements: 'Label agreements',
    preview: 'Masking preview',
    previewButton: 'Preview masking',
    text: 'Text to check',
    conversation: 'Conversation',
    checkRight: 'Its check digits are right',
    tryOn: 'Try on a text',
    tryIt: 'Try',
    document: 'Policy document (YAML)',
    draft: 'Draft',
    inPart: 'Shown in part (partial)',
    reveal: 'Show values',
    keptTexts: 'Show kept texts',
    purpose: 'Purpose',
    show: 'Show',
    ask: 'Ask for approval',
    waits: /was asked for/,
    given: 'approved it',
    hideNow: 'Hide now',
    used: 'Used',
    home: 'Overview',
    account: 'Account of',
    out: 'Sign out',
    build: 'Build',
    request: 'Request',
    maxTokens: 'Max tokens',
    total: 'Total',
    tokens: 'Tokens',
    register: 'Register version',
    version: 'Version',
    startRollout: 'Start rollout',
    preset: 'Preset',
    trial: 'Trial',
    model: 'Model',
    candidate: 'Candidate version',
    minRequests: /^Requests per version/,
    reason: 'Reason',
    promote: 'Promote',
    abort: 'Abort',
    aborted: 'Aborted',
    baseline: 'Baseline',
    history: 'History',
    ended: 'Your session has ended. Sign in again.',
    exportIt: 'Export evidence',
    ofPeriod: /^[\d,]+ records?$/,
    exported: /^Saved: /,
  },
  zh: {
    user: '用户名',
    password: '密码',
    signIn: '登录',
    wrong: '错误',
    other: 'English',
    playground: '试验台',
    message: '消息',
    send: '发送',
    done: /^(已完成|达到 token 上限而截断)$/,
    masked: '已脱敏',
    receipt: '审计记录',
    canonical: '记录原文',
    verify: '校验完整性',
    start: '开始校验',
    verified: '未发现改动或删除',
    close: '关闭',
    audit: '审计',
    logState: '审计日志状态',
    inOrder: '一切正常',
    reconciliation: '对账',
    reconcileNow: '立即对账',
    agree: '日志与账目一致。',
    holds: '法律保全',
    place: '设立保全',
    covers: '租户 demo 的全部记录',
    requestId: '请求 ID',
    release: '解除保全',
    releaseThis: '解除保全“',
    why: '解除理由',
    noHold: '没有生效中的保全。',
    inForce: '生效中',
    erasures: '擦除',
    erasePerson: '擦除某人',
    person: '人员',
    check: '核对名称',
    again: /^再次输入名称/,
    erase: '永久擦除',
    nothingKept: '未留存此人的内容',
    back: '返回',
    stays: '仍保留的内容及原因',
    keys: 'API 密钥',
    create: '创建密钥',
    name: '名称',
    stored: '我已保存',
    revoke: '吊销',
    revoked: '已吊销',
    usage: '用量与费用',
    sla: '服务水平',
    capacity: '容量',
    costs: '成本与能耗',
    rollouts: '灰度发布',
    knowledge: '知识库',
    policies: '治理策略',
    engines: '引擎',
    registerInstance: '登记实例',
    system: '系统',
    approvals: '审批',
    tenants: '租户',
    organisations: '组织',
    agreements: '标识协议',
    preview: '脱敏预览',
    previewButton: '预览脱敏',
    text: '待检查文本',
    conversation: '对话',
    checkRight: '校验位正确',
    tryOn: '用文本试用',
    tryIt: '试用',
    document: '策略文档（YAML）',
    draft: '草稿',
    inPart: '部分显示（partial）',
    reveal: '查看原值',
    keptTexts: '查看留存文本',
    purpose: '用途',
    show: '查看',
    ask: '申请批准',
    waits: /已申请批准/,
    given: '已批准',
    hideNow: '立即隐藏',
    used: '已使用',
    home: '概览',
    account: '的账号',
    out: '退出登录',
    build: '构建信息',
    request: '请求',
    maxTokens: '最大 token',
    total: '合计',
    tokens: 'Token',
    register: '登记版本',
    version: '版本',
    startRollout: '发起灰度',
    preset: '预设',
    trial: '试用',
    model: '模型',
    candidate: '候选版本',
    minRequests: /^评判前/,
    reason: '理由',
    promote: '推进',
    abort: '中止',
    aborted: '已中止',
    baseline: '基线',
    history: '历史',
    ended: '会话已结束，请重新登录。',
    exportIt: '导出证据包',
    ofPeriod: /^共 [\d,]+ 条记录$/,
    exported: /^已保存：/,
  },
};
/** @typedef {import('playwright-core').Page} Page */
/** @typedef {typeof words.en} Words */
/** @typedef {import('./harness.mjs').Language} Language */

/** @param {Page} page @param {Words} w @param {string} tag */
async function signIn(page, w, tag) {
  await page.goto(base);
  await page.getByLabel(w.user, { exact: true }).fill(admin.user);
  await page.getByLabel(w.password, { exact: true }).fill('not-the-password');
  await picture(page, `${tag}-login`);
  await accessible(page, 'sign-in');
  await refused(page, async () => {
    await page.getByRole('button', { name: w.signIn, exact: true }).click();
    await page.getByRole('alert').filter({ hasText: w.wrong }).waitFor();
  });
  await page.getByLabel(w.password, { exact: true }).fill(admin.password);
  await page.getByRole('button', { name: w.signIn, exact: true }).click();
  await page.getByRole('navigation').waitFor();
  await settled(page);
  await picture(page, `${tag}-home`);
  await accessible(page, 'home');
}

/** @param {Page} page @param {Words} w @param {string} tag @returns {Promise<void>} */
async function chat(page, w, tag) {
  await open(page, w.playground);
  await heading(page, w.playground);
  await preview(page, w, tag);
  await page.getByLabel(w.maxTokens, { exact: true }).fill('48');
  await page.getByLabel(w.message, { exact: true }).fill('What is the capital of France? Answer in one sentence. My number is 13812345678.');
  await page.getByRole('button', { name: w.send, exact: true }).click();
  await page.getByText(w.done).waitFor();
  const shown = await page.getByRole('log').innerText();
  // half a pseudonym may stand where the model was cut off, and a small model makes up marks of its own; a whole one would have been restored
  assert.ok(shown.includes('13812345678') && !/⟦[^⟦⟧·]+·[0-9A-Z]{5}⟧/.test(shown), `the user sees what they typed, and no pseudonym: ${shown}`);
  await page.getByText(w.masked).first().waitFor();
  await picture(page, `${tag}-playground`);
  await accessible(page, 'playground');
  const receipt = page.getByRole('log').getByRole('link', { name: w.receipt });
  await found(receipt);
  await receipt.click();
  const record = page.getByTestId('canonical');
  await record.waitFor();
  const text = await record.innerText();
  const event = JSON.parse(text);
  assert.ok(event.id && ['admitted', 'outcome'].includes(event.stage), `the receipt leads to a record, not to ${text}`);
  assert.ok(!text.includes('13812345678'), 'the audit record holds the number');
  assert.ok(event.findings?.some((/** @type {{ class: string, count: number }} */ f) => f.class.includes('mobile') && f.count > 0), 'the record names the class and count');
  await picture(page, `${tag}-audit-record`);
  await accessible(page, 'audit record');
  // both records of the request are found by its id
  await page.getByRole('dialog').getByText(event.request, { exact: true }).first().click();
  await page.waitForURL((url) => url.searchParams.get('request') === event.request);
  const rows = page.getByRole('group', { name: w.audit }).getByRole('row').filter({ hasText: event.request });
  await rows.nth(1).waitFor();
  assert.equal(await rows.count(), 2, 'admitted and outcome');
}

/** Waits until the records that a receipt leads to can be found. @param {import('playwright-core').Locator} receipt */
async function found(receipt) {
  const id = new URL((await receipt.getAttribute('href')) ?? '', base).searchParams.get('event');
  const by = await token(admin);
  const { event } = await until(() => api('GET', `/audit/records/${id}`, undefined, by));
  await recorded(event.request, by);
}

const personal = '身份证号：11010519491231002X，电话：13812345678';

/** The preview shows what is found and why, what the model sees and what comes back, on a phone too. @param {Page} page @param {Words} w @param {string} tag */
async function preview(page, w, tag) {
  await page.getByRole('tab', { name: w.preview }).click();
  await page.getByLabel(w.text).fill(personal);
  await page.getByRole('button', { name: w.previewButton }).click();
  const masked = page.getByTestId('masked');
  await masked.waitFor();
  assert.ok(!/13812345678|11010519491231002X/.test(await masked.innerText()), 'the preview shows the numbers to the model');
  assert.equal(await page.getByTestId('restored').innerText(), personal);
  const marks = page.locator('mark');
  assert.equal(await marks.count(), 2);
  await marks.first().focus();
  await page.getByTestId('why').getByText(w.checkRight).waitFor();
  await picture(page, `${tag}-masking`);
  await accessible(page, 'masking preview');
  await page.keyboard.press('Escape');
  await page.getByTestId('why').waitFor({ state: 'hidden' });
  const wide = page.viewportSize();
  await page.setViewportSize({ width: 390, height: 844 });
  await page.waitForFunction(() => document.documentElement.scrollWidth <= 390);
  await picture(page, `${tag}-masking-phone`);
  if (wide) await page.setViewportSize(wide);
  await page.getByRole('tab', { name: w.conversation }).click();
}

/** A draft is tried on a text before it is published: the policy in force beside it. @param {Page} page @param {Words} w @param {string} tag */
async function trial(page, w, tag) {
  await page.getByRole('button', { name: w.tryOn }).click();
  const editor = page.getByLabel(w.document);
  await editor.fill((await editor.inputValue()).replace(/^ {2}default: \{request: token/m, '  cn_mobile: {request: partial}\n$&'));
  await page.getByLabel(w.text).fill(personal);
  await page.getByRole('button', { name: w.tryIt, exact: true }).click();
  await page.getByRole('region', { name: w.tryOn }).getByRole('table').getByText(w.inPart).waitFor();
  await page.getByRole('region', { name: w.draft, exact: true }).getByTestId('masked').getByText('138****5678').waitFor();
  await picture(page, `${tag}-trial`);
  await accessible(page, 'policy trial');
}

/** @param {Page} page @param {Words} w @param {string} tag */
async function audit(page, w, tag) {
  await open(page, w.audit);
  await heading(page, w.audit);
  await logState(page, w, tag);
  await page.getByRole('button', { name: w.verify }).click();
  await page.getByRole('dialog').getByRole('button', { name: w.start }).click();
  await page.getByRole('dialog').getByText(w.verified).waitFor(); // the state of the log behind it says so, too
  await picture(page, `${tag}-verify`);
  await page.getByRole('dialog').getByRole('button', { name: w.close, exact: true }).last().click();
  await page.getByRole('dialog').waitFor({ state: 'hidden' });
  await page.locator('[data-part=verification][data-level=ok]').waitFor();
  await picture(page, `${tag}-audit`);
  await accessible(page, 'audit');
  await readmePicture(page, `${tag}-readme-audit`);
  await holds(page, w, tag);
  await erasures(page, w, tag);
  await evidence(page, w, tag);
}

/** A hold says what it will cover, is placed with a reason, listed, and released with a reason. @param {Page} page @param {Words} w @param {string} tag */
async function holds(page, w, tag) {
  const why = `case ${tag}`;
  const dialog = page.getByRole('dialog');
  await page.getByRole('button', { name: w.holds, exact: true }).click();
  await dialog.getByRole('status').getByText(w.noHold).waitFor();
  await dialog.getByRole('button', { name: w.place, exact: true }).click();
  await page.getByTestId('covers').getByText(w.covers).waitFor();
  await dialog.getByLabel(w.requestId, { exact: true }).fill('req_held');
  await page.getByTestId('covers').getByText('req_held').waitFor();
  await dialog.getByLabel(w.reason, { exact: true }).fill(why);
  await picture(page, `${tag}-hold-form`);
  await accessible(page, 'hold form');
  await dialog.getByRole('button', { name: w.place, exact: true }).click();
  const row = dialog.getByRole('row').filter({ hasText: why });
  await row.getByText(w.inForce, { exact: true }).waitFor();
  await row.getByText('req_held').waitFor();
  await picture(page, `${tag}-holds`);
  await accessible(page, 'holds');
  await row.getByRole('button', { name: w.releaseThis }).click();
  await dialog.getByLabel(w.why, { exact: true }).fill('closed');
  await dialog.getByRole('button', { name: w.release, exact: true }).click();
  await dialog.getByRole('status').getByText(w.noHold).waitFor();
  await dialog.getByRole('switch').click();
  await row.waitFor();
  assert.equal(await row.getByRole('button').count(), 0, 'a released hold can be released');
  await dialog.getByRole('button', { name: w.close, exact: true }).last().click();
  await dialog.waitFor({ state: 'hidden' });
}

/** Nobody is erased before the name was checked and typed again; then the erasure is listed. @param {Page} page @param {Words} w @param {string} tag */
async function erasures(page, w, tag) {
  const dialog = page.getByRole('dialog');
  await page.getByRole('button', { name: w.erasures, exact: true }).click();
  await dialog.getByRole('button', { name: w.erasePerson, exact: true }).click();
  const erase = dialog.getByRole('button', { name: w.erase, exact: true });
  await dialog.getByLabel(w.person, { exact: true }).fill(`nobody-${tag}`);
  await dialog.getByRole('button', { name: w.check, exact: true }).click();
  await dialog.getByRole('region', { name: w.stays }).waitFor();
  await dialog.getByLabel(w.again).fill(`nobody-${tag}x`);
  assert.ok(await erase.isDisabled(), 'a person can be erased whose name was not typed again');
  await dialog.getByLabel(w.again).fill(`nobody-${tag}`);
  await picture(page, `${tag}-erase`);
  await accessible(page, 'erasure');
  await erase.click();
  await dialog.getByRole('status').getByText(w.nothingKept).waitFor();
  await dialog.getByRole('button', { name: w.back, exact: true }).click();
  await dialog.getByRole('group', { name: w.erasures, exact: true }).getByRole('row').nth(1).waitFor();
  await picture(page, `${tag}-erasures`);
  await dialog.getByRole('button', { name: w.close, exact: true }).last().click();
  await dialog.waitFor({ state: 'hidden' });
}

/** Evidence of a period: how many records it has is said before, and the file is saved. @param {Page} page @param {Words} w @param {string} tag */
async function evidence(page, w, tag) {
  const dialog = page.getByRole('dialog');
  await page.getByRole('button', { name: w.exportIt, exact: true }).click();
  await dialog.getByText(w.ofPeriod).waitFor();
  await picture(page, `${tag}-export`);
  const saved = page.waitForEvent('download');
  await dialog.getByRole('button', { name: w.exportIt, exact: true }).click();
  assert.match((await saved).suggestedFilename(), /^evidence-.*\.zip$/);
  await dialog.getByRole('status').getByText(w.exported).waitFor();
  await dialog.getByRole('button', { name: w.close, exact: true }).last().click();
  await dialog.waitFor({ state: 'hidden' });
}

/** The state of the log is said in words, at the width of a phone too, and log and books agree. @param {Page} page @param {Words} w @param {string} tag */
async function logState(page, w, tag) {
  const state = page.getByRole('region', { name: w.logState });
  await state.getByText(w.inOrder).waitFor();
  for (const part of ['capture', 'shipping', 'sealing', 'witnesses', 'reconciliation', 'verification', 'retention']) {
    const level = await state.locator(`[data-part=${part}]`).getAttribute('data-level');
    assert.ok(level === 'ok' || level === 'off', `${part} is ${level}`);
  }
  const wide = page.viewportSize();
  await page.setViewportSize({ width: 390, height: 844 });
  await page.waitForFunction(() => document.documentElement.scrollWidth <= 390); // the page is laid out anew
  const box = await state.boundingBox();
  assert.ok(box && box.x >= 0 && box.x + box.width <= 390, `the state does not fit a phone: ${JSON.stringify(box)}`);
  await picture(page, `${tag}-audit-phone`);
  if (wide) await page.setViewportSize(wide);
  await state.getByRole('button', { name: w.reconciliation }).click();
  const dialog = page.getByRole('dialog', { name: w.reconciliation });
  await dialog.getByRole('button', { name: w.reconcileNow }).click();
  await dialog.getByRole('status').getByText(w.agree).waitFor();
  await dialog.locator('.ant-btn-loading').waitFor({ state: 'detached' }); // it fades in again
  await picture(page, `${tag}-reconciliation`);
  await accessible(page, 'reconciliation');
  await dialog.getByRole('button', { name: w.close, exact: true }).last().click();
  await dialog.waitFor({ state: 'hidden' });
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
  await accessible(page, 'key form');
  await dialog.getByRole('button', { name: w.create }).click();
  const secret = await page.getByTestId('secret').innerText();
  assert.match(secret, /^sk-sluice-/);
  await picture(page, `${tag}-key-secret`);
  await accessible(page, 'new key');
  await page.getByRole('button', { name: w.stored }).click();
  await page.getByTestId('secret').waitFor({ state: 'detached' });
  const row = page.getByRole('row').filter({ hasText: name });
  await row.waitFor();
  assert.ok(!(await page.content()).includes(secret.trim()), 'the secret is still on the page');
  await row.getByRole('button', { name: w.revoke }).click();
  await page.getByRole('dialog').getByRole('button', { name: w.revoke, exact: true }).click();
  await row.getByText(w.revoked, { exact: true }).waitFor();
  await picture(page, `${tag}-keys`);
  await accessible(page, 'keys');
}

/**
 * A policy lets values be seen again, two of them with a second person: from a record, an approval is asked for and given, the values are shown and hidden.
 * @param {Page} page @param {Words} w @param {string} tag
 */
async function reveals(page, w, tag) {
  const by = await token(admin);
  const second = { user: `second-${tag}`, password: 'a long enough password' };
  const maker = { user: `maker-${tag}`, password: second.password }; // whom the asker created cannot approve
  await api('POST', '/users', { name: maker.user, password: maker.password, roles: ['platform_admin'] }, by);
  await api('POST', '/users', { name: second.user, password: second.password, roles: ['security_admin'] }, await token(maker));
  const yaml = "schema: 2\nname: reveals\nmodels: ['*']\npurposes: []\npseudonyms: session\nlabel: metadata\ncollections: ['*']\nrecord: masked\nentities:\n  default: {request: token, passage: token, answer: observe}\ngrades: {default: 3, cn_resident_id: 4}\nreveal:\n  second: 2\n  rules:\n    - {roles: [platform_admin], purposes: [complaint], classes: [cn_mobile, email], grade: 3, show: clear}\n    - {roles: [platform_admin], purposes: [], classes: [cn_resident_id], grade: 4, show: partial}\n";
  await api('POST', '/policies', { yaml }, by);
  await open(page, w.playground);
  await page.getByLabel(w.maxTokens, { exact: true }).fill('4');
  await page.getByLabel(w.message, { exact: true }).fill(`${personal}，zhangwei@example.com`);
  await page.getByRole('button', { name: w.send, exact: true }).click();
  const receipt = page.getByRole('log').getByRole('link', { name: w.receipt }).last();
  await page.getByText(w.done).last().waitFor();
  await found(receipt);
  await receipt.click();
  await page.getByRole('dialog').getByRole('button', { name: w.keptTexts, exact: true }).click();
  await page.getByTestId('kept-request').waitFor();
  await page.getByRole('dialog').last().getByRole('button', { name: w.reveal, exact: true }).first().click();
  const dialog = page.getByRole('dialog', { name: w.reveal });
  await dialog.getByLabel(w.purpose, { exact: true }).fill('complaint');
  await refused(page, async () => { // the first try says that a second person is needed
    await dialog.getByRole('button', { name: w.show, exact: true }).click();
    await dialog.getByRole('button', { name: w.ask, exact: true }).click();
  });
  await dialog.getByText(w.waits).waitFor();
  await picture(page, `${tag}-reveal-waits`);
  const other = await token(second);
  const waiting = await api('GET', '/reveal/approvals', undefined, other);
  await api('POST', `/reveal/approvals/${waiting.items[0].id}/approve`, {}, other);
  const given = dialog.getByRole('status').filter({ hasText: w.given });
  await given.getByRole('button', { name: w.show, exact: true }).click();
  const shown = await dialog.getByTestId('revealed').innerText();
  assert.ok(shown.includes('13812345678') && shown.includes('zhangwei@example.com'), `the values are not shown in full: ${shown}`);
  assert.ok(!shown.includes('11010519491231002X') && shown.includes('**'), `the identity number is not shown in part: ${shown}`);
  await picture(page, `${tag}-reveal`);
  await accessible(page, 'reveal');
  assert.ok(!/13812345678/.test(page.url() + (await page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage })))), 'a value is in the address or in storage');
  await dialog.getByRole('button', { name: w.hideNow }).click();
  await dialog.getByTestId('revealed').waitFor({ state: 'hidden' });
  assert.ok(!(await dialog.innerText()).includes('13812345678'), 'a hidden value is still on the page');
  await page.goto(new URL('reveal', base).href);
  await heading(page, w.reveal);
  await page.getByText(w.used, { exact: true }).first().waitFor();
  await picture(page, `${tag}-reveal-page`);
  await accessible(page, 'reveal page');
}

/** @param {Page} page @param {Words} w @param {string} tag */
async function others(page, w, tag) {
  await open(page, w.usage);
  await page.getByRole('img', { name: new RegExp(w.tokens) }).locator('canvas').waitFor();
  await page.getByRole('row').filter({ hasText: w.total }).waitFor();
  await page.getByRole('cell', { name: 'smollm2-135m-instruct' }).first().waitFor();
  for (const name of /** @type {const} */ (['usage', 'costs', 'sla', 'capacity', 'rollouts', 'knowledge', 'policies', 'engines', 'system', 'approvals', 'tenants', 'organisations', 'agreements'])) {
    await open(page, w[name]);
    await heading(page, w[name]);
    await settled(page);
    assert.equal(await page.locator('.ant-alert-error').count(), 0, `${name} shows an error`);
    await picture(page, `${tag}-${name}`);
    await accessible(page, name);
    if (name === 'policies') await trial(page, w, tag);
    if (name === 'engines') await engines(page, w, tag);
  }
}

/** The matrix has a cell for what the engine does; what is known of it opens, and a narrow window scrolls nothing but the table. The
 * dialog that registers an instance refuses what is empty. @param {Page} page @param {Words} w @param {string} tag */
async function engines(page, w, tag) {
  await page.locator('button.cell:not(.no)').first().click();
  await page.locator('.cell-detail').waitFor();
  await picture(page, `${tag}-engines-cell`);
  await accessible(page, 'engines cell');
  await page.keyboard.press('Escape');
  await page.locator('.cell-detail').waitFor({ state: 'hidden' });
  await page.getByRole('button', { name: w.registerInstance }).click();
  const dialog = page.getByRole('dialog', { name: w.registerInstance });
  await dialog.getByRole('button', { name: w.registerInstance }).click();
  await dialog.locator('.ant-form-item-explain-error').first().waitFor();
  await settled(page);
  await picture(page, `${tag}-engines-register`);
  await accessible(page, 'register an instance');
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'hidden' });
  const before = page.viewportSize();
  await page.setViewportSize({ width: 390, height: 844 });
  await settled(page); // the navigation folds
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.ok(wide <= 0, `the page is ${wide} pixels too wide`);
  await picture(page, `${tag}-engines-narrow`);
  await accessible(page, 'engines, narrow');
  if (before) await page.setViewportSize(before);
}

/**
 * Registers a version, starts a rollout of it and sees it move; an auditor sees the same without the buttons; then aborts it.
 * @param {Page} page @param {Words} w @param {Language} tag
 */
async function rollouts(page, w, tag) {
  const version = `e2e-${tag}`;
  await open(page, w.system);
  await page.getByRole('button', { name: w.register }).click();
  const form = page.getByRole('dialog');
  await form.getByLabel(w.model, { exact: true }).fill('smollm2-135m-instruct');
  await form.getByLabel(w.version, { exact: true }).fill(version);
  await form.locator('#engine_model').fill('smollm2-135m-instruct');
  await form.locator('#precision').fill('q4_1');
  await page.keyboard.press('Tab'); // closes the list of suggestions
  await picture(page, `${tag}-version-form`);
  await accessible(page, 'version form');
  await form.getByRole('button', { name: w.register }).click();
  await page.getByRole('cell', { name: version, exact: true }).waitFor();

  await open(page, w.rollouts);
  await page.getByRole('button', { name: w.startRollout }).first().click();
  await choose(page, w.model, 'smollm2-135m-instruct');
  await choose(page, w.candidate, version);
  await picture(page, `${tag}-rollout-form-standard`);
  await choose(page, w.preset, w.trial);
  await form.getByLabel(w.minRequests).fill('10');
  await picture(page, `${tag}-rollout-form`);
  await accessible(page, 'rollout form');
  await form.getByRole('button', { name: w.startRollout }).click();
  await page.getByRole('region', { name: w.history }).getByText(w.baseline).waitFor();
  await page.getByRole('button', { name: w.promote, exact: true }).waitFor();
  await picture(page, `${tag}-rollout`);
  await accessible(page, 'rollout');

  await asAuditor(page.url(), w, tag);

  await page.getByRole('button', { name: w.abort, exact: true }).click();
  await form.getByLabel(w.reason).fill('seen enough');
  await form.getByRole('button', { name: w.abort, exact: true }).click();
  await page.getByRole('region', { name: w.history }).getByText(w.aborted).waitFor();
  await page.getByRole('button', { name: w.abort, exact: true }).waitFor({ state: 'detached' });
  assert.equal(await page.getByRole('button', { name: w.promote, exact: true }).count(), 0, 'a rollout that is over can be promoted');
  await picture(page, `${tag}-rollout-aborted`);
  await accessible(page, 'aborted rollout');
}

/** @param {Page} page @param {string} label @param {string} value */
async function choose(page, label, value) {
  await page.getByRole('dialog').getByLabel(label, { exact: true }).click();
  await page.locator('.ant-select-dropdown:visible').getByText(value).last().click();
}

/** Signs a new auditor in and opens the rollout at url. @param {string} url @param {Words} w @param {Language} tag */
async function asAuditor(url, w, tag) {
  const auditor = { name: `auditor-${tag}`, password: 'a long enough password' };
  await api('POST', '/users', { ...auditor, roles: ['auditor'] }, await token(admin));
  const page = await newPage(tag);
  try {
    await page.goto(url);
    await page.getByLabel(w.user, { exact: true }).fill(auditor.name);
    await page.getByLabel(w.password, { exact: true }).fill(auditor.password);
    await page.getByRole('button', { name: w.signIn, exact: true }).click();
    await page.getByRole('region', { name: w.history }).getByText(w.baseline).waitFor();
    assert.equal(await page.getByRole('button', { name: w.promote, exact: true }).count(), 0, 'an auditor sees Promote');
    assert.equal(await page.getByRole('button', { name: w.abort, exact: true }).count(), 0, 'an auditor sees Abort');
    assert.equal(await page.getByRole('navigation').getByRole('link', { name: w.playground }).count(), 0, 'an auditor sees the playground');
    await open(page, w.audit);
    await page.getByRole('button', { name: w.holds, exact: true }).click();
    await page.getByRole('dialog').getByRole('status').getByText(w.noHold).waitFor();
    assert.equal(await page.getByRole('button', { name: w.place, exact: true }).count(), 0, 'an auditor may place a hold');
  } finally {
    await page.context().close();
  }
}

/** A session that ends behind the console's back leads to the sign-in page, which says so. @param {Page} page @param {Words} w */
async function expire(page, w) {
  await page.evaluate(() => fetch('/api/v1/session', { method: 'DELETE' }));
  await page.context().clearCookies();
  await page.route('**/api/v1/usage?*', (route) => route.continue({ headers: { ...route.request().headers(), authorization: 'Bearer expired' } }));
  await refused(page, async () => {
    await open(page, w.usage);
    await page.getByText(w.ended).waitFor();
  });
}

/** @param {'en' | 'zh'} language @param {'light' | 'dark'} colorScheme */
async function run(language, colorScheme) {
  const page = await newPage(language, colorScheme);
  const w = words[language];
  try {
    await signIn(page, w, language);
    assert.equal(await page.locator('html').getAttribute('lang'), language === 'zh' ? 'zh-CN' : 'en');
    await chat(page, w, language);
    await audit(page, w, language);
    await keys(page, w, language);
    await others(page, w, language);
    await rollouts(page, w, language);
    await reveals(page, w, language);
    // a reload keeps the session through the cookie, and a chosen language stays
    await page.reload();
    await page.getByRole('navigation').waitFor();
    await page.getByRole('button', { name: w.other }).click();
    const other = words[language === 'zh' ? 'en' : 'zh'];
    await page.getByRole('navigation').getByRole('link', { name: other.home }).waitFor();
    await page.reload();
    await page.getByRole('navigation').getByRole('link', { name: other.home }).waitFor();
    await settled(page); // what is asked for after signing out is refused
    await page.getByRole('button', { name: other.account }).click();
    await page.getByRole('menuitem', { name: other.out }).click();
    await page.getByLabel(other.user, { exact: true }).waitFor();
    if (language === 'en') {
      await page.getByLabel(other.user, { exact: true }).fill(admin.user);
      await page.getByLabel(other.password, { exact: true }).fill(admin.password);
      await page.getByRole('button', { name: other.signIn, exact: true }).click();
      await page.getByRole('navigation').waitFor();
      await settled(page);
      await expire(page, other);
    }
  } catch (error) {
    await picture(page, `${language}-failed`);
    throw new Error(`${language}: ${error instanceof Error ? error.message : error}`, { cause: error });
  } finally {
    await page.context().close();
  }
}

await main(async () => {
  await run('en', 'light');
  await run('zh', 'dark');
}, 'console: signed in, previewed masking, tried a draft, chatted, followed the receipt, verified, held and released records, erased a person, created and revoked a key, started and aborted a rollout, and showed values with the approval of a second person in both languages');
