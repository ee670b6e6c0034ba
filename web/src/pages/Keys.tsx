import { PlusOutlined } from '@ant-design/icons';
import { useInfiniteQuery, useQueryClient } from '@tanstack/react-query';
import { App, Button, Flex, Tag, Typography } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { Ago } from '../components/Ago';
import { CreateKey } from '../components/CreateKey';
import { type Column, DataTable } from '../components/DataTable';
import { EditKey } from '../components/EditKey';
import { Failure } from '../components/Failure';
import { useKeyDefaults } from '../components/KeyForm';
import { Page, Panel } from '../components/Panel';
import { Projects } from '../components/Projects';
import { RotateKey } from '../components/RotateKey';
import { Time } from '../components/Time';
import { useLabel, useLanguage } from '../i18n';
import { count, iso } from '../lib/format';
import { useMay } from '../lib/me';

type Key = Schema['Key'];

const colors = { active: 'success', expired: 'warning', suspended: 'error', revoked: 'default' } as const;

export default function Keys() {
  const { t } = useTranslation();
  const label = useLabel();
  const mayRead = useMay('keys.read');
  const mayWriteAll = useMay('keys.write');
  const mayOwn = useMay('keys.own');
  const own = !mayWriteAll && mayOwn; // what the user makes is his own
  const mayWrite = mayWriteAll || mayOwn;
  const queries = useQueryClient();
  const [creating, setCreating] = useState(false);
  const [editing, setEditing] = useState<Key>();
  const [rotating, setRotating] = useState<Key>();
  const { modal } = App.useApp();
  const keys = useInfiniteQuery({
    queryKey: ['keys'],
    queryFn: ({ pageParam }) => call(api.GET('/keys', { params: { query: { cursor: pageParam } } })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next,
  });
  const most = useKeyDefaults().data?.own_keys;
  const rows = keys.data?.pages.flatMap((p) => p.items);
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

  const owner = (k: Key) => (k.owner ? (k.owner.name ?? k.owner.id) : t('keys.ofTenant'));
  const columns: Column<Key>[] = [
    {
      key: 'name',
      title: t('keys.name'),
      render: (k) => (
        <>
          {k.name}
          <br />
          <Typography.Text code>{k.prefix}…</Typography.Text>
        </>
      ),
      csv: (k) => k.name,
    },
    ...(mayRead ? [{ key: 'owner', title: t('keys.owner'), render: owner, csv: owner }] : []),
    { key: 'project', title: t('keys.project'), render: (k) => k.project, csv: (k) => k.project },
    {
      key: 'state',
      title: t('keys.state'),
      render: (k) => (
        <>
          <Tag color={colors[k.state]} title={k.state === 'suspended' ? t('keys.suspendedNote') : undefined}>
            {label('keyState', k.state)}
          </Tag>
          {k.former_secret && <Tag>{t('keys.twoSecrets')}</Tag>}
        </>
      ),
      csv: (k) => k.state,
    },
    { key: 'used', title: t('keys.lastUsed'), render: (k) => <LastUse of={k} />, csv: (k) => k.last_used_at ?? '' },
    { key: 'expires', title: t('keys.expires'), render: (k) => k.expires_at && <Time at={k.expires_at} />, csv: (k) => k.expires_at ?? '' },
    { key: 'bound', title: t('keys.bound'), render: (k) => <Bounds of={k} />, csv: (k) => [...k.scopes, ...k.models, ...k.networks].join(' ') },
    { key: 'limits', title: t('keys.limits'), render: (k) => <KeyLimits limits={k.limits} />, csv: (k) => Object.values(k.limits).join('/') },
    { key: 'mode', title: t('keys.labelMode'), render: (k) => label('labelMode', k.label_mode), csv: (k) => k.label_mode },
    { key: 'labels', title: t('keys.labels'), render: (k) => k.labels.map((l) => <Tag key={l}>{l}</Tag>), csv: (k) => k.labels.join(' ') },
    { key: 'created', title: t('keys.created'), render: (k) => <Time at={k.created_at} />, csv: (k) => iso(k.created_at) },
  ];
  if (mayWrite) {
    columns.push({
      key: 'actions',
      fixed: 'right',
      title: t('table.actions'),
      render: (k) => (
        <Flex gap={8}>
          <Button size="small" disabled={k.state === 'revoked'} onClick={() => setEditing(k)} aria-label={t('keys.editName', { name: k.name })}>
            {t('keys.edit')}
          </Button>
          <Button size="small" disabled={k.state === 'revoked' || k.state === 'expired'} onClick={() => setRotating(k)} aria-label={t('keys.rotateName', { name: k.name })}>
            {t('keys.rotate')}
          </Button>
          <Button size="small" danger disabled={k.state === 'revoked'} onClick={() => confirmRevoke(k)} aria-label={t('keys.revokeName', { name: k.name })}>
            {t('keys.revoke')}
          </Button>
        </Flex>
      ),
    });
  }
  return (
    <Page
      title={t('nav.keys')}
      note={!own ? t('keys.note') : most ? `${t('keys.ownNote')} ${t('keys.ownMost', { count: most })}` : t('keys.ownNote')}
      actions={
        mayWrite && (
          <Button type="primary" icon={<PlusOutlined aria-hidden />} onClick={() => setCreating(true)}>
            {t('keys.create')}
          </Button>
        )
      }
    >
      <Panel title={rows && t(keys.hasNextPage ? 'keys.countMore' : 'keys.count', { count: rows.length })}>
        <DataTable
          name={t('nav.keys')}
          columns={columns}
          rows={rows}
          rowKey={(k) => k.id}
          loading={keys.isFetching}
          error={keys.error}
          reload={() => void keys.refetch()}
          empty={mayWrite ? t('keys.emptyCreate') : t('keys.empty')}
        />
        {keys.hasNextPage && (
          <Button block onClick={() => void keys.fetchNextPage()} style={{ marginTop: 8 }}>
            {t('table.more')}
          </Button>
        )}
      </Panel>
      {mayRead && <Projects />}
      {creating && (
        <CreateKey
          own={own}
          onClose={() => {
            setCreating(false);
            void refresh();
          }}
        />
      )}
      {rotating && (
        <RotateKey
          rotated={rotating}
          onClose={() => {
            setRotating(undefined);
            void refresh();
          }}
        />
      )}
      {editing && (
        <EditKey
          edited={editing}
          onClose={() => {
            setEditing(undefined);
            void refresh();
          }}
        />
      )}
    </Page>
  );
}

function LastUse({ of }: { of: Key }) {
  const { t } = useTranslation();
  if (!of.last_used_at) return t('keys.notUsed');
  return (
    <>
      <Ago at={of.last_used_at} />
      {of.last_used_from && (
        <div style={{ fontSize: 12 }}>
          <Typography.Text type="secondary">{of.last_used_from}</Typography.Text>
        </div>
      )}
    </>
  );
}

/** What a key is narrowed to: scopes, models and networks. */
function Bounds({ of }: { of: Key }) {
  const { t } = useTranslation();
  const label = useLabel();
  const lines = [
    { name: t('keys.scopes'), values: of.scopes.map((s) => label('keyScope', s)) },
    { name: t('keys.models'), values: of.models },
    { name: t('keys.networks'), values: of.networks },
  ].filter((l) => l.values.length > 0);
  if (lines.length === 0) return t('keys.unbound');
  return (
    <span style={{ fontSize: 12 }}>
      {lines.map((l) => (
        <div key={l.name}>
          {l.name}: {l.values.join(', ')}
        </div>
      ))}
    </span>
  );
}

/** The limits of a key; those it does not set are the installation's. */
function KeyLimits({ limits }: { limits: Schema['Limits'] }) {
  const { t } = useTranslation();
  const [language] = useLanguage();
  const standard = useKeyDefaults().data?.limits;
  const text = (name: keyof Schema['Limits']) => {
    if (limits[name]) return count(limits[name], language);
    return standard?.[name] ? `${count(standard[name], language)} (${t('keys.limitDefault')})` : t('keys.limitDefault');
  };
  const whole = t('keys.limitsText', { requests: text('requests_per_minute'), tokens: text('tokens_per_minute'), concurrent: text('concurrent') });
  return (
    <span style={{ whiteSpace: 'nowrap', fontSize: 12 }}>
      {whole.split(' · ').map((line) => (
        <div key={line}>{line}</div>
      ))}
    </span>
  );
}
