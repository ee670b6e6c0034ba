import { errorFromReply } from './errors';
import type { components } from './schema';

type Assertion = components['schemas']['WebauthnAssertion'];
type Attestation = components['schemas']['WebauthnAttestation'];

export type Me = components['schemas']['Me'];

export interface SessionState {
  status: 'unknown' | 'out' | 'in';
  me?: Me;
  ended?: boolean; // signed in before, so the login page says why it is back
}

const path = '/api/v1/session';

/** Whether this browser signed in before: spares a visitor's first page a request that must fail. It proves nothing. */
const hint = {
  get: () => {
    try {
      return localStorage.getItem('sluice.session') !== null;
    } catch {
      return true; // storage is blocked: ask
    }
  },
  set: (on: boolean) => {
    try {
      if (on) localStorage.setItem('sluice.session', '1');
      else localStorage.removeItem('sluice.session');
    } catch {
      // see get
    }
  },
};

/**
 * The signed-in user. The access token lives in memory only; the refresh token is a cookie that scripts cannot read. Renewals are
 * one at a time over all tabs, because the server ends a session whose refresh token is used twice.
 */
class Session {
  private state: SessionState = { status: 'unknown' };
  private token = '';
  private renewal?: Promise<boolean>;
  private ends = 0; // how many sessions are over: an answer that a session asked for and that comes after it must not bring it back
  private listeners = new Set<() => void>();
  language = 'en';

  subscribe = (listener: () => void) => {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  };
  snapshot = () => this.state;

  may(permission: string): boolean {
    return this.state.me?.permissions.includes(permission) ?? false;
  }

  /** Sends a request as the signed-in user, renewing an expired token once. */
  async fetch(request: Request): Promise<Response> {
    const again = request.clone();
    const used = this.token;
    const ends = this.ends;
    const reply = await fetch(this.authorize(request));
    if (reply.status !== 401 || this.state.status === 'out' || this.ends !== ends) return reply;
    if (this.token === used) {
      const renewed = await this.renew();
      if (this.ends !== ends) return reply;
      if (!renewed) {
        this.end(this.state.status === 'in');
        return reply;
      }
      if (this.state.status === 'in') await this.loadMe().catch(() => undefined); // the roles may have changed since
    }
    if (this.ends !== ends) return reply;
    return fetch(this.authorize(again));
  }

  /** Signs in. code is of the second factor of an account that has one. */
  async login(user: string, password: string, code?: string): Promise<void> {
    await this.begin(user, password, code);
    hint.set(true);
    await this.loadMe();
  }

  /** Opens an emergency session with the halves of a sealed credential. It is not renewed, so nothing restores it after a reload. */
  async emergency(halves: string[], reason: string): Promise<void> {
    const ends = this.ends;
    const reply = await fetch(`${path}/break-glass`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'accept-language': this.language },
      body: JSON.stringify({ halves, reason }),
    });
    await this.accept(reply, ends);
    await this.loadMe();
  }

  /** Signs in with what a security key has signed for the refusal of the password alone. */
  async loginWithKey(user: string, password: string, assertion: Assertion): Promise<void> {
    await this.begin(user, password, undefined, assertion);
    hint.set(true);
    await this.loadMe();
  }

  /** Signs the same user in again where the server asks for a fresh sign-in. Nothing on the page is lost, and a wrong password ends nothing. */
  async again(password: string): Promise<void> {
    const user = this.state.me?.name ?? '';
    await this.exclusive(() => this.begin(user, password));
  }

  /** Changes the user's own password. The other sign-ins end; this one goes on with the tokens of the answer. */
  async changePassword(current: string, next: string): Promise<void> {
    const ends = this.ends;
    await this.exclusive(async () => {
      await this.accept(await this.post('/api/v1/me/password', { current_password: current, new_password: next }, ends), ends);
    });
    await this.loadMe();
  }

  /** Shows the second factor again: what needs it goes on with the token of the answer. */
  async showFactor(proof: components['schemas']['FactorProof']): Promise<void> {
    const ends = this.ends;
    await this.exclusive(async () => {
      await this.accept(await this.post('/api/v1/me/second-factor/show', proof, ends), ends);
    });
  }

  /** Puts an authenticator app in force and returns the recovery codes. Who the user is is asked again later: the page that shows them must stay. */
  confirmFactor = (code: string) => this.confirm('/api/v1/me/second-factor/totp/confirm', { code });

  /** The same of a security key; an account that has a factor gets no more recovery codes by it. */
  confirmKey = (name: string, attestation: Attestation) => this.confirm('/api/v1/me/second-factor/webauthn/confirm', { name, attestation });

  private async confirm(target: string, shown: unknown): Promise<string[]> {
    const ends = this.ends;
    return this.exclusive(async () => {
      const reply = await this.post(target, shown, ends);
      const body: unknown = await reply.json().catch(() => undefined);
      if (!reply.ok) throw errorFromReply(reply.status, body, reply.headers.get('x-request-id') ?? '');
      const done = body as components['schemas']['ConfirmedFactor'];
      if (this.ends === ends) this.token = done.session.access_token;
      return done.recovery_codes;
    });
  }

  /** Asks again who the user is and what he may do. */
  refreshMe = () => this.loadMe();

  /** Sends JSON as the signed-in user, renewing an expired token once; for who has the lock of [exclusive]. */
  private async post(target: string, body: unknown, ends: number): Promise<Response> {
    const send = () =>
      fetch(this.authorize(new Request(new URL(target, location.origin), { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) })));
    const reply = await send();
    if (reply.status !== 401) return reply;
    await this.accept(await this.askRenewal(), ends);
    return send();
  }

  private async begin(user: string, password: string, code?: string, assertion?: Assertion): Promise<void> {
    const ends = this.ends;
    const reply = await fetch(path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'accept-language': this.language },
      body: JSON.stringify({ user, password, code, assertion }),
    });
    await this.accept(reply, ends);
  }

  /** Restores the session after a reload, if the cookie still allows it. */
  async restore(): Promise<void> {
    try {
      if (hint.get() && (await this.renew())) return await this.loadMe();
    } catch {
      this.set({ status: 'out' }); // not reachable now; a reload may still restore
      return;
    }
    this.end(false);
  }

  /** Signs out, and at the provider that the user signs in at, too. */
  async logout(): Promise<void> {
    const provider = this.state.me?.provider;
    this.end(false);
    await fetch(path, { method: 'DELETE', headers: { 'accept-language': this.language } });
    if (provider) location.assign(`/oidc/${encodeURIComponent(provider)}/logout`);
  }

  /** Has the next page ask whether there is a session: the browser leaves to sign in elsewhere. */
  leave = () => hint.set(true);

  private renew(): Promise<boolean> {
    const ends = this.ends;
    this.renewal ??= this.exclusive(async () => {
      const reply = await this.askRenewal();
      if (reply.status === 401) {
        await reply.text(); // or the browser holds the connection
        return false;
      }
      await this.accept(reply, ends);
      return true;
    }).finally(() => {
      this.renewal = undefined;
    });
    return this.renewal;
  }

  private askRenewal(): Promise<Response> {
    return fetch(`${path}/refresh`, { method: 'POST', headers: { 'accept-language': this.language } });
  }

  private async exclusive<T>(run: () => Promise<T>): Promise<T> {
    // Locks exist on HTTPS and localhost only; elsewhere tabs are on their own.
    return navigator.locks ? navigator.locks.request('sluice-session', run) : run();
  }

  /** Takes the token of an answer that was asked for after so many ends. */
  private async accept(reply: Response, ends: number): Promise<void> {
    const body: unknown = await reply.json().catch(() => undefined);
    if (!reply.ok) throw errorFromReply(reply.status, body, reply.headers.get('x-request-id') ?? '');
    if (this.ends === ends) this.token = (body as components['schemas']['Session']).access_token;
  }

  private async loadMe(): Promise<void> {
    const ends = this.ends;
    const reply = await fetch(this.authorize(new Request(new URL('/api/v1/me', location.origin))));
    const body: unknown = await reply.json().catch(() => undefined);
    if (!reply.ok) throw errorFromReply(reply.status, body, reply.headers.get('x-request-id') ?? '');
    if (this.ends === ends) this.set({ status: 'in', me: body as Me });
  }

  private authorize(request: Request): Request {
    if (this.token) request.headers.set('authorization', `Bearer ${this.token}`);
    request.headers.set('accept-language', this.language);
    return request;
  }

  private end(ended: boolean) {
    this.ends++;
    this.token = '';
    hint.set(false);
    this.set({ status: 'out', ended });
  }

  private set(state: SessionState) {
    this.state = state;
    this.listeners.forEach((listener) => listener());
  }
}

export const session = new Session();
