import { DownloadOutlined } from '@ant-design/icons';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Alert, Button, Descriptions, Flex, Modal, Progress, Table, Typography } from 'antd';
import { useEffect, useState } from 'react';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { errorFromReply } from '../api/errors';
import { useLabel, useLanguage } from '../i18n';
import { download } from '../lib/csv';
import { count, stretch } from '../lib/format';
import { Failure } from './Failure';
import { LinkButton } from './LinkButton';
import { Time } from './Time';

/** Starts a verification of the whole log, follows it, and shows its report. */
export function VerifyModal({ onClose, onRecord }: { onClose: () => void; onRecord: (id: string) => void }) {
  const { t } = useTranslation();
  const [language] = useLanguage();
  const [first, setFirst] = useState({ done: 0, at: 0 }); // one may run already
  const start = useMutation({ mutationFn: () => call(api.POST('/audit/verifications')), onSuccess: (j) => setFirst({ done: j.done, at: Date.now() }) });
  const keep = useMutation({
    mutationFn: () => call(api.GET('/audit/checkpoint')),
    onSuccess: (c) => download(`checkpoint-${new Date().toISOString().slice(0, 19).replaceAll(':', '')}.json`, 'application/json', JSON.stringify(c, null, 2)),
  });
  const id = start.data?.id;
  const job = useQuery({
    queryKey: ['verification', id],
    queryFn: () => call(api.GET('/audit/verifications/{id}', { params: { path: { id: id! } } })),
    enabled: id !== undefined,
    initialData: start.data,
    // every look is recorded, so a long check is looked at less and less often
    refetchInterval: (q) => (q.state.data?.status === 'running' ? Math.min(5000, 500 * 1.5 ** q.state.dataUpdateCount) : false),
    staleTime: 0,
  });
  const data = id ? job.data : undefined;
  const file = useMutation({
    mutationFn: async (format: 'pdf' | 'docx') => {
      const content = (await call(api.GET('/audit/verifications/{id}/report', { params: { path: { id: id! }, query: { format } }, headers: { 'Accept-Language': language }, parseAs: 'blob' }))) as unknown as Blob;
      download(`verification-${data!.finished_at!.slice(0, 19).replaceAll(':', '')}.${format}`, content.type, content);
    },
  });
  const queries = useQueryClient();
  const ended = data !== undefined && data.status !== 'running';
  useEffect(() => {
    if (ended) void queries.invalidateQueries({ queryKey: ['audit-status'] }); // the page behind says how it went
  }, [ended, queries]);
  return (
    <Modal
      open
      width={680}
      title={t('verify.title')}
      onCancel={onClose}
      footer={
        <>
          <Button icon={<DownloadOutlined aria-hidden />} onClick={() => keep.mutate()} loading={keep.isPending} style={{ float: 'inline-start' }}>
            {t('verify.checkpoint')}
          </Button>
          <Button onClick={onClose}>{t('verify.close')}</Button>
          <Button type="primary" onClick={() => start.mutate()} loading={start.isPending || data?.status === 'running'}>
            {t(data ? 'verify.again' : 'verify.start')}
          </Button>
        </>
      }
    >
      <Flex vertical gap={16}>
        <Typography.Text type="secondary">{t('verify.note')}</Typography.Text>
        <Typography.Text type="secondary">{t('verify.keep')}</Typography.Text>
        {keep.error && <Failure error={keep.error} />}
        {start.error && <Failure error={start.error} />}
        {job.error && <Failure error={job.error} retry={() => void job.refetch()} />}
        {data && data.status === 'running' && (
          <>
            <Progress percent={data.total ? Math.floor((data.done / data.total) * 100) : 0} status="active" aria-label={t('verify.progress')} />
            <Pace done={data.done} total={data.total} rate={((data.done - first.done) / (job.dataUpdatedAt - first.at)) * 1000} />
          </>
        )}
        {data?.problem && <Failure error={errorFromReply(data.problem.status, data.problem, data.problem.request_id)} />}
        {data?.report && (
          <Flex gap={8} align="center" wrap>
            <Typography.Text type="secondary">{t('verify.file')}</Typography.Text>
            {(['pdf', 'docx'] as const).map((format) => (
              <Button key={format} size="small" icon={<DownloadOutlined aria-hidden />} loading={file.isPending && file.variables === format} onClick={() => file.mutate(format)}>
                {format.toUpperCase()}
              </Button>
            ))}
          </Flex>
        )}
        {file.error && <Failure error={file.error} />}
        {data?.report && <Report report={data.report} at={data.finished_at} onRecord={onRecord} />}
      </Flex>
    </Modal>
  );
}

/** How fast it goes, and how long it will still take. */
function Pace({ done, total, rate }: { done: number; total: number; rate: number }) {
  const { t } = useTranslation();
  const [language] = useLanguage();
  if (!Number.isFinite(rate) || rate <= 0) return null; // after one look only
  return (
    <Typography.Text type="secondary">
      {t('verify.rate', { done: count(done, language), total: count(total, language), rate: count(Math.round(rate), language), left: stretch(((total - done) / rate) * 1000, language) })}
    </Typography.Text>
  );
}

function Report({ report, at, onRecord }: { report: Schema['VerificationReport']; at?: string; onRecord: (id: string) => void }) {
  const { t } = useTranslation();
  const [language] = useLanguage();
  const numbers = (['records', 'sealed', 'unsealed', 'wal_records', 'checkpoint_size'] as const).map((k) => ({ key: k, label: t(`verify.${k}`), children: count(report[k], language) }));
  return (
    <>
      <Alert
        type={report.ok ? 'success' : 'error'}
        showIcon
        role="status"
        title={report.ok ? t('verify.ok', { records: count(report.records, language) }) : t('verify.broken', { problems: count(report.problems.length, language) })}
        description={at && <Time at={at} />}
      />
      {report.least_index > 0 && <Typography.Text>{t('verify.least', { index: count(report.least_index, language) })}</Typography.Text>}
      <Descriptions size="small" column={{ xs: 1, sm: 3 }} items={numbers} />
      {report.witnessed.length === 0 && <Typography.Text type="secondary">{t('verify.noWitness')}</Typography.Text>}
      {report.witnessed.length > 0 && (
        <Table
          size="small"
          pagination={false}
          rowKey="witness"
          dataSource={report.witnessed}
          columns={[
            { title: t('verify.witness'), dataIndex: 'witness' },
            { title: t('verify.witnessSize'), dataIndex: 'size', align: 'right', render: (n: number) => count(n, language) },
            { title: t('verify.witnessTime'), dataIndex: 'time', render: (at: string) => <Time at={at} /> },
          ]}
        />
      )}
      <div>
        <Typography.Text type="secondary">{t('verify.root')}</Typography.Text>{' '}
        <Typography.Text code copyable style={{ wordBreak: 'break-all' }}>
          {report.root}
        </Typography.Text>
      </div>
      {report.problems.length > 0 && <ProblemTable title={t('verify.problems')} problems={report.problems} onRecord={onRecord} />}
      {report.findings && report.findings.length > 0 && <ProblemTable title={t('verify.findings')} problems={report.findings} onRecord={onRecord} />}
    </>
  );
}

function ProblemTable({ title, problems, onRecord }: { title: string; problems: Schema['VerificationProblem'][]; onRecord: (id: string) => void }) {
  const { t } = useTranslation();
  const label = useLabel();
  return (
    <Table
      size="small"
      title={() => title}
      rowKey={(p) => `${p.kind}/${p.record ?? ''}/${p.index ?? ''}/${p.cause}`}
      dataSource={problems}
      pagination={problems.length > 20 ? { pageSize: 20 } : false}
      columns={[
        { title: t('verify.kind'), render: (_, p) => label('problem', p.kind) },
        { title: t('verify.record'), render: (_, p) => (p.record ? <LinkButton onClick={() => onRecord(p.record!)}>{p.record}</LinkButton> : p.index) },
        { title: t('verify.cause'), dataIndex: 'cause' },
      ]}
    />
  );
}
