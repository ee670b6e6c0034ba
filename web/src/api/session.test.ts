import { beforeEach, describe, expect, it, vi } from 'vitest';

type Reply = () => Response | Promise<Response>;
const json = (status: number, body?: unknown) => new Response(body === undefined ? null : JSON.stringify(body), { status, headers: { 'content-type': 'application/json', 'x-request-id': 'req_1' } });
const problem = (status: number, code: string) => json(status, { type: `urn:sluice:problem:${code}`, title: code, status, detail: `what ${code} means`, code, request_id: 'req_9' });

/** A server in a function: replies by "METHOD path", and what it was asked. */
function serve(routes: Record<string, Reply>) {
  const asked: { route: string; token: string | null }[] = [];
  vi.stubGlobal('fetch', async (input: Request | string, init?: RequestInit) => {
    const request = input instanceof Request ? input : new Request(new URL(input, location.origin), init);
    const route = `${request.method} ${new URL(request.url).pathname}`;
    asked.push({ route, token: request.headers.get('authorization') });
    return (routes[route] ?? (() => json(404)))();
  });
  return asked;
}

const me = { id: 'u', name: 'admin', kind: 'user', tenant: 'demo', roles: [], labels: [], permissions: ['keys.read'] };

async function signedIn(routes: Record<string, Reply>) {
  vi.resetModules();
  let tokens = 0;
  const asked = serve({
    'POST /api/v1/session': () => json(200, { access_token: `t${++tokens}`, token_type: 'Bearer', expires_at: '' }),
    'POST /api/v1/session/refresh': () => json(200, { access_token: `t${++tokens}`, token_type: 'Bearer', expires_at: '' }),
    'GET /api/v1/me': () => json(200, me),
    ...routes,
  });
  const { session } = await import('./session');
  const { api, call } = await import('./client');
  await session.login('admin', 'pw');
  return { session, api, call, asked };
}

beforeEach(() => localStorage.clear());

describe('session', () => {
  it('signs in and knows what it may do', async () => {
    const { session, asked } = await signedIn({});
    expect(session.snapshot()).toMatchObject({ status: 'in', me });
    expect(session.may('keys.read')).toBe(true);
    expect(session.may('keys.write')).toBe(false);
    expect(asked.at(-1)).toEqual({ route: 'GET /api/v1/me', token: 'Bearer t1' });
    expect(JSON.stringify(localStorage)).not.toContain('t1'); // tokens stay in memory
  });

  it('changes the password and goes on with the tokens of the answer', async () => {
    let wrong = true;
    const { session, asked } = await signedIn({
      'POST /api/v1/me/password': () => (wrong ? problem(403, 'wrong_password') : json(200, { access_token: 'changed', token_type: 'Bearer', expires_at: '' })),
      'GET /api/v1/me': () => json(200, wrong ? { ...me, must_change_password: true } : me),
    });
    await expect(session.changePassword('guess', 'a new password')).rejects.toMatchObject({ code: 'wrong_password' });
    expect(session.snapshot().me?.must_change_password).toBe(true);
    wrong = false;
    await session.changePassword('old', 'a new password');
    expect(asked.at(-1)).toEqual({ route: 'GET /api/v1/me', token: 'Bearer changed' });
    expect(session.snapshot().me?.must_change_password).toBeUndefined();
  });

  it('stays signed out when answers to the session come late', async () => {
    for (const late of ['GET /api/v1/me', 'POST /api/v1/session/refresh']) {
      let answer = (_: Response) => {};
      let begun = () => {};
      const waiting = new Promise<void>((resolve) => (begun = resolve));
      let slow = false;
      const slowly = (body: unknown) => () => {
        if (!slow) return json(200, body);
        begun();
        return new Promise<Response>((resolve) => (answer = () => resolve(json(200, body))));
      };
      const body = late.endsWith('/me') ? me : { access_token: 'late', token_type: 'Bearer', expires_at: '' };
      const { session, api, call, asked } = await signedIn({ [late]: slowly(body), 'GET /api/v1/keys': () => problem(401, 'invalid_session'), 'DELETE /api/v1/session': () => json(204) });
      slow = true;
      const asking = call(api.GET('/keys')).catch((e: unknown) => e);
      await waiting;
      await session.logout();
      const before = asked.length;
      answer(json(200));
      await expect(asking, late).resolves.toMatchObject({ code: 'invalid_session' });
      expect(session.snapshot(), late).toEqual({ status: 'out', ended: false });
      expect(asked.slice(before), late).toEqual([]); // nothing is asked with the token that came late
      vi.unstubAllGlobals();
    }
  });

  it('learns of changed roles when its token has to be renewed', async () => {
    let changed = false;
    const { session, api, call, asked } = await signedIn({
      'GET /api/v1/me': () => json(200, changed ? { ...me, permissions: ['audit.read'] } : me),
      'GET /api/v1/keys': () => (asked.at(-1)?.token === 'Bearer t1' ? problem(401, 'invalid_session') : json(200, { items: [] })),
    });
    changed = true;
    await call(api.GET('/keys'));
    expect(session.may('audit.read')).toBe(true);
    expect(session.may('keys.read')).toBe(false);
  });

  it('signs the same user in again in place, and a wrong password ends nothing', async () => {
    let refused = false;
    let tokens = 0;
    const { session, api, call, asked } = await signedIn({
      'POST /api/v1/session': () => (refused ? problem(401, 'invalid_login') : json(200, { access_token: `s${++tokens}`, token_type: 'Bearer', expires_at: '' })),
      'GET /api/v1/keys': () => json(200, { items: [] }),
    });
    const before = session.snapshot();
    refused = true;
    await expect(session.again('wrong')).rejects.toMatchObject({ code: 'invalid_login' });
    expect(session.snapshot()).toBe(before);
    await call(api.GET('/keys'));
    expect(asked.at(-1)?.token).toBe('Bearer s1');
    refused = false;
    await session.again('pw');
    expect(session.snapshot()).toBe(before); // nothing that listens is told: the page stays as it is
    await call(api.GET('/keys'));
    expect(asked.at(-1)?.token).toBe('Bearer s2');
  });

  it('renews an expired token once for calls made together, and repeats them', async () => {
    let expired = true;
    const { api, call, asked } = await signedIn({
      'GET /api/v1/keys': () => (expired ? problem(401, 'invalid_session') : json(200, { items: [] })),
      'POST /api/v1/session/refresh': () => {
        expired = false;
        return json(200, { access_token: 't2', token_type: 'Bearer', expires_at: '' });
      },
    });
    const pages = await Promise.all([call(api.GET('/keys')), call(api.GET('/keys')), call(api.GET('/keys'))]);
    expect(pages).toEqual([{ items: [] }, { items: [] }, { items: [] }]);
    expect(asked.filter((a) => a.route === 'POST /api/v1/session/refresh')).toHaveLength(1);
    expect(asked.at(-1)?.token).toBe('Bearer t2');
  });

  it('goes back to the login page when the session cannot be renewed', async () => {
    const { session, api, call } = await signedIn({
      'GET /api/v1/keys': () => problem(401, 'invalid_session'),
      'POST /api/v1/session/refresh': () => problem(401, 'invalid_session'),
    });
    await expect(call(api.GET('/keys'))).rejects.toMatchObject({ code: 'invalid_session', status: 401 });
    expect(session.snapshot()).toEqual({ status: 'out', ended: true });
  });

  it('does not sign out because a renewal did not get through', async () => {
    const { session, api, call } = await signedIn({
      'GET /api/v1/keys': () => problem(401, 'invalid_session'),
      'POST /api/v1/session/refresh': () => problem(503, 'database_unavailable'),
    });
    await expect(call(api.GET('/keys'))).rejects.toMatchObject({ code: 'database_unavailable' });
    expect(session.snapshot().status).toBe('in');
  });

  it('shows a visitor the login page without asking the server', async () => {
    vi.resetModules();
    const asked = serve({});
    const { session } = await import('./session');
    await session.restore();
    expect(session.snapshot()).toEqual({ status: 'out', ended: false });
    expect(asked).toEqual([]);
  });

  it('restores the session after a reload', async () => {
    localStorage.setItem('sluice.session', '1');
    vi.resetModules();
    serve({ 'POST /api/v1/session/refresh': () => json(200, { access_token: 't', token_type: 'Bearer', expires_at: '' }), 'GET /api/v1/me': () => json(200, me) });
    const { session } = await import('./session');
    await session.restore();
    expect(session.snapshot().status).toBe('in');
  });
});

describe('call', () => {
  it('throws what the problem document says', async () => {
    const { api, call } = await signedIn({ 'GET /api/v1/keys': () => problem(403, 'not_allowed') });
    await expect(call(api.GET('/keys'))).rejects.toMatchObject({ code: 'not_allowed', detail: 'what not_allowed means', requestId: 'req_9' });
  });

  it('copes with replies that are no problem document and with no reply', async () => {
    const { api, call } = await signedIn({
      'GET /api/v1/keys': () => new Response('<html>bad gateway</html>', { status: 502, headers: { 'x-request-id': 'req_5' } }),
      'GET /api/v1/system': () => Promise.reject(new TypeError('Failed to fetch')),
    });
    await expect(call(api.GET('/keys'))).rejects.toMatchObject({ code: 'client_reply', status: 502, requestId: 'req_5' });
    await expect(call(api.GET('/system'))).rejects.toMatchObject({ code: 'client_network' });
  });

  it('sends lists as the document says', async () => {
    let query = '';
    const { api, call } = await signedIn({});
    vi.stubGlobal('fetch', async (request: Request) => {
      query = new URL(request.url).search;
      return json(200, { rows: [], total: {}, as_of: '' });
    });
    await call(api.GET('/usage', { params: { query: { group_by: ['day', 'model'], key: undefined } } }));
    expect(decodeURIComponent(query)).toBe('?group_by=day,model');
  });

  it('accepts replies without a body', async () => {
    const { api, call } = await signedIn({ 'POST /api/v1/rollouts/r/abort': () => new Response(null, { status: 202, headers: { 'content-length': '0' } }) });
    await call(api.POST('/rollouts/{id}/abort', { params: { path: { id: 'r' } }, body: { reason: 'x' } }));
  });
});
