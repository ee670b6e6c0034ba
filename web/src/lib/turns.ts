import { useCallback, useRef } from 'react';

/** Calls that take the server long are made one after the other, in the order in which they are asked for. One that nobody waits for any more is not made. */
export function useTurns() {
  const last = useRef<Promise<unknown>>(Promise.resolve());
  return useCallback(<T>(signal: AbortSignal, ask: () => Promise<T>): Promise<T> => {
    const mine = last.current.then(() => {
      signal.throwIfAborted();
      return ask();
    });
    last.current = mine.catch(() => {});
    return mine;
  }, []);
}
