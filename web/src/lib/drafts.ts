import { useSyncExternalStore } from 'react';

/**
 * What somebody began or chose and would miss on coming back: texts that are not yet published, the purpose of requests. They live in the storage of this browser tab and nowhere else, so they outlast a look at
 * another page and a reload. Names begin with whose they are.
 */
const prefix = 'sluice.draft.';
const memory = new Map<string, string>(); // where storage is blocked or full: until the page is left
const listeners = new Set<() => void>();
let version = 0;

export function setDraft(name: string, text: string | undefined) {
  try {
    if (text === undefined) sessionStorage.removeItem(prefix + name);
    else sessionStorage.setItem(prefix + name, text);
    memory.delete(name);
  } catch {
    if (text !== undefined) memory.set(name, text);
  }
  if (text === undefined) memory.delete(name);
  version++;
  listeners.forEach((listener) => listener());
}

export function getDraft(name: string): string | undefined {
  const kept = memory.get(name);
  if (kept !== undefined) return kept;
  try {
    return sessionStorage.getItem(prefix + name) ?? undefined;
  } catch {
    return undefined;
  }
}

function subscribe(listener: () => void) {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

/** Renders again when a draft changes. */
export function useDrafts() {
  useSyncExternalStore(subscribe, () => version);
}
