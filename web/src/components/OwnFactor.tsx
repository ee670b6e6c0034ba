import { useQuery } from '@tanstack/react-query';
import { Button, Flex, Modal, Spin, Tag, Typography } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { session } from '../api/session';
import { useLanguage } from '../i18n';
import { time } from '../lib/format';
import { useFresh } from '../lib/fresh';
import { useMe } from '../lib/me';
import { EnrolFactor } from './EnrolFactor';
import { Failure } from './Failure';

/** The second factors of the signed-in user: what there is, one more, and one less. */
export function OwnFactor({ onClose }: { onClose: () => void }) {
  const { t } = useTranslation();
  const me = useMe();
  const [enrolled] = useState(me.second_factor?.enrolled ?? false); // as it was: what is shown once stays
  const [adding, setAdding] = useState(false);
  const done = async () => {
    onClose();
    await session.refreshMe();
  };
  return (
    <Modal open width={520} title={t('factor.title')} footer={null} onCancel={() => void done()} mask={{ closable: false }} destroyOnHidden>
      {enrolled && !adding ? <Factors onAdd={() => setAdding(true)} onNone={() => void done()} /> : <EnrolFactor onDone={() => void done()} />}
    </Modal>
  );
}

function Factors({ onAdd, onNone }: { onAdd: () => void; onNone: () => void }) {
  const { t } = useTranslation();
  const me = useMe();
  const list = useQuery({ queryKey: ['second-factors'], queryFn: () => call(api.GET('/me/second-factors')) });
  const remove = useFresh(async (id: string) => {
    await call(api.DELETE('/me/second-factors/{id}', { params: { path: { id } } }));
    if ((await list.refetch()).data?.items.length === 0) onNone();
  });
  if (list.isPending) return <Spin />;
  return (
    <Flex vertical gap={12}>
      {list.error && <Failure error={list.error} retry={() => void list.refetch()} />}
      {remove.error !== undefined && <Failure error={remove.error} />}
      {remove.dialog}
      <Flex component="ul" vertical gap={12} style={{ listStyle: 'none', margin: 0, padding: 0 }}>
        {list.data?.items.map((f) => (
          <Flex component="li" key={f.id} gap={12} align="center" justify="space-between">
            <About factor={f} />
            <Button danger aria-label={t('factor.removeName', { name: f.name || t('factor.app') })} loading={remove.run.isPending && remove.run.variables === f.id} onClick={() => remove.run.mutate(f.id)}>
              {t('factor.remove')}
            </Button>
          </Flex>
        ))}
      </Flex>
      {me.second_factor?.available && (
        <Flex justify="flex-end">
          <Button onClick={onAdd}>{t('factor.add')}</Button>
        </Flex>
      )}
    </Flex>
  );
}

function About({ factor }: { factor: Schema['Factor'] }) {
  const { t } = useTranslation();
  const [language] = useLanguage();
  return (
    <Flex vertical gap={2}>
      <Flex gap={8} wrap>
        <Typography.Text strong>{factor.name || t('factor.app')}</Typography.Text>
        {factor.backed_up && <Tag>{t('factor.backedUp')}</Tag>}
      </Flex>
      <Typography.Text type="secondary">
        {t('factor.since', { time: time(factor.created_at, language) })}
        {factor.last_used_at && ` · ${t('factor.used', { time: time(factor.last_used_at, language) })}`}
      </Typography.Text>
      {factor.suspect_since && <Typography.Text type="danger">{t('factor.suspect')}</Typography.Text>}
    </Flex>
  );
}
