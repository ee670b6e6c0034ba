import type { Schema } from '../api/client';

export type Schedule = Schema['CapacitySchedule'];
export type Slot = NonNullable<Schema['Capacity']['phase']>;

/** What holds at a moment, and what comes next: how many days later, and at what local time of the schedule's zone. */
export interface Outlook {
  slot: Slot;
  count: number;
  next?: { slot: Slot; count: number; days: number; at: string };
}

const week = ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat'];

/** The day of the week and the minute of the day in a zone; undefined if there is no such zone. */
function localTime(timezone: string, at: Date): { day: number; minute: number } | undefined {
  try {
    const parts = new Intl.DateTimeFormat('en-US', { timeZone: timezone, weekday: 'short', hour: '2-digit', minute: '2-digit', hourCycle: 'h23' }).formatToParts(at);
    const part = (type: string) => parts.find((p) => p.type === type)?.value ?? '';
    return { day: week.indexOf(part('weekday')), minute: Number(part('hour')) * 60 + Number(part('minute')) };
  } catch {
    return undefined;
  }
}

function minutes(clock: string | undefined): number {
  const [, hour, minute] = /^(\d\d):(\d\d)$/.exec(clock ?? '') ?? [];
  return hour === undefined ? NaN : Number(hour) * 60 + Number(minute);
}

/** Whether a window of the peak covers a local minute, as the server decides it: it may pass midnight. */
function covers(w: Schema['PeakWindow'], day: number, minute: number): boolean {
  const from = minutes(w.from);
  const to = minutes(w.to);
  const begins = (d: number) => !w.days?.length || w.days.includes(d);
  if (from < to) return begins(day) && minute >= from && minute < to;
  return (begins(day) && minute >= from) || (begins((day + 6) % 7) && minute < to);
}

/** What a schedule does from a moment on; undefined while it cannot be told. */
export function outlook(s: Partial<Schedule>, at: Date): Outlook | undefined {
  const now = localTime(s.timezone ?? '', at);
  const { peak = [], peak_concurrency: high, valley_concurrency: low } = s;
  if (!now || !high || !low || peak.some((w) => !w || Number.isNaN(minutes(w.from)) || Number.isNaN(minutes(w.to)))) return undefined;
  const slotAt = (day: number, minute: number): Slot => (peak.some((w) => covers(w, day % 7, minute)) ? 'peak' : 'valley');
  const countOf = (slot: Slot) => (slot === 'peak' ? high : low);
  const slot = slotAt(now.day, now.minute);
  const edges = [...new Set(peak.flatMap((w) => [minutes(w.from), minutes(w.to) % 1440]))].sort((a, b) => a - b);
  for (let days = 0; days <= 7; days++) {
    for (const minute of edges) {
      if (days === 0 && minute <= now.minute) continue;
      const next = slotAt(now.day + days, minute);
      if (next !== slot) return { slot, count: countOf(slot), next: { slot: next, count: countOf(next), days, at: clock(minute) } };
    }
  }
  return { slot, count: countOf(slot) };
}

const clock = (minute: number) => `${String(Math.floor(minute / 60)).padStart(2, '0')}:${String(minute % 60).padStart(2, '0')}`;
