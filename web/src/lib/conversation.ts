import { useCallback, useRef, useState } from 'react';

import { type ChatRequest, type ChatUsage, type Extension, streamChat } from '../api/chat';
import { type ApiError, isAbort, toApiError } from '../api/errors';

export interface Turn {
  id: number;
  question: string;
  answer: string;
  state: 'running' | 'done' | 'stopped' | 'failed';
  error?: ApiError;
  extension?: Extension;
  usage?: ChatUsage;
  finish?: string;
}

/** One conversation: its turns, and at most one answer on its way. Failed turns are shown but not sent along as history. */
export function useConversation() {
  const [turns, setTurns] = useState<Turn[]>([]);
  const running = useRef<AbortController>(undefined);
  const nextId = useRef(1);

  const ask = useCallback(async (question: string, settings: Omit<ChatRequest, 'messages'>, history: Turn[], header?: Record<string, string>) => {
    const id = nextId.current++;
    const abort = new AbortController();
    running.current = abort;
    const update = (change: (turn: Turn) => Turn) => setTurns((all) => all.map((t) => (t.id === id ? change(t) : t)));
    setTurns((all) => [...all, { id, question, answer: '', state: 'running' }]);
    const messages = history
      .filter((t) => t.state === 'done')
      .flatMap((t) => [{ role: 'user' as const, content: t.question }, { role: 'assistant' as const, content: t.answer }]);
    try {
      for await (const event of streamChat({ ...settings, messages: [...messages, { role: 'user', content: question }] }, abort.signal, header)) {
        update((t) => {
          switch (event.kind) {
            case 'text':
              return { ...t, answer: t.answer + event.text };
            case 'extension':
              return { ...t, extension: { ...t.extension, ...event.extension } };
            case 'usage':
              return { ...t, usage: event.usage };
            case 'finish':
              return { ...t, finish: event.reason };
          }
        });
      }
      update((t) => ({ ...t, state: 'done' }));
    } catch (error) {
      update((t) => (isAbort(error) ? { ...t, state: 'stopped' } : { ...t, state: 'failed', error: toApiError(error) }));
    } finally {
      if (running.current === abort) running.current = undefined;
    }
  }, []);

  const stop = useCallback(() => running.current?.abort(), []);
  const clear = useCallback(() => {
    running.current?.abort();
    setTurns([]);
  }, []);
  return { turns, ask, stop, clear, busy: turns.some((t) => t.state === 'running') };
}
