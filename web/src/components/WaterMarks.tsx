import { useQuery } from '@tanstack/react-query';
import { Typography } from 'antd';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { useLanguage } from '../i18n';
import { count, percent } from '../lib/format';
import { type Column, DataTable } from './DataTable';
import { Panel } from './Panel';

export interface Mark {
  key: string;
  name: string;
  state: string;
  running: number;
  waiting?: number; // absent: not reported
  kv?: number; // share
}

/** How full every instance is, by what it reports: what it does not report stays absent. */
export function marksOf(instances: Schema['Instance'][], own: Schema['EngineInstance'][]): Mark[] {
  return instances.map((i) => {
    const of = own.find((e) => e.name === i.name);
    const pages = of?.models.reduce((n, m) => n + m.kv_pages, 0) ?? 0;
    return {
      key: `${i.pool}/${i.name}`,
      name: i.pool === i.name ? i.name : `${i.pool}/${i.name}`,
      state: i.state,
      running: i.running,
      waiting: of && of.models.length > 0 ? of.models.reduce((n, m) => n + m.waiting_sequences, 0) : i.metrics?.requests_waiting,
      kv: pages > 0 ? of!.models.reduce((n, m) => n + m.kv_pages_in_use, 0) / pages : i.metrics?.kv_usage_ratio,
    };
  });
}

/** The water marks of the engines, as the replica that answers sees them. */
export function WaterMarks() {
  const { t } = useTranslation();
  const [language] = useLanguage();
  const marks = useQuery({
    queryKey: ['water-marks'],
    queryFn: async () => {
      const [instances, scheduler] = await Promise.all([call(api.GET('/instances')), call(api.GET('/engine/scheduler'))]);
      return marksOf(instances.items, scheduler.instances ?? []);
    },
  });
  const unreported = <Typography.Text type="secondary">{t('sla.notReported')}</Typography.Text>;
  const columns: Column<Mark>[] = [
    { key: 'name', title: t('sla.instance'), render: (m) => m.name, csv: (m) => m.name },
    { key: 'state', title: t('sla.state'), render: (m) => t(`sla.states.${m.state as 'ready'}`, m.state), csv: (m) => m.state },
    { key: 'running', title: t('sla.running'), align: 'right', render: (m) => count(m.running, language), csv: (m) => m.running },
    { key: 'waiting', title: t('sla.waiting'), align: 'right', render: (m) => (m.waiting === undefined ? unreported : count(m.waiting, language)), csv: (m) => m.waiting ?? '' },
    { key: 'kv', title: t('sla.kv'), align: 'right', render: (m) => (m.kv === undefined ? unreported : percent(m.kv, language)), csv: (m) => m.kv ?? '' },
  ];
  return (
    <Panel title={t('sla.waterMarks')}>
      <DataTable name={t('sla.waterMarks')} columns={columns} rows={marks.data} rowKey={(m) => m.key} loading={marks.isFetching} error={marks.error} reload={() => void marks.refetch()} />
    </Panel>
  );
}
