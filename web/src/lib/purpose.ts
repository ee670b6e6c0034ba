import { useQuery } from '@tanstack/react-query';

import { api, call } from '../api/client';
import { getDraft, setDraft, useDrafts } from './drafts';
import { useMe } from './me';

export interface Purpose {
  all: string[]; // what the policy in force takes; empty where it demands none
  value?: string; // one of them, once it was chosen; it stays for this browser tab
  choose: (value: string) => void;
  ready: boolean; // nothing is missing any more
  refresh: () => void; // asks the server again what the policy takes
  header: { 'X-Sluice-Purpose'?: string };
}

/** The purpose that requests of the signed-in user state. Show a PurposeChoice beside it. */
export function usePurpose(): Purpose {
  const { id } = useMe();
  useDrafts();
  const { data, isPending, refetch } = useQuery({ queryKey: ['purposes', id], queryFn: () => call(api.GET('/me')), staleTime: 0, retry: false }); // without it the server says what is missing
  const all = data?.purposes ?? [];
  const kept = getDraft(`purpose.${id}`);
  const value = kept !== undefined && all.includes(kept) ? kept : undefined;
  return {
    all,
    value,
    choose: (chosen) => setDraft(`purpose.${id}`, chosen),
    ready: !isPending && (all.length === 0 || value !== undefined),
    refresh: () => void refetch(),
    header: value === undefined ? {} : { 'X-Sluice-Purpose': value },
  };
}
