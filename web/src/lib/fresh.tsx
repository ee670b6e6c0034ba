import { useMutation } from '@tanstack/react-query';
import type { ReactNode } from 'react';

import { toApiError } from '../api/errors';
import { SignInAgain } from '../components/SignInAgain';

/**
 * A call that the server may refuse because the sign-in is too old. Then a dialog asks for the password and the call is made again; show the dialog somewhere. Nothing of
 * the call stays in a cache.
 */
export function useFresh<In, Out>(call: (input: In) => Promise<Out>) {
  const run = useMutation({ mutationFn: call, gcTime: 0 });
  const old = run.isError && toApiError(run.error).code === 'reauthenticate';
  const dialog: ReactNode = old && run.variables !== undefined && <SignInAgain why={toApiError(run.error).detail} onDone={() => run.mutate(run.variables!)} onCancel={run.reset} />;
  return { run, dialog, error: old ? undefined : (run.error ?? undefined) };
}
