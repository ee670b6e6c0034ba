import type { components } from './schema';

export type Problem = components['schemas']['Problem'];

/** Everything that can go wrong with a call, in the shape of a problem document. Codes of our own start with "client_". */
export class ApiError extends Error {
  constructor(
    readonly code: string,
    readonly detail: string,
    readonly status = 0,
    readonly requestId = '',
    readonly fields: { field: string; detail: string }[] = [],
    readonly factors: { kinds: string[]; key?: components['schemas']['WebauthnOptions'] } = { kinds: [] }, // of second_factor_required
  ) {
    super(`${code}: ${detail}`);
    this.name = 'ApiError';
  }
}

export function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  return new ApiError('client_network', error instanceof Error ? error.message : String(error));
}

/** Reads the error out of a refused reply: a problem document, an OpenAI error object, or something that is neither. */
export function errorFromReply(status: number, body: unknown, requestId: string): ApiError {
  if (typeof body === 'object' && body !== null) {
    const b = body as Partial<Problem> & { error?: { message?: string; code?: string | null; type?: string } };
    if (b.code && b.detail !== undefined) return new ApiError(b.code, b.detail, b.status ?? status, b.request_id || requestId, b.errors ?? [], { kinds: b.second_factors ?? [], key: b.webauthn });
    if (b.error?.message !== undefined) return new ApiError(b.error.code || b.error.type || 'client_reply', b.error.message, status, requestId);
  }
  return new ApiError('client_reply', `HTTP ${status}`, status, requestId);
}

export function isAbort(error: unknown): boolean {
  return typeof error === 'object' && error !== null && 'name' in error && error.name === 'AbortError';
}
