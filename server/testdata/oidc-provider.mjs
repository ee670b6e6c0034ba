// A real OpenID provider for TestSignInByOIDC: npm's oidc-provider with the people, groups and keys that the test sets over /test/. It signs nobody's
// real name. ISSUER, REDIRECT_URIS, LOGOUT_URI and AFTER_LOGOUT come by the environment; it prints its port.
import { createPrivateKey, generateKeyPairSync, sign } from 'node:crypto';
import { createServer } from 'node:http';

import Provider from 'oidc-provider';

const { ISSUER, REDIRECT_URIS, LOGOUT_URI, AFTER_LOGOUT } = process.env;
const clients = [
  {
    client_id: 'sluice',
    client_secret: 'a secret of the test only',
    redirect_uris: REDIRECT_URIS.split(' '),
    post_logout_redirect_uris: AFTER_LOGOUT.split(' '),
    response_types: ['code'],
    grant_types: ['authorization_code'],
    backchannel_logout_uri: LOGOUT_URI,
    backchannel_logout_session_required: true,
    id_token_signed_response_alg: 'RS256',
  },
];

const groups = new Map(); // of people
const newKey = (kid) => ({ ...generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' }), kid, use: 'sig', alg: 'RS256' });
const store = new Map(); // outlives a change of keys, which makes another provider
class Adapter {
  constructor(name) {
    this.name = name;
  }
  key = (id) => `${this.name}:${id}`;
  upsert(id, payload) {
    store.set(this.key(id), payload);
  }
  find(id) {
    return store.get(this.key(id));
  }
  findByUid(uid) {
    return [...store].find(([k, v]) => k.startsWith(`${this.name}:`) && v.uid === uid)?.[1];
  }
  findByUserCode() {}
  destroy(id) {
    store.delete(this.key(id));
  }
  consume(id) {
    store.get(this.key(id)).consumed = Math.floor(Date.now() / 1000);
  }
  revokeByGrantId(grant) {
    for (const [k, v] of store) if (v.grantId === grant) store.delete(k);
  }
}

// The page that asks whether to sign out, without anything from elsewhere.
function logoutSource(ctx, form) {
  ctx.body = `<!doctype html><html lang="en"><head><title>Sign out</title><link rel="icon" href="data:,"></head><body><h1>Sign out</h1>${form}
    <button type="submit" form="op.logoutForm" name="logout" value="yes">Yes, sign me out</button></body></html>`;
}

function make(jwks) {
  const provider = new Provider(ISSUER, {
    adapter: Adapter,
    clients,
    jwks,
    cookies: { keys: ['for the test only'] },
    conformIdTokenClaims: false, // groups in the ID token, as most providers have them
    claims: { openid: ['sub'], profile: ['preferred_username', 'groups', 'amr'], acr: null, auth_time: null, iss: null, sid: null },
    acrValues: ['urn:test:mfa'],
    features: { devInteractions: { enabled: false }, backchannelLogout: { enabled: true }, rpInitiatedLogout: { enabled: true, logoutSource } },
    interactions: { url: (ctx, interaction) => `/test/sign-in/${interaction.uid}` },
    findAccount: (ctx, id) => ({ accountId: id, claims: () => ({ sub: id, preferred_username: id, groups: groups.get(id) ?? [] }) }),
    fetch: (url, options) => fetch(url, { ...options, dispatcher: undefined, signal: AbortSignal.timeout(30_000) }), // to this machine, which its own refuses, and a busy one
    ttl: { Session: 3600, Grant: 3600, IdToken: 300, AccessToken: 300, Interaction: 300 },
    async loadExistingGrant(ctx) {
      const grant = new ctx.oidc.provider.Grant({ clientId: ctx.oidc.client.clientId, accountId: ctx.oidc.session.accountId });
      grant.addOIDCScope('openid profile');
      await grant.save();
      return grant;
    },
  });
  provider.proxy = true;
  for (const event of ['backchannel.error', 'server_error']) provider.on(event, (_, error) => console.error(event, error));
  return provider;
}

let serial = 1;
let jwks = { keys: [newKey('key-1')] };
let provider = make(jwks);
let person = 'nobody'; // who signs in next
let acr;

const server = createServer(async (request, reply) => {
  const url = new URL(request.url, ISSUER);
  const end = (text = '') => reply.end(text);
  try {
    if (url.pathname.startsWith('/test/sign-in/')) {
      await provider.interactionFinished(request, reply, { login: { accountId: person, amr: ['pwd', 'otp'], acr } }, { mergeWithLastSubmission: false });
    } else if (url.pathname === '/test/person') {
      person = url.searchParams.get('id');
      acr = url.searchParams.get('acr') ?? undefined;
      groups.set(person, url.searchParams.getAll('group'));
      end();
    } else if (url.pathname === '/test/rotate') {
      jwks = { keys: [newKey(`key-${++serial}`)] };
      provider = make(jwks);
      end();
    } else if (url.pathname === '/test/sign') {
      // Signs what the test says with the current key.
      let body = '';
      for await (const part of request) body += part;
      const text = (v) => Buffer.from(JSON.stringify(v)).toString('base64url');
      const input = `${text({ alg: 'RS256', kid: jwks.keys[0].kid })}.${text(JSON.parse(body))}`;
      end(`${input}.${sign('sha256', Buffer.from(input), createPrivateKey({ key: jwks.keys[0], format: 'jwk' })).toString('base64url')}`);
    } else {
      await provider.callback()(request, reply);
    }
  } catch (error) {
    console.error(error);
    reply.statusCode = 500;
    end();
  }
});
server.listen(0, '127.0.0.1', () => console.log(`port ${server.address().port}`));
