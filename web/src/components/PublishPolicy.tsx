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

/** The newest of the versions for a target, which are listed newest first. */
export const newest = (versions: Policy[], target: string) => versions.find((p) => p.tenant === target);

/** Publishes a text for one tenant or for all without a policy of their own, after showing for whom and what that changes. */
export function PublishPolicy({ yaml, opened, onPublished, onClose }: { yaml: string; opened?: Policy; onPublished: (p: Policy) => void; onClose: () => void }) {
  const { t } = useTranslation();
  const { tenant, roles } = useMe();
  const label = useId();
  const mayAll = roles.includes('platform_admin');
  const [target, setTarget] = useState(opened?.tenant === everyTenant && mayAll ? everyTenant : tenant);
  const listed = useQuery({ queryKey: ['policies', 'in force'], queryFn: () => call(api.GET('/policies', { params: { query: { limit: 200 } } })), staleTime: 0, gcTime: 0 }); // as of now, not as the page knows them
  const versions = listed.data?.items ?? [];
  const own = newest(versions, tenant);
  const all = newest(versions, everyTenant);
  const inForce = target === everyTenant ? all : (own ?? all);
  const current = usePolicy(inForce);
  const publish = useMutation({
    mutationFn: () => call(api.POST('/policies', { body: { tenant: target, yaml, expected: inForce?.name ?? '' } })),
    onSuccess: onPublished,
    onError: (error) => toApiError(error).code === 'policy_changed' && listed.refetch(), // to be compared with anew, and asked again
  });
  return (
    <Modal open width={860} title={t('policy.publishTitle')} okText={t('policy.publish')} onCancel={onClose} onOk={() => publish.mutate()} okButtonProps={{ disabled: !listed.data || listed.isFetching || (inForce && !current.data) }} confirmLoading={publish.isPending}>
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
        {listed.data && (
          <Alert
            type="warning"
            showIcon
            role="status"
            title={<Meaning target={target} tenant={tenant} own={own} all={all} />}
            description={t('policy.meansNow')}
          />
        )}
        {listed.error ? (
          <Failure error={listed.error} retry={() => void listed.refetch()} />
        ) : !listed.data ? (
          <Skeleton active />
        ) : !inForce ? (
          <Typography.Text type="secondary">{t('policy.againstNothing')}</Typography.Text>
        ) : current.error ? (
          <Failure error={current.error} retry={() => void current.refetch()} />
        ) : current.data ? (
          <Flex vertical gap={8}>
            <Typography.Text strong>{t('policy.against', { name: inForce.name })}</Typography.Text>
            <TextDiff from={current.data.yaml ?? ''} to={yaml} label={t('policy.against', { name: inForce.name })} />
          </Flex>
        ) : (
          <Skeleton active />
        )}
      </Flex>
    </Modal>
  );
}

/** What publishing would mean, in words. */
function Meaning({ target, tenant, own, all }: { target: string; tenant: string; own?: Policy; all?: Policy }) {
  const { t } = useTranslation();
  if (target !== everyTenant) {
    if (own) return t('policy.meansReplace', { name: own.name, tenant });
    return all ? t('policy.meansOwn', { name: all.name, tenant }) : t('policy.meansFirst', { tenant });
  }
  const first = all ? t('policy.meansAll', { name: all.name }) : t('policy.meansAllFirst');
  return `${first} ${own ? t('policy.meansNotMine', { tenant, name: own.name }) : t('policy.meansMine', { tenant })}`;
}
