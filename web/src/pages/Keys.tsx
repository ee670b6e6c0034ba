import { PlusOutlined } from '@ant-design/icons';
import { useInfiniteQuery, useMutation, useQueryClient } from '@tanstack/react-query';
import { Alert, App, Button, DatePicker, Flex, Form, Input, InputNumber, Modal, Radio, Select, Tag, Typography } from 'antd';
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
import { useMay } from '../lib/me';

type Key = Schema['Key'];

const stateOf = (k: Key) => (k.revoked_at ? 'revoked' : k.expires_at && dayjs(k.expires_at).isBefore(dayjs()) ? 'expired' : 'active');
const colors = { active: 'success', expired: 'warning', revoked: 'default' } as const;

export default function Keys() {
  const { t } = useTranslation();
  const label = useLabel();
  const mayWrite = useMay('keys.write');
  const queries = useQueryClient();
  const [creating, setCreating] = useState(false);
  const { modal } = App.useApp();
  const keys = useInfiniteQuery({
    queryKey: ['keys'],
    queryFn: ({ pageParam }) => call(api.GET('/keys', { params: { query: { cursor: pageParam } } })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next,
  });
  const refresh = () => queries.invalidateQueries({ queryKey: ['keys'] });
  const confirmRevoke = (key: Key) =>
    modal.confirm({
      title: t('keys.revokeTitle', { name: key.name }),
      content: t('keys.revokeText'),
      okText: t('keys.revoke'),
      okButtonProps: { danger: true },
      onOk: async () => {
        try {
          await call(api.POST('/keys/{id}/revoke', { params: { path: { id: key.id }, query: { tenant: key.tenant } } }));
          await refresh();
        } catch (error) {
          modal.error({ title: t('keys.revoke'), content: <Failure error={error} /> });
        }
      },
    });

  const columns: Column<Key>[] = [
    { key: 'name', title: t('keys.name'), render: (k) => k.name, csv: (k) => k.name },
    { key: 'prefix', title: t('keys.prefix'), render: (k) => <Typography.Text code>{k.prefix}…</Typography.Text>, csv: (k) => k.prefix },
    { key: 'project', title: t('keys.project'), render: (k) => k.project, csv: (k) => k.project },
    { key: 'state', title: t('keys.state'), render: (k) => <Tag color={colors[stateOf(k)]}>{label('keyState', stateOf(k))}</Tag>, csv: stateOf },
    { key: 'mode', title: t('keys.labelMode'), render: (k) => label('labelMode', k.label_mode), csv: (k) => k.label_mode },
    { key: 'labels', title: t('keys.labels'), render: (k) => k.labels.map((l) => <Tag key={l}>{l}</Tag>), csv: (k) => k.labels.join(' ') },
    { key: 'created', title: t('keys.created'), render: (k) => <Time at={k.created_at} />, csv: (k) => iso(k.created_at) },
    { key: 'expires', title: t('keys.expires'), render: (k) => (k.expires_at ? <Time at={k.expires_at} /> : t('keys.never')), csv: (k) => k.expires_at ?? '' },
  ];
  if (mayWrite) {
    columns.push({
      key: 'actions',
      title: t('table.actions'),
      render: (k) => (
        <Button size="small" danger disabled={stateOf(k) === 'revoked'} onClick={() => confirmRevoke(k)} aria-label={t('keys.revokeName', { name: k.name })}>
          {t('keys.revoke')}
        </Button>
      ),
    });
  }
  return (
    <Page
      title={t('nav.keys')}
      note={t('keys.note')}
      actions={
        mayWrite && (
          <Button type="primary" icon={<PlusOutlined aria-hidden />} onClick={() => setCreating(true)}>
            {t('keys.create')}
          </Button>
        )
      }
    >
      <Panel>
        <DataTable
          name={t('nav.keys')}
          columns={columns}
          rows={keys.data?.pages.flatMap((p) => p.items)}
          rowKey={(k) => k.id}
          loading={keys.isFetching}
          error={keys.error}
          reload={() => void keys.refetch()}
          empty={t('keys.empty')}
        />
        {keys.hasNextPage && (
          <Button block onClick={() => void keys.fetchNextPage()} style={{ marginTop: 8 }}>
            {t('table.more')}
          </Button>
        )}
      </Panel>
      {creating && (
        <CreateKey
          onClose={() => {
            setCreating(false);
            void refresh();
          }}
        />
      )}
    </Page>
  );
}

interface Fields {
  name: string;
  project?: string;
  labels?: string[];
  label_mode: Schema['LabelMode'];
  expires?: Dayjs;
  requests?: number;
  tokens?: number;
  concurrent?: number;
}

function CreateKey({ onClose }: { onClose: () => void }) {
  const { t } = useTranslation();
  const label = useLabel();
  const [form] = Form.useForm<Fields>();
  const create = useMutation({
    mutationFn: (f: Fields) =>
      call(
        api.POST('/keys', {
          body: {
            name: f.name,
            project: f.project || undefined,
            labels: f.labels,
            label_mode: f.label_mode,
            expires_at: f.expires?.endOf('day').toISOString(),
            limits: { requests_per_minute: f.requests ?? 0, tokens_per_minute: f.tokens ?? 0, concurrent: f.concurrent ?? 0 },
          },
        }),
      ),
  });
  if (create.data) {
    return (
      <Modal open title={t('keys.createdTitle')} onCancel={onClose} mask={{ closable: false }} footer={<Button type="primary" onClick={onClose}>{t('keys.stored')}</Button>}>
        <Alert type="warning" showIcon title={t('keys.once')} style={{ marginBottom: 16 }} />
        <Typography.Paragraph code copyable={{ text: create.data.secret }} style={{ wordBreak: 'break-all' }} data-testid="secret">
          {create.data.secret}
        </Typography.Paragraph>
      </Modal>
    );
  }
  return (
    <Modal open title={t('keys.create')} onCancel={onClose} okText={t('keys.create')} onOk={() => form.submit()} confirmLoading={create.isPending}>
      {create.error && <Failure error={create.error} reveal />}
      <Form form={form} layout="vertical" initialValues={{ label_mode: 'metadata' }} onFinish={(f) => create.mutate(f)} style={{ marginTop: 16 }}>
        <Form.Item name="name" label={t('keys.name')} rules={[{ required: true, message: t('form.required') }]}>
          <Input autoFocus maxLength={128} />
        </Form.Item>
        <Form.Item name="project" label={t('keys.project')}>
          <Input maxLength={64} />
        </Form.Item>
        <Form.Item name="expires" label={t('keys.expires')} extra={t('keys.expiresHelp')}>
          <DatePicker style={{ width: '100%' }} minDate={dayjs()} />
        </Form.Item>
        <Form.Item name="label_mode" label={t('keys.labelMode')}>
          <Radio.Group options={(['metadata', 'text'] as const).map((m) => ({ value: m, label: label('labelMode', m) }))} />
        </Form.Item>
        <Form.Item name="labels" label={t('keys.labels')} extra={t('keys.labelsHelp')}>
          <Select mode="tags" open={false} suffixIcon={null} />
        </Form.Item>
        <Typography.Text>{t('keys.limits')}</Typography.Text>
        <Typography.Paragraph type="secondary">{t('keys.limitsHelp')}</Typography.Paragraph>
        <Flex gap={12}>
          {(['requests', 'tokens', 'concurrent'] as const).map((name) => (
            <Form.Item key={name} name={name} label={t(`keys.${name}`)} style={{ flex: 1, marginBottom: 0 }}>
              <InputNumber min={0} precision={0} style={{ width: '100%' }} />
            </Form.Item>
          ))}
        </Flex>
      </Form>
    </Modal>
  );
}
