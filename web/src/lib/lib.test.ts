import { describe, expect, it } from 'vitest';

import type { Schema } from '../api/client';
import { csvLine } from './csv';
import { duration, energy, exactJoules, exactNano, iso, money, toNano } from './format';
import { changes, cutAtMarks, cutAtSpans, layOut, type Span } from './spans';
import { daysBetween, usageOption } from './usage-chart';

describe('numbers', () => {
  it('keeps every digit of money and energy', () => {
    expect(exactNano(0)).toBe('0');
    expect(exactNano(1)).toBe('0.000000001');
    expect(exactNano(1_500_000_000)).toBe('1.5');
    expect(exactNano(-1_000_000_001)).toBe('-1.000000001');
    expect(exactNano(Number.MAX_SAFE_INTEGER)).toBe('9007199.254740991');
    expect(exactJoules(2_500_000)).toBe('2.5');
  });

  it('reads back the money it shows, and nothing else', () => {
    for (const nano of [0, 1, 1_500_000_000, 999_999_999, 9_007_199_254_740_991]) expect(toNano(exactNano(nano))).toBe(nano);
    for (const wrong of ['', '-1', '1e3', '1.0000000001', '9007199.254740993', '1,5', 'x']) expect(toNano(wrong), wrong).toBeUndefined();
  });

  it('shows small sums with three digits that matter', () => {
    expect(money(123_456, 'CNY', 'en')).toBe('¥0.000123');
    expect(money(12_345_678_900, 'CNY', 'zh')).toBe('¥12.35');
    expect(money(0, 'CNY', 'en')).toBe('¥0.00');
    expect(money(2_000_000_000, 'credits', 'en')).toBe('2 credits');
  });

  it('chooses units', () => {
    expect(energy(999_000_000, 'en')).toBe('999 J');
    expect(energy(3_600_000_000, 'en')).toBe('1 Wh');
    expect(energy(7_200_000_000_000, 'en')).toBe('2 kWh');
    expect(duration(1500, 'en')).toBe('1.5 ms');
    expect(duration(2_000_000, 'en')).toBe('2 s');
  });

  it('reads times as text and as microseconds', () => {
    expect(iso(1_700_000_000_000_000)).toBe('2023-11-14T22:13:20.000Z');
    expect(iso('2023-11-14T22:13:20Z')).toBe('2023-11-14T22:13:20.000Z');
    expect(iso('no time')).toBe('no time');
  });
});

describe('csvLine', () => {
  it('quotes what needs quotes and defuses formulas', () => {
    expect(csvLine(['a,b', 'say "x"', 'two\nlines', 5, -3])).toBe('"a,b","say ""x""","two\nlines",5,-3');
    expect(csvLine(['=1+1', '@x', '-cmd', '+a', '-3.5'])).toBe("'=1+1,'@x,'-cmd,'+a,-3.5");
  });
});

const span = (start: number, end: number, action: Span['action'] = 'token', name = 'c'): Span => ({ start, end, class: name, action, score: 1, form: 1, reasons: [], grade: 3 });

describe('cutAtSpans', () => {
  it('counts bytes, not characters', () => {
    const text = '电话13800138000🙂完';
    expect(cutAtSpans(text, [span(6, 17)]).map((p) => p.text)).toEqual(['电话', '13800138000', '🙂完']);
  });

  it('always gives the whole text back', () => {
    const text = 'a电b🙂c';
    for (let a = 0; a <= 12; a++) {
      for (let b = 0; b <= 12; b++) {
        const whole = cutAtSpans(text, [span(a, b), span(1, 4), span(99, 100)]);
        if (whole.every((p) => !p.text.includes('\ufffd'))) expect(whole.map((p) => p.text).join('')).toBe(text);
      }
    }
  });
});

describe('layOut', () => {
  it('shows what is done before what is only counted there, and loses nothing', () => {
    const [wide, counted, alone] = [span(0, 9, 'observe', 'address'), span(3, 6, 'token'), span(9, 12, 'observe')];
    const { shown, rest } = layOut([wide, counted, alone]);
    expect(shown).toEqual([counted, alone]);
    expect(rest).toEqual([wide]);
  });
});

describe('cutAtMarks', () => {
  it('finds tokens and labels, whole ones only', () => {
    const text = '打⟦手机·K7Q2F⟧或〔已屏蔽:邮箱〕，⟦半';
    const parts = cutAtMarks(text);
    expect(parts.filter((p) => p.mark).map((p) => p.text)).toEqual(['⟦手机·K7Q2F⟧', '〔已屏蔽:邮箱〕']);
    expect(parts.map((p) => p.text).join('')).toBe(text);
    expect(cutAtMarks('')).toEqual([]);
  });
});

describe('changes', () => {
  it('counts what another policy does otherwise, by class and pair of actions', () => {
    const before = [span(0, 2), span(4, 6), span(8, 9, 'observe', 'email')];
    const after = [span(0, 2, 'partial'), span(4, 6, 'partial'), span(8, 9, 'observe', 'email'), span(20, 22, 'block', 'secret')];
    expect(changes(before, after)).toEqual([
      { class: 'c', start: 0, before: 'token', after: 'partial', count: 2 },
      { class: 'secret', start: 20, before: undefined, after: 'block', count: 1 },
    ]);
    expect(changes(after, before).at(-1)).toEqual({ class: 'secret', start: 20, before: 'block', after: undefined, count: 1 });
    expect(changes(after, after)).toEqual([]);
  });
});

describe('usageOption', () => {
  const row = (day: string, model: string, requests: number): Schema['UsageRow'] => ({
    day, model, requests, prompt_tokens: 0, cached_tokens: 0, completion_tokens: 0, cost_nano: 0, corrections_nano: 0, currency: 'CNY', energy_uj: 0, energy_method: '',
  });

  it('keeps days without usage and sums to the rows', () => {
    const rows = [row('2026-01-01', 'a', 1), row('2026-01-03', 'a', 2), row('2026-01-03', 'b', 4)];
    const option = usageOption(rows, 'requests', ['day', 'model'], '2026-01-01', '2026-01-03', 'en') as { xAxis: { data: string[] }; series: { name: string; data: (number | null)[] }[] };
    expect(option.xAxis.data).toEqual(['2026-01-01', '2026-01-02', '2026-01-03']);
    expect(option.series).toMatchObject([{ name: 'a', data: [1, null, 2] }, { name: 'b', data: [null, null, 4] }]);
    expect(option.series.flatMap((s) => s.data).reduce<number>((n, v) => n + (v ?? 0), 0)).toBe(7);
  });

  it('draws a bar per row without days', () => {
    const option = usageOption([row('', 'a', 1), row('', 'b', 2)], 'requests', ['model'], '2026-01-01', '2026-01-03', 'en') as { xAxis: { data: string[] }; series: { data: number[] }[] };
    expect(option.xAxis.data).toEqual(['a', 'b']);
    expect(option.series[0]?.data).toEqual([1, 2]);
  });

  it('bounds the days it draws', () => {
    expect(daysBetween('1900-01-01', '2100-01-01').length).toBe(1000);
    expect(daysBetween('2026-01-02', '2026-01-01')).toEqual([]);
  });
});
