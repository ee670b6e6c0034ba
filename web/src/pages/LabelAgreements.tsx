import { PlusOutlined } from '@ant-design/icons';
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Alert, Button, DatePicker, Descriptions, Flex, Form, Input, Modal, Tag, Typography } from 'antd';
import dayjs, { type Dayjs } from 'dayjs';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { type Column, DataTable } from '../components/DataTable';
import { Failure } from '../components/Failure';
import { Page, Panel } from '../components/Panel';
import { Time } from '../components/Time';
import { useLabel } from '../i18n';
import { iso } from '../lib/format';
import { useFresh } from '../lib/fresh';
import { useMay, useMe } from '../lib/me';

type Agreement = Schema['LabelAgreement'];

const colors: Record<Agreement['state'], string> = { asked: 'processing', coming: 'processing', in_force: 'success', ended: 'default', lapsed: 'default', declined: 'error', revoked: 'error' };
const open: Agreement['state'][] = ['asked', 'coming', 'in_force'];
const longestDays = 730;

/** Agreements on answers without a visible label: what is in force, who asked and approved; to ask, to approve as the second person, and to revoke. */
export default function LabelAgreements() {
  const { t } = useTranslation();
  const label = useLabel();
  const me = useMe();
  const mayAsk = useMay('policy.write');
  const mayApprove = useMay('approvals.give');
  const queries = useQueryClient();
  const [asking, setAsking] = useState(false);
  const [shown, setShown] = useState<Agreement>();
  const [approving, setApproving] = useState<Agreement>();
  const [revoking, setRevoking] = useState<Agreement>();
  const list = useInfiniteQuery({
    queryKey: ['label-agreements'],
    queryFn: ({ pageParam }) => call(api.GET('/labels/agreements', { params: { query: { cursor: pageParam } } })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next,
  });
  const refresh = () => queries.invalidateQueries({ queryKey: ['label-agreements'] });
  const approve = useFresh(async (id: string) => {
    const a = await call(api.POST('/labels/agreements/{id}/approve', { params: { path: { id } } }));
    await refresh();
    return a;
  });
  const first = list.data?.pages[0];
  const columns: Column<Agreement>[] = [
    { key: 'state', title: t('agreements.state'), render: (a) => <Tag color={colors[a.state]}>{label('agreementState', a.state)}</Tag>, csv: (a) => a.state },
    {
      key: 'recipient',
      title: t('agreements.recipient'),
      render: (a) => (
        <Flex vertical style={{ maxWidth: 240, whiteSpace: 'normal', overflowWrap: 'anywhere' }}>
          {a.recipient}
          <Typography.Text type="secondary">{a.purpose}</Typography.Text>
        </Flex>
      ),
      csv: (a) => `${a.recipient}: ${a.purpose}`,
    },
    { key: 'for', title: t('agreements.for'), render: scope, csv: scope },
    { key: 'from', title: t('agreements.from'), render: (a) => <Time at={a.from} />, csv: (a) => iso(a.from) },
    { key: 'until', title: t('agreements.until'), render: (a) => <Time at={a.until} />, csv: (a) => iso(a.until) },
    { key: 'asked', title: t('agreements.askedBy'), render: (a) => a.asked_name, csv: (a) => a.asked_name },
    { key: 'approved', title: t('agreements.approvedBy'), render: (a) => a.approved_name ?? '–', csv: (a) => a.approved_name ?? '' },
    {
      key: 'actions',
      title: t('table.actions'),
      fixed: 'right',
      render: (a) => (
        <Flex gap={8}>
          <Button size="small" onClick={() => setShown(a)} aria-label={t('agreements.showName', { name: a.recipient })}>
            {t('agreements.show')}
          </Button>
          {mayApprove && a.state === 'asked' && a.asked_by !== me.id && (
            <Button size="small" type="primary" onClick={() => setApproving(a)} aria-label={t('agreements.approveName', { name: a.recipient })}>
              {t('agreements.approve')}
            </Button>
          )}
          {mayApprove && open.includes(a.state) && (
            <Button size="small" danger onClick={() => setRevoking(a)} aria-label={t(a.state === 'asked' ? 'agreements.declineName' : 'agreements.revokeName', { name: a.recipient })}>
              {t(a.state === 'asked' ? 'agreements.decline' : 'agreements.revoke')}
            </Button>
          )}
        </Flex>
      ),
    },
  ];
  function scope(a: Agreement) {
    return [a.project && t('agreements.ofProject', { id: a.project }), a.key && t('agreements.ofKey', { id: a.key })].filter(Boolean).join(', ') || t('agreements.ofTenant');
  }
  return (
    <Page
      title={t('nav.agreements')}
      note={t('agreements.note')}
      actions={
        mayAsk &&
        first && (
          <Button type="primary" icon={<PlusOutlined aria-hidden />} onClick={() => setAsking(true)}>
            {t('agreements.ask')}
          </Button>
        )
      }
    >
      <Panel>
        <Flex vertical gap={12}>
          {first && <Alert type={first.labelling.visible_label === 'application' ? 'warning' : 'info'} showIcon title={label('visibleLabel', first.labelling.visible_label)} />}
          {approve.error !== undefined && <Failure error={approve.error} reveal />}
          <DataTable
            name={t('nav.agreements')}
            columns={columns}
            rows={list.data?.pages.flatMap((p) => p.items)}
            rowKey={(a) => a.id}
            loading={list.isFetching}
            error={list.error}
            reload={() => void list.refetch()}
            empty={t('agreements.empty')}
          />
          {list.hasNextPage && (
            <Button block onClick={() => void list.fetchNextPage()}>
              {t('table.more')}
            </Button>
          )}
        </Flex>
      </Panel>
      {asking && first && <Ask text={first.text} onClose={() => setAsking(false)} onDone={refresh} />}
      {shown && (
        <Modal open width={720} title={shown.recipient} onCancel={() => setShown(undefined)} footer={null}>
          <Details agreement={shown} />
        </Modal>
      )}
      {approving && (
        <Modal
          open
          width={720}
          title={t('agreements.confirm')}
          onCancel={() => setApproving(undefined)}
          okText={t('agreements.approve')}
          onOk={() => {
            approve.run.mutate(approving.id);
            setApproving(undefined);
          }}
        >
          <Details agreement={approving} />
        </Modal>
      )}
      {revoking && <Revoke agreement={revoking} onClose={() => setRevoking(undefined)} onDone={refresh} />}
      {approve.dialog}
    </Page>
  );
}

/** What an agreement is, with the text that was accepted, which lists leave out. */
function Details({ agreement: a }: { agreement: Agreement }) {
  const { t } = useTranslation();
  const label = useLabel();
  const whole = useQuery({ queryKey: ['label-agreement', a.id], queryFn: () => call(api.GET('/labels/agreements/{id}', { params: { path: { id: a.id } } })) });
  const rows: [string, React.ReactNode][] = [
    [t('agreements.state'), label('agreementState', a.state)],
    [t('agreements.recipient'), a.recipient],
    [t('agreements.contact'), a.contact],
    [t('agreements.reference'), a.reference ?? '–'],
    [t('agreements.purpose'), a.purpose],
    [t('agreements.from'), <Time key="from" at={a.from} />],
    [t('agreements.until'), <Time key="until" at={a.until} />],
    [t('agreements.askedBy'), a.asked_name],
    [t('agreements.approvedBy'), a.approved_name ?? '–'],
    ...(a.revoked_name ? ([[t('agreements.revokedBy'), `${a.revoked_name}: ${a.reason ?? ''}`]] as [string, React.ReactNode][]) : []),
    [t('agreements.digest'), <Typography.Text key="digest" code style={{ overflowWrap: 'anywhere' }}>{a.text_digest}</Typography.Text>],
  ];
  return (
    <Flex vertical gap={12}>
      <Descriptions column={1} size="small" bordered items={rows.map(([title, value]) => ({ key: title, label: title, children: value }))} />
      {whole.error && <Failure error={whole.error} />}
      {whole.data?.text && (
        <pre tabIndex={0} aria-label={t('agreements.accepted')} style={{ maxHeight: 200, overflow: 'auto', whiteSpace: 'pre-wrap' }}>
          {whole.data.text}
        </pre>
      )}
    </Flex>
  );
}

interface Fields {
  recipient: string;
  contact: string;
  reference?: string;
  purpose: string;
  project?: string;
  key?: string;
  until: Dayjs;
}

function Ask({ text, onClose, onDone }: { text: Schema['LabelAgreementText']; onClose: () => void; onDone: () => Promise<unknown> }) {
  const { t } = useTranslation();
  const [form] = Form.useForm<Fields>();
  const ask = useMutation({
    mutationFn: (f: Fields) =>
      call(
        api.POST('/labels/agreements', {
          body: {
            recipient: f.recipient, contact: f.contact, reference: f.reference || undefined, purpose: f.purpose, project: f.project || undefined, key: f.key || undefined,
            until: f.until.endOf('day').toISOString(), text_digest: text.digest,
          },
        }),
      ),
    onSuccess: async () => {
      await onDone();
      onClose();
    },
  });
  const needed = [{ required: true, message: t('form.required') }];
  return (
    <Modal open width={720} title={t('agreements.ask')} onCancel={onClose} okText={t('agreements.ask')} onOk={form.submit} confirmLoading={ask.isPending}>
      <Flex vertical gap={12}>
        {ask.error && <Failure error={ask.error} reveal />}
        <Typography.Text>{t('agreements.textHelp')}</Typography.Text>
        <pre tabIndex={0} aria-label={t('agreements.text')} style={{ maxHeight: 200, overflow: 'auto', whiteSpace: 'pre-wrap' }}>
          {text.body}
        </pre>
        <Form form={form} layout="vertical" onFinish={ask.mutate}>
          <Form.Item name="recipient" label={t('agreements.recipient')} rules={needed}>
            <Input maxLength={128} autoComplete="off" />
          </Form.Item>
          <Form.Item name="contact" label={t('agreements.contact')} rules={needed}>
            <Input maxLength={128} autoComplete="off" />
          </Form.Item>
          <Form.Item name="reference" label={t('agreements.reference')}>
            <Input maxLength={128} autoComplete="off" />
          </Form.Item>
          <Form.Item name="purpose" label={t('agreements.purpose')} rules={needed}>
            <Input.TextArea maxLength={1024} rows={2} />
          </Form.Item>
          <Form.Item name="project" label={t('agreements.project')} extra={t('agreements.scopeHelp')}>
            <Input maxLength={64} autoComplete="off" />
          </Form.Item>
          <Form.Item name="key" label={t('agreements.key')}>
            <Input maxLength={64} autoComplete="off" />
          </Form.Item>
          <Form.Item name="until" label={t('agreements.until')} rules={needed} initialValue={dayjs().add(6, 'month')}>
            <DatePicker style={{ width: '100%' }} minDate={dayjs().add(1, 'day')} maxDate={dayjs().add(longestDays - 1, 'day')} />
          </Form.Item>
        </Form>
      </Flex>
    </Modal>
  );
}

function Revoke({ agreement, onClose, onDone }: { agreement: Agreement; onClose: () => void; onDone: () => Promise<unknown> }) {
  const { t } = useTranslation();
  const [reason, setReason] = useState('');
  const run = useMutation({
    mutationFn: () => call(api.POST('/labels/agreements/{id}/revoke', { params: { path: { id: agreement.id } }, body: { reason: reason.trim() } })),
    onSuccess: async () => {
      await onDone();
      onClose();
    },
  });
  const title = t(agreement.state === 'asked' ? 'agreements.decline' : 'agreements.revoke');
  return (
    <Modal open title={`${title}: ${agreement.recipient}`} onCancel={onClose} okText={title} onOk={() => run.mutate()} confirmLoading={run.isPending} okButtonProps={{ danger: true, disabled: !reason.trim() }}>
      <Flex vertical gap={12}>
        {run.error && <Failure error={run.error} reveal />}
        <Typography.Text>{t('agreements.revokeText')}</Typography.Text>
        <Input.TextArea aria-label={t('agreements.reason')} placeholder={t('agreements.reason')} maxLength={1024} rows={3} value={reason} onChange={(e) => setReason(e.target.value)} />
      </Flex>
    </Modal>
  );
}
