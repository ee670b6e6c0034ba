import { useQuery } from '@tanstack/react-query';

import { api, call, type Schema } from '../api/client';

/** All pages of a list, which is short. */
async function all<T>(page: (cursor?: string) => Promise<{ items: T[]; next?: string }>): Promise<T[]> {
  const out: T[] = [];
  for (let cursor: string | undefined; ; ) {
    const p = await page(cursor);
    out.push(...p.items);
    if (!p.next) return out;
    cursor = p.next;
  }
}

export const useOrganisations = (enabled = true) =>
  useQuery({ queryKey: ['organisations'], queryFn: () => all<Schema['Organisation']>((cursor) => call(api.GET('/organisations', { params: { query: { cursor, limit: 200 } } }))), enabled });

export const useTenants = (enabled = true) =>
  useQuery({ queryKey: ['tenants', 'all'], queryFn: () => all<Schema['Tenant']>((cursor) => call(api.GET('/tenants', { params: { query: { cursor, limit: 200 } } }))), enabled });

/** The projects of the user's tenant; with `keys.own` only, those that a key can have. */
export const useProjects = (enabled = true) =>
  useQuery({ queryKey: ['projects'], queryFn: () => all<Schema['Project']>((cursor) => call(api.GET('/projects', { params: { query: { cursor, limit: 200 } } }))), enabled });

export const idPattern = /^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$/;
export const projectPattern = /^[a-z0-9_][a-z0-9._-]{0,63}$/;
