import { useMutation, useQuery } from '@tanstack/react-query';
import { Alert, Button, Card, Descriptions, Flex, Form, Input, theme, Typography } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { Failure } from '../components/Failure';
import { minPassword } from '../components/PasswordForm';
import { LanguageSwitch } from '../components/Shell';
import { Time } from '../components/Time';
import { useLabel } from '../i18n';

/** Whether the address is that of an invitation. Its token stands behind the #, which browsers send nobody. */
export const isInvitation = () => location.pathname.endsWith('/invitation');

/** Where somebody who was invited sees by whom and to what, and chooses a password. Nobody needs to be signed in. */
export function Invitation() {
  const { t } = useTranslation();
  const { token: colors } = theme.useToken();
  const [token] = useState(() => location.hash.slice(1));
  const shown = useQuery({ queryKey: ['invitation'], gcTime: 0, retry: false, queryFn: () => call(api.POST('/invitations/show', { body: { token } })) });
  const accept = useMutation({ gcTime: 0, mutationFn: (f: { next: string }) => call(api.POST('/invitations/accept', { body: { token, password: f.next } })) });
  return (
    <Flex component="main" vertical align="center" justify="center" style={{ minHeight: '100vh', padding: 24, background: colors.colorBgLayout }}>
      <Card style={{ width: '100%', maxWidth: 480 }} loading={shown.isLoading}>
        <Flex vertical gap={16}>
          <Flex justify="space-between" align="center">
            <Typography.Title level={1} style={{ fontSize: 20, margin: 0 }}>
              {t('invitation.title')}
            </Typography.Title>
            <LanguageSwitch />
          </Flex>
          {shown.error && <Failure error={shown.error} />}
          {accept.data && <Accepted account={accept.data} />}
          {shown.data && !accept.data && (
            <>
              <What invitation={shown.data} />
              {accept.error && <Failure error={accept.error} reveal />}
              <Choose name={shown.data.name} busy={accept.isPending} onSubmit={accept.mutate} />
            </>
          )}
        </Flex>
      </Card>
    </Flex>
  );
}

function What({ invitation }: { invitation: Schema['OpenInvitation'] }) {
  const { t } = useTranslation();
  const label = useLabel();
  return (
    <Descriptions
      column={1}
      size="small"
      items={[
        { key: 'by', label: t('invitation.by'), children: invitation.invited_by },
        { key: 'tenant', label: t('invitation.tenant'), children: invitation.tenant },
        { key: 'name', label: t('invitation.name'), children: invitation.name },
        { key: 'roles', label: t('invitation.roles'), children: invitation.roles.map((r) => label('role', r)).join(', ') },
        { key: 'until', label: t('invitation.until'), children: <Time at={invitation.expires_at} /> },
      ]}
    />
  );
}

function Choose({ name, busy, onSubmit }: { name: string; busy: boolean; onSubmit: (f: { next: string }) => void }) {
  const { t } = useTranslation();
  return (
    <Form layout="vertical" requiredMark={false} onFinish={onSubmit}>
      <input type="text" autoComplete="username" value={name} readOnly hidden />
      <Form.Item name="next" label={t('invitation.password')} extra={t('password.nextHelp', { count: minPassword })} rules={[{ required: true, min: minPassword, message: t('password.nextHelp', { count: minPassword }) }]}>
        <Input.Password autoComplete="new-password" autoFocus />
      </Form.Item>
      <Form.Item
        name="again"
        label={t('password.again')}
        dependencies={['next']}
        rules={[
          { required: true, message: t('form.required') },
          ({ getFieldValue }) => ({ validator: (_, v) => (!v || v === getFieldValue('next') ? Promise.resolve() : Promise.reject(new Error(t('password.differs')))) }),
        ]}
      >
        <Input.Password autoComplete="new-password" />
      </Form.Item>
      <Button type="primary" htmlType="submit" block loading={busy} aria-label={t('invitation.accept')}>
        {t('invitation.accept')}
      </Button>
    </Form>
  );
}

function Accepted({ account }: { account: Schema['AcceptedInvitation'] }) {
  const { t } = useTranslation();
  return (
    <>
      <Alert type="success" showIcon title={t('invitation.done', { name: account.name })} />
      <Button type="primary" block href={document.baseURI}>
        {t('invitation.signIn')}
      </Button>
    </>
  );
}
