import { PlusOutlined } from '@ant-design/icons';
import { useInfiniteQuery, useMutation, useQueryClient } from '@tanstack/react-query';
import { App, Button, Flex, Form, Input, Modal, Tag, Typography } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { type Column, DataTable } from '../components/DataTable';
import { Failure } from '../components/Failure';
import { LimitFields, limitsEntered, type LimitsEntered, limitsOf } from '../components/LimitFields';
import { Page, Panel } from '../components/Panel';
import { Time } from '../components/Time';
import { useLanguage } from '../i18n';
import { count, iso } from '../lib/format';
import { useMay } from '../lib/me';

type Tenant = Schema['Tenant'];

const state = (t: Tenant) => (t.suspension ? 'suspended' : t.operator ? 'operator' : 'active');

/** The tenants: who is there, what all callers of each may ask together, and who is suspended and why. */
export default function Tenants() {
  const { t } = useTranslation();
  const [language] = useLanguage();
  const mayWrite = useMay('tenants.write');
  const queries = useQueryClient();
  const { modal } = App.useApp();
  const [open, setOpen] = useState<{ what: 'create' } | { what: 'edit' | 'suspend'; tenant: Tenant }>();
  const tenants = useInfiniteQuery({
    queryKey: ['tenants'],
    queryFn: ({ pageParam }) => call(api.GET('/tenants', { params: { query: { cursor: pageParam } } })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next,
  });
  const rows = tenants.data?.pages.flatMap((p) => p.items);
  const refresh = () => queries.invalidateQueries({ queryKey: ['tenants'] });
  const close = () => {
    setOpen(undefined);
    void refresh();
  };
  const resume = async (tenant: Tenant) => {
    try {
      await call(api.POST('/tenants/{id}/resume', { params: { path: { id: tenant.id } }, body: { since: tenant.suspension!.since } }));
      await refresh();
    } catch (error) {
      modal.error({ title: t('tenants.resume'), content: <Failure error={error} /> });
    }
  };
  const confirmResume = (tenant: Tenant) =>
    modal.confirm({ title: t('tenants.resumeTitle', { name: tenant.name }), content: t('tenants.resumeText'), okText: t('tenants.resume'), onOk: () => resume(tenant) });
  const limit = (n: number) => (n === 0 ? t('keys.limitDefault') : count(n, language));
  const columns: Column<Tenant>[] = [
    { key: 'id', title: t('tenants.id'), render: (r) => r.id, csv: (r) => r.id },
    { key: 'name', title: t('tenants.name'), render: (r) => r.name, csv: (r) => r.name },
    {
      key: 'state',
      title: t('tenants.state'),
      render: (r) => (
        <>
          <Tag color={{ suspended: 'error', operator: 'processing', active: 'success' }[state(r)]}>{t(`tenants.${state(r)}`)}</Tag>
          {r.suspension && (
            <Typography.Paragraph type="secondary" style={{ margin: 0 }}>
              <Time at={r.suspension.since} /> {r.suspension.by_name && t('tenants.by', { name: r.suspension.by_name })} {r.suspension.reason}
            </Typography.Paragraph>
          )}
        </>
      ),
      csv: state,
    },
    { key: 'requests', title: t('keys.requests'), render: (r) => limit(r.limits.requests_per_minute), csv: (r) => String(r.limits.requests_per_minute) },
    { key: 'tokens', title: t('keys.tokens'), render: (r) => limit(r.limits.tokens_per_minute), csv: (r) => String(r.limits.tokens_per_minute) },
    { key: 'concurrent', title: t('keys.concurrent'), render: (r) => limit(r.limits.concurrent), csv: (r) => String(r.limits.concurrent) },
    { key: 'created', title: t('tenants.created'), render: (r) => <Time at={r.created_at} />, csv: (r) => iso(r.created_at) },
  ];
  if (mayWrite) {
    columns.push({
      key: 'actions',
      fixed: 'right',
      title: t('table.actions'),
      render: (r) => (
        <Flex gap={8}>
          <Button size="small" onClick={() => setOpen({ what: 'edit', tenant: r })} aria-label={t('tenants.editName', { name: r.id })}>
            {t('tenants.edit')}
          </Button>
          {r.suspension ? (
            <Button size="small" onClick={() => confirmResume(r)} aria-label={t('tenants.resumeName', { name: r.id })}>
              {t('tenants.resume')}
            </Button>
          ) : (
            !r.operator && (
              <Button size="small" danger onClick={() => setOpen({ what: 'suspend', tenant: r })} aria-label={t('tenants.suspendName', { name: r.id })}>
                {t('tenants.suspend')}
              </Button>
            )
          )}
        </Flex>
      ),
    });
  }
  return (
    <Page
      title={t('nav.tenants')}
      note={t('tenants.note')}
      actions={
        mayWrite && (
          <Button type="primary" icon={<PlusOutlined aria-hidden />} onClick={() => setOpen({ what: 'create' })}>
            {t('tenants.create')}
          </Button>
        )
      }
    >
      <Panel title={rows && t(tenants.hasNextPage ? 'tenants.countMore' : 'tenants.count', { count: rows.length })}>
        <DataTable
          name={t('nav.tenants')}
          columns={columns}
          rows={rows}
          rowKey={(r) => r.id}
          loading={tenants.isFetching}
          error={tenants.error}
          reload={() => void tenants.refetch()}
          empty={t('tenants.empty')}
        />
        {tenants.hasNextPage && (
          <Button block onClick={() => void tenants.fetchNextPage()} style={{ marginTop: 8 }}>
            {t('table.more')}
          </Button>
        )}
      </Panel>
      {open?.what === 'create' && <Write onClose={close} />}
      {open?.what === 'edit' && <Write edited={open.tenant} onClose={close} />}
      {open?.what === 'suspend' && <Suspend tenant={open.tenant} onClose={close} />}
    </Page>
  );
}

interface Fields extends LimitsEntered {
  id: string;
  name: string;
}

/** Creates a tenant, or changes one. */
function Write({ edited, onClose }: { edited?: Tenant; onClose: () => void }) {
  const { t } = useTranslation();
  const [form] = Form.useForm<Fields>();
  const save = useMutation({
    mutationFn: (f: Fields) =>
      edited
        ? call(
            api.PATCH('/tenants/{id}', {
              params: { path: { id: edited.id } },
              body: { name: form.isFieldTouched('name') ? f.name : undefined, limits: (['requests', 'tokens', 'concurrent'] as const).some((n) => form.isFieldTouched(n)) ? limitsOf(f) : undefined },
            }),
          )
        : call(api.POST('/tenants', { body: { id: f.id, name: f.name, limits: limitsOf(f) } })),
    onSuccess: onClose,
  });
  const required = { required: true, message: t('form.required') };
  return (
    <Modal
      open
      title={edited ? t('tenants.editTitle', { name: edited.id }) : t('tenants.create')}
      onCancel={onClose}
      okText={t(edited ? 'keys.save' : 'tenants.create')}
      onOk={form.submit}
      confirmLoading={save.isPending}
    >
      <Flex vertical gap={12}>
        {save.error && <Failure error={save.error} reveal />}
        <Form form={form} layout="vertical" initialValues={edited && { name: edited.name, ...limitsEntered(edited.limits) }} onFinish={save.mutate}>
          {!edited && (
            <Form.Item name="id" label={t('tenants.id')} extra={t('tenants.idHelp')} rules={[required, { pattern: /^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$/, message: t('tenants.idHelp') }]}>
              <Input autoFocus maxLength={64} autoComplete="off" />
            </Form.Item>
          )}
          <Form.Item name="name" label={t('tenants.name')} rules={[required]}>
            <Input maxLength={128} autoComplete="off" />
          </Form.Item>
          <Typography.Text>{t('tenants.limits')}</Typography.Text>
          <Typography.Paragraph type="secondary">{t('tenants.limitsHelp')}</Typography.Paragraph>
          <LimitFields />
        </Form>
      </Flex>
    </Modal>
  );
}

/** Suspends a tenant with a reason, which its record and this page keep. */
function Suspend({ tenant, onClose }: { tenant: Tenant; onClose: () => void }) {
  const { t } = useTranslation();
  const [reason, setReason] = useState('');
  const suspend = useMutation({ mutationFn: () => call(api.POST('/tenants/{id}/suspend', { params: { path: { id: tenant.id } }, body: { reason: reason.trim() } })), onSuccess: onClose });
  return (
    <Modal
      open
      title={t('tenants.suspendTitle', { name: tenant.name })}
      onCancel={onClose}
      okText={t('tenants.suspend')}
      okButtonProps={{ danger: true, disabled: !reason.trim() }}
      onOk={() => suspend.mutate()}
      confirmLoading={suspend.isPending}
    >
      <Flex vertical gap={12}>
        <span>{t('tenants.suspendText')}</span>
        {suspend.error && <Failure error={suspend.error} reveal />}
        <label htmlFor="suspend-reason">{t('tenants.reason')}</label>
        <Input.TextArea id="suspend-reason" autoFocus rows={2} maxLength={1024} value={reason} onChange={(e) => setReason(e.target.value)} />
      </Flex>
    </Modal>
  );
}
