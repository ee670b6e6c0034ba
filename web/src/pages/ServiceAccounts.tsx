import { PlusOutlined } from '@ant-design/icons';
import { useInfiniteQuery, useQueryClient } from '@tanstack/react-query';
import { App, Button, Flex, Tag, Typography } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { Ago } from '../components/Ago';
import { type Column, DataTable } from '../components/DataTable';
import { Failure } from '../components/Failure';
import { Page, Panel } from '../components/Panel';
import { CreateService, ServiceCredentials } from '../components/ServiceForms';
import { Time } from '../components/Time';
import { useLabel } from '../i18n';
import { useMay } from '../lib/me';

type Account = Schema['ServiceAccount'];

const colors = { active: 'success', expired: 'warning', disabled: 'default', suspended: 'warning' } as const;

export default function ServiceAccounts() {
  const { t } = useTranslation();
  const label = useLabel();
  const mayWrite = useMay('users.write');
  const queries = useQueryClient();
  const { modal } = App.useApp();
  const [creating, setCreating] = useState(false);
  const [opened, setOpened] = useState<Account>();
  const list = useInfiniteQuery({
    queryKey: ['service-accounts'],
    queryFn: ({ pageParam }) => call(api.GET('/service-accounts', { params: { query: { cursor: pageParam } } })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next,
  });
  const rows = list.data?.pages.flatMap((p) => p.items);
  const refresh = () => queries.invalidateQueries({ queryKey: ['service-accounts'] });
  const act = async (title: string, run: () => Promise<unknown>) => {
    try {
      await run();
      await refresh();
    } catch (error) {
      modal.error({ title, content: <Failure error={error} /> });
    }
  };
  const at = (a: Account) => ({ params: { path: { id: a.id }, query: { tenant: a.tenant } } });
  const ask = (title: string, content: string, okText: string, run: () => Promise<unknown>) => modal.confirm({ title, content, okText, okButtonProps: { danger: true }, onOk: () => act(okText, run) });
  const columns: Column<Account>[] = [
    {
      key: 'name',
      title: t('services.name'),
      render: (a) => (
        <>
          {a.name} <Typography.Text type="secondary">{a.id}</Typography.Text>
        </>
      ),
      csv: (a) => a.name,
    },
    { key: 'roles', title: t('services.role'), render: (a) => a.roles.map((r) => <Tag key={r}>{label('role', r)}</Tag>), csv: (a) => a.roles.join(' ') },
    { key: 'owner', title: t('services.owner'), render: (a) => a.owner.name ?? a.owner.id, csv: (a) => a.owner.name ?? a.owner.id },
    { key: 'state', title: t('users.state'), render: (a) => <Tag color={colors[a.state]}>{label('serviceState', a.state)}</Tag>, csv: (a) => a.state },
    {
      key: 'credentials',
      title: t('services.credentials'),
      render: (a) => (
        <>
          {a.has_secret && <Tag>{t('services.secret')}</Tag>}
          {a.keys.map((k) => (
            <Tag key={k.id}>{k.algorithm}</Tag>
          ))}
        </>
      ),
      csv: (a) => [a.has_secret ? 'secret' : '', ...a.keys.map((k) => k.algorithm)].join(' ').trim(),
    },
    { key: 'used', title: t('keys.lastUsed'), render: (a) => (a.last_used_at ? <Ago at={a.last_used_at} /> : t('users.unknown')), csv: (a) => a.last_used_at ?? '' },
    { key: 'expires', title: t('keys.expires'), render: (a) => <Time at={a.expires_at} />, csv: (a) => a.expires_at },
  ];
  if (mayWrite) {
    columns.push({
      key: 'actions',
      fixed: 'right',
      title: t('table.actions'),
      render: (a) => (
        <Flex gap={8}>
          <Button size="small" onClick={() => setOpened(a)} aria-label={t('services.credentialsName', { name: a.name })}>
            {t('services.credentials')}
          </Button>
          {a.state === 'disabled' ? (
            <Button size="small" onClick={() => void act(t('users.enable'), () => call(api.POST('/service-accounts/{id}/enable', at(a))))} aria-label={t('users.enableName', { name: a.name })}>
              {t('users.enable')}
            </Button>
          ) : (
            <Button size="small" danger onClick={() => ask(t('users.disableTitle', { name: a.name }), t('services.disableText'), t('users.disable'), () => call(api.POST('/service-accounts/{id}/disable', at(a))))} aria-label={t('users.disableName', { name: a.name })}>
              {t('users.disable')}
            </Button>
          )}
          <Button size="small" danger onClick={() => ask(t('services.removeTitle', { name: a.name }), t('services.removeText'), t('services.remove'), () => call(api.DELETE('/service-accounts/{id}', at(a))))} aria-label={t('services.removeName', { name: a.name })}>
            {t('services.remove')}
          </Button>
        </Flex>
      ),
    });
  }
  return (
    <Page
      title={t('nav.services')}
      note={t('services.note')}
      actions={
        mayWrite && (
          <Button type="primary" icon={<PlusOutlined aria-hidden />} onClick={() => setCreating(true)}>
            {t('services.create')}
          </Button>
        )
      }
    >
      <Panel>
        <DataTable name={t('nav.services')} columns={columns} rows={rows} rowKey={(a) => a.id} loading={list.isFetching} error={list.error} reload={() => void list.refetch()} empty={t('services.empty')} />
        {list.hasNextPage && (
          <Button block onClick={() => void list.fetchNextPage()} style={{ marginTop: 8 }}>
            {t('table.more')}
          </Button>
        )}
      </Panel>
      {creating && (
        <CreateService
          onClose={() => {
            setCreating(false);
            void refresh();
          }}
        />
      )}
      {opened && (
        <ServiceCredentials
          account={opened}
          onChanged={setOpened}
          onClose={() => {
            setOpened(undefined);
            void refresh();
          }}
        />
      )}
    </Page>
  );
}
