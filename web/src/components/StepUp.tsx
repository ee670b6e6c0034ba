import { useMutation, useQuery } from '@tanstack/react-query';
import { Button, Flex, Form, Modal, Typography } from 'antd';
import { useSyncExternalStore } from 'react';
import { useTranslation } from 'react-i18next';

import { api, call } from '../api/client';
import { session } from '../api/session';
import { stepUp, type Wanted } from '../api/stepUp';
import { useMe } from '../lib/me';
import { askKey, keysWorkHere } from '../lib/webauthn';
import { CodeField } from './CodeField';
import { Failure } from './Failure';

/** Asks for a code of the second factor, or for a security key, where a call needs it shown again. Shown by the shell, over any page. */
export function StepUp() {
  const wanted = useSyncExternalStore(stepUp.subscribe, stepUp.snapshot);
  return wanted ? <Ask wanted={wanted} /> : null;
}

function Ask({ wanted }: { wanted: Wanted }) {
  const { t } = useTranslation();
  const [form] = Form.useForm<{ code: string }>();
  const show = useMutation({ mutationFn: (code: string) => session.showFactor({ code }), onSuccess: () => wanted.answer(true), gcTime: 0 });
  const withKey = useMutation({
    mutationFn: async (_: undefined) => session.showFactor({ assertion: await askKey(await call(api.POST('/me/second-factor/webauthn/challenge'))) }),
    onSuccess: () => wanted.answer(true),
    gcTime: 0,
  });
  const factors = useQuery({ queryKey: ['second-factors'], queryFn: () => call(api.GET('/me/second-factors')) });
  const me = useMe();
  const hasKey = factors.data?.items.some((f) => f.kind === 'webauthn') && keysWorkHere(me.second_factor?.key_origins ?? []);
  return (
    <Modal open width={440} title={t('factor.again')} okText={t('factor.show')} onOk={form.submit} onCancel={() => wanted.answer(false)} confirmLoading={show.isPending} destroyOnHidden>
      <Flex vertical gap={12}>
        <Typography.Text>{wanted.detail}</Typography.Text>
        {show.error && <Failure error={show.error} />}
        {withKey.error && <Failure error={withKey.error} />}
        {hasKey && (
          <Button type="primary" block loading={withKey.isPending} onClick={() => withKey.mutate(undefined)}>
            {t('factor.useKey')}
          </Button>
        )}
        <Form form={form} layout="vertical" requiredMark={false} onFinish={(v) => show.mutate(v.code)}>
          <CodeField help={t('factor.codeHelp')} />
        </Form>
      </Flex>
    </Modal>
  );
}
