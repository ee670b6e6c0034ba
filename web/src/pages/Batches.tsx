import { PlusOutlined } from '@ant-design/icons';
import { useInfiniteQuery, useQueryClient } from '@tanstack/react-query';
import { App, Button, Flex, Progress, Tag, Typography } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { BatchDrawer, batchColors, progress, running } from '../components/BatchDrawer';
import { type Column, DataTable } from '../components/DataTable';
import { Failure } from '../components/Failure';
import { NewBatch } from '../components/NewBatch';
import { Page, Panel } from '../components/Panel';
import { Time } from '../components/Time';
import { useLabel, useLanguage } from '../i18n';
import { count } from '../lib/format';
import { useFilters } from '../lib/url';

type Batch = Schema['Batch'];

export default function Batches() {
  const { t } = useTranslation();
  const label = useLabel();
  const [language] = useLanguage();
  const queries = useQueryClient();
  const { modal } = App.useApp();
  const [creating, setCreating] = useState(false);
  const [f, setFilters] = useFilters({ batch: '' });
  const list = useInfiniteQuery({
    queryKey: ['batches'],
    queryFn: ({ pageParam }) => call(api.GET('/batches', { params: { query: { cursor: pageParam } } })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next,
    refetchInterval: (q) => (q.state.data?.pages.length === 1 && q.state.data.pages[0]?.items.some(running) ? 3000 : false), // pauses in hidden tabs
  });
  const rows = list.data?.pages.flatMap((p) => p.items);
  const refresh = () => Promise.all([queries.invalidateQueries({ queryKey: ['batches'] }), queries.invalidateQueries({ queryKey: ['batch'] })]);
  const cancel = (b: { id: string }) =>
    modal.confirm({
      title: t('batches.cancelTitle'),
      content: t('batches.cancelText'),
      okText: t('batches.cancel'),
      okButtonProps: { danger: true },
      onOk: async () => {
        try {
          await call(api.POST('/batches/{id}/cancel', { params: { path: { id: b.id } } }));
          await refresh();
        } catch (error) {
          modal.error({ title: t('batches.cancel'), content: <Failure error={error} /> });
        }
      },
    });
  const columns: Column<Batch>[] = [
    {
      key: 'id',
      title: t('batches.id'),
      render: (b) => (
        <Button type="link" size="small" style={{ padding: 0 }} onClick={() => setFilters({ batch: b.id })} title={b.id} aria-label={t('batches.openName', { id: b.id.slice(-8) })}>
          {b.id.slice(-8)}
        </Button>
      ),
      csv: (b) => b.id,
    },
    { key: 'state', title: t('batches.state'), render: (b) => <Tag color={batchColors[b.state] ?? 'processing'}>{label('batchState', b.state)}</Tag>, csv: (b) => b.state },
    {
      key: 'progress',
      title: t('batches.progress'),
      render: (b) => (
        <Flex vertical style={{ minWidth: 160 }}>
          <Progress size="small" percent={progress(b)} status={running(b) ? 'active' : 'normal'} aria-label={t('batches.progress')} />
          <Typography.Text type="secondary" style={{ fontSize: 12 }}>
            {t('batches.counts', { total: count(b.total, language), completed: count(b.completed, language), failed: count(b.failed, language) })}
          </Typography.Text>
        </Flex>
      ),
      csv: (b) => `${b.completed}/${b.failed}/${b.total}`,
    },
    { key: 'endpoint', title: t('batches.endpoint'), render: (b) => b.endpoint, csv: (b) => b.endpoint },
    { key: 'class', title: t('batches.class'), render: (b) => b.class, csv: (b) => b.class },
    { key: 'created', title: t('batches.created'), render: (b) => <Time at={b.created_at} />, csv: (b) => b.created_at },
    { key: 'ended', title: t('batches.endedOrExpires'), render: (b) => <Time at={b.ended_at ?? b.expires_at} />, csv: (b) => b.ended_at ?? b.expires_at },
    {
      key: 'actions',
      fixed: 'right',
      title: t('table.actions'),
      render: (b) =>
        running(b) &&
        b.state !== 'cancelling' && (
          <Button size="small" danger onClick={() => cancel(b)} aria-label={t('batches.cancelName', { id: b.id })}>
            {t('batches.cancel')}
          </Button>
        ),
    },
  ];
  return (
    <Page
      title={t('nav.batches')}
      note={t('batches.note')}
      actions={
        <Button type="primary" icon={<PlusOutlined aria-hidden />} onClick={() => setCreating(true)}>
          {t('batches.new')}
        </Button>
      }
    >
      <Panel>
        <DataTable name={t('nav.batches')} columns={columns} rows={rows} rowKey={(b) => b.id} loading={list.isPending} error={list.error} reload={() => void list.refetch()} empty={t('batches.empty')} />
        {list.hasNextPage && (
          <Button block onClick={() => void list.fetchNextPage()} style={{ marginTop: 8 }}>
            {t('table.more')}
          </Button>
        )}
      </Panel>
      <Panel title={t('batches.firstCall')}>
        <Typography.Paragraph type="secondary">{t('batches.firstCallNote')}</Typography.Paragraph>
        <Typography.Paragraph code copyable={{ text: firstCall() }} style={{ whiteSpace: 'pre', overflowX: 'auto', margin: 0 }}>
          {firstCall()}
        </Typography.Paragraph>
      </Panel>
      {creating && (
        <NewBatch
          onClose={() => setCreating(false)}
          onMade={(made) => {
            setCreating(false);
            setFilters({ batch: made.id });
            void refresh();
          }}
        />
      )}
      {f.batch && <BatchDrawer id={f.batch} onClose={() => setFilters({ batch: '' })} onCancel={cancel} />}
    </Page>
  );
}

/** The same from a program, with a key. */
function firstCall(): string {
  const base = `${location.origin}/v1`;
  return [
    `curl -s ${base}/files -H "Authorization: Bearer $SLUICE_API_KEY" -F purpose=batch -F file=@night.jsonl`,
    `curl -s ${base}/batches -H "Authorization: Bearer $SLUICE_API_KEY" -H 'Content-Type: application/json' \\`,
    `  -d '{"input_file_id":"FILE_ID","endpoint":"/v1/chat/completions","completion_window":"24h"}'`,
  ].join('\n');
}
