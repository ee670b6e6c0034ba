import { useQueryClient } from '@tanstack/react-query';
import { App, Button, Flex, Typography } from 'antd';
import { useTranslation } from 'react-i18next';

import { api, call } from '../api/client';
import { useLabel, useLanguage } from '../i18n';
import { type Approval, stateOf, useApprovals } from '../lib/approvals';
import { count, iso } from '../lib/format';
import { useFresh } from '../lib/fresh';
import { useMay, useMe } from '../lib/me';
import { type Column, DataTable } from './DataTable';
import { ApprovalState, useDecline } from './Decide';
import { Failure } from './Failure';
import { Time } from './Time';

/** The approvals of reveals: one's own, and for those who may approve, everybody's. */
export function Approvals({ onUse }: { onUse: (id: string) => void }) {
  const { t } = useTranslation();
  const me = useMe();
  const { modal } = App.useApp();
  const queries = useQueryClient();
  const mayApprove = useMay('masking.approve');
  const list = useApprovals();
  const { run, dialog, error } = useFresh(async (id: string) => {
    const a = await call(api.POST('/reveal/approvals/{id}/approve', { params: { path: { id } } }));
    await queries.invalidateQueries({ queryKey: ['reveal-approvals'] });
    return a;
  });
  const decline = useDecline(async (id, reason) => {
    await call(api.POST('/reveal/approvals/{id}/decline', { params: { path: { id } }, body: { reason } }));
    await queries.invalidateQueries({ queryKey: ['reveal-approvals'] });
  });
  const confirm = (a: Approval) =>
    modal.confirm({
      title: t('approval.confirm'),
      width: 520,
      content: (
        <Flex vertical gap={8}>
          <span>{t('approval.confirmText', { who: a.asked_by, purpose: a.purpose })}</span>
          <Counts approval={a} />
        </Flex>
      ),
      okText: t('approval.approve'),
      onOk: () => run.mutate(a.id),
    });
  const columns: Column<Approval>[] = [
    { key: 'at', title: t('approval.askedAt'), render: (a) => <Time at={a.created_at} />, csv: (a) => iso(a.created_at) },
    { key: 'by', title: t('approval.askedBy'), render: (a) => a.asked_by, csv: (a) => a.asked_by },
    { key: 'purpose', title: t('reveal.purpose'), render: (a) => <div style={{ maxWidth: 220, whiteSpace: 'normal', overflowWrap: 'anywhere' }}>{a.purpose}</div>, csv: (a) => a.purpose },
    { key: 'shown', title: t('approval.wouldShow'), render: (a) => <Counts approval={a} />, csv: (a) => a.shown.map((c) => `${c.class ?? ''} ${c.shown} ${c.count}`.trim()).join(', ') },
    {
      key: 'target',
      title: t('approval.target'),
      render: (a) => (
        <Typography.Text code title={a.target}>
          {a.target.slice(0, 12)}
        </Typography.Text>
      ),
      csv: (a) => a.target,
    },
    {
      key: 'state',
      title: t('holds.state'),
      render: (a) => <ApprovalState approval={a} />,
      csv: (a) => stateOf(a),
    },
    {
      key: 'actions',
      title: t('table.actions'),
      render: (a) => {
        const own = a.asked_by === me.name;
        const state = stateOf(a);
        if (own && state === 'approved') {
          return (
            <Button size="small" onClick={() => onUse(a.id)}>
              {t('approval.use')}
            </Button>
          );
        }
        if (!own && mayApprove && (state === 'waiting' || state === 'approved')) {
          return (
            <Flex vertical gap={4} align="flex-start">
              {state === 'waiting' && (
                <Button size="small" type="primary" loading={run.isPending && run.variables === a.id} onClick={() => confirm(a)} aria-label={t('approval.approveThis', { who: a.asked_by, purpose: a.purpose })}>
                  {t('approval.approve')}
                </Button>
              )}
              <Button size="small" danger onClick={() => decline.open(a.id, a.asked_by)} aria-label={t('approval.declineThis', { who: a.asked_by, purpose: a.purpose })}>
                {t('approval.decline')}
              </Button>
            </Flex>
          );
        }
        return null;
      },
    },
  ];
  return (
    <Flex vertical gap={8}>
      {error !== undefined && <Failure error={error} reveal />}
      <DataTable name={t('approval.title')} columns={columns} rows={list.data?.items} rowKey={(a) => a.id} loading={list.isFetching} error={list.error} reload={() => void list.refetch()} empty={t('approval.empty')} />
      {dialog}
      {decline.dialog}
    </Flex>
  );
}

/** What would be shown, by class and how much of it. */
function Counts({ approval }: { approval: Approval }) {
  const label = useLabel();
  const [language] = useLanguage();
  return (
    <Flex vertical>
      {approval.shown.map((c) => (
        <span key={`${c.class} ${c.shown}`}>
          {count(c.count, language)} × {c.class ? `${label('class', c.class)} · ` : ''}
          {label('shown', c.shown)}
        </span>
      ))}
    </Flex>
  );
}
