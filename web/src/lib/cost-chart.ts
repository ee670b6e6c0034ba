import type { EChartsCoreOption } from 'echarts/core';

import type { Schema } from '../api/client';
import type { Language } from '../i18n';
import { carbon, energy, money } from './format';

type EnergyRow = Schema['EnergyReportRow'];

/** A bar: what a tenant did in a month. */
export interface Bar {
  name: string;
  report?: Schema['EnergyReport']; // absent: there is none
}

/** A row of the table beside the bars. */
export type BarRow = EnergyRow & { bar: string };

export const costMeasures = ['cost', 'energy', 'carbon'] as const;
export type CostMeasure = (typeof costMeasures)[number];

/** What a row has of a measure; undefined where it is not known, which is not 0. */
export function measured(row: EnergyRow, measure: CostMeasure): number | undefined {
  return measure === 'cost' ? row.cost_nano : measure === 'energy' ? row.energy_uj : row.location_ug;
}

export const barRows = (bars: Bar[]): BarRow[] => bars.flatMap((b) => (b.report?.rows ?? []).map((r) => ({ ...r, bar: b.name })));

const plus = (a: number | undefined, b: number | undefined) => (a === undefined ? b : a + (b ?? 0));

/** The sum of the totals that the server computed. It has rates of work where the energy of all requests is known. */
export function barTotal(bars: Bar[]): BarRow | undefined {
  let sum: BarRow | undefined;
  for (const { report } of bars) {
    const t = report?.total;
    if (!t) continue;
    if (!sum) {
      sum = { ...t, bar: '' };
      continue;
    }
    const method = !t.method || t.method === sum.method ? sum.method : sum.method ? 'mixed' : t.method;
    sum = {
      bar: '', model: '', method, requests: sum.requests + t.requests, unknown_requests: sum.unknown_requests + t.unknown_requests, prompt_tokens: sum.prompt_tokens + t.prompt_tokens,
      output_tokens: sum.output_tokens + t.output_tokens, cost_nano: sum.cost_nano + t.cost_nano, energy_uj: plus(sum.energy_uj, t.energy_uj), location_ug: plus(sum.location_ug, t.location_ug),
    };
    if (sum.energy_uj && !sum.unknown_requests) {
      const joules = sum.energy_uj / 1e6;
      sum = { ...sum, joules_per_1000_tokens: sum.output_tokens ? (joules * 1000) / sum.output_tokens : undefined, tokens_per_joule: sum.output_tokens / joules || undefined, requests_per_kilojoule: (sum.requests * 1000) / joules || undefined };
    }
  }
  return sum;
}

function shown(measure: CostMeasure, value: number, currency: string, language: Language): string {
  return measure === 'cost' ? money(value, currency, language) : measure === 'energy' ? energy(value, language) : carbon(value, language);
}

/** A stack of models for each bar. What is not known has no part in its stack. */
export function stackOption(bars: Bar[], measure: CostMeasure, currency: string, language: Language): EChartsCoreOption {
  const show = (v: number) => shown(measure, v, currency, language);
  const rows = barRows(bars);
  const models = [...new Set(rows.map((r) => r.model))].sort();
  const cell = (model: string, bar: string) =>
    rows.filter((r) => r.model === model && r.bar === bar).reduce<number | undefined>((sum, r) => plus(sum, measured(r, measure)), undefined) ?? null;
  return {
    grid: { left: 8, right: 8, top: models.length > 1 ? 36 : 12, bottom: 4, containLabel: true },
    legend: { show: models.length > 1, type: 'scroll', top: 0 },
    tooltip: { trigger: 'axis', axisPointer: { type: 'shadow' }, valueFormatter: (v: unknown) => (typeof v === 'number' ? show(v) : '–') },
    xAxis: { type: 'category', data: bars.map((b) => b.name) },
    yAxis: { type: 'value', axisLabel: { formatter: show } },
    series: models.map((model) => ({ name: model || undefined, type: 'bar', stack: 'all', barMaxWidth: 48, data: bars.map((b) => cell(model, b.name)) })),
  };
}
