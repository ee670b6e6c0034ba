import { useMutation, useQueryClient } from '@tanstack/react-query';
import { Alert, Button, Flex } from 'antd';
import { useEffect, useRef } from 'react';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { useLanguage } from '../i18n';
import { stateOf, useApprovals } from '../lib/approvals';
import { time } from '../lib/format';
import { Failure } from './Failure';

/** Asks a second person for a reveal that needs one, waits, and goes on once it is approved. The approval holds for exactly this reveal. */
export function AskApproval({ body, onGiven }: { body: Schema['RevealRequest']; onGiven: (id: string) => void }) {
  const { t } = useTranslation();
  const [language] = useLanguage();
  const queries = useQueryClient();
  const ask = useMutation({
    mutationFn: () => call(api.POST('/reveal/approvals', { body: { ...body, approval: undefined } })),
    onSuccess: () => void queries.invalidateQueries({ queryKey: ['reveal-approvals'] }),
    gcTime: 0,
  });
  const id = ask.data?.id;
  const list = useApprovals((all) => id !== undefined && ['waiting', undefined].includes(all.filter((a) => a.id === id).map((a) => stateOf(a))[0]));
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    box.current?.scrollIntoView({ block: 'nearest' }); // the answer to a press of a button above; newer browsers return a promise here, which is no clean-up
  }, []);
  const asked = list.data?.items.find((a) => a.id === id) ?? ask.data;
  const state = asked && stateOf(asked);
  if (asked && state === 'approved') {
    return (
      <Alert
        type="success"
        showIcon
        role="status"
        title={t('approval.given', { by: asked.approved_by ?? '' })}
        action={
          <Button type="primary" onClick={() => onGiven(asked.id)}>
            {t('reveal.show')}
          </Button>
        }
      />
    );
  }
  return (
    <Flex ref={box} vertical gap={8}>
      {ask.error && <Failure error={ask.error} />}
      <Alert
        type={state === 'waiting' ? 'info' : 'warning'}
        showIcon
        role="status"
        title={asked && state === 'waiting' ? t('approval.waits', { id: asked.id, time: time(asked.expires_at, language) }) : t('approval.needed')}
        description={state === 'waiting' ? t('approval.stay') : state === 'expired' ? t('approval.tooLate') : state === 'declined' ? t('approval.declinedBy', { by: asked?.declined_by ?? '', reason: asked?.decline_reason ?? '' }) : t('approval.neededText')}
        action={
          state !== 'waiting' && (
            <Button onClick={() => ask.mutate()} loading={ask.isPending}>
              {t('approval.ask')}
            </Button>
          )
        }
      />
    </Flex>
  );
}
