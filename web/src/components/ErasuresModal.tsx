import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Alert, Button, Flex, Form, Input, Modal, Typography } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { useLanguage } from '../i18n';
import { count, iso } from '../lib/format';
import { useMay } from '../lib/me';
import { type Column, DataTable } from './DataTable';
import { Failure } from './Failure';
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
        <Typography.Link onClick={() => onPerson(e.subject)} title={e.subject} aria-label={t('erasures.recordsOf', { digest: e.subject.slice(0, 12) })}>
          <Typography.Text code>{e.subject.slice(0, 16)}…</Typography.Text>
        </Typography.Link>
      ),
      csv: (e) => e.subject,
    },
    { key: 'record', title: t('erasures.record'), render: (e) => <Typography.Link onClick={() => onRecord(e.record)}>{e.record}</Typography.Link>, csv: (e) => e.record },
  ];
  return (
    <Modal
      open
      width={860}
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
      </Flex>
    </Modal>
  );
}

/** First the name is checked, then it is typed again, then it is done: what is destroyed cannot be had back. */
function ErasePerson({ erasures, onBack, onRecord, onPerson }: { erasures: Erasure[]; onBack: () => void } & Ways) {
  const { t } = useTranslation();
  const [language] = useLanguage();
  const queries = useQueryClient();
  const [name, setName] = useState('');
  const [again, setAgain] = useState('');
  // a name is asked for in a body and never stands in an address; what was checked, by its digest, is what is erased
  const check = useMutation({
    mutationFn: async (subject: string) => {
      const { digest } = await call(api.POST('/audit/subjects', { body: { subject } }));
      const found = await call(api.GET('/audit/records', { params: { query: { on_behalf_of: digest, limit: 1 } } }));
      return { digest, newest: found.items[0]?.event };
    },
  });
  const erase = useMutation({
    mutationFn: (digest: string) => call(api.POST('/audit/erasures', { body: { digest } })),
    onSuccess: () => void queries.invalidateQueries({ queryKey: ['erasures'] }),
  });
  const person = check.data;
  const before = person && erasures.filter((e) => e.subject === person.digest).at(-1);
  const done = erase.data;
  const rename = (to: string) => {
    setName(to);
    setAgain('');
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
            <Button danger type="primary" disabled={!person || again.trim() !== name.trim()} loading={erase.isPending} onClick={() => erase.mutate(person!.digest)}>
              {t('erasures.erase')}
            </Button>
          )}
        </>
      }
    >
      <Flex vertical gap={16}>
        <Consequences />
        <Form layout="vertical">
          <Form.Item label={t('erasures.person')} htmlFor="erase-person" extra={t('erasures.personHelp')} style={{ marginBottom: 0 }}>
            <Input.Search id="erase-person" autoFocus autoComplete="off" maxLength={512} value={name} disabled={erase.isPending || !!done} enterButton={t('erasures.check')} loading={check.isPending} onChange={(e) => rename(e.target.value)} onSearch={(v) => v.trim() && check.mutate(v.trim())} />
          </Form.Item>
        </Form>
        {check.error && <Failure error={check.error} reveal />}
        {person && !done && (
          <Alert
            type={person.newest ? 'info' : 'warning'}
            showIcon
            role="status"
            title={person.newest ? t('erasures.known') : t('erasures.unknown')}
            description={
              <Flex vertical gap={4}>
                {person.newest && (
                  <span>
                    {t('erasures.newest')} <Time at={person.newest.time} /> · <Typography.Link onClick={() => onPerson(person.digest)}>{t('erasures.showRecords')}</Typography.Link>
                  </span>
                )}
                {before && (
                  <span>
                    {t('erasures.before')} <Time at={before.time} />
                  </span>
                )}
                <span>
                  {t('erasures.digest')} <Typography.Text code style={{ wordBreak: 'break-all' }}>{person.digest}</Typography.Text>
                </span>
              </Flex>
            }
          />
        )}
        {person && !done && (
          <Form layout="vertical">
            <Form.Item label={t('erasures.again')} htmlFor="erase-again" style={{ marginBottom: 0 }}>
              <Input id="erase-again" autoComplete="off" value={again} disabled={erase.isPending} onChange={(e) => setAgain(e.target.value)} status={again && !name.startsWith(again.trim()) ? 'error' : undefined} />
            </Form.Item>
          </Form>
        )}
        {erase.error && (
          <>
            <Failure error={erase.error} reveal />
            <Typography.Text strong>{t('erasures.repeat')}</Typography.Text>
          </>
        )}
        {done && (
          <Alert
            type={done.keys ? 'success' : 'warning'}
            showIcon
            role="status"
            title={done.keys ? t('erasures.done', { keys: count(done.keys, language), texts: count(done.contents ?? 0, language) }) : t('erasures.nothing')}
            description={<Typography.Link onClick={() => onRecord(done.record)}>{t('erasures.record')}</Typography.Link>}
          />
        )}
      </Flex>
    </Modal>
  );
}

/** What an erasure destroys, and what it leaves. */
function Consequences() {
  const { t } = useTranslation();
  const list = { margin: 0, paddingInlineStart: 18 };
  return (
    <Flex gap={16} wrap>
      <section style={{ flex: '1 1 300px' }} aria-label={t('erasures.destroys')}>
        <Typography.Text strong type="danger">
          {t('erasures.destroys')}
        </Typography.Text>
        <ul style={list}>
          <li>{t('erasures.texts')}</li>
          <li>{t('erasures.everywhere')}</li>
          <li>{t('erasures.held')}</li>
        </ul>
      </section>
      <section style={{ flex: '1 1 300px' }} aria-label={t('erasures.stays')}>
        <Typography.Text strong>{t('erasures.stays')}</Typography.Text>
        <ul style={list}>
          <li>{t('erasures.recordsStay')}</li>
          <li>{t('erasures.booksStay')}</li>
          <li>{t('erasures.backups')}</li>
          <li>{t('erasures.later')}</li>
        </ul>
      </section>
    </Flex>
  );
}
