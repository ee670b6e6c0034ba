import { useQuery } from '@tanstack/react-query';
import { Alert, Descriptions, Flex, Typography } from 'antd';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { toApiError } from '../api/errors';
import { useLabel, useLanguage } from '../i18n';
import { count, exactNano, money, percent, rate } from '../lib/format';
import { type Column, DataTable } from './DataTable';
import { Failure } from './Failure';
import { Panel } from './Panel';

type Engine = Schema['CostEngine'];
type Line = Schema['CostLine'];

/** What the machines cost in a month by the cost book, and tokens and answers of that. What is not known is shown as unknown, and so is what follows from it. */
export function MachineCosts({ month }: { month: string }) {
  const { t } = useTranslation();
  const books = useQuery({ queryKey: ['cost-books'], queryFn: ({ signal }) => call(api.GET('/cost-books', { signal })) });
  const none = books.data?.items.length === 0; // there is nothing to report then
  const report = useQuery({
    queryKey: ['cost-report', month],
    enabled: books.data !== undefined && !none,
    queryFn: ({ signal }) => call(api.GET('/cost-report', { params: { query: { month } }, signal })),
    retry: (failures, error) => failures < 6 && toApiError(error).code === 'concurrency_limit_exceeded', // a server makes one at a time
    retryDelay: 10_000,
  });
  const r = report.data?.after;
  return (
    <Panel title={t('costs.machines')}>
      <Flex vertical gap={12}>
        {none && <Typography.Text type="secondary">{t('costs.noBook')}</Typography.Text>}
        {books.error && <Failure error={books.error} retry={() => void books.refetch()} />}
        {report.error && (toApiError(report.error).code === 'not_found' ? <Typography.Text type="secondary">{t('costs.noBook')}</Typography.Text> : <Failure error={report.error} retry={() => void report.refetch()} />)}
        {r && <Typography.Text type="secondary">{`${t('costs.machinesNote', { book: r.book })}${r.whole ? '' : ` ${t('costs.partial')}`}`}</Typography.Text>}
        {r?.unassigned.map((m) => <Alert key={m.model} type="warning" showIcon title={t('costs.unassigned', { model: m.model })} />)}
        {r?.engines.map((e) => <EngineCosts key={e.name} engine={e} currency={r.currency} />)}
      </Flex>
    </Panel>
  );
}

function EngineCosts({ engine: e, currency }: { engine: Engine; currency: string }) {
  const { t } = useTranslation();
  const label = useLabel();
  const [language] = useLanguage();
  const amount = (nano: number | undefined) => (nano === undefined ? t('costs.unknown') : money(nano, currency, language));
  const known = (l: { nano?: number; at_least_nano: number }) => (l.nano === undefined ? t('costs.atLeast', { amount: money(l.at_least_nano, currency, language) }) : money(l.nano, currency, language));
  const columns: Column<Line>[] = [
    { key: 'line', title: t('costs.line'), render: (l) => label('costLine', l.kind), csv: (l) => l.kind },
    { key: 'amount', title: t('usage.cost'), align: 'right', render: known, csv: (l) => (l.nano === undefined ? '' : exactNano(l.nano)) },
    { key: 'basis', title: t('costs.basis'), render: (l) => (l.missing ? t('costs.missing', { figure: l.missing }) : label('method', l.basis ?? '')), csv: (l) => l.basis ?? '' },
  ];
  const assumed: Column<Schema['CostAssumption']>[] = (['name', 'value', 'date', 'source'] as const).map((k) => ({ key: k, title: t(`costs.assumption.${k}`), render: (a) => a[k], csv: (a) => a[k] }));
  const ratio = (n: number | undefined) => (n === undefined ? t('costs.unknown') : percent(n, language));
  const rates: [string, string][] = [
    [t('costs.perMillion'), amount(e.per_million_nano)],
    [t('costs.perMillionPrompt'), amount(e.per_million_prompt_nano)],
    [t('costs.perMillionOutput'), amount(e.per_million_output_nano)],
    [t('costs.perAnswer'), amount(e.per_answer_nano)],
    [t('costs.perGoodMillion'), amount(e.per_good_million_nano)],
    [t('costs.perGoodAnswer'), amount(e.per_good_answer_nano)],
    [t('costs.tokensPerUnit', { currency }), e.tokens_per_unit === undefined ? t('costs.unknown') : rate(e.tokens_per_unit, language)],
    [t('costs.utilisation'), ratio(e.utilisation)],
    [t('costs.margin'), ratio(e.margin)],
    [t('costs.answered'), t('costs.answeredOf', { answered: count(e.answered, language), good: count(e.good, language), untimed: count(e.untimed, language), repeated: count(e.repeated, language) })],
  ];
  const total = { kind: 'total', nano: e.total_nano, at_least_nano: e.at_least_nano } as unknown as Line;
  return (
    <section aria-label={e.name}>
      <Typography.Title level={3} style={{ fontSize: 15 }}>{`${e.name} · ${e.models.join(', ')}`}</Typography.Title>
      <DataTable name={`${t('costs.machines')} ${e.name}`} columns={columns} rows={e.lines} rowKey={(l) => l.kind} total={total} />
      <Descriptions bordered size="small" column={{ xs: 1, md: 2 }} items={rates.map(([name, value]) => ({ key: name, label: name, children: value }))} />
      <DataTable name={`${t('costs.assumptions')} ${e.name}`} columns={assumed} rows={e.assumptions} rowKey={(a) => a.name} />
    </section>
  );
}
