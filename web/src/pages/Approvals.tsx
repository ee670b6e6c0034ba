import { useQuery, useQueryClient } from '@tanstack/react-query';
import { App, Button, Flex, Typography } from 'antd';
import { useTranslation } from 'react-i18next';

import { api, call } from '../api/client';
import type { Act } from '../api/secondPerson';
import { type Column, DataTable } from '../components/DataTable';
import { useAskedColumns, useDecline } from '../components/Decide';
import { Failure } from '../components/Failure';
import { Page } from '../components/Panel';
import { useLabel } from '../i18n';
import { stateOf } from '../lib/approvals';
import { useFresh } from '../lib/fresh';
import { useMay, useMe } from '../lib/me';

const everySoOften = 15_000; // ms; somebody may be waiting

/** Grave acts that wait for a second person: everybody's for those who may approve, and one's own. */
export default function Approvals() {
  const { t } = useTranslation();
  const label = useLabel();
  const me = useMe();
  const may = useMay('approvals.give');
  const { modal } = App.useApp();
  const queries = useQueryClient();
  const list = useQuery({ queryKey: ['act-approvals'], queryFn: () => call(api.GET('/approvals')), refetchInterval: everySoOften });
  const refresh = () => queries.invalidateQueries({ queryKey: ['act-approvals'] });
  const { run, dialog, error } = useFresh(async (a: Act) => {
    const done = await call(api.POST('/approvals/{id}/approve', { params: { path: { id: a.id }, query: { tenant: a.tenant } } }));
    await refresh();
    return done;
  });
  const decline = useDecline(async (id, reason) => {
    const tenant = list.data?.items.find((a) => a.id === id)?.tenant;
    await call(api.POST('/approvals/{id}/decline', { params: { path: { id }, query: { tenant } }, body: { reason } }));
    await refresh();
  });
  const confirm = (a: Act) =>
    modal.confirm({
      title: t('acts.approveTitle'),
      width: 720,
      content: (
        <Flex vertical gap={8}>
          <span>{t('acts.approveText', { who: a.asked_by, what: label('operation', a.operation), reason: a.reason })}</span>
          <Contents act={a} />
        </Flex>
      ),
      okText: t('approval.approve'),
      onOk: () => run.mutate(a),
    });
  const shared = useAskedColumns<Act>();
  const columns: Column<Act>[] = [
    shared.asked,
    {
      key: 'what',
      title: t('acts.what'),
      render: (a) => (
        <Flex vertical>
          {label('operation', a.operation)}
          <Typography.Text type="secondary">{a.tenant}</Typography.Text>
        </Flex>
      ),
      csv: (a) => `${a.operation} ${a.tenant}`,
    },
    shared.reason,
    shared.state,
    {
      key: 'actions',
      title: t('table.actions'),
      render: (a) => {
        const state = stateOf(a);
        if (!may || a.asked_by === me.name || (state !== 'waiting' && state !== 'approved')) return null;
        const of = { who: a.asked_by, what: label('operation', a.operation) };
        return (
          <Flex vertical gap={4} align="flex-start">
            {state === 'waiting' && (
              <Button size="small" type="primary" loading={run.isPending && run.variables?.id === a.id} onClick={() => confirm(a)} aria-label={t('acts.lookThis', of)}>
                {t('acts.look')}
              </Button>
            )}
            <Button size="small" danger onClick={() => decline.open(a.id, a.asked_by)} aria-label={t('acts.declineThis', of)}>
              {t('approval.decline')}
            </Button>
          </Flex>
        );
      },
    },
  ];
  return (
    <Page title={t('nav.approvals')} note={t(me.duties === 'separated' ? 'acts.note' : 'acts.merged')}>
      {error !== undefined && <Failure error={error} reveal />}
      <DataTable name={t('nav.approvals')} columns={columns} rows={list.data?.items} rowKey={(a) => a.id} loading={list.isFetching} error={list.error} reload={() => void list.refetch()} empty={t('approval.empty')} />
      {dialog}
      {decline.dialog}
    </Page>
  );
}

/** The whole of what would be done: nobody approves what he has not seen. */
function Contents({ act }: { act: Act }) {
  const { t } = useTranslation();
  const body = act.body as Record<string, unknown> | undefined;
  const lines = [`${act.method} ${act.path}`, ...act.query];
  return (
    <Typography.Paragraph code style={{ maxHeight: 320, overflow: 'auto', whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }} tabIndex={0} aria-label={t('acts.contents')}>
      {[...lines, ...Object.entries(body ?? {}).map(([k, v]) => `${k}: ${typeof v === 'string' ? v : JSON.stringify(v)}`)].join('\n')}
    </Typography.Paragraph>
  );
}
