import { Alert, Button, Card, Flex, theme, Typography } from 'antd';
import { useTranslation } from 'react-i18next';

import { session } from '../api/session';
import { EnrolFactor } from '../components/EnrolFactor';
import { LanguageSwitch } from '../components/Shell';

/** All there is for an administrator who must have a second factor and has none: to enrol one. */
export function FirstFactor() {
  const { t } = useTranslation();
  const { token } = theme.useToken();
  return (
    <Flex component="main" vertical align="center" justify="center" style={{ minHeight: '100vh', padding: 24, background: token.colorBgLayout }}>
      <Card style={{ width: '100%', maxWidth: 440 }}>
        <Flex vertical gap={16}>
          <Flex justify="space-between" align="center">
            <Typography.Title level={1} style={{ fontSize: 20, margin: 0 }}>
              {t('factor.title')}
            </Typography.Title>
            <LanguageSwitch />
          </Flex>
          <Alert type="info" showIcon title={t('factor.must')} />
          <EnrolFactor onDone={() => void session.refreshMe()} />
          <Button type="text" block onClick={() => void session.logout()}>
            {t('password.signOut')}
          </Button>
        </Flex>
      </Card>
    </Flex>
  );
}
