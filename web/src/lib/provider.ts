import { session } from '../api/session';

/** Leaves for the provider; the browser comes back to the page that is open now. fresh: the provider has to ask who it is. */
export function signInAt(provider: string, fresh = false) {
  session.leave();
  const query = new URLSearchParams({ return: location.pathname + location.search, ...(fresh ? { fresh: '1' } : {}) });
  location.assign(`/oidc/${encodeURIComponent(provider)}/login?${query}`);
}

/** Why a sign-in at a provider was refused, as the address says, and for which request an administrator can look; undefined for none. */
export function refusedSignIn(): { code: string; request: string } | undefined {
  const query = new URLSearchParams(location.search);
  const code = query.get('sign_in');
  return code === null ? undefined : { code, request: (query.get('request') ?? '').replace(/[^0-9A-Za-z-]/g, '').slice(0, 64) };
}

/** Takes out of the address that a sign-in was refused: neither the page opened again nor the next sign-in brings it back. */
export function forgetRefusal() {
  const query = new URLSearchParams(location.search);
  query.delete('sign_in');
  query.delete('request');
  history.replaceState(history.state, '', location.pathname + (query.size > 0 ? `?${query}` : '') + location.hash);
}
