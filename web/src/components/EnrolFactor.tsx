import { Alert, Button, Flex, Form, QRCode, Typography } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { session } from '../api/session';
import { useFresh } from '../lib/fresh';
import { CodeField } from './CodeField';
import { Failure } from './Failure';

/** Enrols an authenticator app step by step: its secret, a first code, and the recovery codes, which are shown this once. */
export function EnrolFactor({ onDone }: { onDone: () => void }) {
  const { t } = useTranslation();
  const [secret, setSecret] = useState<Schema['TotpSecret']>();
  const [codes, setCodes] = useState<string[]>();
  const start = useFresh(async (_: undefined) => setSecret(await call(api.POST('/me/second-factor/totp'))));
  const confirm = useFresh(async ({ code }: { code: string }) => setCodes(await session.confirmFactor(code)));
  if (codes) {
    return (
      <Flex vertical gap={12}>
        <Alert type="warning" showIcon title={t('factor.recovery')} description={t('factor.recoveryHelp')} />
        <Typography.Paragraph code copyable={{ text: codes.join('\n') }} style={{ whiteSpace: 'pre-line', margin: 0 }} data-testid="recovery">
          {codes.join('\n')}
        </Typography.Paragraph>
        <Button type="primary" onClick={onDone}>
          {t('factor.noted')}
        </Button>
      </Flex>
    );
  }
  if (!secret) {
    return (
      <Flex vertical gap={12}>
        <Typography.Text>{t('factor.intro')}</Typography.Text>
        {start.error !== undefined && <Failure error={start.error} />}
        {start.dialog}
        <Button type="primary" loading={start.run.isPending} onClick={() => start.run.mutate(undefined)}>
          {t('factor.start')}
        </Button>
      </Flex>
    );
  }
  return (
    <Flex vertical gap={12} align="stretch">
      <Typography.Text>{t('factor.scan')}</Typography.Text>
      <Flex justify="center">
        <QRCode type="svg" value={secret.uri} bgColor="#ffffff" color="#000000" aria-label={t('factor.qr')} />
      </Flex>
      <Typography.Paragraph code copyable={{ text: secret.secret }} style={{ wordBreak: 'break-all', margin: 0 }} data-testid="secret">
        {secret.secret}
      </Typography.Paragraph>
      {confirm.error !== undefined && <Failure error={confirm.error} />}
      <Form layout="vertical" requiredMark={false} onFinish={(v: { code: string }) => confirm.run.mutate(v)}>
        <CodeField help={t('factor.firstCode')} />
        <Button type="primary" htmlType="submit" block loading={confirm.run.isPending}>
          {t('factor.confirm')}
        </Button>
      </Form>
    </Flex>
  );
}
