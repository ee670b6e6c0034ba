import { useMutation } from '@tanstack/react-query';
import { Flex, Form, Modal, Typography } from 'antd';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { Failure } from './Failure';
import { KeyForm, type KeyFields } from './KeyForm';
import { limitsOf } from './LimitFields';

/** Changes a key; only what was touched is sent. */
export function EditKey({ edited, onClose }: { edited: Schema['Key']; onClose: () => void }) {
  const { t } = useTranslation();
  const [form] = Form.useForm<KeyFields>();
  const save = useMutation({
    mutationFn: (f: KeyFields) => {
      const touched = (...names: (keyof KeyFields)[]) => names.some((n) => form.isFieldTouched(n));
      const body: Schema['KeyChange'] = {
        name: touched('name') ? f.name : undefined,
        project: touched('project') ? (f.project ?? '') : undefined,
        labels: touched('labels') ? (f.labels ?? []) : undefined,
        scopes: touched('scopes') ? (f.scopes ?? []) : undefined,
        models: touched('models') ? (f.models ?? []) : undefined,
        networks: touched('networks') ? (f.networks ?? []) : undefined,
        label_mode: touched('label_mode') ? f.label_mode : undefined,
        expires_at: touched('expires') && !f.expires?.isSame(edited.expires_at, 'day') ? f.expires?.endOf('day').toISOString() : undefined,
        limits: touched('requests', 'tokens', 'concurrent') ? limitsOf(f) : undefined,
      };
      return call(api.PATCH('/keys/{id}', { params: { path: { id: edited.id }, query: { tenant: edited.tenant } }, body }));
    },
    onSuccess: onClose,
  });
  return (
    <Modal open title={t('keys.editTitle', { name: edited.name })} onCancel={onClose} okText={t('keys.save')} onOk={form.submit} confirmLoading={save.isPending}>
      <Flex vertical gap={12}>
        <Typography.Text type="secondary">{t('keys.editNote')}</Typography.Text>
        {save.error && <Failure error={save.error} reveal />}
        <KeyForm form={form} own={edited.owner !== undefined} edited={edited} onSubmit={save.mutate} />
      </Flex>
    </Modal>
  );
}
