import { cleanup, fireEvent, screen, waitFor, within } from '@testing-library/react';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';

import type { Schema } from '../api/client';
import { TextDiff } from '../components/TextDiff';
import { setUpLanguage } from '../i18n';
import { browser, json, press, refusal, type Sent, server, show, signIn, write } from '../testkit';
import Policies from './Policies';

beforeAll(browser);
beforeEach(() => setUpLanguage('en'));
afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
  sessionStorage.clear();
});

const documentName = 'Policy document (YAML)';
const text = () => screen.getByLabelText<HTMLTextAreaElement>(documentName);

const version = (tenant: string, n: string, active: boolean, yaml: string): Schema['Policy'] => ({
  version: n, name: `${tenant}@${n}`, tenant, digest: `digest-of-${tenant}-${n}`, created_at: '2026-11-20T08:00:00Z', created_by: '01a2', created_by_name: 'wang.fang', active, yaml,
});

/** Lists versions as the server does, of one tenant and then those for every tenant, at most size at a time. */
function listing(versions: Schema['Policy'][], size = 200) {
  return ({ query }: Sent) => {
    const own = query.get('tenant') ?? 'demo';
    const of = (tenant: string) => versions.filter((v) => v.tenant === tenant).sort((a, b) => Number(b.version) - Number(a.version));
    const all = own === '*' ? of('*') : [...of(own), ...of('*')];
    const items = all.slice(0, Math.min(size, Number(query.get('limit')))).map((v) => ({ ...v, yaml: undefined }));
    return json(200, { items, next: items.length < all.length ? 'more' : undefined });
  };
}

/** A server with these versions; what is published becomes the newest of its tenant. */
function withVersions(...versions: Schema['Policy'][]) {
  const one = (s: Sent) => json(200, versions.find((v) => v.version === s.path.split('/')[2] && v.tenant === s.query.get('tenant')));
  const answers: Record<string, (s: Sent) => Response> = {
    'GET /policies': listing(versions),
    'POST /policies': (s) => {
      const { tenant, yaml } = s.body as { tenant: string; yaml: string };
      const n = versions.filter((v) => v.tenant === tenant).length + 1;
      versions.filter((v) => v.tenant === tenant || tenant !== '*').forEach((v) => (v.active = false));
      versions.unshift(version(tenant, String(n), true, yaml));
      return json(201, versions.find((v) => v.tenant === tenant));
    },
  };
  for (const n of ['1', '2', '3']) answers[`GET /policies/${n}`] = one;
  return server(answers);
}

const writer = { roles: ['security_admin'], permissions: ['policy.read', 'policy.write', 'tenants.read'] }; // of the operator

describe('Policies', () => {
  it('keeps a draft over another page and a reload, for the person who wrote it, and says that it is one', async () => {
    signIn(writer);
    withVersions(version('demo', '1', true, 'name: one\n'), version('*', '1', false, 'name: all\n'));
    const first = show(<Policies />);
    await screen.findByLabelText(documentName);
    expect(screen.queryByText('Draft, not published')).toBeNull();
    write(documentName, 'name: changed\n');
    expect(screen.getAllByText('Draft, not published')).toHaveLength(2); // in the list, and above the text
    first.unmount();

    signIn({ ...writer, id: 'u2' });
    const other = show(<Policies />);
    expect((await screen.findByLabelText<HTMLTextAreaElement>(documentName)).value).toBe('name: one\n');
    other.unmount();

    signIn(writer);
    show(<Policies />);
    expect((await screen.findByLabelText<HTMLTextAreaElement>(documentName)).value).toBe('name: changed\n');
    await press('Show changes');
    expect(screen.getByText('name: changed', { selector: 'ins' })).toBeTruthy();
    await press('Discard draft');
    expect(text().value).toBe('name: one\n');
    expect(screen.queryByText('Draft, not published')).toBeNull();
    expect(sessionStorage.length).toBe(0);
  });

  it('opens the version that has a draft, not the one in force', async () => {
    signIn(writer);
    withVersions(version('demo', '1', true, 'name: one\n'), version('*', '1', false, 'name: all\n'));
    const first = show(<Policies />);
    fireEvent.click(await screen.findByText('*@1'));
    await waitFor(() => expect(text().value).toBe('name: all\n'));
    write(documentName, 'name: all of them\n');
    first.unmount();
    show(<Policies />);
    expect((await screen.findByLabelText<HTMLTextAreaElement>(documentName)).value).toBe('name: all of them\n');
  });

  it('publishes for whom was chosen, after saying what that means, and then shows the new version', async () => {
    signIn(writer);
    const sent = withVersions(version('*', '1', true, 'name: all\nmodels: []\n'));
    show(<Policies />);
    await screen.findByLabelText(documentName);
    write(documentName, 'name: ours\nmodels: []\n');
    await press('Publish');
    const dialog = await screen.findByRole('dialog');
    const target = (name: RegExp) => within(dialog).getByRole<HTMLInputElement>('radio', { name });
    expect(target(/all tenants/).checked).toBe(true); // what is open
    await within(dialog).findByText('Holds for every tenant without a policy of its own, in place of *@1. Tenant demo has none of its own, so it changes for it, too.');
    fireEvent.click(target(/Tenant demo only/));
    within(dialog).getByText('Tenant demo gets a policy of its own: *@1 no longer applies to it.');
    expect((await within(dialog).findByText('name: all')).closest('del')).toBeTruthy();
    expect(within(dialog).getByText('name: ours').closest('ins')).toBeTruthy();
    expect(sent.some((s) => s.method === 'POST')).toBe(false);
    await press('Publish', dialog);
    await screen.findByText('Digest digest-of-demo-1');
    expect(sent.filter((s) => s.method === 'POST').map((s) => s.body)).toEqual([{ tenant: 'demo', yaml: 'name: ours\nmodels: []\n', expected: '*@1' }]);
    expect(screen.getByRole('region', { name: 'demo@1' })).toBeTruthy();
    expect(screen.queryByText('Draft, not published')).toBeNull();
    expect(text().value).toBe('name: ours\nmodels: []\n');
  });

  it('compares with what is in force now, and asks again when that changed before it was published', async () => {
    signIn(writer);
    const versions = [version('demo', '1', true, 'name: one\n')];
    const others = (n: string) => versions.unshift(version('demo', n, true, `name: of others ${n}\n`));
    const posted: unknown[] = [];
    server({
      'GET /policies': listing(versions),
      'GET /policies/1': () => json(200, versions.at(-1)),
      'GET /policies/2': () => json(200, versions.at(-2)),
      'GET /policies/3': () => json(200, versions.at(-3)),
      'POST /policies': (s) => {
        posted.push(s.body);
        if (posted.length > 1) return json(201, version('demo', '4', true, 'name: mine\n'));
        others('3');
        return refusal(409, 'policy_changed', 'Another version is in force.');
      },
    });
    show(<Policies />);
    await screen.findByLabelText(documentName);
    write(documentName, 'name: mine\n');
    others('2'); // after the page was loaded
    await press('Publish');
    const dialog = await screen.findByRole('dialog');
    expect((await within(dialog).findByText('name: of others 2')).closest('del')).toBeTruthy();
    await press('Publish', dialog);
    await within(dialog).findByText('Another version is in force.');
    expect((await within(dialog).findByText('name: of others 3')).closest('del')).toBeTruthy();
    await waitFor(() => expect(within(dialog).getByText('Publish', { selector: 'button span' }).closest('button')!.disabled).toBe(false));
    await press('Publish', dialog);
    await waitFor(() => expect(posted).toHaveLength(2));
    expect(posted).toEqual(['demo@2', 'demo@3'].map((expected) => ({ tenant: 'demo', yaml: 'name: mine\n', expected })));
  });

  it('compares with the version in force for the target, however many there are', async () => {
    signIn(writer);
    const versions = [version('demo', '3', true, 'name: three\n'), version('demo', '2', false, 'name: two\n'), version('*', '1', false, 'name: all\n')];
    const posted: unknown[] = [];
    server({
      'GET /policies': listing(versions, 2),
      'GET /policies/3': () => json(200, versions[0]),
      'GET /policies/1': () => json(200, versions[2]),
      'POST /policies': (s) => {
        posted.push(s.body);
        return json(201, version('*', '2', true, 'name: mine\n'));
      },
    });
    show(<Policies />);
    await screen.findByLabelText(documentName);
    write(documentName, 'name: mine\n');
    await press('Publish');
    const dialog = await screen.findByRole('dialog');
    expect((await within(dialog).findByText('name: three')).closest('del')).toBeTruthy();
    fireEvent.click(within(dialog).getByRole('radio', { name: /all tenants/ }));
    await within(dialog).findByText('Holds for every tenant without a policy of its own, in place of *@1. Tenant demo has its own, demo@3: nothing changes for it.');
    expect((await within(dialog).findByText('name: all')).closest('del')).toBeTruthy();
    await press('Publish', dialog);
    await waitFor(() => expect(posted).toEqual([{ tenant: '*', yaml: 'name: mine\n', expected: '*@1' }]));
  });

  it('lets nobody but people of the operator publish for all', async () => {
    signIn({ roles: ['security_admin'], permissions: ['policy.read', 'policy.write'] });
    withVersions(version('*', '1', true, 'name: all\n'));
    show(<Policies />);
    await screen.findByLabelText(documentName);
    await press('Publish');
    const dialog = await screen.findByRole('dialog');
    expect(within(dialog).getByRole<HTMLInputElement>('radio', { name: /all tenants/ }).disabled).toBe(true);
    expect(within(dialog).getByRole<HTMLInputElement>('radio', { name: /Tenant demo only/ }).checked).toBe(true);
    await within(dialog).findByText(/no longer applies to it/);
  });

  it('names every version in full and its publisher, and compares any two', async () => {
    signIn(writer);
    withVersions(version('demo', '2', true, 'name: two\n'), version('demo', '1', false, 'name: one\n'), version('*', '1', false, 'name: all\n'));
    show(<Policies />);
    const list = await screen.findByRole('group', { name: 'Policies' });
    for (const name of ['demo@2', 'demo@1', '*@1']) await within(list).findByText(name);
    expect(document.querySelector('a:not([href])')).toBeNull(); // the keyboard does not reach these
    expect(within(list).getAllByText('by wang.fang')).toHaveLength(3);
    await press('Compare versions');
    const dialog = await screen.findByRole('dialog');
    expect((await within(dialog).findByText('name: one')).closest('del')).toBeTruthy();
    expect(within(dialog).getByText('name: two').closest('ins')).toBeTruthy();
    within(dialog).getByText('1 added, 1 removed');
  });
});

describe('TextDiff', () => {
  it('leaves out what did not change, and says how much', () => {
    const lines = Array.from({ length: 20 }, (_, i) => `line ${i}`);
    show(<TextDiff from={lines.join('\n')} to={lines.map((l, i) => (i === 10 ? 'new' : l)).join('\n')} label="difference" />);
    screen.getByText('7 lines unchanged');
    expect(screen.queryByText('line 3')).toBeNull();
    screen.getByText('line 7');
    expect(screen.getByText('line 10').closest('del')).toBeTruthy();
    cleanup();
    show(<TextDiff from="a" to="a" label="difference" />);
    screen.getByText('The two texts are the same.');
  });
});
