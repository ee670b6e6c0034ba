/** Why a code is asked for, and what goes on with it: true once one was shown. */
export interface Wanted {
  detail: string; // in the reader's language
  answer: (shown: boolean) => void;
}

/**
 * Lets calls that need the second factor shown again go on, whatever page they come from: where the server wants it a dialog asks for a code, and
 * the call is made again. Meanwhile it waits. One question is open at a time.
 */
class StepUp {
  private wanted?: Wanted;
  private listeners = new Set<() => void>();

  subscribe = (listener: () => void) => {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  };
  snapshot = () => this.wanted;

  async fetch(request: Request, send: (request: Request) => Promise<Response>): Promise<Response> {
    const again = request.clone();
    const reply = await send(request);
    if (reply.status !== 403 || this.listeners.size === 0 || this.wanted) return reply;
    const problem = (await reply.clone().json().catch(() => undefined)) as { code?: string; detail?: string } | undefined;
    if (problem?.code !== 'step_up_required') return reply;
    const shown = await new Promise<boolean>((resolve) => this.set({ detail: problem.detail ?? '', answer: resolve }));
    this.set(undefined);
    return shown ? send(again) : reply;
  }

  private set(wanted?: Wanted) {
    this.wanted = wanted;
    this.listeners.forEach((listener) => listener());
  }
}

export const stepUp = new StepUp();
