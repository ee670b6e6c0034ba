import { DownloadOutlined } from '@ant-design/icons';
import { useMutation, useQuery } from '@tanstack/react-query';
import { Alert, Button, Descriptions, Drawer, Flex, Progress, Skeleton, Tag, Typography } from 'antd';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { useLabel, useLanguage } from '../i18n';
import { download } from '../lib/csv';
import { count, money } from '../lib/format';
import { DataTable } from './DataTable';
import { Failure } from './Failure';
import { Time } from './Time';

export const batchColors: Record<string, string> = { completed: 'success', failed: 'error', expired: 'warning', cancelled: 'default', cancelling: 'warning' };
export const running = (b: { state: string }) => ['validating', 'in_progress', 'finalizing', 'cancelling'].includes(b.state);
export const progress = (b: { total: number; completed: number; failed: number }) => (b.total > 0 ? Math.floor((100 * (b.completed + b.failed)) / b.total) : 0);

/** One batch: how far it is, what it has cost, which lines have failed and why, and its files. */
export function BatchDrawer({ id, onClose, onCancel }: { id: string; onClose: () => void; onCancel: (b: Schema['Batch']) => void }) {
  const { t } = useTranslation();
  const batch = useQuery({
    queryKey: ['batch', id],
    queryFn: () => call(api.GET('/batches/{id}', { params: { path: { id } } })),
    refetchInterval: (q) => (q.state.data && running(q.state.data) ? 3000 : false), // pauses in hidden tabs
  });
  return (
    <Drawer open size={720} title={t('batches.one')} onClose={onClose} extra={batch.data && running(batch.data) && batch.data.state !== 'cancelling' && <Button danger onClick={() => onCancel(batch.data)}>{t('batches.cancel')}</Button>}>
      <Flex vertical gap={16}>
        {batch.error && <Failure error={batch.error} retry={() => void batch.refetch()} />}
        {batch.isPending && <Skeleton active />}
        {batch.data && <Batch b={batch.data} />}
      </Flex>
    </Drawer>
  );
}

function Batch({ b }: { b: Schema['BatchDetail'] }) {
  const { t } = useTranslation();
  const label = useLabel();
  const [language] = useLanguage();
  const file = useMutation({
    mutationFn: async (name: 'input' | 'output' | 'errors') => {
      const got = await call(api.GET('/batches/{id}/files/{file}', { params: { path: { id: b.id, file: name } }, parseAs: 'blob' }));
      download(`${b.id}-${name}.jsonl`, 'application/jsonl', got as unknown as Blob);
    },
    gcTime: 0,
  });
  const files = (['input', 'output', 'errors'] as const).filter((name) => b[name]);
  return (
    <>
      <Progress percent={progress(b)} status={running(b) ? 'active' : b.state === 'completed' ? 'success' : 'exception'} aria-label={t('batches.progress')} />
      <Descriptions
        size="small"
        column={1}
        bordered
        items={[
          { key: 'id', label: t('batches.id'), children: <Typography.Text code copyable>{b.id}</Typography.Text> },
          { key: 'state', label: t('batches.state'), children: <Tag color={batchColors[b.state] ?? 'processing'}>{label('batchState', b.state)}</Tag> },
          { key: 'counts', label: t('batches.lines'), children: t('batches.counts', { total: count(b.total, language), completed: count(b.completed, language), failed: count(b.failed, language) }) },
          { key: 'endpoint', label: t('batches.endpoint'), children: <Typography.Text code>{b.endpoint}</Typography.Text> },
          { key: 'class', label: t('batches.class'), children: b.class },
          ...(b.model ? [{ key: 'model', label: t('batches.model'), children: b.model }] : []),
          ...(b.project ? [{ key: 'project', label: t('batches.project'), children: b.project }] : []),
          { key: 'created', label: t('batches.created'), children: <Time at={b.created_at} /> },
          b.ended_at ? { key: 'ended', label: t('batches.ended'), children: <Time at={b.ended_at} /> } : { key: 'expires', label: t('batches.expires'), children: <Time at={b.expires_at} /> },
          { key: 'cost', label: t('batches.cost'), children: b.cost === undefined ? t('batches.noCost') : money(b.cost, b.currency ?? '', language) },
        ]}
      />
      <Flex gap={8} wrap>
        {files.map((name) => (
          <Button key={name} icon={<DownloadOutlined aria-hidden />} loading={file.isPending && file.variables === name} onClick={() => file.mutate(name)}>
            {t(`batches.files.${name}`)}
          </Button>
        ))}
      </Flex>
      {file.error && <Failure error={file.error} reveal />}
      {b.problems.length > 0 && (
        <Alert
          type="error"
          showIcon
          title={t('batches.notAsked')}
          description={
            <ul style={{ margin: 0, paddingInlineStart: 18 }}>
              {b.problems.map((p) => (
                <li key={`${p.line} ${p.code}`}>
                  {p.line !== undefined && <strong>{t('batches.line', { line: p.line })} </strong>}
                  {p.detail} <Typography.Text code>{p.code}</Typography.Text>
                </li>
              ))}
            </ul>
          }
        />
      )}
      {b.failures.length > 0 && (
        <DataTable
          name={t('batches.failures')}
          rows={b.failures}
          rowKey={(f) => f.custom_id}
          columns={[
            { key: 'id', title: 'custom_id', render: (f) => <Typography.Text code>{f.custom_id}</Typography.Text>, csv: (f) => f.custom_id },
            { key: 'code', title: t('failure.code'), render: (f) => <Typography.Text code>{f.code}</Typography.Text>, csv: (f) => f.code },
            { key: 'status', title: t('batches.status'), render: (f) => f.status ?? t('batches.unasked'), csv: (f) => f.status ?? '' },
          ]}
        />
      )}
    </>
  );
}
