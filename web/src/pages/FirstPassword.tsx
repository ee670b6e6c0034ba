import { useMutation } from '@tanstack/react-query';
import { Alert, Button, Card, Flex, Form, theme, Typography } from 'antd';
import { useTranslation } from 'react-i18next';

import { session } from '../api/session';
import { Failure } from '../components/Failure';
import { type Passwords, PasswordForm } from '../components/PasswordForm';
import { LanguageSwitch } from '../components/Shell';

/** All there is for somebody whose password was set by somebody else: to choose one of his own. */
export function FirstPassword() {
  const { t } = useTranslation();
  const { token } = theme.useToken();
  const [form] = Form.useForm<Passwords>();
  const change = useMutation({ mutationFn: (p: Passwords) => session.changePassword(p.current, p.next), gcTime: 0 });
  return (
    <Flex component="main" vertical align="center" justify="center" style={{ minHeight: '100vh', padding: 24, background: token.colorBgLayout }}>
      <Card style={{ width: '100%', maxWidth: 440 }}>
        <Flex vertical gap={16}>
          <Flex justify="space-between" align="center">
            <Typography.Title level={1} style={{ fontSize: 20, margin: 0 }}>
              {t('password.title')}
            </Typography.Title>
            <LanguageSwitch />
          </Flex>
          <Alert type="info" showIcon title={t('password.must')} />
          {change.error && <Failure error={change.error} />}
          <PasswordForm form={form} onSubmit={change.mutate} />
          <Button type="primary" block onClick={form.submit} loading={change.isPending}>
            {t('password.submit')}
          </Button>
          <Button type="text" block onClick={() => void session.logout()}>
            {t('password.signOut')}
          </Button>
        </Flex>
      </Card>
    </Flex>
  );
}
