import { PlusOutlined } from '@ant-design/icons';
import { useInfiniteQuery } from '@tanstack/react-query';
import { Button } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { Link } from 'react-router';

import { api, call, type Schema } from '../api/client';
import { toApiError } from '../api/errors';
import { type Column, DataTable } from '../components/DataTable';
import { Failure } from '../components/Failure';
import { Page, Panel } from '../components/Panel';
import { StartRollout } from '../components/StartRollout';
import { PhaseTag, running, TrafficBar } from '../components/Traffic';
import { Time } from '../components/Time';
import { useMay } from '../lib/me';

type Rollout = Schema['Rollout'];

export default function Rollouts() {
  const { t } = useTranslation();
  const mayWrite = useMay('rollout.write');
  const [starting, setStarting] = useState(false);
  const rollouts = useInfiniteQuery({
    queryKey: ['rollouts'],
    queryFn: ({ pageParam }) => call(api.GET('/rollouts', { params: { query: { cursor: pageParam } } })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next,
    refetchInterval: (q) => (q.state.data?.pages.length === 1 && q.state.data.pages[0]?.items.some((r) => running(r.phase)) ? 5000 : false), // pauses in hidden tabs
  });
  const off = rollouts.error && toApiError(rollouts.error).code === 'workflows_off';
  const columns: Column<Rollout>[] = [
    { key: 'model', title: t('rollout.model'), render: (r) => <Link to={`/rollouts/${encodeURIComponent(r.id)}`}>{r.model}</Link>, csv: (r) => r.model },
    { key: 'versions', title: t('rollout.versions'), render: (r) => `${r.stable} → ${r.candidate}`, csv: (r) => `${r.stable} → ${r.candidate}` },
    { key: 'phase', title: t('rollout.phase'), render: (r) => <PhaseTag phase={r.phase} />, csv: (r) => r.phase },
    { key: 'share', title: t('rollout.share'), width: 200, render: (r) => <TrafficBar rollout={r} small />, csv: (r) => r.share_basis / 100 },
    { key: 'started', title: t('rollout.started'), render: (r) => <Time at={r.started_at} />, csv: (r) => r.started_at },
    { key: 'by', title: t('rollout.by'), render: (r) => r.started_by, csv: (r) => r.started_by },
  ];
  return (
    <Page
      title={t('nav.rollouts')}
      note={t('rollout.note')}
      actions={
        mayWrite && !off && (
          <Button type="primary" icon={<PlusOutlined aria-hidden />} onClick={() => setStarting(true)}>
            {t('rollout.start')}
          </Button>
        )
      }
    >
      {off ? (
        <Failure error={rollouts.error} />
      ) : (
      <Panel>
        <DataTable
          name={t('nav.rollouts')}
          columns={columns}
          rows={rollouts.data?.pages.flatMap((p) => p.items)}
          rowKey={(r) => r.id}
          loading={rollouts.isPending}
          error={rollouts.error}
          reload={() => void rollouts.refetch()}
          empty={
            <>
              {t('rollout.empty')} <Link to="/system" style={{ textDecoration: 'underline' }}>{t('models.title')}</Link>
            </>
          }
        />
        {rollouts.hasNextPage && (
          <Button block onClick={() => void rollouts.fetchNextPage()} style={{ marginTop: 8 }}>
            {t('table.more')}
          </Button>
        )}
      </Panel>
      )}
      {starting && <StartRollout onClose={() => setStarting(false)} />}
    </Page>
  );
}
