import { useQuery } from '@tanstack/react-query';

import { api, call, type Schema } from '../api/client';

export type Approval = Schema['RevealApproval'];
export type ErasureApproval = Schema['ErasureApproval'];

export type State = 'waiting' | 'approved' | 'used' | 'expired' | 'declined';

/** What has become of an approval that was asked for. */
export function stateOf(a: Pick<Approval, 'used_at' | 'expires_at' | 'approved_at' | 'declined_at'>, now = Date.now()): State {
  if (a.declined_at) return 'declined';
  if (a.used_at) return 'used';
  if (Date.parse(a.expires_at) <= now) return 'expired';
  return a.approved_at ? 'approved' : 'waiting';
}

/** The approvals that were asked for; they hold no values. While somebody waits for one they are looked at again and again. */
export function useApprovals(waiting?: (all: Approval[]) => boolean) {
  return useQuery({
    queryKey: ['reveal-approvals'],
    queryFn: () => call(api.GET('/reveal/approvals')),
    refetchInterval: (q) => (waiting?.(q.state.data?.items ?? []) ? 5000 : false),
  });
}

/** The same for erasures that a legal hold covers. */
export function useErasureApprovals(waiting?: (all: ErasureApproval[]) => boolean) {
  return useQuery({
    queryKey: ['erasure-approvals'],
    queryFn: () => call(api.GET('/audit/erasures/approvals')),
    refetchInterval: (q) => (waiting?.(q.state.data?.items ?? []) ? 5000 : false),
  });
}
