import { useMutation, useQuery } from '@tanstack/react-query';
import { Alert, Flex, Modal, Radio, Skeleton, Typography } from 'antd';
import { useId, useState } from 'react';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { toApiError } from '../api/errors';
import { useMe } from '../lib/me';
import { Failure } from './Failure';
import { TextDiff } from './TextDiff';

type Policy = Schema['Policy'];

export const everyTenant = '*';

/** The version with its text. */
export function usePolicy(p: Policy | undefined) {
  return useQuery({
    queryKey: ['policy', p?.name],
    queryFn: () => call(api.GET('/policies/{version}', { params: { path: { version: p!.version }, query: { tenant: p!.tenant } } })),
    enabled: p !== undefined,
  });
}

/** The version that holds for a target, as of now and not as the page knows it: the list begins with it. */
function useActivePolicy(target: string, enabled = true) {
  return useQuery({
    queryKey: ['policies', 'in force', target],
    queryFn: async () => (await call(api.GET('/policies', { params: { query: { tenant: target, limit: 1 } } }))).items[0] ?? null,
    enabled,
    staleTime: 0,
    gcTime: 0,
  });
}

/** Publishes a text for one tenant or for all without a policy of their own, after showing for whom and what that changes. */
export function PublishPolicy({ yaml, opened, onPublished, onClose }: { yaml: string; opened?: Policy; onPublished: (p: Policy) => void; onClose: () => void }) {
  const { t } = useTranslation();
  const { tenant, permissions } = useMe();
  const label = useId();
  const mayAll = permissions.includes('tenants.read'); // only people of the operator have a permission of the whole installation
  const [target, setTarget] = useState(opened?.tenant === everyTenant && mayAll ? everyTenant : tenant);
  const mine = useActivePolicy(tenant);
  const everyones = useActivePolicy(everyTenant, mayAll);
  const asked = target === everyTenant ? everyones : mine;
  const active = asked.data ?? undefined;
  const known = mine.data !== undefined && asked.data !== undefined;
  const failed = mine.error ?? asked.error;
  const current = usePolicy(active);
  const publish = useMutation({
    mutationFn: () => call(api.POST('/policies', { body: { tenant: target, yaml, expected: active?.name ?? '' } })),
    onSuccess: onPublished,
    onError: (error) => toApiError(error).code === 'policy_changed' && asked.refetch(), // to be compared with anew, and asked again
  });
  return (
    <Modal open width={860} title={t('policy.publishTitle')} okText={t('policy.publish')} onCancel={onClose} onOk={() => publish.mutate()} okButtonProps={{ disabled: !known || asked.isFetching || (active && !current.data) }} confirmLoading={publish.isPending}>
      <Flex vertical gap={16}>
        {publish.error && <Failure error={publish.error} reveal />}
        <Flex vertical gap={8}>
          <Typography.Text strong id={label}>
            {t('policy.target')}
          </Typography.Text>
          <Radio.Group
            aria-labelledby={label}
            vertical
            value={target}
            onChange={(e) => setTarget(e.target.value as string)}
            options={[
              { value: tenant, label: t('policy.targetTenant', { tenant }) },
              { value: everyTenant, label: t('policy.targetAll'), disabled: !mayAll },
            ]}
          />
          {!mayAll && <Typography.Text type="secondary">{t('policy.targetAllDenied')}</Typography.Text>}
        </Flex>
        {known && (
          <Alert
            type="warning"
            showIcon
            role="status"
            title={<Meaning target={target} tenant={tenant} active={active} mine={mine.data ?? undefined} />}
            description={t('policy.meansNow')}
          />
        )}
        {failed ? (
          <Failure error={failed} retry={() => void Promise.all([mine.refetch(), asked.refetch()])} />
        ) : !known ? (
          <Skeleton active />
        ) : !active ? (
          <Typography.Text type="secondary">{t('policy.againstNothing')}</Typography.Text>
        ) : current.error ? (
          <Failure error={current.error} retry={() => void current.refetch()} />
        ) : current.data ? (
          <Flex vertical gap={8}>
            <Typography.Text strong>{t('policy.against', { name: active.name })}</Typography.Text>
            <TextDiff from={current.data.yaml ?? ''} to={yaml} label={t('policy.against', { name: active.name })} />
          </Flex>
        ) : (
          <Skeleton active />
        )}
      </Flex>
    </Modal>
  );
}

/** What publishing would mean, in words: active holds for the target, mine for the tenant, which is its own or that for every tenant. */
function Meaning({ target, tenant, active, mine }: { target: string; tenant: string; active?: Policy; mine?: Policy }) {
  const { t } = useTranslation();
  const name = active?.name;
  if (target !== everyTenant) {
    if (name === undefined) return t('policy.meansFirst', { tenant });
    return active?.tenant === tenant ? t('policy.meansReplace', { name, tenant }) : t('policy.meansOwn', { name, tenant });
  }
  const first = name === undefined ? t('policy.meansAllFirst') : t('policy.meansAll', { name });
  return `${first} ${mine?.tenant === tenant ? t('policy.meansNotMine', { tenant, name: mine.name }) : t('policy.meansMine', { tenant })}`;
}
