import type { EChartsCoreOption } from 'echarts/core';

import type { Schema } from '../api/client';
import type { Language } from '../i18n';
import { compact, energy, money } from './format';

type Row = Schema['UsageRow'];

export const measures = ['tokens', 'requests', 'cost', 'energy'] as const;
export type Measure = (typeof measures)[number];

const value = (row: Row, measure: Measure): number => {
  switch (measure) {
    case 'tokens':
      return row.prompt_tokens + row.completion_tokens;
    case 'requests':
      return row.requests;
    case 'cost':
      return row.cost_nano;
    case 'energy':
      return row.energy_uj;
  }
};

/** Stacked bars by day when the report has days, else one bar per row. Days without usage stay visible as gaps. */
export function usageOption(rows: Row[], measure: Measure, group: string[], from: string, to: string, language: Language): EChartsCoreOption {
  const byDay = group.includes('day');
  const others = group.filter((d) => d !== 'day') as ('tenant' | 'project' | 'key' | 'model')[];
  const nameOf = (row: Row) => others.map((d) => row[d] ?? '').join(' · ');
  const currency = rows[0]?.currency ?? '';
  const show = (v: number) => (measure === 'cost' ? money(v, currency, language) : measure === 'energy' ? energy(v, language) : compact(v, language));

  const categories = byDay ? daysBetween(from, to) : rows.map(nameOf);
  const names = byDay ? [...new Set(rows.map(nameOf))] : [''];
  const cells = new Map<string, number>();
  for (const row of rows) {
    const cell = byDay ? `${nameOf(row)}\n${row.day}` : `\n${nameOf(row)}`;
    cells.set(cell, (cells.get(cell) ?? 0) + value(row, measure));
  }
  return {
    grid: { left: 8, right: 8, top: names.length > 1 ? 36 : 12, bottom: 4, containLabel: true },
    legend: { show: names.length > 1, type: 'scroll', top: 0 },
    tooltip: { trigger: 'axis', axisPointer: { type: 'shadow' }, valueFormatter: (v: unknown) => (typeof v === 'number' ? show(v) : '–') },
    xAxis: { type: 'category', data: categories },
    yAxis: { type: 'value', axisLabel: { formatter: show } },
    series: names.map((name) => ({
      name: name || undefined,
      type: 'bar',
      stack: 'all',
      barMaxWidth: 48,
      data: categories.map((c) => cells.get(`${name}\n${c}`) ?? null),
    })),
  };
}

export function daysBetween(from: string, to: string): string[] {
  const out: string[] = [];
  const end = Date.parse(`${to}T00:00:00Z`);
  for (let at = Date.parse(`${from}T00:00:00Z`); at <= end && out.length < 1000; at += 86_400_000) {
    out.push(new Date(at).toISOString().slice(0, 10));
  }
  return out;
}
