import { keepPreviousData, useMutation, useQuery } from '@tanstack/react-query';
import { Alert, Button, Flex, Modal, Switch, Tag, Typography } from 'antd';
import { useEffect, useState } from 'react';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { useLabel, useLanguage } from '../i18n';
import { count, exactNano, iso, stretch } from '../lib/format';
import { useAuditStatus } from './AuditStatus';
import { type Column, DataTable } from './DataTable';
import { Failure } from './Failure';
import { LinkButton } from './LinkButton';
import { Time } from './Time';

type Finding = Schema['ReconciliationFinding'];

/** What the reconciliation found: in words, with the way to the record, and the button to do it now. */
export function ReconcileModal({ onClose, onRecord, onRequest }: { onClose: () => void; onRecord: (id: string) => void; onRequest: (id: string) => void }) {
  const { t } = useTranslation();
  const label = useLabel();
  const [language] = useLanguage();
  const [all, setAll] = useState(false);
  const [cursor, setCursor] = useState<string>();
  const found = useQuery({
    queryKey: ['reconciliation', all, cursor],
    queryFn: () => call(api.GET('/audit/reconciliation', { params: { query: { all, cursor, limit: 50 } } })),
    placeholderData: keepPreviousData,
  });
  const { refetch } = found;
  const status = useAuditStatus(); // its look leaves no record, so it tells when there is something new
  const finished = status.data?.reconciliation.finished_at;
  useEffect(() => void refetch(), [finished, refetch]);
  const start = useMutation({ mutationFn: () => call(api.POST('/audit/reconciliation')), onSuccess: () => void status.refetch() });
  const data = found.data;
  const open = Object.values(data?.open ?? {}).reduce((a, b) => a + b, 0);
  const older = data?.next;

  const columns: Column<Finding>[] = [
    { key: 'kind', title: t('reconcile.kind'), render: (f) => <Kind f={f} currency={data?.currency ?? ''} />, csv: (f) => f.kind },
    { key: 'item', title: t('reconcile.item'), render: (f) => <Item f={f} onRecord={onRecord} onRequest={onRequest} />, csv: (f) => f.item },
    { key: 'tenant', title: t('audit.tenant'), render: (f) => f.tenant, csv: (f) => f.tenant },
    { key: 'since', title: t('reconcile.since'), render: (f) => <Time at={f.first_seen} />, csv: (f) => iso(f.first_seen) },
    {
      key: 'state',
      title: t('reconcile.state'),
      render: (f) =>
        !f.closed_at ? (
          <Tag color="warning">{t('reconcile.open')}</Tag>
        ) : f.repair ? (
          <LinkButton onClick={() => onRecord(f.repair!)}>{t('reconcile.mended')}</LinkButton>
        ) : (
          <Tag>{t('reconcile.closed')}</Tag>
        ),
      csv: (f) => (!f.closed_at ? 'open' : f.repair ? `mended ${f.repair}` : 'closed'),
    },
  ];
  return (
    <Modal
      open
      width={980}
      title={t('reconcile.title')}
      onCancel={onClose}
      footer={
        <>
          <Button onClick={onClose}>{t('verify.close')}</Button>
          <Button type="primary" onClick={() => start.mutate()} loading={start.isPending || status.data?.reconciliation.running}>
            {t('reconcile.now')}
          </Button>
        </>
      }
    >
      <Flex vertical gap={12}>
        <Typography.Text type="secondary">{t('reconcile.note')}</Typography.Text>
        {start.error && <Failure error={start.error} />}
        {data?.finished_at && (
          <Alert
            type={open === 0 ? 'success' : 'warning'}
            showIcon
            role="status"
            title={open === 0 ? t('auditStatus.reconciled') : t('auditStatus.findings', { count: open, findings: count(open, language) })}
            description={t('reconcile.last', {
              hours: count(data.hours ?? 0, language),
              mended: count(data.repaired ?? 0, language),
              took: stretch(Date.parse(data.finished_at) - Date.parse(data.started_at ?? data.finished_at), language),
            })}
          />
        )}
        <Flex gap={8} align="center">
          <Switch
            checked={all}
            aria-label={t('reconcile.all')}
            onChange={(on) => {
              setAll(on);
              setCursor(undefined);
            }}
          />
          {t('reconcile.all')}
        </Flex>
        <DataTable
          name={t('reconcile.title')}
          columns={columns}
          rows={data?.items}
          rowKey={(f) => `${f.kind}/${f.item}`}
          loading={found.isFetching}
          error={found.error}
          reload={() => void refetch()}
          empty={data?.finished_at ? t('reconcile.empty') : t('auditStatus.notReconciled')}
          asOf={data?.as_of}
          pages={{ older: older ? () => setCursor(older) : undefined, newest: cursor ? () => setCursor(undefined) : undefined }}
        />
        {data && Object.keys(data.open).length > 0 && <Typography.Text type="secondary">{Object.entries(data.open).map(([kind, n]) => `${label('reconciled', kind)}: ${count(n, language)}`).join(' · ')}</Typography.Text>}
      </Flex>
    </Modal>
  );
}

/** What is wrong, what it means, and the figures. */
function Kind({ f, currency }: { f: Finding; currency: string }) {
  const label = useLabel();
  const { t } = useTranslation();
  const [language] = useLanguage();
  const d = f.detail;
  const figure = (name: string) => count(Number(d[name] ?? 0), language);
  const cost = (name: string) => `${exactNano(Number(d[name] ?? 0))} ${currency}`.trim();
  return (
    <Flex vertical style={{ width: 340, whiteSpace: 'normal' }}>
      <Typography.Text strong>{label('reconciled', f.kind)}</Typography.Text>
      <Typography.Text type="secondary">{label('reconciledNote', f.kind)}</Typography.Text>
      {f.kind === 'sums' && (
        <>
          <span>{t('reconcile.books', { requests: figure('books_requests'), tokens: figure('books_tokens'), cost: cost('books_cost') })}</span>
          <span>{t('reconcile.records', { requests: figure('records_requests'), tokens: figure('records_tokens'), cost: cost('records_cost') })}</span>
        </>
      )}
      {d.code && <span>{t('reconcile.code', { code: d.code })}</span>}
    </Flex>
  );
}

function Item({ f, onRecord, onRequest }: { f: Finding; onRecord: (id: string) => void; onRequest: (id: string) => void }) {
  const label = useLabel();
  const d = f.detail;
  const request = ['unfinished', 'unadmitted', 'missing', 'surplus'].includes(f.kind) ? f.item : d.request;
  if (f.kind === 'sums' && d.hour) return <Time at={d.hour} />;
  return (
    <Flex vertical>
      {d.action && <span>{label('action', d.action)}</span>}
      <LinkButton style={{ maxWidth: 220 }} title={f.item} onClick={() => (d.record ? onRecord(d.record) : onRequest(request ?? f.item))}>
        {request ?? f.item}
      </LinkButton>
    </Flex>
  );
}
