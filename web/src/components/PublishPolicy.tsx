import { useMutation, useQuery } from '@tanstack/react-query';
import { Alert, Flex, Modal, Radio, Skeleton, Typography } from 'antd';
import { useId, useState } from 'react';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { toApiError } from '../api/errors';
import { useOrganisations, useProjects } from '../lib/levels';
import { useMe } from '../lib/me';
import { Failure } from './Failure';
import { TextDiff } from './TextDiff';

type Policy = Schema['Policy'];

export const everyTenant = '*';
const organisationMark = 'org:';

/** The scope of a version, as its name has it. */
export const scopeOf = (p: Policy) => p.name.slice(0, p.name.lastIndexOf('@'));

/** What a request names of a scope: tenant and project, or organisation. */
const named = (scope: string) => {
  if (scope.startsWith(organisationMark)) return { organisation: scope.slice(organisationMark.length) };
  const [tenant, project] = scope.split('/');
  return { tenant, project };
};

/** The version with its text. */
export function usePolicy(p: Policy | undefined) {
  return useQuery({
    queryKey: ['policy', p?.name],
    queryFn: () => call(api.GET('/policies/{version}', { params: { path: { version: p!.version }, query: named(scopeOf(p!)) } })),
    enabled: p !== undefined,
  });
}

/** The version that holds for a target, as of now and not as the page knows it: the list begins with it. */
function useActivePolicy(target: string, enabled = true) {
  return useQuery({
    queryKey: ['policies', 'in force', target],
    queryFn: async () => (await call(api.GET('/policies', { params: { query: { ...named(target), limit: 1 } } }))).items[0] ?? null,
    enabled,
    staleTime: 0,
    gcTime: 0,
  });
}

/** Publishes a text for a tenant, one of its projects, an organisation or all without a policy of their own, after showing for whom and what that changes. */
export function PublishPolicy({ yaml, opened, onPublished, onClose }: { yaml: string; opened?: Policy; onPublished: (p: Policy) => void; onClose: () => void }) {
  const { t } = useTranslation();
  const { tenant, permissions } = useMe();
  const label = useId();
  const mayAll = permissions.includes('tenants.read'); // only people of the operator have a permission of the whole installation
  const opens = opened && scopeOf(opened);
  const [target, setTarget] = useState(opens?.startsWith(`${tenant}/`) || (mayAll && (opens === everyTenant || opens?.startsWith(organisationMark))) ? opens! : tenant);
  const projects = useProjects(permissions.includes('keys.read')).data ?? [];
  const organisations = useOrganisations(mayAll).data ?? [];
  const mine = useActivePolicy(tenant);
  const everyones = useActivePolicy(everyTenant, mayAll);
  const other = useActivePolicy(target, target !== tenant && target !== everyTenant);
  const asked = target === everyTenant ? everyones : target === tenant ? mine : other;
  const active = asked.data ?? undefined;
  const known = mine.data !== undefined && asked.data !== undefined;
  const failed = mine.error ?? asked.error;
  const current = usePolicy(active);
  const publish = useMutation({
    mutationFn: () => call(api.POST('/policies', { body: { ...named(target), yaml, expected: active?.name ?? '' } })),
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
              ...projects.map((p) => ({ value: `${tenant}/${p.id}`, label: t('policy.targetProject', { project: p.name }) })),
              ...organisations.map((o) => ({ value: organisationMark + o.id, label: t('policy.targetOrganisation', { organisation: o.name }) })),
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
  if (target !== everyTenant && target !== tenant) {
    if (name === undefined || !active) return t('policy.meansScopeFirst', { scope: target });
    return scopeOf(active) === target ? t('policy.meansScopeReplace', { name, scope: target }) : t('policy.meansScopeOwn', { name, scope: target });
  }
  if (target !== everyTenant) {
    if (name === undefined) return t('policy.meansFirst', { tenant });
    return active && scopeOf(active) === tenant ? t('policy.meansReplace', { name, tenant }) : t('policy.meansOwn', { name, tenant });
  }
  const first = name === undefined ? t('policy.meansAllFirst') : t('policy.meansAll', { name });
  return `${first} ${mine && scopeOf(mine) === tenant ? t('policy.meansNotMine', { tenant, name: mine.name }) : t('policy.meansMine', { tenant })}`;
}
