import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Alert, Button, Flex, Form, Input, Modal, Typography } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { useLanguage } from '../i18n';
import { type ErasureApproval, stateOf, useErasureApprovals } from '../lib/approvals';
import { iso, time } from '../lib/format';
import { useMay, useMe } from '../lib/me';
import { type Column, DataTable } from './DataTable';
import { Failure } from './Failure';
import { ErasureApprovals } from './ErasureApprovals';
import { Certificate, Goes, HeldBy, Stays } from './Erasure';
import { LinkButton } from './LinkButton';
import { Time } from './Time';

type Erasure = Schema['Erasure'];

interface Ways {
  onRecord: (id: string) => void;
  onPerson: (digest: string) => void;
}

/** The erasures of the tenant, and erasing what is kept of a person. */
export function ErasuresModal({ onClose, ...ways }: { onClose: () => void } & Ways) {
  const [erasing, setErasing] = useState(false);
  const list = useQuery({ queryKey: ['erasures'], queryFn: () => call(api.GET('/audit/erasures')) });
  if (erasing) return <ErasePerson erasures={list.data?.items ?? []} onBack={() => setErasing(false)} {...ways} />;
  return <Erasures list={list} onClose={onClose} onErase={() => setErasing(true)} {...ways} />;
}

interface List {
  data?: Schema['ErasureList'];
  error: unknown;
  isFetching: boolean;
  refetch: () => unknown;
}

function Erasures({ list, onClose, onErase, onRecord, onPerson }: { list: List; onClose: () => void; onErase: () => void } & Ways) {
  const { t } = useTranslation();
  const mayErase = useMay('audit.erase');
  const columns: Column<Erasure>[] = [
    { key: 'time', title: t('erasures.time'), render: (e) => <Time at={e.time} />, csv: (e) => iso(e.time) },
    {
      key: 'person',
      title: t('erasures.digest'),
      render: (e) => (
        <LinkButton onClick={() => onPerson(e.subject)} title={e.subject} aria-label={t('erasures.recordsOf', { digest: e.subject.slice(0, 12) })}>
          <Typography.Text code>{e.subject.slice(0, 16)}…</Typography.Text>
        </LinkButton>
      ),
      csv: (e) => e.subject,
    },
    { key: 'record', title: t('erasures.record'), render: (e) => <LinkButton onClick={() => onRecord(e.record)}>{e.record}</LinkButton>, csv: (e) => e.record },
  ];
  return (
    <Modal
      open
      width={1160}
      title={t('erasures.title')}
      onCancel={onClose}
      footer={
        <>
          <Button onClick={onClose}>{t('verify.close')}</Button>
          {mayErase && (
            <Button danger onClick={onErase}>
              {t('erasures.start')}
            </Button>
          )}
        </>
      }
    >
      <Flex vertical gap={12}>
        <Typography.Text>{t('erasures.note')}</Typography.Text>
        <Typography.Text type="secondary">{t('erasures.keepList')}</Typography.Text>
        <DataTable
          name={t('erasures.title')}
          columns={columns}
          rows={list.data && [...list.data.items].reverse()} // the server tells the oldest first
          rowKey={(e) => e.record}
          loading={list.isFetching}
          error={list.error}
          reload={() => void list.refetch()}
          empty={t('erasures.empty')}
        />
        <Typography.Text strong>{t('erasures.approvals')}</Typography.Text>
        <ErasureApprovals onPerson={onPerson} />
      </Flex>
    </Modal>
  );
}

/** First the name is checked and what would happen is shown, then the name is typed again, then it is done: what is destroyed cannot be had back. */
function ErasePerson({ erasures, onBack, onRecord, onPerson }: { erasures: Erasure[]; onBack: () => void } & Ways) {
  const { t } = useTranslation();
  const queries = useQueryClient();
  const [name, setName] = useState('');
  const [again, setAgain] = useState('');
  const [approval, setApproval] = useState<string>();
  // a name is asked for in a body and never stands in an address; what was checked, by its digest, is what is erased
  const check = useMutation({
    mutationFn: async (subject: string) => {
      const { digest } = await call(api.POST('/audit/subjects', { body: { subject } }));
      return call(api.POST('/audit/erasures/preview', { body: { digest } }));
    },
  });
  const erase = useMutation({
    mutationFn: (digest: string) => call(api.POST('/audit/erasures', { body: { digest, approval } })),
    onSuccess: () => void queries.invalidateQueries({ queryKey: ['erasures'] }),
    onSettled: () => void queries.invalidateQueries({ queryKey: ['erasure-approvals'] }),
  });
  const plan = check.data;
  const before = plan && erasures.filter((e) => e.subject === plan.subject).at(-1);
  const done = erase.data;
  const held = !!plan?.holds.length && !approval;
  const rename = (to: string) => {
    setName(to);
    setAgain('');
    setApproval(undefined);
    check.reset();
    erase.reset();
  };
  return (
    <Modal
      open
      width={760}
      title={t('erasures.start')}
      onCancel={onBack}
      mask={{ closable: false }}
      footer={
        <>
          <Button onClick={onBack}>{t('holds.back')}</Button>
          {!done && (
            <Button danger type="primary" disabled={!plan || held || again.trim() !== name.trim()} loading={erase.isPending} onClick={() => erase.mutate(plan!.subject)}>
              {t('erasures.erase')}
            </Button>
          )}
        </>
      }
    >
      <Flex vertical gap={16}>
        <Typography.Text>{t('erasures.what')}</Typography.Text>
        <Form layout="vertical">
          <Form.Item label={t('erasures.person')} htmlFor="erase-person" extra={t('erasures.personHelp')} style={{ marginBottom: 0 }}>
            <Input.Search id="erase-person" autoFocus autoComplete="off" maxLength={512} value={name} disabled={erase.isPending || !!done} enterButton={t('erasures.check')} loading={check.isPending} onChange={(e) => rename(e.target.value)} onSearch={(v) => v.trim() && check.mutate(v.trim())} />
          </Form.Item>
        </Form>
        {check.error && <Failure error={check.error} reveal />}
        {plan && !done && (
          <>
            <Alert
              type={plan.records ? 'info' : 'warning'}
              showIcon
              role="status"
              title={plan.records ? t('erasures.known') : t('erasures.unknown')}
              description={
                <Flex vertical gap={4}>
                  {plan.newest && (
                    <span>
                      {t('erasures.newest')} <Time at={plan.newest} /> · <LinkButton onClick={() => onPerson(plan.subject)}>{t('erasures.showRecords')}</LinkButton>
                    </span>
                  )}
                  {before && (
                    <span>
                      {t('erasures.before')} <Time at={before.time} />
                    </span>
                  )}
                  <span>
                    {t('erasures.digest')} <Typography.Text code style={{ wordBreak: 'break-all' }}>{plan.subject}</Typography.Text>
                  </span>
                </Flex>
              }
            />
            <Goes title={t('erasures.destroys')} figures={plan.goes} />
            <Stays title={t('erasures.stays')} stays={plan.stays} />
            {plan.holds.length > 0 && <HeldBy holds={plan.holds} onRecord={onRecord} />}
            {plan.holds.length > 0 && <AskErasure plan={plan} given={approval} onGiven={setApproval} />}
            {!held && (
              <Form layout="vertical">
                <Form.Item label={t('erasures.again')} htmlFor="erase-again" style={{ marginBottom: 0 }}>
                  <Input id="erase-again" autoComplete="off" value={again} disabled={erase.isPending} onChange={(e) => setAgain(e.target.value)} status={again && !name.startsWith(again.trim()) ? 'error' : undefined} />
                </Form.Item>
              </Form>
            )}
          </>
        )}
        {erase.error && (
          <>
            <Failure error={erase.error} reveal />
            <Typography.Text strong>{t('erasures.repeat')}</Typography.Text>
          </>
        )}
        {done && <Certificate done={done} onRecord={onRecord} />}
      </Flex>
    </Modal>
  );
}

/** Asks a second person to let the erasure pass the holds that cover it, and waits. An approval of before that fits is taken up. */
function AskErasure({ plan, given, onGiven }: { plan: Schema['ErasurePreview']; given?: string; onGiven: (id: string) => void }) {
  const { t } = useTranslation();
  const [language] = useLanguage();
  const me = useMe();
  const queries = useQueryClient();
  const [reason, setReason] = useState('');
  const fits = (a: ErasureApproval) => a.kind === 'person' && a.target === plan.subject && a.asked_by === me.name && a.holds.join() === plan.holds.map((h) => h.id).sort().join();
  const list = useErasureApprovals((all) => all.some((a) => fits(a) && stateOf(a) === 'waiting'));
  const newest = list.data?.items.find(fits);
  const state = newest && stateOf(newest);
  const ask = useMutation({
    mutationFn: () => call(api.POST('/audit/erasures/approvals', { body: { digest: plan.subject, reason: reason.trim() } })),
    onSuccess: () => void queries.invalidateQueries({ queryKey: ['erasure-approvals'] }),
  });
  if (given) return <Alert type="success" showIcon role="status" title={t('approval.given', { by: newest?.approved_by ?? '' })} />;
  if (newest && state === 'approved') {
    return (
      <Alert
        type="success"
        showIcon
        role="status"
        title={t('approval.given', { by: newest.approved_by ?? '' })}
        action={
          <Button type="primary" onClick={() => onGiven(newest.id)}>
            {t('erasures.goOn')}
          </Button>
        }
      />
    );
  }
  if (newest && state === 'waiting') return <Alert type="info" showIcon role="status" title={t('approval.waits', { id: newest.id, time: time(newest.expires_at, language) })} description={t('erasures.waiting')} />;
  return (
    <Flex vertical gap={8}>
      {newest && state === 'declined' && <Alert type="error" showIcon role="status" title={t('approval.declinedBy', { by: newest.declined_by ?? '', reason: newest.decline_reason ?? '' })} />}
      <label htmlFor="erase-reason">{t('erasures.askReason')}</label>
      <Flex gap={8}>
        <Input id="erase-reason" maxLength={340} value={reason} onChange={(e) => setReason(e.target.value)} />
        <Button disabled={!reason.trim()} loading={ask.isPending} onClick={() => ask.mutate()}>
          {t('approval.ask')}
        </Button>
      </Flex>
      {ask.error && <Failure error={ask.error} reveal />}
    </Flex>
  );
}
