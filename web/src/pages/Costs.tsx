import { useQueries } from '@tanstack/react-query';
import { DatePicker, Flex, Segmented, Typography } from 'antd';
import dayjs from 'dayjs';
import { lazy, Suspense, useMemo } from 'react';
import { useTranslation } from 'react-i18next';

import { api, call } from '../api/client';
import { toApiError } from '../api/errors';
import { type Column, DataTable } from '../components/DataTable';
import { EmissionFields } from '../components/EmissionFields';
import { Failure } from '../components/Failure';
import { MachineCosts } from '../components/MachineCosts';
import { Page, Panel } from '../components/Panel';
import { useLabel, useLanguage } from '../i18n';
import { type Bar, type BarRow, barRows, barTotal, type CostMeasure, costMeasures, stackOption } from '../lib/cost-chart';
import { carbon, count, energy, exactJoules, exactNano, money, rate } from '../lib/format';
import { useTenants } from '../lib/levels';
import { useMay, useMe } from '../lib/me';
import { useTurns } from '../lib/turns';
import { useFilters } from '../lib/url';

const Chart = lazy(() => import('../components/Chart').then((m) => ({ default: m.Chart })));

const monthsShown = 6;
const tenantsShown = 20;

/** Cost, energy and carbon dioxide: of one's tenant by month, or of the tenants in a month, each by model. The bars and the table have the same numbers. */
export default function Costs() {
  const { t } = useTranslation();
  const label = useLabel();
  const [language] = useLanguage();
  const me = useMe();
  const mayTenants = useMay('tenants.read');
  const mayMachines = useMay('capacity.read');
  const [filters, setFilters] = useFilters({ month: dayjs().format('YYYY-MM'), by: 'month', measure: 'cost', factor: '', pue: '1' });
  const measure = (costMeasures as readonly string[]).includes(filters.measure) ? (filters.measure as CostMeasure) : 'cost';
  const byTenant = filters.by === 'tenant' && mayTenants;
  const tenants = useTenants(byTenant);
  const wanted = byTenant
    ? (tenants.data ?? []).slice(0, tenantsShown).map((x) => ({ name: x.id, month: filters.month, tenant: x.id }))
    : Array.from({ length: monthsShown }, (_, i) => dayjs(`${filters.month}-01`).subtract(monthsShown - 1 - i, 'month').format('YYYY-MM')).map((month) => ({ name: month, month, tenant: me.tenant }));
  const factor = filters.factor || undefined;
  const pue = Number(filters.pue) || 1;
  const inTurn = useTurns(); // each sums the usage of a month
  const reports = useQueries({
    queries: wanted.map(({ month, tenant }) => ({
      queryKey: ['energy-report', month, tenant, factor, pue],
      queryFn: ({ signal }: { signal: AbortSignal }) => inTurn(signal, () => call(api.GET('/energy-report', { params: { query: { month, tenant, factor, pue } }, signal }))),
      retry: false,
    })),
  });
  const failed = reports.find((r) => r.error && toApiError(r.error).code !== 'not_found'); // a month before the first that was closed is none
  const bars: Bar[] = wanted.map(({ name }, i) => ({ name, report: reports[i]?.data }));
  const currency = bars.find((b) => b.report?.currency)?.report?.currency ?? '';
  const state = JSON.stringify([bars, measure, currency, language]);
  // eslint-disable-next-line react-hooks/exhaustive-deps -- bars are made anew on every render
  const option = useMemo(() => stackOption(bars, measure, currency, language), [state]);
  const total = barTotal(bars);
  const unknown = (known: number | undefined, text: (n: number) => string) => (known === undefined ? t('costs.unknown') : text(known));
  const part = (r: BarRow, known: number | undefined, text: (n: number) => string) => unknown(known, (n) => (r.unknown_requests ? t('costs.atLeast', { amount: text(n) }) : text(n)));
  const columns: Column<BarRow>[] = [
    { key: 'bar', title: byTenant ? label('dimension', 'tenant') : t('costs.month'), render: (r) => r.bar || t('usage.total'), csv: (r) => r.bar },
    { key: 'model', title: t('usage.model'), render: (r) => r.model, csv: (r) => r.model },
    { key: 'requests', title: t('usage.requests'), align: 'right', render: (r) => count(r.requests, language), csv: (r) => r.requests },
    { key: 'output', title: t('usage.completion_tokens'), align: 'right', render: (r) => count(r.output_tokens, language), csv: (r) => r.output_tokens },
    { key: 'cost', title: t('usage.cost'), align: 'right', render: (r) => <span title={`${exactNano(r.cost_nano)} ${currency}`}>{money(r.cost_nano, currency, language)}</span>, csv: (r) => exactNano(r.cost_nano) },
    { key: 'energy', title: t('usage.energyUnit'), align: 'right', render: (r) => part(r, r.energy_uj, (n) => energy(n, language)), csv: (r) => (r.energy_uj === undefined ? '' : exactJoules(r.energy_uj)) },
    { key: 'per1000', title: t('costs.per1000'), align: 'right', render: (r) => unknown(r.joules_per_1000_tokens, (n) => rate(n, language)), csv: (r) => r.joules_per_1000_tokens ?? '' },
    { key: 'eops', title: t('costs.eops'), align: 'right', render: (r) => unknown(r.tokens_per_joule, (n) => rate(n, language)), csv: (r) => r.tokens_per_joule ?? '' },
    { key: 'carbon', title: t('costs.carbon'), align: 'right', render: (r) => part(r, r.location_ug, (n) => carbon(n, language)), csv: (r) => (r.location_ug === undefined ? '' : exactJoules(r.location_ug)) },
    { key: 'method', title: t('usage.method'), render: (r) => label('method', r.method), csv: (r) => r.method },
  ];
  const used = bars.find((b) => b.report?.factor)?.report?.factor;
  return (
    <Page title={t('nav.costs')} note={t('costs.note')}>
      <Flex gap={8} wrap align="center" role="search" aria-label={t('usage.filters')}>
        <DatePicker picker="month" aria-label={t('costs.month')} allowClear={false} maxDate={dayjs()} value={dayjs(`${filters.month}-01`)} onChange={(m) => m && setFilters({ month: m.format('YYYY-MM') })} />
        {mayTenants && <Segmented aria-label={t('usage.groupBy')} value={byTenant ? 'tenant' : 'month'} onChange={(by) => setFilters({ by })} options={[{ value: 'month', label: t('costs.month') }, { value: 'tenant', label: label('dimension', 'tenant') }]} />}
        <EmissionFields factor={filters.factor} pue={filters.pue} onChange={setFilters} />
      </Flex>
      {failed && <Failure error={failed.error} retry={() => void failed.refetch()} />}
      <Panel
        title={t('costs.chart')}
        extra={<Segmented<CostMeasure> size="small" aria-label={t('usage.measure')} value={measure} onChange={(m) => setFilters({ measure: m })} options={costMeasures.map((m) => ({ value: m, label: t(`costs.${m}`) }))} />}
      >
        {total ? (
          <Suspense fallback={<div style={{ height: 300 }} />}>
            <Chart option={option} label={t('costs.chartLabel', { measure: t(`costs.${measure}`) })} />
          </Suspense>
        ) : (
          <div style={{ height: 60 }}>{reports.some((r) => r.isPending) ? null : t('costs.empty')}</div>
        )}
      </Panel>
      <Panel title={t('usage.table')}>
        <DataTable name={t('nav.costs')} columns={columns} rows={barRows(bars)} rowKey={(r) => [r.bar, r.model, r.method].join('\n')} loading={reports.some((r) => r.isFetching)} empty={t('costs.empty')} total={total} />
        <Typography.Paragraph type="secondary" style={{ marginBlock: 8 }}>
          {byTenant && (tenants.data?.length ?? 0) > tenantsShown && `${t('costs.tenantsShown', { count: tenantsShown })} `}
          {used ? t('costs.factorNote', { id: used.id, source: used.source, published: used.published, pue: filters.pue }) : t('costs.noFactor')}
        </Typography.Paragraph>
      </Panel>
      {mayMachines && <MachineCosts month={filters.month} />}
    </Page>
  );
}
