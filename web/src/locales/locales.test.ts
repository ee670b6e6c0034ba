import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import en from './en.json';
import zh from './zh.json';

type Tree = { [key: string]: string | Tree };

function flatten(tree: Tree, prefix = ''): Map<string, string> {
  const out = new Map<string, string>();
  for (const [key, value] of Object.entries(tree)) {
    if (typeof value === 'string') out.set(prefix + key, value);
    else flatten(value, `${prefix}${key}.`).forEach((v, k) => out.set(k, v));
  }
  return out;
}

const english = flatten(en);
const chinese = flatten(zh);
const singular = /_(one|other)$/; // English has two plural forms, Chinese one
const base = (keys: Iterable<string>) => new Set([...keys].map((k) => k.replace(singular, '')));

function sources(): string {
  const root = join(import.meta.dirname, '..');
  return readdirSync(root, { recursive: true, encoding: 'utf8' })
    .filter((f) => /\.tsx?$/.test(f) && !/\.test\.|schema\.d\.ts/.test(f))
    .map((f) => readFileSync(join(root, f), 'utf8'))
    .join('\n');
}

// t('a.b'), the same inside a choice, t(`a.${x}`) and label('group', …) are the only ways to name a text.
function used(source: string) {
  const literal = new Set([...source.matchAll(/'((?:[a-z][A-Za-z0-9]*\.)+[A-Za-z0-9_]+)'/g)].map((m) => m[1]!));
  const groups = [...source.matchAll(/\bt\(`([a-zA-Z.]+\.)\$\{/g)].map((m) => m[1]!);
  const labels = [...source.matchAll(/\blabel\('([a-zA-Z]+)',/g)].map((m) => `label.${m[1]}.`);
  return { literal, groups: [...groups, ...labels] };
}

describe('texts', () => {
  it('exist in both languages', () => {
    expect([...base(chinese.keys())].sort()).toEqual([...base(english.keys())].sort());
    for (const key of english.keys()) {
      if (key.endsWith('_one')) expect(english.has(key.replace('_one', '_other')), key).toBe(true);
    }
  });

  it('are translated', () => {
    const words = (text: string) => /[A-Za-z]{2}/.test(text.replace(/\{\{.*?\}\}/g, ''));
    const left = [...chinese].filter(([key, text]) => words(text) && !/\p{Script=Han}/u.test(text) && key !== 'usage.tokens');
    expect(left).toEqual([]); // "Token" is the Chinese word too
  });

  it('take the same values', () => {
    const values = (text: string) => new Set([...text.matchAll(/\{\{(\w+)\}\}/g)].map((m) => m[1]));
    for (const [key, text] of chinese) {
      const other = english.get(key) ?? '';
      expect(values(text), key).toEqual(values(other));
    }
  });

  it('never say "1 keys"', () => {
    const counted = 'bytes|characters|conversations|documents|findings|holds|hours|keys|lines|passages|points|problems|records|requests|seconds|texts|tokens|users|values|versions';
    const plural = new RegExp(`\\{\\{(?!highest|now\\b)\\w+\\}\\}\\+? (percentage )?(${counted})\\b(?!/)`);
    expect([...english].filter(([key, text]) => plural.test(text) && !singular.test(key)).map(([key]) => key)).toEqual([]);
  });

  it('are all used, and all that are used exist', () => {
    const { literal, groups } = used(sources());
    const keys = base(english.keys());
    const unused = [...keys].filter((k) => !literal.has(k) && !groups.some((g) => k.startsWith(g)));
    expect(unused).toEqual([]);
    const named = [...sources().matchAll(/\bt\('([^']+)'/g)].map((m) => m[1]!);
    expect(named.filter((k) => !keys.has(k))).toEqual([]);
    expect(groups.filter((g) => ![...keys].some((k) => k.startsWith(g)))).toEqual([]);
  });

  it('name every act that the management API records', () => {
    const doc = readFileSync(join(import.meta.dirname, '../../../server/adminapi/openapi.yaml'), 'utf8');
    const unrecorded = ['refreshSession', 'playgroundChat', 'addLogCosignature', 'askSecurityKey', 'storeBatchFile', 'createBatch', 'cancelBatch']; // the pipeline records the last three
    const acts = [...doc.matchAll(/^ {4}(post|put|patch|delete):\n {6}operationId: (\w+)/gm)].map((m) => m[2]!).filter((id) => !unrecorded.includes(id));
    const decides = /^func recorded\([^]*?^}/m.exec(readFileSync(join(import.meta.dirname, '../../../server/adminapi/operations.go'), 'utf8'))![0];
    const [others, reads] = decides.split('return false').map((part) => [...part.matchAll(/"([a-z]\w+)"/g)].map((m) => m[1]!)) as [string[], string[]];
    for (const o of doc.split(/\n(?= {4}(?:get|post|put|patch|delete):\n)/).filter((part) => part.startsWith('    get:'))) {
      const id = /operationId: (\w+)/.exec(o)![1]!;
      if (reads.includes(id) || (/^ {6}x-permission: audit\.(?!witness)/m.test(o) && !others.includes(id))) acts.push(id);
    }
    expect(acts).toEqual(expect.arrayContaining(['getStatement', 'getComplianceMatrix']));
    expect(acts.length).toBeGreaterThan(15);
    expect(acts.filter((id) => !english.has(`label.action.admin_${id}`))).toEqual([]);
  });

  it('name every act that needs a second person', () => {
    const doc = readFileSync(join(import.meta.dirname, '../../../server/adminapi/openapi.yaml'), 'utf8');
    const operations = doc.split(/\n(?= {4}(?:get|post|put|patch|delete):\n)/);
    const second = operations.filter((o) => /^ {6}x-second-person: true$/m.test(o)).map((o) => /operationId: (\w+)/.exec(o)![1]!);
    expect(second.length).toBeGreaterThan(10);
    expect(second.filter((id) => !english.has(`label.operation.${id}`))).toEqual([]);
  });

  it('never stand in the code', () => {
    const han = sources().match(/^.*\p{Script=Han}.*$/gmu)?.filter((line) => !line.includes('中文') && !line.includes('1.2万') && !line.includes('[\\s,，、]'));
    expect(han ?? []).toEqual([]);
  });
});
