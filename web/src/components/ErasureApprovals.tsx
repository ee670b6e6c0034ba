import { useQueryClient } from '@tanstack/react-query';
import { App, Button, Flex, Typography } from 'antd';
import { useTranslation } from 'react-i18next';

import { api, call } from '../api/client';
import { useLanguage } from '../i18n';
import { type ErasureApproval, stateOf, useErasureApprovals } from '../lib/approvals';
import { count } from '../lib/format';
import { useFresh } from '../lib/fresh';
import { useMay, useMe } from '../lib/me';
import { type Column, DataTable } from './DataTable';
import { useAskedColumns, useDecline } from './Decide';
import { Failure } from './Failure';
import { LinkButton } from './LinkButton';

/** Erasures that a legal hold covers and that somebody asked to let pass: for whoever may approve them, and for whoever asked. */
export function ErasureApprovals({ onPerson }: { onPerson: (digest: string) => void }) {
  const { t } = useTranslation();
  const [language] = useLanguage();
  const me = useMe();
  const { modal } = App.useApp();
  const queries = useQueryClient();
  const mayApprove = useMay('audit.hold');
  const list = useErasureApprovals();
  const refresh = () => queries.invalidateQueries({ queryKey: ['erasure-approvals'] });
  const { run, dialog, error } = useFresh(async (id: string) => {
    const a = await call(api.POST('/audit/erasures/approvals/{id}/approve', { params: { path: { id } } }));
    await refresh();
    return a;
  });
  const decline = useDecline(async (id, reason) => {
    await call(api.POST('/audit/erasures/approvals/{id}/decline', { params: { path: { id } }, body: { reason } }));
    await refresh();
  });
  const goes = (a: ErasureApproval) =>
    a.kind === 'person'
      ? t('erasures.goesShort', { texts: count(a.goes.contents, language), values: count(a.goes.values, language) })
      : t('erasures.goesValues', { values: count(a.goes.values, language) });
  const confirm = (a: ErasureApproval) =>
    modal.confirm({
      title: t('erasures.approveTitle'),
      width: 560,
      content: (
        <Flex vertical gap={8}>
          <span>{t('erasures.approveText', { who: a.asked_by, reason: a.reason })}</span>
          <span>{goes(a)}</span>
          <span>{t('erasures.pastHolds', { holds: a.holds.join(', ') })}</span>
        </Flex>
      ),
      okText: t('approval.approve'),
      onOk: () => run.mutate(a.id),
    });
  const shared = useAskedColumns<ErasureApproval>();
  const columns: Column<ErasureApproval>[] = [
    shared.asked,
    shared.reason,
    {
      key: 'target',
      title: t('erasures.target'),
      render: (a) =>
        a.kind === 'person' ? (
          <LinkButton onClick={() => onPerson(a.target)} title={a.target} aria-label={t('erasures.recordsOf', { digest: a.target.slice(0, 12) })}>
            <Typography.Text code>{a.target.slice(0, 12)}…</Typography.Text>
          </LinkButton>
        ) : (
          <Typography.Text title={a.target}>{t('erasures.conversation', { digest: a.target.slice(0, 12) })}</Typography.Text>
        ),
      csv: (a) => a.target,
    },
    { key: 'goes', title: t('erasures.wouldGo'), render: (a) => <div style={{ maxWidth: 180, whiteSpace: 'normal' }}>{goes(a)}</div>, csv: goes },
    shared.state,
    {
      key: 'actions',
      title: t('table.actions'),
      render: (a) => {
        const state = stateOf(a);
        if (a.asked_by === me.name || !mayApprove || (state !== 'waiting' && state !== 'approved')) return null;
        return (
          <Flex vertical gap={4} align="flex-start">
            {state === 'waiting' && (
              <Button size="small" type="primary" loading={run.isPending && run.variables === a.id} onClick={() => confirm(a)} aria-label={t('erasures.approveThis', { who: a.asked_by, reason: a.reason })}>
                {t('approval.approve')}
              </Button>
            )}
            <Button size="small" danger onClick={() => decline.open(a.id, a.asked_by)} aria-label={t('erasures.declineThis', { who: a.asked_by, reason: a.reason })}>
              {t('approval.decline')}
            </Button>
          </Flex>
        );
      },
    },
  ];
  return (
    <Flex vertical gap={8}>
      {error !== undefined && <Failure error={error} reveal />}
      <DataTable name={t('erasures.approvals')} columns={columns} rows={list.data?.items} rowKey={(a) => a.id} loading={list.isFetching} error={list.error} reload={() => void list.refetch()} empty={t('erasures.noApprovals')} />
      {dialog}
      {decline.dialog}
    </Flex>
  );
}
