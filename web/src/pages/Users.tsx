import { PlusOutlined } from '@ant-design/icons';
import { useInfiniteQuery, useQuery, useQueryClient } from '@tanstack/react-query';
import { App, Button, Flex, Tag } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { Ago } from '../components/Ago';
import { type Column, DataTable } from '../components/DataTable';
import { Failure } from '../components/Failure';
import { InvitationOnce, Invitations } from '../components/Invitations';
import { Page, Panel } from '../components/Panel';
import { RoleMatrix } from '../components/RoleMatrix';
import { Time } from '../components/Time';
import { CreateUser, EditUser, InviteUser, OneTimePassword } from '../components/UserForms';
import { useLabel } from '../i18n';
import { iso } from '../lib/format';
import { useMay, useMe } from '../lib/me';

type User = Schema['User'];

export default function Users() {
  const { t } = useTranslation();
  const label = useLabel();
  const me = useMe();
  const mayWrite = useMay('users.write');
  const queries = useQueryClient();
  const { modal } = App.useApp();
  const [creating, setCreating] = useState(false);
  const [editing, setEditing] = useState<User>();
  const [inviting, setInviting] = useState(false);
  const [invited, setInvited] = useState<Schema['CreatedInvitation']>();
  const [once, setOnce] = useState<Schema['PasswordReset']>();
  const users = useInfiniteQuery({
    queryKey: ['users'],
    queryFn: ({ pageParam }) => call(api.GET('/users', { params: { query: { cursor: pageParam } } })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next,
  });
  const roles = useQuery({ queryKey: ['roles'], queryFn: () => call(api.GET('/roles')) });
  const rows = users.data?.pages.flatMap((p) => p.items);
  const refresh = () => queries.invalidateQueries({ queryKey: ['users'] });
  const act = async (title: string, run: () => Promise<unknown>) => {
    try {
      await run();
      await refresh();
    } catch (error) {
      modal.error({ title, content: <Failure error={error} /> });
    }
  };
  const at = (u: User) => ({ params: { path: { id: u.id }, query: { tenant: u.tenant } } });
  const confirmDisable = (u: User) =>
    modal.confirm({
      title: t('users.disableTitle', { name: u.name }),
      content: t('users.disableText'),
      okText: t('users.disable'),
      okButtonProps: { danger: true },
      onOk: () => act(t('users.disable'), () => call(api.POST('/users/{id}/disable', at(u)))),
    });
  const confirmReset = (u: User) =>
    modal.confirm({
      title: t('users.resetTitle', { name: u.name }),
      content: t('users.resetText'),
      okText: t('users.reset'),
      okButtonProps: { danger: true },
      onOk: () => act(t('users.reset'), async () => setOnce(await call(api.POST('/users/{id}/password-reset', at(u))))),
    });

  const confirmFactorReset = (u: User) =>
    modal.confirm({
      title: t('users.factorTitle', { name: u.name }),
      content: t('users.factorText'),
      okText: t('users.factorReset'),
      okButtonProps: { danger: true },
      onOk: () => act(t('users.factorReset'), () => call(api.POST('/users/{id}/second-factor-reset', at(u)))),
    });

  // Nobody manages himself, and only a platform administrator another one.
  const manages = (u: User) => u.id !== me.id && (me.roles.includes('platform_admin') || !u.roles.includes('platform_admin'));
  const state = (u: User) => (u.disabled ? 'disabled' : u.must_change_password ? 'mustChange' : 'active');
  const columns: Column<User>[] = [
    {
      key: 'name',
      title: t('users.name'),
      render: (u) => (
        <>
          {u.name} {u.id === me.id && <Tag>{t('users.you')}</Tag>}
        </>
      ),
      csv: (u) => u.name,
    },
    { key: 'roles', title: t('users.roles'), render: (u) => u.roles.map((r) => <Tag key={r}>{label('role', r)}</Tag>), csv: (u) => u.roles.join(' ') },
    { key: 'labels', title: t('users.labels'), render: (u) => u.labels.map((l) => <Tag key={l}>{l}</Tag>), csv: (u) => u.labels.join(' ') },
    { key: 'state', title: t('users.state'), render: (u) => <Tag color={{ disabled: 'default', mustChange: 'warning', active: 'success' }[state(u)]}>{t(`users.${state(u)}`)}</Tag>, csv: state },
    { key: 'factor', title: t('users.factor'), render: (u) => t(u.second_factor ? 'users.factorYes' : 'users.factorNo'), csv: (u) => String(u.second_factor) },
    { key: 'last', title: t('users.lastSignIn'), render: (u) => (u.last_sign_in_at ? <Ago at={u.last_sign_in_at} /> : t('users.unknown')), csv: (u) => u.last_sign_in_at ?? '' },
    { key: 'created', title: t('users.created'), render: (u) => <Time at={u.created_at} />, csv: (u) => iso(u.created_at) },
  ];
  if (mayWrite) {
    columns.push({
      key: 'actions',
      fixed: 'right',
      title: t('table.actions'),
      render: (u) =>
        manages(u) && (
          <Flex gap={8}>
            <Button size="small" onClick={() => setEditing(u)} aria-label={t('users.editName', { name: u.name })}>
              {t('users.edit')}
            </Button>
            <Button size="small" onClick={() => confirmReset(u)} aria-label={t('users.resetName', { name: u.name })}>
              {t('users.reset')}
            </Button>
            {u.second_factor && (
              <Button size="small" onClick={() => confirmFactorReset(u)} aria-label={t('users.factorResetName', { name: u.name })}>
                {t('users.factorReset')}
              </Button>
            )}
            {u.disabled ? (
              <Button size="small" onClick={() => void act(t('users.enable'), () => call(api.POST('/users/{id}/enable', at(u))))} aria-label={t('users.enableName', { name: u.name })}>
                {t('users.enable')}
              </Button>
            ) : (
              <Button size="small" danger onClick={() => confirmDisable(u)} aria-label={t('users.disableName', { name: u.name })}>
                {t('users.disable')}
              </Button>
            )}
          </Flex>
        ),
    });
  }
  return (
    <Page
      title={t('nav.users')}
      note={t('users.note')}
      actions={
        mayWrite && (
          <Flex gap={8}>
            <Button onClick={() => setInviting(true)}>{t('users.invite')}</Button>
            <Button type="primary" icon={<PlusOutlined aria-hidden />} onClick={() => setCreating(true)}>
              {t('users.create')}
            </Button>
          </Flex>
        )
      }
    >
      <Panel title={rows && t(users.hasNextPage ? 'users.countMore' : 'users.count', { count: rows.length })}>
        <DataTable
          name={t('users.list')}
          columns={columns}
          rows={rows}
          rowKey={(u) => u.id}
          loading={users.isFetching}
          error={users.error}
          reload={() => void users.refetch()}
          empty={t('users.empty')}
        />
        {users.hasNextPage && (
          <Button block onClick={() => void users.fetchNextPage()} style={{ marginTop: 8 }}>
            {t('table.more')}
          </Button>
        )}
      </Panel>
      {!users.error && <Invitations />}
      {/* who may not see users has one failure to read, not two */}
      {!users.error && (
        <Panel title={t('users.matrix')}>
          {roles.error ? <Failure error={roles.error} retry={() => void roles.refetch()} /> : <RoleMatrix roles={roles.data?.items} />}
        </Panel>
      )}
      {creating && (
        <CreateUser
          roles={roles.data?.items ?? []}
          onClose={() => setCreating(false)}
          onCreated={(made) => {
            setCreating(false);
            setOnce(made);
            void refresh();
          }}
        />
      )}
      {editing && (
        <EditUser
          user={editing}
          roles={roles.data?.items ?? []}
          onClose={() => {
            setEditing(undefined);
            void refresh();
          }}
        />
      )}
      {inviting && (
        <InviteUser
          roles={roles.data?.items ?? []}
          onClose={() => setInviting(false)}
          onInvited={(made) => {
            setInviting(false);
            setInvited(made);
            void queries.invalidateQueries({ queryKey: ['invitations'] });
          }}
        />
      )}
      {invited && <InvitationOnce made={invited} onClose={() => setInvited(undefined)} />}
      {once && <OneTimePassword made={once} onClose={() => setOnce(undefined)} />}
    </Page>
  );
}
