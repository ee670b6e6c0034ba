import { useMutation } from '@tanstack/react-query';
import { App, Flex, Form, Modal, Typography } from 'antd';
import { useTranslation } from 'react-i18next';

import { session } from '../api/session';
import { Failure } from './Failure';
import { type Passwords, PasswordForm } from './PasswordForm';

/** Changes the signed-in user's own password. */
export function ChangePassword({ onClose }: { onClose: () => void }) {
  const { t } = useTranslation();
  const { message } = App.useApp();
  const [form] = Form.useForm<Passwords>();
  const change = useMutation({
    mutationFn: (p: Passwords) => session.changePassword(p.current, p.next),
    gcTime: 0, // passwords do not outlive the dialog
    onSuccess: () => {
      void message.success(t('password.done'));
      onClose();
    },
  });
  return (
    <Modal open width={440} title={t('password.title')} okText={t('password.submit')} onOk={form.submit} onCancel={onClose} confirmLoading={change.isPending} destroyOnHidden>
      <Flex vertical gap={12}>
        <Typography.Text type="secondary">{t('password.others')}</Typography.Text>
        {change.error && <Failure error={change.error} reveal />}
        <PasswordForm form={form} onSubmit={change.mutate} />
      </Flex>
    </Modal>
  );
}
