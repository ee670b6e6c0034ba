import { useMutation } from '@tanstack/react-query';
import { Button, Flex, Input, Modal, Tag, Typography } from 'antd';
import { type ReactNode, useState } from 'react';
import { useTranslation } from 'react-i18next';

import { useLabel } from '../i18n';
import { type State, stateOf } from '../lib/approvals';
import { iso } from '../lib/format';
import type { Column } from './DataTable';
import { Failure } from './Failure';
import { Time } from './Time';

const colors: Record<State, string> = { waiting: 'processing', approved: 'success', used: 'default', expired: 'default', declined: 'error' };

type Decided = Parameters<typeof stateOf>[0] & { approved_by?: string; declined_by?: string; decline_reason?: string };

/** What has become of an approval, who decided, and why if it was declined. */
export function ApprovalState({ approval }: { approval: Decided }) {
  const { t } = useTranslation();
  const label = useLabel();
  const state = stateOf(approval);
  return (
    <Flex vertical align="flex-start" style={{ maxWidth: 220, whiteSpace: 'normal', overflowWrap: 'anywhere' }}>
      <Tag color={colors[state]}>{label('approval', state)}</Tag>
      {approval.declined_by ? (
        <Typography.Text type="secondary">{t('approval.declinedBy', { by: approval.declined_by, reason: approval.decline_reason ?? '' })}</Typography.Text>
      ) : (
        approval.approved_by && <Typography.Text type="secondary">{t('approval.by', { by: approval.approved_by })}</Typography.Text>
      )}
    </Flex>
  );
}

/** The columns that lists of what was asked for share: who asked and when, why, and what has become of it. */
export function useAskedColumns<A extends Decided & { asked_by: string; created_at: string; reason: string }>(): Record<'asked' | 'reason' | 'state', Column<A>> {
  const { t } = useTranslation();
  return {
    asked: {
      key: 'asked',
      title: t('approval.askedAt'),
      render: (a) => (
        <Flex vertical>
          {a.asked_by}
          <Time at={a.created_at} />
        </Flex>
      ),
      csv: (a) => `${iso(a.created_at)} ${a.asked_by}`,
    },
    reason: { key: 'reason', title: t('holds.reason'), render: (a) => <div style={{ maxWidth: 220, whiteSpace: 'normal', overflowWrap: 'anywhere' }}>{a.reason}</div>, csv: (a) => a.reason },
    state: { key: 'state', title: t('holds.state'), render: (a) => <ApprovalState approval={a} />, csv: (a) => stateOf(a) },
  };
}

/** Declines an approval for a reason that the asker sees. `open` opens the dialog, which is to be shown somewhere. */
export function useDecline(decline: (id: string, reason: string) => Promise<unknown>): { open: (id: string, who: string) => void; dialog: ReactNode } {
  const { t } = useTranslation();
  const [about, setAbout] = useState<{ id: string; who: string }>();
  const [reason, setReason] = useState('');
  const run = useMutation({ mutationFn: () => decline(about!.id, reason.trim()), onSuccess: () => close() });
  const close = () => {
    setAbout(undefined);
    setReason('');
    run.reset();
  };
  const dialog = about && (
    <Modal
      open
      title={t('approval.declineTitle', { who: about.who })}
      onCancel={close}
      footer={
        <>
          <Button onClick={close}>{t('holds.back')}</Button>
          <Button danger type="primary" disabled={!reason.trim()} loading={run.isPending} onClick={() => run.mutate()}>
            {t('approval.decline')}
          </Button>
        </>
      }
    >
      <Flex vertical gap={8}>
        <label htmlFor="decline-reason">{t('approval.declineReason')}</label>
        <Input.TextArea id="decline-reason" autoFocus rows={2} maxLength={340} value={reason} onChange={(e) => setReason(e.target.value)} />
        {run.error && <Failure error={run.error} reveal />}
      </Flex>
    </Modal>
  );
  return { open: (id, who) => setAbout({ id, who }), dialog };
}
