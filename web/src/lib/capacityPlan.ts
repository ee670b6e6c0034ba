import type { EChartsCoreOption } from 'echarts/core';

import type { Schema } from '../api/client';
import type { Language } from '../i18n';
import { tag } from './format';

type Pool = Schema['ScaledPool'];

/**
 * What was ordered, by the decisions of the last day, and what is planned for the next one, the most of each half hour. A half hour of which nothing is known
 * has no bar. How many were ready is not drawn: a decision says that of its moment only.
 */
export function planOption(pool: Pool, language: Language, names: { target: string; plan: string; floor: string }): EChartsCoreOption {
  const half = 1_800_000;
  const clock = new Intl.DateTimeFormat(tag(language), { weekday: 'short', hour: '2-digit', minute: '2-digit' });
  const begin = Math.floor(Date.parse(pool.plan[0]?.at ?? pool.latest?.at ?? new Date(0).toISOString()) / half) * half;
  const slots = Array.from({ length: 96 }, (_, i) => begin + (i - 48) * half);
  const decisions = [...(pool.latest ? [pool.latest] : []), ...pool.decisions].map((d) => ({ ...d, ms: Date.parse(d.at) })).sort((a, b) => a.ms - b.ms);
  // A decision holds until the next one; before the first nothing is known, and so it is behind the latest.
  const latest = decisions.at(-1)?.ms ?? -Infinity;
  const then = (ms: number) => (ms > latest ? undefined : decisions.filter((d) => d.ms < ms + half).at(-1));
  const ahead = (ms: number, of: 'instances' | 'floor') => {
    const planned = pool.plan.filter((p) => Math.floor(Date.parse(p.at) / half) * half === ms);
    return planned.length > 0 ? Math.max(...planned.map((p) => p[of])) : undefined;
  };
  const bar = (name: string, value: (ms: number) => number | undefined) => ({ name, type: 'bar' as const, barMaxWidth: 12, data: slots.map((ms) => value(ms) ?? null) });
  return {
    grid: { left: 8, right: 8, top: 36, bottom: 4, containLabel: true },
    legend: { show: true, type: 'scroll', top: 0 },
    tooltip: { trigger: 'axis', axisPointer: { type: 'shadow' } },
    xAxis: { type: 'category', data: slots.map((ms) => clock.format(new Date(ms))) },
    yAxis: { type: 'value', minInterval: 1 },
    series: [
      bar(names.target, (ms) => then(ms)?.target),
      bar(names.plan, (ms) => ahead(ms, 'instances')),
      bar(names.floor, (ms) => ahead(ms, 'floor') ?? then(ms)?.floor),
    ],
  };
}
