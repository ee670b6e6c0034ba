import { LockOutlined } from '@ant-design/icons';
import { useMutation } from '@tanstack/react-query';
import { Flex, Form, Input, Modal, Typography } from 'antd';
import { useTranslation } from 'react-i18next';

import { session } from '../api/session';
import { useMe } from '../lib/me';
import { signInAt } from '../lib/provider';
import { Failure } from './Failure';

/** Asks the signed-in user for the password again. The page behind it stays as it is. */
export function SignInAgain({ why, onDone, onCancel }: { why: string; onDone: () => void; onCancel: () => void }) {
  const { t } = useTranslation();
  const me = useMe();
  const [form] = Form.useForm<{ password: string }>();
  const { provider } = me;
  const again = useMutation({ mutationFn: (password: string) => session.again(password), onSuccess: onDone, gcTime: 0 });
  return (
    <Modal open width={440} title={t('again.title')} okText={provider ? t('provider.again') : t('login.submit')} onOk={() => (provider ? signInAt(provider, true) : form.submit())} onCancel={onCancel} confirmLoading={again.isPending} destroyOnHidden>
      <Flex vertical gap={12}>
        <Typography.Text>{why}</Typography.Text>
        {again.error && <Failure error={again.error} />}
        {provider && <Typography.Text type="secondary">{t('provider.leaves')}</Typography.Text>}
        <Form form={form} hidden={!!provider} layout="vertical" requiredMark={false} onFinish={(v) => again.mutate(v.password)}>
          <input type="text" autoComplete="username" value={me.name} readOnly hidden />
          <Form.Item name="password" label={t('again.password', { user: me.name })} rules={[{ required: true, message: t('form.required') }]}>
            <Input.Password prefix={<LockOutlined aria-hidden />} autoComplete="current-password" autoFocus onPressEnter={() => form.submit()} />
          </Form.Item>
        </Form>
      </Flex>
    </Modal>
  );
}
