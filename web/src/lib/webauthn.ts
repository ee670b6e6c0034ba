import type { components } from '../api/schema';
import { ApiError } from '../api/errors';

type Options = components['schemas']['WebauthnOptions'];
export type Assertion = components['schemas']['WebauthnAssertion'];
export type Attestation = components['schemas']['WebauthnAttestation'];

type Descriptor = { type: 'public-key'; id: string; transports?: AuthenticatorTransport[] };

const decode = (text: string) => Uint8Array.from(atob(text.replace(/-/g, '+').replace(/_/g, '/')), (c) => c.charCodeAt(0));
const encode = (bytes: ArrayBuffer) => btoa(String.fromCharCode(...new Uint8Array(bytes))).replace(/\+/g, '-').replace(/\//g, '_').replace(/=+$/, '');
const descriptors = (list: unknown) => ((list as Descriptor[] | undefined) ?? []).map((d) => ({ ...d, id: decode(d.id) }));

/** Whether this browser lets this page use security keys that work on these origins. */
export function keysWorkHere(origins?: string[]): boolean {
  return 'credentials' in navigator && 'PublicKeyCredential' in window && (origins === undefined || origins.includes(location.origin));
}

/** Has the browser make a security key or passkey. */
export async function makeKey(options: Options): Promise<Attestation> {
  const o = options as unknown as PublicKeyCredentialCreationOptionsJSON;
  const made = await asked(() =>
    navigator.credentials.create({
      publicKey: { ...o, challenge: decode(o.challenge), user: { ...o.user, id: decode(o.user.id) }, excludeCredentials: descriptors(o.excludeCredentials) } as unknown as PublicKeyCredentialCreationOptions,
    }),
  );
  const response = made.response as AuthenticatorAttestationResponse;
  return {
    id: made.id,
    rawId: encode(made.rawId),
    type: 'public-key',
    response: { clientDataJSON: encode(response.clientDataJSON), attestationObject: encode(response.attestationObject), transports: response.getTransports?.() ?? [] },
  };
}

/** Has a security key sign. */
export async function askKey(options: Options): Promise<Assertion> {
  const o = options as unknown as PublicKeyCredentialRequestOptionsJSON;
  const got = await asked(() =>
    navigator.credentials.get({ publicKey: { ...o, challenge: decode(o.challenge), allowCredentials: descriptors(o.allowCredentials) } as unknown as PublicKeyCredentialRequestOptions }),
  );
  const response = got.response as AuthenticatorAssertionResponse;
  return {
    id: got.id,
    rawId: encode(got.rawId),
    type: 'public-key',
    response: {
      clientDataJSON: encode(response.clientDataJSON),
      authenticatorData: encode(response.authenticatorData),
      signature: encode(response.signature),
      ...(response.userHandle ? { userHandle: encode(response.userHandle) } : {}),
    },
  };
}

/** What browsers say of a refusal is meant for developers; who has pressed cancel needs no explanation. */
async function asked(ask: () => Promise<Credential | null>): Promise<PublicKeyCredential> {
  try {
    const got = await ask();
    if (got) return got as PublicKeyCredential;
  } catch (error) {
    throw new ApiError(error instanceof Error && error.name === 'InvalidStateError' ? 'client_key_known' : 'client_key', error instanceof Error ? error.message : String(error));
  }
  throw new ApiError('client_key', '');
}
