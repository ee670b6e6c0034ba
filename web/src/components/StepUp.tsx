import { useMutation } from '@tanstack/react-query';
import { Flex, Form, Modal, Typography } from 'antd';
import { useSyncExternalStore } from 'react';
import { useTranslation } from 'react-i18next';

import { session } from '../api/session';
import { stepUp, type Wanted } from '../api/stepUp';
import { CodeField } from './CodeField';
import { Failure } from './Failure';

/** Asks for a code of the second factor where a call needs it shown again. Shown by the shell, over any page. */
export function StepUp() {
  const wanted = useSyncExternalStore(stepUp.subscribe, stepUp.snapshot);
  return wanted ? <Ask wanted={wanted} /> : null;
}

function Ask({ wanted }: { wanted: Wanted }) {
  const { t } = useTranslation();
  const [form] = Form.useForm<{ code: string }>();
  const show = useMutation({ mutationFn: (code: string) => session.showFactor(code), onSuccess: () => wanted.answer(true), gcTime: 0 });
  return (
    <Modal open width={440} title={t('factor.again')} okText={t('factor.show')} onOk={form.submit} onCancel={() => wanted.answer(false)} confirmLoading={show.isPending} destroyOnHidden>
      <Flex vertical gap={12}>
        <Typography.Text>{wanted.detail}</Typography.Text>
        {show.error && <Failure error={show.error} />}
        <Form form={form} layout="vertical" requiredMark={false} onFinish={(v) => show.mutate(v.code)}>
          <CodeField help={t('factor.codeHelp')} />
        </Form>
      </Flex>
    </Modal>
  );
}
