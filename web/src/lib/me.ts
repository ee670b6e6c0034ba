import { useSyncExternalStore } from 'react';

import { type Me, session } from '../api/session';

export const useSession = () => useSyncExternalStore(session.subscribe, session.snapshot);

/** The signed-in user; only inside the shell, which nobody else sees. */
export function useMe(): Me {
  const { me } = useSession();
  return me ?? nobody; // between signing out and leaving the page
}

const nobody: Me = { id: '', name: '', kind: '', tenant: '', roles: [], labels: [], permissions: [] };

export function useMay(permission: string): boolean {
  return useMe().permissions.includes(permission);
}
