import { Alert, Button, Flex, Form, Input, QRCode, Typography } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { session } from '../api/session';
import { useFresh } from '../lib/fresh';
import { useMe } from '../lib/me';
import { keysWorkHere, makeKey } from '../lib/webauthn';
import { CodeField } from './CodeField';
import { Failure } from './Failure';

/** Enrols an authenticator app or a security key step by step; the recovery codes, which are shown this once, come last. */
export function EnrolFactor({ onDone }: { onDone: () => void }) {
  const { t } = useTranslation();
  const [secret, setSecret] = useState<Schema['TotpSecret']>();
  const [codes, setCodes] = useState<string[]>();
  const enrolled = (made: string[]) => (made.length > 0 ? setCodes(made) : onDone());
  const start = useFresh(async (_: undefined) => setSecret(await call(api.POST('/me/second-factor/totp'))));
  const confirm = useFresh(async ({ code }: { code: string }) => enrolled(await session.confirmFactor(code)));
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
        <EnrolKey onEnrolled={enrolled} />
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

/** Enrols a security key or passkey under a name, or says why none can be. */
function EnrolKey({ onEnrolled }: { onEnrolled: (codes: string[]) => void }) {
  const { t } = useTranslation();
  const { second_factor: factor } = useMe();
  const make = useFresh(async ({ name }: { name: string }) => onEnrolled(await session.confirmKey(name, await makeKey(await call(api.POST('/me/second-factor/webauthn'))))));
  if (!keysWorkHere(factor?.key_origins ?? [])) {
    return <Typography.Text type="secondary">{factor?.keys_off ?? t('factor.keysElsewhere', { origins: (factor?.key_origins ?? []).join(' ') })}</Typography.Text>;
  }
  return (
    <>
      {make.error !== undefined && <Failure error={make.error} />}
      {make.dialog}
      <Form layout="vertical" requiredMark={false} onFinish={(v: { name: string }) => make.run.mutate(v)}>
        <Form.Item name="name" label={t('factor.keyName')} extra={t('factor.keyHelp')} rules={[{ required: true, whitespace: true, message: t('form.required') }]}>
          <Input maxLength={64} autoComplete="off" />
        </Form.Item>
        <Button htmlType="submit" block loading={make.run.isPending}>
          {t('factor.addKey')}
        </Button>
      </Form>
    </>
  );
}
