import { ApiError } from './errors';
import type { components } from './schema';

export type Act = components['schemas']['ActApproval'];

/** What somebody decided whose act needs a second person: to ask for the approval, to use one, or neither. */
export type Choice = { reason: string } | { approval: string } | undefined;

/** An act that was refused because nobody else has approved it. */
export interface Question {
  method: string;
  path: string; // without the prefix
  detail: string; // why, in the reader's language
  answer: (choice: Choice) => void;
}

/**
 * Lets grave acts pass through their second person, whatever page they come from: the page makes its call, and where the server wants an
 * approval a dialog asks for one, or uses one that was given. Meanwhile the call waits. One question is open at a time.
 */
class SecondPerson {
  private question?: Question;
  private listeners = new Set<() => void>();

  subscribe = (listener: () => void) => {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  };
  snapshot = () => this.question;

  async fetch(request: Request, send: (request: Request) => Promise<Response>): Promise<Response> {
    if (request.method === 'GET') return send(request);
    const again = request.clone();
    const reply = await send(request);
    if (reply.status !== 403 || this.listeners.size === 0 || this.question) return reply;
    const problem = (await reply.clone().json().catch(() => undefined)) as { code?: string; detail?: string } | undefined;
    if (problem?.code !== 'act_approval_required') return reply;
    const choice = await new Promise<Choice>((resolve) => this.set({ method: again.method, path: new URL(again.url).pathname.replace('/api/v1', ''), detail: problem.detail ?? '', answer: resolve }));
    this.set(undefined);
    if (!choice) return reply;
    if ('approval' in choice) {
      again.headers.set('x-sluice-approval', choice.approval);
      return send(again);
    }
    again.headers.set('x-sluice-approval', 'request');
    again.headers.set('x-sluice-reason', encodeURIComponent(choice.reason));
    const asked = await send(again);
    if (asked.status !== 202) return asked;
    const act = (await asked.json()) as Act;
    throw new ApiError('client_asked', act.expires_at, 202); // not done, and no failure
  }

  private set(question?: Question) {
    this.question = question;
    this.listeners.forEach((listener) => listener());
  }
}

export const secondPerson = new SecondPerson();
