import { useMutation } from '@tanstack/react-query';
import { Flex, Typography } from 'antd';
import { useTranslation } from 'react-i18next';

import { api, call } from '../api/client';
import { Failure } from './Failure';
import { MaskingForm } from './MaskingForm';
import { type MaskingRequest, MaskingResult } from './MaskingResult';

/** Shows what the policy in force would hide from the model or the caller, without asking a model. */
export function MaskingPreview({ text }: { text: string }) {
  const { t } = useTranslation();
  const preview = useMutation({ mutationFn: (body: MaskingRequest) => call(api.POST('/masking/preview', { body })), gcTime: 0 }); // texts do not outlive the page
  return (
    <Flex vertical gap={16}>
      <Typography.Text type="secondary">{t('masking.note')}</Typography.Text>
      <MaskingForm initial={text} button={t('masking.preview')} busy={preview.isPending} onPreview={preview.mutate} />
      {preview.error && <Failure error={preview.error} />}
      {preview.data && preview.variables && <MaskingResult request={preview.variables} preview={preview.data} />}
    </Flex>
  );
}
