import { useQuery } from '@tanstack/react-query';
import { Alert, Button, Flex, Input, Modal } from 'antd';
import { useState, useSyncExternalStore } from 'react';
import { useTranslation } from 'react-i18next';

import { api, call } from '../api/client';
import { type Question, secondPerson } from '../api/secondPerson';
import { stateOf } from '../lib/approvals';
import { useMe } from '../lib/me';
import { Failure } from './Failure';

/** Asks whoever does something grave for the second person that it needs. Shown by the shell, over any page. */
export function SecondPerson() {
  const question = useSyncExternalStore(secondPerson.subscribe, secondPerson.snapshot);
  return question ? <Ask question={question} /> : null;
}

function Ask({ question }: { question: Question }) {
  const { t } = useTranslation();
  const me = useMe();
  const [reason, setReason] = useState('');
  const list = useQuery({ queryKey: ['act-approvals', 'mine'], queryFn: () => call(api.GET('/approvals')), staleTime: 0 });
  const mine = list.data?.items.filter((a) => a.asked_by === me.name && a.method === question.method && a.path === question.path);
  const given = mine?.find((a) => stateOf(a) === 'approved');
  const waits = mine?.find((a) => stateOf(a) === 'waiting');
  return (
    <Modal
      open
      title={t('acts.needed')}
      onCancel={() => question.answer(undefined)}
      footer={
        <>
          <Button onClick={() => question.answer(undefined)}>{t('holds.back')}</Button>
          {given && (
            <Button type="primary" onClick={() => question.answer({ approval: given.id })}>
              {t('acts.use')}
            </Button>
          )}
          <Button type={given ? 'default' : 'primary'} disabled={!reason.trim()} onClick={() => question.answer({ reason: reason.trim() })}>
            {t('approval.ask')}
          </Button>
        </>
      }
    >
      <Flex vertical gap={12}>
        {list.error && <Failure error={list.error} />}
        {given ? (
          <Alert type="success" showIcon role="status" title={t('approval.given', { by: given.approved_by ?? '' })} description={t('acts.same')} />
        ) : waits ? (
          <Alert type="info" showIcon role="status" title={t('acts.waits')} description={t('acts.same')} />
        ) : (
          <span>{t('acts.neededText')}</span>
        )}
        <label htmlFor="act-reason">{t('acts.reason')}</label>
        <Input.TextArea id="act-reason" autoFocus rows={2} maxLength={340} value={reason} onChange={(e) => setReason(e.target.value)} />
      </Flex>
    </Modal>
  );
}
