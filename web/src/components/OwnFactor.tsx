import { Alert, Button, Flex, Modal } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import { api, call } from '../api/client';
import { session } from '../api/session';
import { useFresh } from '../lib/fresh';
import { useMe } from '../lib/me';
import { EnrolFactor } from './EnrolFactor';
import { Failure } from './Failure';

/** The second factor of the signed-in user: enrol one, replace or remove it. */
export function OwnFactor({ onClose }: { onClose: () => void }) {
  const { t } = useTranslation();
  const me = useMe();
  const [enrolled] = useState(me.second_factor?.enrolled ?? false); // as it was: what is shown once stays
  const [replacing, setReplacing] = useState(false);
  const done = async () => {
    onClose();
    await session.refreshMe();
  };
  const remove = useFresh(async (_: undefined) => {
    await call(api.DELETE('/me/second-factor'));
    await done();
  });
  return (
    <Modal open width={440} title={t('factor.title')} footer={null} onCancel={() => void done()} mask={{ closable: false }} destroyOnHidden>
      {enrolled && !replacing ? (
        <Flex vertical gap={12}>
          <Alert type="success" showIcon title={t('factor.enrolled')} />
          {remove.error !== undefined && <Failure error={remove.error} />}
          {remove.dialog}
          <Flex gap={8} justify="flex-end">
            <Button danger loading={remove.run.isPending} onClick={() => remove.run.mutate(undefined)}>
              {t('factor.remove')}
            </Button>
            <Button onClick={() => setReplacing(true)}>{t('factor.replace')}</Button>
          </Flex>
        </Flex>
      ) : (
        <EnrolFactor onDone={() => void done()} />
      )}
    </Modal>
  );
}
