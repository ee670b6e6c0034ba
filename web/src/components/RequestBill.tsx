import { useQuery } from '@tanstack/react-query';
import { Descriptions, Flex, Typography } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { useLabel, useLanguage } from '../i18n';
import { carbon, count, energy, exactNano } from '../lib/format';
import { type Column, DataTable } from './DataTable';
import { EmissionFields } from './EmissionFields';
import { Failure } from './Failure';

type Line = Schema['BillLine'];

/** The bill of a request, line by line: tokens by kind at the prices that rated them, and its energy with how it is known. */
export function RequestBill({ request, tenant }: { request: string; tenant?: string }) {
  const { t } = useTranslation();
  const label = useLabel();
  const [language] = useLanguage();
  const [by, setBy] = useState({ factor: '', pue: '1' });
  const query = { tenant, factor: by.factor || undefined, pue: Number(by.pue) };
  const bill = useQuery({ queryKey: ['bill', request, query], queryFn: () => call(api.GET('/usage/{request}', { params: { path: { request }, query } })), retry: false });
  const b = bill.data;
  const columns: Column<Line>[] = [
    { key: 'kind', title: t('costs.line'), render: (l) => label('billLine', l.kind), csv: (l) => l.kind },
    { key: 'quantity', title: t('usage.tokens'), align: 'right', render: (l) => (l.kind ? count(l.quantity, language) : ''), csv: (l) => l.quantity },
    { key: 'price', title: t('costs.unitPrice'), align: 'right', render: (l) => (l.unit_price_nano === undefined ? '' : exactNano(l.unit_price_nano)), csv: (l) => (l.unit_price_nano === undefined ? '' : exactNano(l.unit_price_nano)) },
    { key: 'amount', title: `${t('usage.cost')} (${b?.currency ?? ''})`, align: 'right', render: (l) => exactNano(l.amount_nano), csv: (l) => exactNano(l.amount_nano) },
  ];
  const facts: [string, string | undefined][] = b
    ? [
        [label('dimension', 'price_book'), [b.price_book, b.price_book_digest?.slice(0, 12)].filter(Boolean).join(' · ')],
        [t('usage.energy'), b.energy_uj === undefined ? t('costs.unknown') : `${energy(b.energy_uj, language)} · ${label('method', b.energy_method)}`],
        [t('costs.carbon'), b.factor && b.location_ug !== undefined ? `${carbon(b.location_ug, language)} · ${b.factor.id}, ${b.factor.source}, ${b.factor.published}` : undefined],
        [t('costs.counts'), b.estimated ? t('costs.estimated') : undefined],
      ]
    : [];
  return (
    <Flex vertical gap={8}>
      <Typography.Text strong>{t('costs.bill')}</Typography.Text>
      <Flex gap={8} wrap>
        <EmissionFields factor={by.factor} pue={by.pue} onChange={(change) => setBy({ ...by, ...change })} />
      </Flex>
      {bill.error && <Failure error={bill.error} retry={() => void bill.refetch()} />}
      {b && <DataTable name={t('costs.bill')} columns={columns} rows={b.lines} rowKey={(l) => l.kind} total={{ kind: '', quantity: 0, amount_nano: b.cost_nano } as unknown as Line} />}
      {b && <Descriptions bordered size="small" column={1} items={facts.filter(([, v]) => v).map(([name, value]) => ({ key: name, label: name, children: value }))} />}
    </Flex>
  );
}
