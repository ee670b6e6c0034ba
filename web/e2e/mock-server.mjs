// A stand-in for the server, for working on the console without one: it keeps a little state in memory and answers in the shapes
// of the management API (tsc checks them). It is never part of a build. Run it with: npm run mock, then npm run dev.
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { extname, join, normalize } from 'node:path';
import { pathToFileURL } from 'node:url';

/** @typedef {import('../src/api/schema').components['schemas']} S */

const dist = join(import.meta.dirname, '..', 'dist');
const kinds = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml' };
const policyHeader =
  "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'";
const now = () => new Date().toISOString();
const ago = (/** @type {number} */ seconds) => new Date(Date.now() - seconds * 1000).toISOString();
const tokenLife = Number(process.env.MOCK_TOKEN_SECONDS ?? 900);

/** @type {S['Me']} */
const me = {
  id: 'u-1', name: 'admin', kind: 'user', tenant: 'demo', project: 'default', roles: ['platform_admin'], labels: ['staff'],
  permissions: 'inference.generate inference.embed models.read models.write rag.search rag.read rag.write keys.read keys.write users.read users.write tenants.read tenants.write policy.read policy.write price.read price.write budget.read budget.write usage.read audit.read audit.verify rollout.read rollout.write capacity.read capacity.write system.read masking.preview playground.use'.split(' '),
};
/** @type {S['Key'][]} */
const keys = [
  { id: 'k9Xw2LmP0aQz', tenant: 'demo', project: 'hotline', name: 'hotline-app', prefix: 'sk-sluice-k9Xw2LmP0aQz', labels: ['staff'], label_mode: 'text', limits: { requests_per_minute: 600, tokens_per_minute: 0, concurrent: 8 }, created_at: ago(86400 * 9), expires_at: ago(-86400 * 81) },
  { id: 'b7Tq81VdNc3e', tenant: 'demo', project: 'default', name: 'trial', prefix: 'sk-sluice-b7Tq81VdNc3e', labels: [], label_mode: 'metadata', limits: { requests_per_minute: 0, tokens_per_minute: 0, concurrent: 0 }, created_at: ago(86400 * 20), revoked_at: ago(86400) },
];
/** @type {{ event: Record<string, any> & { id: string, stage: 'admitted' | 'outcome' | 'action', time: number }, index: number, leaf_hash?: string }[]} */
const records = [];
let sequence = 0;
/** @param {Record<string, any> & { stage: 'admitted' | 'outcome' | 'action', action: string }} fields */
function record(fields, time = Date.now()) {
  const n = ++sequence;
  const id = `0198c0de-${String(n).padStart(4, '0')}-7000-8000-000000000000`;
  records.unshift({
    event: { schema: 1, id, request: fields.request ?? `req_${1000 + n}`, time: time * 1000, tenant: 'demo', project: 'default', actor: { kind: 'user', id: 'u-1', name: 'admin', on_behalf_of: '' }, source: '127.0.0.1', decision: 'allow', outcome: '', ...fields },
    index: n - 1, leaf_hash: 'b3f1'.repeat(16),
  });
  return id;
}
for (let i = 60; i > 0; i--) {
  const common = { action: i % 9 === 0 ? 'embeddings' : 'chat.completions', request: `req_${i}`, actor: { kind: 'key', id: 'k9Xw2LmP0aQz', name: 'hotline-app', on_behalf_of: '' }, model: { asked: 'smollm2-135m', version: 'q4', precision: 'q4_1', routed: 'smollm2' }, policy: '3', findings: i % 3 === 0 ? [{ direction: 'request', class: 'cn_mobile', action: 'masked', count: 1 }, { direction: 'request', class: 'cn_resident_id', action: 'masked', count: 2 }] : [] };
  record({ ...common, stage: 'admitted' }, Date.now() - i * 600e3);
  record({ ...common, stage: 'outcome', outcome: i % 17 === 0 ? 'failed' : i % 11 === 0 ? 'refused' : 'ok', error_code: i % 17 === 0 ? 'engine_unavailable' : '', status: 200, usage: { prompt_tokens: 84, cached_tokens: 0, completion_tokens: 120, cost: 408000, currency: 'CNY', energy: 1830000, energy_method: 'declared' }, latency: { admit: 400, queue: 0, first_token: 81000, total: 912000 } }, Date.now() - i * 600e3 + 900);
}
const yaml = 'tenant: demo\nmodels: ["*"]\nrules:\n  - class: cn_resident_id\n    request: mask\n    answer: mask\n  - class: api_secret\n    request: block\n';
/** @type {S['Policy'][]} */
const policies = [3, 2, 1].map((v) => ({ version: String(v), tenant: 'demo', digest: `sha256:${'5e'.repeat(32)}`, created_at: ago(86400 * (4 - v)), created_by: 'admin', active: v === 3, yaml: `# version ${v}\n${yaml}` }));
/** @type {S['Collection'][]} */
const collections = [{ name: 'handbook', title: '政务办事指南', labels: [], documents: 2, created_at: ago(86400 * 3) }];
/** @type {S['Document'][]} */
const documents = ['居住证办理.md', 'opening-hours.txt'].map((name, i) => ({ id: `d-${i}`, collection: 'handbook', name, mime: 'text/markdown', version: '9f86d081884c7d659a2f', chunks: 3 + i, labels: [], created_at: ago(86400) }));
/** @type {S['RolloutMetric'][]} */
const metrics = [
  { name: 'error_rate', unit: 'ratio', baseline: { value: 0.004, samples: 512 }, candidate: { value: 0.0052, samples: 191 }, limit: 0.05, verdict: 'same' },
  { name: 'first_token_p95', unit: 'us', baseline: { value: 182000, samples: 512 }, candidate: { value: 141000, samples: 191 }, limit: 273000, verdict: 'better' },
  { name: 'total_p95', unit: 'us', baseline: { value: 1940000, samples: 512 }, candidate: { samples: 0 }, limit: 2910000, verdict: 'inconclusive' },
];
/** @type {S['Rollout'][]} */
const rollouts = [
  { id: 'rollout-2', model: 'smollm2-135m', stable: 'q4', candidate: 'q8', phase: 'canary', step: 1, share_basis: 4000, steps: [20, 40, 80, 100], min_requests: 50, max_error_rate_basis: 500, max_latency_ratio_percent: 150, started_at: ago(5400), started_by: 'admin', verdict: 'inconclusive', reason: 'Waiting for 50 requests per version on this step.', metrics,
    history: [{ from: '', to: 'baseline', share_basis: 0, at: ago(5400), actor: 'admin', reason: 'started' }, { from: 'baseline', to: 'canary', share_basis: 2000, at: ago(5000), actor: 'system', reason: 'baseline has 512 requests' }, { from: 'canary', to: 'canary', share_basis: 4000, at: ago(2000), actor: 'system', reason: 'error rate and latency within limits', receipt: records[2]?.event.id }] },
  { id: 'rollout-1', model: 'smollm2-135m', stable: 'q4', candidate: 'hot', phase: 'rolled_back', step: 0, share_basis: 0, steps: [20, 40, 80, 100], started_at: ago(86400), started_by: 'admin', finished_at: ago(86000), verdict: 'worse', reason: 'Error rate 12 % is above the limit of 5 %.' },
];
/** @type {S['Model'][]} */
const models = [{ name: 'smollm2-135m', stable: 'q4', candidate: 'q8', candidate_basis: 4000, rollout: 'rollout-2', versions: ['q4', 'q8', 'hot'].map((version) => ({ model: 'smollm2-135m', version, engine: 'native', engine_model: 'SmolLM2-135M-Instruct', digest: 'b179c9523d0e6a0f98a330c7562b6827', precision: version === 'q8' ? 'q8_0' : 'q4_1', defaults: {}, created_at: ago(86400 * 9) })) }];
/** @type {S['System']} */
const system = {
  version: 'v0.1.0', commit: 'd06fd59', built_at: ago(86400), go: 'go1.26.8', platform: 'linux/amd64', console: true, installation: '0198c0de-0000-7000-8000-000000000001', started_at: ago(3600),
  parts: [{ name: 'database', status: 'ok', detail: 'SQLite 3.50' }, { name: 'audit', status: 'ok', detail: '120 records, all sealed' }, { name: 'engine', status: 'ok', detail: 'smollm2-135m, 2 threads' }, { name: 'workflows', status: 'degraded', detail: 'restarting' }, { name: 'limits', status: 'ok', detail: 'in process' }],
};

/** @param {URLSearchParams} q @returns {S['UsageReport']} */
function usage(q) {
  const group = (q.get('group_by') ?? '').split(',').filter(Boolean);
  /** @returns {S['UsageRow']} */
  const row = (/** @type {number} */ n) => ({ requests: n, prompt_tokens: n * 310, cached_tokens: n * 40, completion_tokens: n * 120, cost_nano: n * 408000, currency: 'CNY', energy_uj: n * 1830000, energy_method: 'declared' });
  const days = Array.from({ length: 7 }, (_, i) => ago(86400 * (6 - i)).slice(0, 10));
  const rows = group.length === 0 ? [] : (group.includes('day') ? days : ['']).flatMap((day, i) =>
    (group.includes('model') ? ['smollm2-135m', 'all-minilm-l6-v2'] : ['']).map((model, j) => ({
      ...row(100 + ((i * 37) % 60) - j * 40), ...(day && { day }), ...(model && { model }), ...(group.includes('key') && { key: 'k9Xw2LmP0aQz' }), ...(group.includes('tenant') && { tenant: 'demo' }) })));
  const total = rows.reduce((n, r) => n + r.requests, 0) || 42;
  return { rows, total: row(total), as_of: now() };
}

/** @param {string} text @returns {S['MaskingPreview']} */
function preview(text) {
  /** @type {S['MaskingSpan'][]} */
  const spans = [];
  const masked = text.replace(/1[3-9]\d{9}/g, (hit, at) => {
    const start = Buffer.byteLength(text.slice(0, at));
    spans.push({ start, end: start + Buffer.byteLength(hit), class: 'cn_mobile', action: 'masked', replacement: '⟦MOBILE_1⟧' });
    return '⟦MOBILE_1⟧';
  });
  return { masked, spans };
}

/** @type {Map<string, { at: number, job: S['Verification'] }>} */
const jobs = new Map();
/** @param {string} id @returns {S['Verification'] | undefined} */
function verification(id) {
  const found = jobs.get(id);
  if (!found) return undefined;
  const share = Math.min(1, (Date.now() - found.at) / 1500);
  const total = records.length;
  const job = { ...found.job, done: Math.floor(share * total), total };
  if (share < 1) return job;
  const broken = process.env.MOCK_BROKEN === '1';
  return { ...job, status: 'finished', finished_at: now(), report: { ok: !broken, records: total, sealed: total, unsealed: 0, wal_records: total, checkpoint_size: total, root: '7c'.repeat(32), problems: broken ? [{ kind: 'leaf', record: records[3]?.event.id, index: 117, cause: 'the payload does not have the leaf hash of its position' }] : [] } };
}

/** @param {import('node:http').ServerResponse} res @param {any} body */
async function chat(res, body) {
  const question = String(body.messages.at(-1).content);
  const request = `req_${Date.now()}`;
  const found = preview(question).spans.length;
  const findings = found ? [{ direction: 'request', class: 'cn_mobile', action: 'masked', count: found }] : [];
  const common = { request, action: 'chat.completions', model: { asked: body.model, version: 'q4', precision: 'q4_1' }, policy: '3', findings };
  const receipt = record({ ...common, stage: 'admitted' });
  res.writeHead(200, { 'content-type': 'text/event-stream', 'x-request-id': request });
  const send = (/** @type {object} */ chunk) => res.write(`data: ${JSON.stringify({ id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: body.model, ...chunk })}\n\n`);
  send({ choices: [{ index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null }] });
  const words = `You asked: ${question} — 这是一个逐步返回的回答。 `.repeat(question.includes('long') ? 40 : 1).match(/\S+\s*/g) ?? [];
  for (const word of words) {
    if (res.destroyed) return;
    send({ choices: [{ index: 0, delta: { content: word }, finish_reason: null }] });
    if (question.includes('break')) return res.end();
    await new Promise((done) => setTimeout(done, 30));
  }
  record({ ...common, stage: 'outcome', outcome: 'ok', usage: { prompt_tokens: 20, completion_tokens: words.length, cost: 96000, currency: 'CNY', energy: 500000, energy_method: 'declared' } });
  send({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], sluice: { request_id: request, receipt, model: { version: 'q4', precision: 'q4_1', arm: 'stable' }, cost: { nano: 96000, currency: 'CNY' }, energy: { microjoules: 500000, method: 'declared' }, policy: '3', findings, label: { Label: '1', ContentProducer: 'sluice-demo', ProduceID: request }, citations: body.rag ? [{ collection: 'handbook', document: '居住证办理.md', version: '9f86', chunk: 0, start: 0, end: 210 }] : [] } });
  send({ choices: [], usage: { prompt_tokens: 20, completion_tokens: words.length, total_tokens: 20 + words.length } });
  res.end('data: [DONE]\n\n');
}

/** @param {string} code @param {number} status @param {string} detail @returns {{ status: number, problem: S['Problem'] }} */
const refuse = (status, code, detail) => ({ status, problem: { type: `urn:sluice:problem:${code}`, title: code, status, detail, code, request_id: `req_${Date.now()}` } });
/** @param {any[]} items @param {URLSearchParams} q */
function paged(items, q) {
  const at = Number(q.get('cursor') ?? 0);
  const limit = Number(q.get('limit') ?? 50);
  return { items: items.slice(at, at + limit), ...(at + limit < items.length && { next: String(at + limit) }) };
}

const password = process.env.ADMIN_PASSWORD ?? 'console-mock';
const sessions = new Set();

/** @param {import('node:http').IncomingMessage} req @param {import('node:http').ServerResponse} res @param {URL} url */
async function handle(req, res, url) {
  const path = url.pathname.slice('/api/v1'.length);
  const q = url.searchParams;
  const chunks = [];
  for await (const chunk of req) chunks.push(chunk);
  const body = chunks.length ? JSON.parse(Buffer.concat(chunks).toString()) : undefined;
  const reply = (/** @type {any} */ value, status = 200, headers = {}) => {
    res.writeHead(status, { 'content-type': status >= 400 ? 'application/problem+json' : 'application/json', 'x-request-id': 'req_mock', ...headers });
    res.end(value === undefined ? undefined : JSON.stringify(value));
  };
  const fail = (/** @type {{ status: number, problem: S['Problem'] }} */ f) => reply(f.problem, f.status);
  const chinese = (req.headers['accept-language'] ?? '').startsWith('zh');
  const open = () => {
    const token = `token-${Math.random()}`;
    sessions.add(token);
    setTimeout(() => sessions.delete(token), tokenLife * 1000).unref();
    reply({ access_token: token, token_type: 'Bearer', expires_at: ago(-tokenLife) }, 200, { 'set-cookie': `sluice_refresh=${token}; HttpOnly; SameSite=Strict; Path=/api/v1/session` });
  };
  const route = `${req.method} ${path}`;
  if (route === 'POST /session') {
    if (body.password !== password) return fail(refuse(401, 'invalid_login', chinese ? '用户名或密码错误。' : 'The user name or the password is wrong.'));
    record({ stage: 'action', action: 'admin.login', outcome: 'ok' });
    return open();
  }
  if (route === 'POST /session/refresh') return (req.headers.cookie ?? '').includes('sluice_refresh=token') ? open() : fail(refuse(401, 'invalid_session', 'The session is missing or has ended.'));
  if (route === 'DELETE /session') return reply(undefined, 204, { 'set-cookie': 'sluice_refresh=; Max-Age=0; Path=/api/v1/session' });
  if (!sessions.has((req.headers.authorization ?? '').replace('Bearer ', ''))) return fail(refuse(401, 'invalid_session', 'The session is missing or has ended. Sign in again.'));

  if (route === 'GET /me') return reply(me);
  if (route === 'GET /system') return reply(system);
  if (route === 'GET /usage') return reply(usage(q));
  if (route === 'GET /budgets') return reply({ items: [{ tenant: 'demo', period: 'month', limit_nano: 50e9, spent_nano: 12.3e9, reserved_nano: 1e7, currency: 'CNY' }, { tenant: 'demo', key: 'k9Xw2LmP0aQz', period: 'day', limit_nano: 1e9, spent_nano: 1.02e9, reserved_nano: 0, currency: 'CNY' }] });
  if (route === 'GET /capacity') return reply({ scheduled: true, phase: 'peak', concurrency: 8, schedule: { timezone: 'Asia/Shanghai', peak: [{ from: '08:00', to: '20:00' }], peak_concurrency: 8, valley_concurrency: 2 } });
  if (route === 'GET /models') return reply({ items: models });
  if (route === 'GET /playground/models') return reply({ items: models.map((m) => m.name) });
  if (route === 'POST /playground/chat/completions') return body.messages.at(-1).content.includes('secret') ? fail(refuse(403, 'blocked_content', chinese ? '策略已拦截请求：其中包含不允许发送的 \'api_secret\' 类数据。请删除后重试。' : "The policy blocked the request: it contains data of the class 'api_secret', which may not be sent. Remove it and try again.")) : chat(res, body);
  if (route === 'POST /masking/preview') return reply(preview(body.text));
  if (route === 'GET /keys') return reply(paged(keys, q));
  if (route === 'POST /keys') {
    const id = Math.random().toString(36).slice(2, 14).padEnd(12, 'x');
    /** @type {S['Key']} */
    const key = { id, tenant: 'demo', project: body.project ?? 'default', name: body.name, prefix: `sk-sluice-${id}`, labels: body.labels ?? [], label_mode: body.label_mode ?? 'metadata', limits: body.limits, created_at: now(), ...(body.expires_at && { expires_at: body.expires_at }) };
    keys.unshift(key);
    record({ stage: 'action', action: 'admin.createKey', resource: id, outcome: 'ok' });
    return reply({ key, secret: `sk-sluice-${id}-${'Zk4'.repeat(12)}` }, 201);
  }
  const revoke = path.match(/^\/keys\/([^/]+)\/revoke$/);
  if (revoke) {
    const key = keys.find((k) => k.id === revoke[1]);
    if (!key) return fail(refuse(404, 'not_found', 'The key does not exist.'));
    key.revoked_at ??= now();
    return reply(key);
  }
  if (route === 'GET /policies') return reply(paged(policies.map(({ yaml: _, ...p }) => p), q));
  if (route === 'POST /policies/validations') return reply(body.yaml.includes('rules') ? { valid: true, errors: [] } : { valid: false, errors: [{ field: 'rules', detail: chinese ? '缺少此项。' : 'This field is missing.' }] });
  if (route === 'POST /policies') {
    policies.forEach((p) => (p.active = false));
    const p = { version: String(policies.length + 1), tenant: 'demo', digest: `sha256:${'a0'.repeat(32)}`, created_at: now(), created_by: 'admin', active: true, yaml: body.yaml };
    policies.unshift(p);
    return reply(p, 201);
  }
  const policy = policies.find((p) => path === `/policies/${p.version}`);
  if (policy) return reply(policy);
  if (route === 'GET /rag/collections') return reply({ items: collections });
  if (route === 'GET /rag/collections/handbook/documents') return reply(paged(documents, q));
  if (route === 'POST /rag/search') return reply({ items: [{ collection: 'handbook', document: '居住证办理.md', document_id: 'd-0', version: '9f86', chunk: 0, text: '办理居住证需携带身份证、房屋租赁合同，到街道政务大厅窗口办理。工作日 9:00–17:00。', start: 0, end: 118, score: 0.0328 }] });
  if (route === 'GET /rollouts') return reply(paged(rollouts.map(({ metrics: _m, history: _h, ...r }) => r), q));
  if (route === 'POST /rollouts') {
    const r = { .../** @type {S['Rollout']} */ (rollouts[0]), id: `rollout-${rollouts.length + 1}`, candidate: body.candidate, phase: /** @type {const} */ ('baseline'), step: 0, share_basis: 0, metrics: [], history: [], started_at: now(), steps: body.steps };
    rollouts.unshift(r);
    return reply(r, 201);
  }
  const rollout = rollouts.find((r) => path.startsWith(`/rollouts/${r.id}`));
  if (rollout && req.method === 'GET') return reply(rollout);
  if (rollout) {
    const abort = path.endsWith('/abort');
    rollout.history = [...(rollout.history ?? []), { from: rollout.phase, to: abort ? 'aborted' : 'canary', share_basis: abort ? 0 : 8000, at: now(), actor: 'admin', reason: body.reason }];
    Object.assign(rollout, abort ? { phase: 'aborted', share_basis: 0, finished_at: now() } : { step: 2, share_basis: 8000 });
    return reply(undefined, 202);
  }
  if (route === 'GET /audit/events') {
    const match = (/** @type {any} */ e) => (['request', 'action', 'stage', 'outcome']).every((f) => !q.get(f) || e[f] === q.get(f)) && (!q.get('actor') || e.actor.id === q.get('actor')) && (!q.get('model') || e.model?.asked === q.get('model'));
    return reply({ ...paged(records.filter((r) => match(r.event)), q), as_of: now() });
  }
  if (path.startsWith('/audit/events/')) {
    const [, , , id, proof] = path.split('/');
    const found = records.find((r) => r.event.id === id);
    if (!found) return fail(refuse(404, 'not_found', 'The record does not exist.'));
    return reply(proof ? { id, index: found.index, leaf_hash: found.leaf_hash, tree_size: records.length, hashes: [], checkpoint: 'sluice\n', verifier_key: 'k', record: JSON.stringify(found.event) } : found);
  }
  if (route === 'POST /audit/verifications') {
    const id = `v-${jobs.size + 1}`;
    jobs.set(id, { at: Date.now(), job: { id, status: 'running', done: 0, total: 0, started_at: now() } });
    return reply(verification(id), 202);
  }
  const job = verification(path.split('/')[3] ?? '');
  if (path.startsWith('/audit/verifications/') && job) return reply(job);
  return fail(refuse(404, 'not_found', `There is no ${route}.`));
}

/** @param {import('node:http').ServerResponse} res @param {string} path */
async function serveFile(res, path) {
  const name = normalize(path.slice('/console/'.length)) || 'index.html';
  let file = join(dist, name);
  if (!file.startsWith(dist) || !extname(file)) file = join(dist, 'index.html');
  let text = await readFile(file);
  if (file.endsWith('index.html')) text = Buffer.from(text.toString().replace('<base href="/" />', '<base href="/console/" />'));
  res.writeHead(200, { 'content-type': kinds[/** @type {keyof kinds} */ (extname(file))] ?? 'application/octet-stream', 'content-security-policy': policyHeader });
  res.end(text);
}

/** @param {number} port @returns {Promise<{ url: string, password: string, close: () => void }>} */
export function startMock(port = 0) {
  const server = createServer((req, res) => {
    const url = new URL(req.url ?? '/', 'http://mock');
    const work = url.pathname.startsWith('/api/v1/') ? handle(req, res, url) : url.pathname.startsWith('/console/') ? serveFile(res, url.pathname) : Promise.reject(new Error('outside'));
    Promise.resolve(work).catch((error) => {
      if (!res.headersSent) res.writeHead(404);
      res.end(String(error));
    });
  });
  return new Promise((done) => {
    server.listen(port, '127.0.0.1', () => {
      const address = /** @type {import('node:net').AddressInfo} */ (server.address());
      done({ url: `http://127.0.0.1:${address.port}/console/`, password, close: () => (server.closeAllConnections(), server.close()) });
    });
  });
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const { url } = await startMock(8080);
  console.log(`${url}  user admin, password ${password}`);
}
