import type { EChartsCoreOption } from 'echarts/core';

import type { Schema } from '../api/client';
import type { Language } from '../i18n';
import { compact, duration, tag } from './format';

export type Line = Schema['ServiceLevelLine'];
export type Hour = Schema['ServiceLevelHour'];
export type Budget = Schema['ErrorBudget'];

export const spans = ['1', '6', '24', '72', '720'] as const; // hours
export const groups = ['model', 'tenant', 'class'] as const;
export const measures = ['failures', 'requests', 'first_token_p95_us', 'total_p95_us'] as const;
export type Measure = (typeof measures)[number];

/** The budget that is spent fastest, or of which least is left. */
export function worst(line: Line): Budget | undefined {
  const rank = (b: Budget) => ['fast', 'slow', ''].indexOf(b.burning);
  return [...line.budgets].sort((a, b) => rank(a) - rank(b) || (a.left ?? 1) - (b.left ?? 1))[0];
}

/** Where the audit log lists the requests of a line of one model; undefined for others, of which it has no filter. Its list has parts of requests, too, and not those that named a version. */
export function requestsOf(line: Line, report: { from: string; to: string }): string | undefined {
  if (!line.model || line.class !== undefined || line.tenant !== undefined) return undefined;
  return `/audit?${new URLSearchParams({ stage: 'outcome', from: report.from, to: report.to, model: line.model }).toString()}`;
}

/** One bar an hour; an hour of which nothing is known has none. */
export function hoursOption(hours: Hour[], measure: Measure, language: Language): EChartsCoreOption {
  const time = new Intl.DateTimeFormat(tag(language), { month: 'numeric', day: 'numeric', hour: '2-digit', minute: '2-digit' });
  const show = (v: number) => (measure.endsWith('_us') ? duration(v, language) : compact(v, language));
  return {
    grid: { left: 8, right: 8, top: 12, bottom: 4, containLabel: true },
    tooltip: { trigger: 'axis', axisPointer: { type: 'shadow' }, valueFormatter: (v: unknown) => (typeof v === 'number' ? show(v) : '–') },
    xAxis: { type: 'category', data: hours.map((h) => time.format(new Date(h.at))) },
    yAxis: { type: 'value', axisLabel: { formatter: show } },
    series: [{ type: 'bar', barMaxWidth: 32, data: hours.map((h) => (h.requests === 0 ? null : (h[measure] ?? null))) }],
  };
}
