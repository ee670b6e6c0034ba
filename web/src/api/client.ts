import createClient, { type FetchResponse } from 'openapi-fetch';

import { ApiError, errorFromReply, isAbort, toApiError } from './errors';
import type { components, paths } from './schema';
import { secondPerson } from './secondPerson';
import { session } from './session';
import { stepUp } from './stepUp';

export type Schema = components['schemas'];

/** The management API, typed from its OpenAPI document. Wrap calls in [call]. */
export const api = createClient<paths>({
  baseUrl: `${location.origin}/api/v1`,
  fetch: (request) => stepUp.fetch(request, (again) => secondPerson.fetch(again, (r) => session.fetch(r))),
  querySerializer: { array: { style: 'form', explode: false } }, // as the document says: group_by=day,model
});

/** What an act that may wait for a second person answers once it is done: that it waits is an error, see secondPerson. */
type Done<T> = [Exclude<T, Schema['ActApproval']>] extends [never] ? T : Exclude<T, Schema['ActApproval']>;

/** Awaits a call of the client and returns its body, or throws an ApiError. */
export async function call<T extends Record<string | number, unknown>, O, M extends `${string}/${string}`>(
  pending: Promise<FetchResponse<T, O, M>>,
): Promise<Done<NonNullable<FetchResponse<T, O, M>['data']>>> {
  let result: FetchResponse<T, O, M>;
  try {
    result = await pending;
  } catch (error) {
    throw isAbort(error) ? error : toApiError(error);
  }
  const { data, error, response } = result;
  if (!response.ok) throw errorFromReply(response.status, error, response.headers.get('x-request-id') ?? '');
  if (data === undefined && response.status <= 201) {
    throw new ApiError('client_reply', `HTTP ${response.status}`, response.status);
  }
  return data as Done<NonNullable<FetchResponse<T, O, M>['data']>>;
}
