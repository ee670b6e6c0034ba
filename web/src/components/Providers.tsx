import { useQuery } from '@tanstack/react-query';
import { Alert, Button, Divider, Flex } from 'antd';
import { useEffect, useState } from 'react';
import { useTranslation } from 'react-i18next';

import { api, call } from '../api/client';
import { forgetRefusal, refusedSignIn, signInAt } from '../lib/provider';

const known = ['sign_in_refused', 'no_role', 'conflicting_roles', 'account_disabled', 'provider_second_factor_required', 'identity_provider_unavailable', 'login_throttled', 'tenant_suspended', 'organisation_suspended'] as const;

/** The providers that people sign in at, and why the last such sign-in was refused. Nothing where there is none. */
export function Providers() {
  const { t } = useTranslation();
  const [refused] = useState(refusedSignIn);
  useEffect(() => {
    if (refused) forgetRefusal();
  }, [refused]);
  const providers = useQuery({ queryKey: ['sign-in providers'], retry: false, queryFn: () => call(api.GET('/session/providers')) });
  const why = known.find((code) => code === refused?.code) ?? 'other';
  const items = providers.data?.items ?? [];
  return (
    <>
      {refused && (
        <Alert type="warning" showIcon title={t(`provider.refused.${why}`)} description={refused.request && t('provider.request', { id: refused.request })} />
      )}
      {items.length > 0 && (
        <Flex vertical gap={8}>
          {items.map((p) => (
            <Button key={p.name} block onClick={() => signInAt(p.name)}>
              {t('provider.signIn', { name: p.label })}
            </Button>
          ))}
          <Divider plain style={{ margin: '8px 0' }}>
            {t('provider.or')}
          </Divider>
        </Flex>
      )}
    </>
  );
}
