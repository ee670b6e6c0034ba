import { PlusOutlined } from '@ant-design/icons';
import { useInfiniteQuery, useQueryClient } from '@tanstack/react-query';
import { Button } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { type Column, DataTable } from '../components/DataTable';
import { labelTexts, LevelActions, LevelLabels, LevelState, levelState, SuspendLevel, WriteLevel } from '../components/LevelForms';
import { Page, Panel } from '../components/Panel';
import { Time } from '../components/Time';
import { useLanguage } from '../i18n';
import { count, iso } from '../lib/format';
import { idPattern, useOrganisations } from '../lib/levels';
import { useMay } from '../lib/me';

type Tenant = Schema['Tenant'];

/** The tenants: who is there and of which organisation, what all callers of each may ask together, and who is suspended and why. */
export default function Tenants() {
  const { t } = useTranslation();
  const [language] = useLanguage();
  const mayWrite = useMay('tenants.write');
  const queries = useQueryClient();
  const [open, setOpen] = useState<{ what: 'create' } | { what: 'edit' | 'suspend'; tenant: Tenant }>();
  const organisations = useOrganisations(open?.what === 'create').data;
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
  const path = (tenant: Tenant) => ({ path: { id: tenant.id } });
  const resume = async (tenant: Tenant) => {
    await call(api.POST('/tenants/{id}/resume', { params: path(tenant), body: { since: tenant.suspension!.since } }));
    await refresh();
  };
  const limit = (n: number) => (n === 0 ? t('keys.limitDefault') : count(n, language));
  const columns: Column<Tenant>[] = [
    { key: 'id', title: t('tenants.id'), render: (r) => r.id, csv: (r) => r.id },
    { key: 'name', title: t('tenants.name'), render: (r) => r.name, csv: (r) => r.name },
    { key: 'organisation', title: t('organisations.organisation'), render: (r) => r.organisation, csv: (r) => r.organisation },
    { key: 'state', title: t('tenants.state'), render: (r) => <LevelState of={r} />, csv: levelState },
    { key: 'requests', title: t('keys.requests'), render: (r) => limit(r.limits.requests_per_minute), csv: (r) => String(r.limits.requests_per_minute) },
    { key: 'tokens', title: t('keys.tokens'), render: (r) => limit(r.limits.tokens_per_minute), csv: (r) => String(r.limits.tokens_per_minute) },
    { key: 'concurrent', title: t('keys.concurrent'), render: (r) => limit(r.limits.concurrent), csv: (r) => String(r.limits.concurrent) },
    { key: 'labels', title: t('organisations.labels'), render: (r) => <LevelLabels of={r} />, csv: (r) => labelTexts(r.labels).join(' ') },
    { key: 'created', title: t('tenants.created'), render: (r) => <Time at={r.created_at} />, csv: (r) => iso(r.created_at) },
  ];
  if (mayWrite) {
    columns.push({
      key: 'actions',
      fixed: 'right',
      title: t('table.actions'),
      render: (r) => <LevelActions of={r} resume={resume} text={t('tenants.resumeText')} onEdit={() => setOpen({ what: 'edit', tenant: r })} onSuspend={() => setOpen({ what: 'suspend', tenant: r })} />,
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
      {open?.what === 'create' && (
        <WriteLevel
          title={t('tenants.create')}
          pattern={idPattern}
          patternHelp={t('tenants.idHelp')}
          limitsHelp={t('tenants.limitsHelp')}
          organisations={organisations}
          save={(e) => call(api.POST('/tenants', { body: { ...e, name: e.name! } }))}
          onClose={close}
        />
      )}
      {open?.what === 'edit' && (
        <WriteLevel
          title={t('tenants.editTitle', { name: open.tenant.id })}
          edited={open.tenant}
          pattern={idPattern}
          patternHelp={t('tenants.idHelp')}
          limitsHelp={t('tenants.limitsHelp')}
          save={({ name, labels, limits }) => call(api.PATCH('/tenants/{id}', { params: path(open.tenant), body: { name, labels, limits } }))}
          onClose={close}
        />
      )}
      {open?.what === 'suspend' && (
        <SuspendLevel of={open.tenant} text={t('tenants.suspendText')} suspend={(reason) => call(api.POST('/tenants/{id}/suspend', { params: path(open.tenant), body: { reason } }))} onClose={close} />
      )}
    </Page>
  );
}
