import { useMutation } from '@tanstack/react-query';
import { Button, Flex, Input, Modal, Tag, Typography } from 'antd';
import { type ReactNode, useState } from 'react';
import { useTranslation } from 'react-i18next';

import { useLabel } from '../i18n';
import { type State, stateOf } from '../lib/approvals';
import { Failure } from './Failure';

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
