import { useInfiniteQuery, useMutation, useQueryClient } from '@tanstack/react-query';
import { Alert, App, Button, Flex, Modal, Tag, Typography } from 'antd';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { useLabel } from '../i18n';
import { useMay } from '../lib/me';
import { type Column, DataTable } from './DataTable';
import { Failure } from './Failure';
import { Panel } from './Panel';
import { Time } from './Time';

type Row = Schema['Invitation'];

const colors = { open: 'processing', accepted: 'success', withdrawn: 'default', expired: 'warning' } as const;

/** Who was invited, and what became of it. */
export function Invitations() {
  const { t } = useTranslation();
  const label = useLabel();
  const mayWrite = useMay('users.write');
  const queries = useQueryClient();
  const { modal } = App.useApp();
  const list = useInfiniteQuery({
    queryKey: ['invitations'],
    queryFn: ({ pageParam }) => call(api.GET('/invitations', { params: { query: { cursor: pageParam } } })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next,
  });
  const withdraw = useMutation({
    mutationFn: (i: Row) => call(api.POST('/invitations/{id}/withdraw', { params: { path: { id: i.id }, query: { tenant: i.tenant } } })),
    onSuccess: () => queries.invalidateQueries({ queryKey: ['invitations'] }),
    onError: (error) => modal.error({ title: t('invitations.withdraw'), content: <Failure error={error} /> }),
  });
  const rows = list.data?.pages.flatMap((p) => p.items);
  const columns: Column<Row>[] = [
    { key: 'name', title: t('users.name'), render: (i) => i.name, csv: (i) => i.name },
    { key: 'roles', title: t('users.roles'), render: (i) => i.roles.map((r) => <Tag key={r}>{label('role', r)}</Tag>), csv: (i) => i.roles.join(' ') },
    { key: 'state', title: t('users.state'), render: (i) => <Tag color={colors[i.state]}>{t(`invitations.${i.state}`)}</Tag>, csv: (i) => i.state },
    { key: 'by', title: t('invitation.by'), render: (i) => i.created_by.name ?? i.created_by.id, csv: (i) => i.created_by.name ?? i.created_by.id },
    { key: 'until', title: t('invitation.until'), render: (i) => <Time at={i.expires_at} />, csv: (i) => i.expires_at },
  ];
  if (mayWrite) {
    columns.push({
      key: 'actions',
      title: t('table.actions'),
      render: (i) =>
        i.state === 'open' && (
          <Button size="small" danger onClick={() => withdraw.mutate(i)} aria-label={t('invitations.withdrawName', { name: i.name })}>
            {t('invitations.withdraw')}
          </Button>
        ),
    });
  }
  return (
    <Panel title={t('invitations.title')}>
      <DataTable name={t('invitations.title')} columns={columns} rows={rows} rowKey={(i) => i.id} loading={list.isFetching} error={list.error} reload={() => void list.refetch()} empty={t('invitations.empty')} />
      {list.hasNextPage && (
        <Button block onClick={() => void list.fetchNextPage()} style={{ marginTop: 8 }}>
          {t('table.more')}
        </Button>
      )}
    </Panel>
  );
}

/** Shows the link of an invitation this once. */
export function InvitationOnce({ made, onClose }: { made: Schema['CreatedInvitation']; onClose: () => void }) {
  const { t } = useTranslation();
  return (
    <Modal open title={t('invitations.onceTitle', { name: made.invitation.name })} onCancel={onClose} mask={{ closable: false }} footer={<Button type="primary" onClick={onClose}>{t('users.handed')}</Button>}>
      <Flex vertical gap={12}>
        <Alert type="warning" showIcon title={t('invitations.once')} />
        <Typography.Paragraph code copyable={{ text: made.url }} style={{ wordBreak: 'break-all', margin: 0 }} data-testid="invitation">
          {made.url}
        </Typography.Paragraph>
      </Flex>
    </Modal>
  );
}
