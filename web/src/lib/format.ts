import type { Language } from '../i18n';

/** The locale of a language for Intl. */
export const tag = (language: Language) => (language === 'zh' ? 'zh-CN' : 'en-US');

/** An integer of 10⁻⁹ units as an exact decimal, for exports and hovers. */
export function exactNano(nano: number): string {
  return shift(nano, 9);
}

/** An integer of microjoules as exact joules. */
export function exactJoules(microjoules: number): string {
  return shift(microjoules, 6);
}

function shift(value: number, places: number): string {
  const whole = BigInt(Math.trunc(value));
  const digits = (whole < 0n ? -whole : whole).toString().padStart(places + 1, '0');
  const fraction = digits.slice(-places).replace(/0+$/, '');
  return `${whole < 0n ? '-' : ''}${digits.slice(0, -places)}${fraction && `.${fraction}`}`;
}

/** The inverse of [exactNano]: a decimal as an integer of 10⁻⁹ units; undefined if it is none, or none that a number holds exactly. */
export function toNano(text: string): number | undefined {
  const parts = /^(\d{1,9})(?:\.(\d{1,9}))?$/.exec(text.trim());
  if (!parts) return undefined;
  const nano = Number(parts[1]) * 1e9 + Number((parts[2] ?? '').padEnd(9, '0'));
  return Number.isSafeInteger(nano) ? nano : undefined;
}

export function money(nano: number, currency: string, language: Language): string {
  const value = nano / 1e9;
  const fraction = value !== 0 && Math.abs(value) < 1 ? { maximumSignificantDigits: 3 } : { maximumFractionDigits: 2 };
  try {
    return new Intl.NumberFormat(tag(language), { style: 'currency', currency, currencyDisplay: 'narrowSymbol', ...fraction }).format(value);
  } catch {
    return `${new Intl.NumberFormat(tag(language), fraction).format(value)} ${currency}`.trim(); // not an ISO code
  }
}

export function energy(microjoules: number, language: Language): string {
  const joules = microjoules / 1e6;
  const [value, unit] = joules < 1000 ? [joules, 'J'] : joules < 3.6e6 ? [joules / 3600, 'Wh'] : [joules / 3.6e6, 'kWh'];
  return `${rate(value, language)} ${unit}`;
}

/** Micrograms of carbon dioxide. */
export function carbon(micrograms: number, language: Language): string {
  const grams = micrograms / 1e6;
  const [value, unit] = grams < 1000 ? [grams, 'g'] : grams < 1e6 ? [grams / 1000, 'kg'] : [grams / 1e6, 't'];
  return `${rate(value, language)} ${unit}`;
}

/** A rate of work, with the digits that matter. */
export function rate(value: number, language: Language): string {
  return new Intl.NumberFormat(tag(language), { maximumSignificantDigits: 4 }).format(value);
}

export function count(value: number, language: Language): string {
  return new Intl.NumberFormat(tag(language)).format(value);
}

/** A score or a weight: two digits are what it is worth. */
export function weight(value: number, language: Language): string {
  return new Intl.NumberFormat(tag(language), { minimumFractionDigits: 2, maximumFractionDigits: 2 }).format(value);
}

/** A weight with its sign. */
export function signed(value: number, language: Language): string {
  return new Intl.NumberFormat(tag(language), { minimumFractionDigits: 2, maximumFractionDigits: 2, signDisplay: 'always' }).format(value);
}

/** 12.3K or 1.2万: for tiles and axes; show the exact value on hover. */
export function compact(value: number, language: Language): string {
  return new Intl.NumberFormat(tag(language), { notation: 'compact', maximumFractionDigits: 1 }).format(value);
}

/** A size of a file, in the unit that suits it. */
export function bytes(n: number, language: Language): string {
  const units = ['byte', 'kilobyte', 'megabyte', 'gigabyte'] as const;
  const i = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(1, n)) / 3));
  return new Intl.NumberFormat(tag(language), { style: 'unit', unit: units[i]!, maximumFractionDigits: i ? 1 : 0 }).format(n / 1000 ** i);
}

export function percent(ratio: number, language: Language, digits = 2): string {
  return new Intl.NumberFormat(tag(language), { style: 'percent', maximumFractionDigits: digits }).format(ratio);
}

/** A clause of the server's at the beginning of a line. */
export function sentence(clause: string): string {
  return clause.charAt(0).toUpperCase() + clause.slice(1);
}

/** Microseconds as milliseconds or seconds. */
export function duration(us: number, language: Language): string {
  const ms = us / 1000;
  const [value, unit] = ms < 1000 ? [ms, 'ms'] : [ms / 1000, 's'];
  return `${new Intl.NumberFormat(tag(language), { maximumSignificantDigits: 3 }).format(value)} ${unit}`;
}

/** A stretch of time in its largest unit: 40 seconds, 3 minutes, 2 hours, 5 days. */
export function stretch(ms: number, language: Language): string {
  const [value, unit] = inUnits(ms);
  return new Intl.NumberFormat(tag(language), { style: 'unit', unit, unitDisplay: 'long' }).format(value);
}

/** How long ago: 3 minutes ago. */
export function ago(ms: number, language: Language): string {
  const [value, unit] = inUnits(ms);
  return new Intl.RelativeTimeFormat(tag(language), { numeric: 'always' }).format(-value, unit);
}

function inUnits(ms: number): [number, 'second' | 'minute' | 'hour' | 'day'] {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 90) return [seconds, 'second'];
  if (seconds < 90 * 60) return [Math.round(seconds / 60), 'minute'];
  if (seconds < 36 * 3600) return [Math.round(seconds / 3600), 'hour'];
  return [Math.round(seconds / 86400), 'day'];
}

/** A time in the reader's zone, which is named. Takes RFC 3339 text or Unix microseconds. */
export function time(at: string | number, language: Language): string {
  const date = toDate(at);
  if (Number.isNaN(date.getTime())) return String(at);
  return new Intl.DateTimeFormat(tag(language), { dateStyle: 'medium', timeStyle: 'medium' }).format(date);
}

export function zone(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone;
}

export function iso(at: string | number): string {
  const date = toDate(at);
  return Number.isNaN(date.getTime()) ? String(at) : date.toISOString();
}

function toDate(at: string | number): Date {
  return typeof at === 'number' ? new Date(at / 1000) : new Date(at);
}
