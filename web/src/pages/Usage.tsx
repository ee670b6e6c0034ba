import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { Button, DatePicker, Flex, Input, Segmented, Select } from 'antd';
import dayjs from 'dayjs';
import { lazy, Suspense, useMemo } from 'react';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { type Column, DataTable } from '../components/DataTable';
import { labelTexts } from '../components/LevelForms';
import { Page, Panel } from '../components/Panel';
import { StatementPanel } from '../components/StatementPanel';
import { UsageTiles } from '../components/UsageTiles';
import { useLabel, useLanguage } from '../i18n';
import { count, energy, exactJoules, exactNano, money } from '../lib/format';
import { type Measure, measures, usageOption } from '../lib/usage-chart';
import { useFilters } from '../lib/url';

const Chart = lazy(() => import('../components/Chart').then((m) => ({ default: m.Chart })));

type Row = Schema['UsageRow'];
type Dimension = 'tenant' | 'project' | 'key' | 'model' | 'day' | 'price_book';
const dimensions: Dimension[] = ['day', 'model', 'key', 'project', 'tenant', 'price_book'];
const utcDay = 'YYYY-MM-DD';
const utcToday = () => dayjs(new Date().toISOString().slice(0, 10));

export default function Usage() {
  const { t } = useTranslation();
  const label = useLabel();
  const [language] = useLanguage();
  const [filters, setFilters] = useFilters({
    from: utcToday().subtract(6, 'day').format(utcDay),
    to: utcToday().format(utcDay),
    group: 'day,model',
    key: '',
    project: '',
    model: '',
    measure: 'tokens',
  });
  const group = filters.group.split(',').filter((d): d is Dimension => (dimensions as string[]).includes(d));
  const measure = (measures as readonly string[]).includes(filters.measure) ? (filters.measure as Measure) : 'tokens';
  // Days are UTC days, as the report groups them; the last day is included.
  const query = {
    from: `${filters.from}T00:00:00Z`,
    to: `${dayjs(filters.to).add(1, 'day').format(utcDay)}T00:00:00Z`,
    group_by: group,
    key: filters.key || undefined,
    project: filters.project || undefined,
    model: filters.model || undefined,
  };
  const report = useQuery({
    queryKey: ['usage', query],
    queryFn: () => call(api.GET('/usage', { params: { query } })),
    placeholderData: keepPreviousData,
  });
  const rows = report.data?.rows;
  const option = useMemo(
    () => rows && usageOption(rows, measure, group, filters.from, filters.to, language),
    // eslint-disable-next-line react-hooks/exhaustive-deps -- group is derived from filters.group on every render
    [rows, measure, filters.group, filters.from, filters.to, language],
  );

  const columns: Column<Row>[] = [
    ...group.map((d, i): Column<Row> => ({
      key: d,
      title: label('dimension', d),
      render: (r) => r[d] ?? (i === 0 && r === report.data?.total ? t('usage.total') : ''),
      csv: (r) => r[d] ?? '',
    })),
    ...(group.includes('project') ? [{ key: 'labels', title: t('organisations.labels'), render: (r: Row) => labelTexts(r.labels ?? {}).join(' '), csv: (r: Row) => labelTexts(r.labels ?? {}).join(' ') }] : []),
    ...(['requests', 'prompt_tokens', 'cached_tokens', 'completion_tokens'] as const).map((k): Column<Row> => ({
      key: k,
      title: t(`usage.${k}`),
      align: 'right',
      render: (r) => count(r[k], language),
      csv: (r) => r[k],
    })),
    {
      key: 'cost',
      title: t('usage.cost'),
      align: 'right',
      render: (r) => <span title={`${exactNano(r.cost_nano)} ${r.currency}`}>{money(r.cost_nano, r.currency, language)}</span>,
      csv: (r) => exactNano(r.cost_nano),
    },
    {
      key: 'energy',
      title: t('usage.energyUnit'),
      align: 'right',
      render: (r) => <span title={`${exactJoules(r.energy_uj)} J`}>{energy(r.energy_uj, language)}</span>,
      csv: (r) => exactJoules(r.energy_uj),
    },
    { key: 'method', title: t('usage.method'), render: (r) => label('method', r.energy_method), csv: (r) => r.energy_method },
  ];

  return (
    <Page title={t('nav.usage')} note={t('usage.note')}>
      <Flex gap={8} wrap align="center" role="search" aria-label={t('usage.filters')}>
        <DatePicker.RangePicker
          aria-label={t('usage.range')}
          allowClear={false}
          value={[dayjs(filters.from), dayjs(filters.to)]}
          presets={[1, 7, 30, 90].map((days) => ({ label: t('usage.lastDays', { count: days }), value: [utcToday().subtract(days - 1, 'day'), utcToday()] }))}
          onChange={(range) => range?.[0] && range[1] && setFilters({ from: range[0].format(utcDay), to: range[1].format(utcDay) })}
        />
        <Select
          aria-label={t('usage.groupBy')}
          prefix={t('usage.groupBy')}
          mode="multiple"
          style={{ minWidth: 240 }}
          value={group}
          options={dimensions.map((d) => ({ value: d, label: label('dimension', d) }))}
          onChange={(value) => setFilters({ group: dimensions.filter((d) => value.includes(d)).join(',') })}
        />
        <Input.Search allowClear aria-label={t('usage.model')} placeholder={t('usage.model')} defaultValue={filters.model} onSearch={(model) => setFilters({ model })} style={{ width: 200 }} />
        <Input.Search allowClear aria-label={t('usage.key')} placeholder={t('usage.key')} defaultValue={filters.key} onSearch={(key) => setFilters({ key })} style={{ width: 200 }} />
        <Input.Search allowClear aria-label={t('usage.project')} placeholder={t('usage.project')} defaultValue={filters.project} onSearch={(project) => setFilters({ project })} style={{ width: 200 }} />
      </Flex>
      <Panel title={t('usage.total')}>
        <UsageTiles total={report.data?.total} />
      </Panel>
      <Panel
        title={t('usage.chart')}
        extra={
          <Segmented<Measure>
            size="small"
            aria-label={t('usage.measure')}
            value={measure}
            onChange={(m) => setFilters({ measure: m })}
            options={measures.map((m) => ({ value: m, label: t(`usage.${m}`) }))}
          />
        }
      >
        {option && rows?.length ? (
          <Suspense fallback={<div style={{ height: 300 }} />}>
            <Chart option={option} label={t('usage.chartLabel', { measure: t(`usage.${measure}`), from: filters.from, to: filters.to })} />
          </Suspense>
        ) : (
          <div style={{ height: 60 }}>{report.isPending ? null : t('usage.empty')}</div>
        )}
      </Panel>
      <Panel title={t('usage.table')}>
        <DataTable
          name={t('nav.usage')}
          columns={columns}
          rows={rows}
          rowKey={(r) => dimensions.map((d) => r[d] ?? '').join('\n')}
          loading={report.isFetching}
          error={report.error}
          reload={() => void report.refetch()}
          empty={t('usage.empty')}
          asOf={report.data?.as_of}
          total={group.length > 0 ? report.data?.total : undefined}
        />
        {(filters.key || filters.model || filters.project) && (
          <Button size="small" onClick={() => setFilters({ key: '', model: '', project: '' })}>
            {t('usage.clear')}
          </Button>
        )}
      </Panel>
      <StatementPanel />
    </Page>
  );
}
