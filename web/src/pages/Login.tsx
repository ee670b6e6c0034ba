import { LockOutlined, UserOutlined } from '@ant-design/icons';
import { Alert, Button, Card, Flex, Form, Input, theme, Typography } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import { type ApiError, toApiError } from '../api/errors';
import { session } from '../api/session';
import { OpenBreakGlass } from '../components/BreakGlass';
import { CodeField } from '../components/CodeField';
import { Failure } from '../components/Failure';
import { Providers } from '../components/Providers';
import { LanguageSwitch } from '../components/Shell';
import { useSession } from '../lib/me';
import { askKey, keysWorkHere } from '../lib/webauthn';

export function Login() {
  const { t } = useTranslation();
  const { token } = theme.useToken();
  const { ended } = useSession();
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const [emergency, setEmergency] = useState(false);
  const [wanted, setWanted] = useState<ApiError['factors']>();
  const [form] = Form.useForm<{ user: string; password: string; code?: string }>();
  const attempt = async (sign: () => Promise<void>) => {
    setBusy(true);
    setError(undefined);
    try {
      await sign();
    } catch (e) {
      const refused = toApiError(e);
      if (refused.code === 'second_factor_required') setWanted(refused.factors);
      else setError(e);
    } finally {
      setBusy(false);
    }
  };
  const submit = ({ user, password, code }: { user: string; password: string; code?: string }) => attempt(() => session.login(user, password, code));
  const withKey = () =>
    attempt(async () => {
      const { user, password } = form.getFieldsValue();
      try {
        await session.loginWithKey(user, password, await askKey(wanted!.key!));
      } catch (e) {
        if (toApiError(e).code === 'wrong_assertion') await session.login(user, password).catch((next: unknown) => setWanted(toApiError(next).factors)); // what was asked for is spent
        throw e;
      }
    });
  return (
    <Flex component="main" vertical align="center" justify="center" style={{ minHeight: '100vh', padding: 24, background: token.colorBgLayout }}>
      <Card style={{ width: '100%', maxWidth: 400 }}>
        <Flex justify="space-between" align="flex-start">
          <Flex align="center" gap={12}>
            <img src="./favicon.svg" alt="" width={36} height={36} />
            <Typography.Title level={1} style={{ fontSize: 24, margin: 0 }}>
              Sluice
            </Typography.Title>
          </Flex>
          <LanguageSwitch />
        </Flex>
        <Typography.Paragraph type="secondary" style={{ margin: '12px 0 20px' }}>
          {t('login.tagline')}
        </Typography.Paragraph>
        {emergency && <OpenBreakGlass onBack={() => setEmergency(false)} />}
        <Flex vertical gap={16} style={emergency ? { display: 'none' } : undefined}>
          {ended && !error && <Alert type="info" showIcon title={t('login.ended')} />}
          <Providers />
          {error !== undefined && <Failure error={error} />}
          <Form form={form} layout="vertical" onFinish={(v: { user: string; password: string; code?: string }) => void submit(v)} requiredMark={false}>
            <Form.Item name="user" label={t('login.user')} rules={[{ required: true, message: t('form.required') }]}>
              <Input prefix={<UserOutlined aria-hidden />} autoComplete="username" autoFocus />
            </Form.Item>
            <Form.Item name="password" label={t('login.password')} rules={[{ required: true, message: t('form.required') }]}>
              <Input.Password prefix={<LockOutlined aria-hidden />} autoComplete="current-password" />
            </Form.Item>
            {wanted?.key && keysWorkHere() && (
              <Form.Item>
                <Button block loading={busy} onClick={() => void withKey()}>
                  {t('factor.useKey')}
                </Button>
              </Form.Item>
            )}
            {wanted && <CodeField help={t(wanted.kinds.includes('totp') || !wanted.key ? 'factor.codeHelp' : 'factor.recoveryOnly')} />}
            <Button type="primary" htmlType="submit" block loading={busy} aria-label={t('login.submit')}>
              {t('login.submit')}
            </Button>
            <Button type="link" block style={{ marginTop: 8 }} onClick={() => setEmergency(true)}>
              {t('glass.link')}
            </Button>
          </Form>
        </Flex>
      </Card>
    </Flex>
  );
}
