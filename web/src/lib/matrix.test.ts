import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import en from '../locales/en.json';
import { type Cell, filterFeatures, filterRows, groupOf, judge, shownAs, type Row } from './matrix';

const cell = (feature: string, more: Partial<Cell> = {}): Cell => ({ feature, status: 'validated', grade: 'E3', usable: 'yes', ...more });
const row = (more: Partial<Row>): Row => ({ pool: 'chat', instance: 'a', kind: 'remote', state: 'ready', model: 'm', engine_model: 'm', evidence: 'contract', modes: [], cells: [], ...more });

describe('the features of the program', () => {
  const source = readFileSync(join(import.meta.dirname, '../../../engine/capability/cell.go'), 'utf8');
  const features = [...source.matchAll(/^\t\w+ +Feature = "([^"]+)"/gm)].map((m) => m[1]!);

  it('have a name and a group each', () => {
    expect(features.length).toBeGreaterThan(30);
    expect(features.filter((f) => !(f.replaceAll('.', '_') in en.label.feature))).toEqual([]);
    expect(features.filter((f) => groupOf(f) === 'other')).toEqual([]);
    expect(Object.keys(en.label.feature).length).toBe(features.length);
  });
});

describe('a route', () => {
  const able = row({ context_tokens: 4096, cells: [cell('chat'), cell('tools', { grade: 'E1', status: 'claimed' }), cell('echo', { usable: 'depends', when: 'batch <= 8', why: 'condition' })] });

  it('is open where every need is met, and says what it depends on', () => {
    expect(judge(able, { features: ['chat', 'tools'], tokens: 4096, least: 'E1' })).toEqual({ no: [], depends: [] });
    expect(judge(able, { features: ['echo'] })).toEqual({ no: [], depends: [{ kind: 'depends', feature: 'echo', detail: 'batch <= 8' }] });
    expect(judge({ ...able, state: 'sick' }, { features: ['chat'] })).toEqual({ no: [], depends: [{ kind: 'sick' }] });
  });

  it('is closed for each reason by itself', () => {
    const kinds = (r: Row, ask: Parameters<typeof judge>[1]) => judge(r, ask).no.map((n) => n.kind);
    expect(kinds(able, { features: ['tools'], least: 'E2' })).toEqual(['grade']);
    expect(kinds(able, { features: [], tokens: 4097 })).toEqual(['tokens']);
    expect(kinds(able, { features: ['in.image'] })).toEqual(['missing']);
    expect(kinds({ ...able, demanded: ['reasoning'] }, { features: [] })).toEqual(['missing']);
    expect(kinds({ ...able, roles: ['prefill', 'decode'] }, { features: [] })).toEqual(['role']);
    expect(kinds({ ...able, roles: ['joint'] }, { features: [] })).toEqual([]);
    expect(kinds({ ...able, state: 'draining' }, { features: [] })).toEqual(['state']);
    const refused = (why: string) => [cell('chat', { usable: 'no', why }), cell('reasoning', { usable: 'no', why: 'missing' })];
    expect(kinds(row({ cells: refused('demanded'), demanded: ['reasoning'] }), { features: ['chat'] })).toEqual(['missing']);
    expect(kinds(row({ cells: refused('role'), roles: ['prefill'] }), { features: ['chat'] })).toEqual(['role']);
    for (const why of ['roadmap', 'condition', 'unknown', 'listing'] as const) {
      expect(kinds(row({ cells: [cell('chat', { usable: 'no', why })] }), { features: ['chat'] })).toEqual([why]);
    }
  });

  it('is closed where a newer server gives a reason or an answer that this page does not know', () => {
    expect(judge(row({ cells: [cell('chat', { usable: 'no', why: 'moon' })] }), { features: ['chat'] }).no).toHaveLength(1);
    expect(shownAs(cell('chat', { usable: 'perhaps' }))).toBe('no');
  });
});

describe('filters', () => {
  const a = row({ instance: 'a', device: { vendor: 'huawei' }, cells: [cell('chat'), cell('tools', { usable: 'no', why: 'missing' })] });
  const b = row({ instance: 'b', pool: 'other', state: 'draining', cells: [cell('chat'), cell('tools')] });
  const left = (f: Partial<Parameters<typeof filterRows>[1]>) => filterRows([a, b], { features: [], usable: false, ...f }).map((r) => r.instance);

  it('leave what they name', () => {
    expect(left({})).toEqual(['a', 'b']);
    expect(left({ pool: 'other' })).toEqual(['b']);
    expect(left({ vendor: 'huawei' })).toEqual(['a']);
    expect(left({ usable: true })).toEqual(['a']);
    expect(left({ usable: true, features: ['tools'] })).toEqual([]);
  });

  it('leave the features that are asked for, in the order of the server', () => {
    expect(filterFeatures(['chat', 'tools'], [a], { features: ['tools', 'chat'], usable: false })).toEqual(['chat', 'tools']);
    expect(filterFeatures(['chat', 'tools'], [a], { features: [], usable: true })).toEqual(['chat']);
  });
});
