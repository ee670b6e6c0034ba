import { LockOutlined } from '@ant-design/icons';
import { Form, type FormInstance, Input } from 'antd';
import { useTranslation } from 'react-i18next';

import { useMe } from '../lib/me';

export interface Passwords {
  current: string;
  next: string;
  again: string;
}

export const minPassword = 12;

/** The fields of a password change. The server has the last word on what is good enough. */
export function PasswordForm({ form, onSubmit }: { form: FormInstance<Passwords>; onSubmit: (p: Passwords) => void }) {
  const { t } = useTranslation();
  const me = useMe();
  const icon = <LockOutlined aria-hidden />;
  return (
    <Form form={form} layout="vertical" requiredMark={false} onFinish={onSubmit}>
      <input type="text" autoComplete="username" value={me.name} readOnly hidden />
      <Form.Item name="current" label={t('password.current')} rules={[{ required: true, message: t('form.required') }]}>
        <Input.Password prefix={icon} autoComplete="current-password" autoFocus onPressEnter={form.submit} />
      </Form.Item>
      <Form.Item name="next" label={t('password.next')} extra={t('password.nextHelp', { count: minPassword })} rules={[{ required: true, min: minPassword, message: t('password.nextHelp', { count: minPassword }) }]}>
        <Input.Password prefix={icon} autoComplete="new-password" onPressEnter={form.submit} />
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
        <Input.Password prefix={icon} autoComplete="new-password" onPressEnter={form.submit} />
      </Form.Item>
    </Form>
  );
}
