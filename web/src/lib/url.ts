import { useCallback, useMemo } from 'react';
import { useSearchParams } from 'react-router';

/** Filters that live in the address, so that a link shows the same view. Empty values are left out. */
export function useFilters<T extends Record<string, string>>(defaults: T): [T, (change: Partial<T>) => void] {
  const [params, setParams] = useSearchParams();
  const text = JSON.stringify(defaults);
  const filters = useMemo(() => {
    const initial = JSON.parse(text) as T;
    return Object.fromEntries(Object.entries(initial).map(([k, v]) => [k, params.get(k) ?? v])) as T;
  }, [params, text]);
  const change = useCallback(
    (next: Partial<T>) =>
      setParams(
        (old) => {
          const out = new URLSearchParams(old);
          const initial = JSON.parse(text) as T;
          for (const [k, v] of Object.entries(next)) {
            if (v === undefined || v === initial[k]) out.delete(k);
            else out.set(k, v as string);
          }
          return out;
        },
        { replace: true },
      ),
    [setParams, text],
  );
  return [filters, change];
}
