import { useMutation } from '@tanstack/react-query';
import { Alert, Button, Flex, Form, InputNumber, Modal, Typography } from 'antd';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { SecretOnce } from './CreateKey';
import { Failure } from './Failure';
import { Time } from './Time';

/** Gives a key another secret, and shows it this once. While the one before is still accepted, it can be ended here. */
export function RotateKey({ rotated, onClose }: { rotated: Schema['Key']; onClose: () => void }) {
  const { t } = useTranslation();
  const [form] = Form.useForm<{ hours: number }>();
  const params = { path: { id: rotated.id }, query: { tenant: rotated.tenant } };
  const rotate = useMutation({
    gcTime: 0, // a secret does not outlive the dialog
    mutationFn: (f: { hours: number }) => call(api.POST('/keys/{id}/rotate', { params, body: { overlap_hours: f.hours } })),
  });
  const retire = useMutation({ mutationFn: () => call(api.POST('/keys/{id}/retire', { params })), onSuccess: onClose });
  if (rotate.data) return <SecretOnce title={t('keys.rotatedTitle')} note={t('keys.rotatedNote')} created={rotate.data} onClose={onClose} />;
  const former = rotated.former_secret;
  const error = rotate.error ?? retire.error;
  return (
    <Modal
      open
      title={t('keys.rotateTitle', { name: rotated.name })}
      onCancel={onClose}
      footer={[
        former && (
          <Button key="retire" danger loading={retire.isPending} onClick={() => retire.mutate()}>
            {t('keys.retire')}
          </Button>
        ),
        <Button key="rotate" type="primary" loading={rotate.isPending} onClick={form.submit}>
          {t('keys.rotate')}
        </Button>,
      ]}
    >
      <Flex vertical gap={12}>
        {error && <Failure error={error} reveal />}
        {former && (
          <Alert
            type="info"
            showIcon
            title={
              <>
                {t('keys.formerEnds')} <Time at={former.expires_at} />
              </>
            }
            description={former.last_used_at ? <FormerUse at={former.last_used_at} /> : t('keys.formerNotUsed')}
          />
        )}
        <Typography.Text type="secondary">{t('keys.rotateText')}</Typography.Text>
        <Form form={form} layout="vertical" initialValues={{ hours: former ? 0 : 24 }} onFinish={rotate.mutate}>
          <Form.Item name="hours" label={t('keys.overlap')} extra={t('keys.overlapHelp')} rules={[{ required: true, message: t('form.required') }]}>
            <InputNumber min={0} max={720} precision={0} style={{ width: '100%' }} />
          </Form.Item>
        </Form>
      </Flex>
    </Modal>
  );
}

function FormerUse({ at }: { at: string }) {
  const { t } = useTranslation();
  return (
    <>
      {t('keys.formerUsed')} <Time at={at} />
    </>
  );
}
