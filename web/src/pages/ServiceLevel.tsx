import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { Alert, Button, Flex, Input, Segmented, Select, Tag, Tooltip, Typography } from 'antd';
import { lazy, type ReactNode, Suspense, useMemo, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { Link } from 'react-router';

import { api, call, type Schema } from '../api/client';
import { type Column, DataTable } from '../components/DataTable';
import { Page, Panel } from '../components/Panel';
import { WaterMarks } from '../components/WaterMarks';
import { useLabel, useLanguage } from '../i18n';
import { count, duration, percent, time, weight } from '../lib/format';
import { useMay } from '../lib/me';
import { type Budget, groups, type Hour, hoursOption, type Line, type Measure, measures, requestsOf, spans, worst } from '../lib/serviceLevel';
import { useFilters } from '../lib/url';

const Chart = lazy(() => import('../components/Chart').then((m) => ({ default: m.Chart })));
const classes = ['interactive', 'standard', 'batch'] as const;
const everybody = '*';

/** What burns, and how the requests of each model fared against what is promised. */
export default function ServiceLevel() {
  const { t } = useTranslation();
  const label = useLabel();
  const [language] = useLanguage();
  const mayAll = useMay('capacity.read');
  const mayAudit = useMay('audit.read');
  const maySystem = useMay('system.read');
  const [tabled, setTabled] = useState(false);
  const [f, setFilters] = useFilters({ span: '24', tenant: '', model: '', class: '', group: 'model', measure: 'failures' });
  const span = spans.find((s) => s === f.span) ?? '24';
  const group = groups.filter((g) => f.group.split(',').includes(g));
  const measure = measures.find((m) => m === f.measure) ?? 'failures';
  const query = {
    tenant: f.tenant || undefined,
    model: f.model || undefined,
    class: classes.find((c) => c === f.class),
    group_by: group.length > 0 ? group : undefined,
  };
  const report = useQuery({
    queryKey: ['sla', span, query],
    queryFn: async () => {
      const to = new Date();
      const answer = await call(api.GET('/sla', { params: { query: { ...query, from: new Date(to.getTime() - Number(span) * 3_600_000).toISOString(), to: to.toISOString() } } }));
      return answer as Schema['ServiceLevel']; // the other formats were not asked for
    },
    placeholderData: keepPreviousData,
  });
  const r = report.data;
  const option = useMemo(() => r && hoursOption(r.hours, measure, language), [r, measure, language]);
  const nothing = <Typography.Text type="secondary">{t('sla.noData')}</Typography.Text>;
  const share = (n: number | undefined) => (n === undefined ? nothing : percent(n, language, 4));
  const linked = (line: Line, text: string) => {
    const to = r && mayAudit && !f.tenant && !f.class ? requestsOf(line, r) : undefined;
    return to ? <Link to={to} title={t('sla.listNote')}>{text}</Link> : text;
  };
  const name = (line: Line) =>
    line === r?.total ? t('sla.all') : group.length === 0 ? (line.model ?? '') || t('sla.noModel') : group.map((g) => line[g] || t(g === 'class' ? 'sla.noClass' : 'sla.noModel')).join(' · ');
  const spread = (key: 'first_token' | 'total', of: 'p95_us' | 'p99_us' | 'p999_us', title: string): Column<Line> => ({
    key: `${key} ${of}`,
    title: `${t(`sla.${key}`)} ${title}`,
    align: 'right',
    render: (l) => (l[key] ? <span title={`${count(l[key][of], language)} µs`}>{duration(l[key][of], language)}</span> : nothing),
    csv: (l) => l[key]?.[of] ?? '',
  });
  const burn = (b: Budget | undefined) => [b?.burn_1h, b?.burn_6h, b?.burn_3d].map((x) => (x === undefined ? '–' : weight(x, language))).join(' / ');
  const columns: Column<Line>[] = [
    { key: 'line', title: t('sla.line'), render: (l) => <Flex gap={6} align="center">{name(l)}<Burning of={l.burning} /></Flex>, csv: name },
    { key: 'requests', title: t('sla.requests'), align: 'right', render: (l) => linked(l, count(l.requests, language)), csv: (l) => l.requests },
    { key: 'availability', title: t('sla.availability'), align: 'right', render: (l) => share(l.availability), csv: (l) => l.availability ?? '' },
    { key: 'failures', title: t('sla.failures'), align: 'right', render: (l) => count(l.failures, language), csv: (l) => l.failures },
    { key: 'callers', title: t('sla.callers'), align: 'right', render: (l) => count(l.refused + l.left, language), csv: (l) => l.refused + l.left },
    spread('first_token', 'p95_us', 'P95'), spread('first_token', 'p99_us', 'P99'), spread('first_token', 'p999_us', 'P99.9'),
    spread('total', 'p95_us', 'P95'), spread('total', 'p99_us', 'P99'), spread('total', 'p999_us', 'P99.9'),
    { key: 'jitter', title: t('sla.jitter'), align: 'right', render: (l) => (l.first_token?.jitter === undefined ? nothing : weight(l.first_token.jitter, language)), csv: (l) => l.first_token?.jitter ?? '' },
    { key: 'goodput', title: t('sla.goodput'), align: 'right', render: (l) => (l.goodput === undefined ? nothing : <span title={t('sla.goodOf', { good: count(l.good, language), judged: count(l.judged, language) })}>{t('sla.perSecond', { n: weight(l.goodput, language) })}</span>), csv: (l) => l.goodput ?? '' },
    { key: 'left', title: t('sla.budgetLeft'), align: 'right', render: (l) => { const b = worst(l); return b?.left === undefined ? nothing : <span title={t(`sla.budgets.${b.of}`)}>{percent(b.left, language)}</span>; }, csv: (l) => worst(l)?.left ?? '' },
    { key: 'burn', title: t('sla.burn'), align: 'right', render: (l) => burn(worst(l)), csv: (l) => burn(worst(l)) },
  ];
  const hours: Column<Hour>[] = [
    { key: 'at', title: t('sla.hour'), render: (h) => time(h.at, language), csv: (h) => h.at },
    { key: 'requests', title: t('sla.requests'), align: 'right', render: (h) => count(h.requests, language), csv: (h) => h.requests },
    { key: 'failures', title: t('sla.failures'), align: 'right', render: (h) => (h.requests ? count(h.failures, language) : nothing), csv: (h) => h.failures },
    { key: 'availability', title: t('sla.availability'), align: 'right', render: (h) => share(h.availability), csv: (h) => h.availability ?? '' },
    { key: 'first', title: `${t('sla.first_token')} P95`, align: 'right', render: (h) => (h.first_token_p95_us === undefined ? nothing : duration(h.first_token_p95_us, language)), csv: (h) => h.first_token_p95_us ?? '' },
    { key: 'total', title: `${t('sla.total')} P95`, align: 'right', render: (h) => (h.total_p95_us === undefined ? nothing : duration(h.total_p95_us, language)), csv: (h) => h.total_p95_us ?? '' },
  ];

  return (
    <Page title={t('nav.sla')} note={t('sla.note')}>
      {r && <What report={r} name={name} burn={burn} />}
      <Flex gap={8} wrap align="center" role="search" aria-label={t('sla.filters')}>
        <Segmented aria-label={t('sla.span')} value={span} onChange={(s) => setFilters({ span: s })} options={spans.map((s) => ({ value: s, label: t(`sla.spans.h${s}`) }))} />
        {mayAll && (
          <Select
            aria-label={t('sla.tenants')}
            style={{ minWidth: 160 }}
            value={f.tenant === everybody ? everybody : ''}
            options={[{ value: '', label: t('sla.ownTenant') }, { value: everybody, label: t('sla.allTenants') }]}
            onChange={(tenant) => setFilters({ tenant })}
          />
        )}
        <Select aria-label={t('sla.class')} style={{ minWidth: 140 }} value={query.class ?? ''} options={[{ value: '', label: t('sla.anyClass') }, ...classes.map((c) => ({ value: c, label: label('slaClass', c) }))]} onChange={(c) => setFilters({ class: c })} />
        <Select aria-label={t('sla.groupBy')} mode="multiple" style={{ minWidth: 180 }} value={group} options={groups.map((g) => ({ value: g, label: label('slaGroup', g) }))} onChange={(g) => setFilters({ group: groups.filter((x) => g.includes(x)).join(',') || 'model' })} />
        <Input.Search allowClear aria-label={t('sla.model')} placeholder={t('sla.model')} defaultValue={f.model} onSearch={(model) => setFilters({ model })} style={{ width: 200 }} />
      </Flex>
      <Panel title={t('sla.lines')}>
        {r && (
          <Typography.Paragraph type="secondary">
            {t('sla.period', { from: time(r.from, language), to: time(r.to, language), with: count(r.hours_with_traffic, language), over: count(r.hours_over, language) })}
            {` ${t('sla.countedFrom', { at: time(r.counted_from, language) })}`}
          </Typography.Paragraph>
        )}
        <DataTable
          name={t('sla.lines')}
          columns={columns}
          rows={r?.lines}
          rowKey={(l) => groups.map((g) => l[g] ?? '').join('\n')}
          loading={report.isFetching}
          error={report.error}
          reload={() => void report.refetch()}
          empty={t('sla.empty')}
          asOf={r?.as_of}
          total={r?.total}
        />
      </Panel>
      <Panel
        title={t('sla.hours')}
        extra={<Segmented<Measure> size="small" aria-label={t('sla.measure')} value={measure} onChange={(m) => setFilters({ measure: m })} options={measures.map((m) => ({ value: m, label: t(`sla.measures.${m}`) }))} />}
      >
        {option && r && r.hours_with_traffic > 0 ? (
          <Suspense fallback={<div style={{ height: 260 }} />}>
            <Chart option={option} height={260} label={t('sla.chartLabel', { measure: t(`sla.measures.${measure}`) })} />
          </Suspense>
        ) : (
          r && t('sla.empty')
        )}
        <Button size="small" aria-expanded={tabled} onClick={() => setTabled(!tabled)}>
          {t(tabled ? 'sla.hideTable' : 'sla.showTable')}
        </Button>
        {tabled && <DataTable name={t('sla.hours')} columns={hours} rows={r?.hours} rowKey={(h) => h.at} asOf={r?.as_of} />}
      </Panel>
      {maySystem && <WaterMarks />}
    </Page>
  );
}

/** Told by words and colour: fast is for now, slow for today. */
function Burning({ of }: { of: Line['burning'] }): ReactNode {
  const { t } = useTranslation();
  if (of === '') return null;
  return <Tag color={of === 'fast' ? 'error' : 'warning'}>{t(of === 'fast' ? 'sla.fast' : 'sla.slow')}</Tag>;
}

/** What burns now, above everything else. */
function What({ report, name, burn }: { report: Schema['ServiceLevel']; name: (l: Line) => string; burn: (b: Budget) => string }) {
  const { t } = useTranslation();
  const burning = report.lines.filter((l) => l.burning !== '');
  if (burning.length > 0) {
    return (
      <Alert
        type={burning.some((l) => l.burning === 'fast') ? 'error' : 'warning'}
        showIcon
        title={t('sla.burnsNow')}
        description={
          <ul style={{ margin: 0, paddingInlineStart: 20 }}>
            {burning.flatMap((l) =>
              l.budgets.filter((b) => b.burning !== '').map((b) => (
                <li key={`${name(l)} ${b.of}`}>
                  {t('sla.burnLine', { line: name(l), budget: t(`sla.budgets.${b.of}`), rates: burn(b) })} <Burning of={b.burning} />
                </li>
              )),
            )}
          </ul>
        }
      />
    );
  }
  if (report.objectives.length === 0) return <Alert type="info" showIcon title={t('sla.noObjective')} description={t('sla.noObjectiveHelp')} />;
  return (
    <Alert
      type={report.total.judged > 0 ? 'success' : 'info'}
      showIcon
      title={
        report.total.judged > 0 ? <Tooltip title={t('sla.burnRule')}>{t('sla.nothingBurns')}</Tooltip> : t('sla.nothingJudged')
      }
    />
  );
}
