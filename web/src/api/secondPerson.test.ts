import { beforeEach, describe, expect, it, vi } from 'vitest';

const refusal = () => new Response(JSON.stringify({ code: 'act_approval_required', detail: 'a second person' }), { status: 403 });
const post = () => new Request('http://sluice.test/api/v1/users?tenant=bank', { method: 'POST', body: '{"name":"x"}' });

async function asking(replies: (r: Request) => Response) {
  vi.resetModules();
  const { secondPerson } = await import('./secondPerson');
  const sent: { approval: string | null; reason: string | null; body: string }[] = [];
  const send = async (r: Request) => {
    sent.push({ approval: r.headers.get('x-sluice-approval'), reason: r.headers.get('x-sluice-reason'), body: await r.clone().text() });
    return replies(r);
  };
  return { secondPerson, sent, send };
}

describe('second person', () => {
  beforeEach(() => vi.restoreAllMocks());

  it('asks for an approval with the same request, and says that nothing was done', async () => {
    const { secondPerson, sent, send } = await asking((r) => (r.headers.has('x-sluice-approval') ? new Response('{"expires_at":"2026-11-25T00:00:00Z"}', { status: 202 }) : refusal()));
    secondPerson.subscribe(() => secondPerson.snapshot()?.answer({ reason: '变更单 17' }));
    await expect(secondPerson.fetch(post(), send)).rejects.toMatchObject({ code: 'client_asked', detail: '2026-11-25T00:00:00Z' });
    expect(sent).toEqual([
      { approval: null, reason: null, body: '{"name":"x"}' },
      { approval: 'request', reason: encodeURIComponent('变更单 17'), body: '{"name":"x"}' },
    ]);
    expect(secondPerson.snapshot()).toBeUndefined();
  });

  it('uses an approval that was given', async () => {
    const { secondPerson, sent, send } = await asking((r) => (r.headers.get('x-sluice-approval') === 'a1' ? new Response('{}', { status: 201 }) : refusal()));
    let question: unknown;
    secondPerson.subscribe(() => {
      question ??= secondPerson.snapshot();
      secondPerson.snapshot()?.answer({ approval: 'a1' });
    });
    expect((await secondPerson.fetch(post(), send)).status).toBe(201);
    expect(question).toMatchObject({ method: 'POST', path: '/users', detail: 'a second person' });
    expect(sent).toHaveLength(2);
  });

  it('leaves the refusal to the page where nobody wants to ask, or nobody can be asked', async () => {
    const { secondPerson, sent, send } = await asking(refusal);
    expect((await secondPerson.fetch(post(), send)).status).toBe(403);
    secondPerson.subscribe(() => secondPerson.snapshot()?.answer(undefined));
    expect((await secondPerson.fetch(post(), send)).status).toBe(403);
    expect(sent).toHaveLength(2);
  });

  it('does not touch other refusals', async () => {
    const { secondPerson, send } = await asking(() => new Response('{"code":"not_allowed"}', { status: 403 }));
    secondPerson.subscribe(() => expect.unreachable());
    expect((await secondPerson.fetch(post(), send)).status).toBe(403);
  });
});
