import { useQueryClient } from '@tanstack/react-query';
import { Button } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { useLanguage } from '../i18n';
import { count } from '../lib/format';
import { projectPattern, useProjects } from '../lib/levels';
import { useMay } from '../lib/me';
import { type Column, DataTable } from './DataTable';
import { labelTexts, LevelActions, LevelLabels, LevelState, levelState, SuspendLevel, WriteLevel } from './LevelForms';
import { Panel } from './Panel';

type Project = Schema['Project'];

/** The projects of the tenant, to which its keys belong. */
export function Projects() {
  const { t } = useTranslation();
  const [language] = useLanguage();
  const mayWrite = useMay('keys.write');
  const queries = useQueryClient();
  const [open, setOpen] = useState<{ what: 'create' } | { what: 'edit' | 'suspend'; project: Project }>();
  const projects = useProjects();
  const refresh = () => Promise.all([queries.invalidateQueries({ queryKey: ['projects'] }), queries.invalidateQueries({ queryKey: ['keys'] })]);
  const close = () => {
    setOpen(undefined);
    void refresh();
  };
  const params = (p: Project) => ({ path: { id: p.id }, query: { tenant: p.tenant } });
  const resume = async (p: Project) => {
    await call(api.POST('/projects/{id}/resume', { params: params(p), body: { since: p.suspension!.since } }));
    await refresh();
  };
  const limit = (n: number) => (n === 0 ? '–' : count(n, language));
  const columns: Column<Project>[] = [
    { key: 'id', title: t('tenants.id'), render: (p) => p.id, csv: (p) => p.id },
    { key: 'name', title: t('tenants.name'), render: (p) => p.name, csv: (p) => p.name },
    { key: 'state', title: t('tenants.state'), render: (p) => <LevelState of={p} />, csv: levelState },
    { key: 'requests', title: t('keys.requests'), render: (p) => limit(p.limits.requests_per_minute), csv: (p) => p.limits.requests_per_minute },
    { key: 'tokens', title: t('keys.tokens'), render: (p) => limit(p.limits.tokens_per_minute), csv: (p) => p.limits.tokens_per_minute },
    { key: 'concurrent', title: t('keys.concurrent'), render: (p) => limit(p.limits.concurrent), csv: (p) => p.limits.concurrent },
    { key: 'labels', title: t('organisations.labels'), render: (p) => <LevelLabels of={p} />, csv: (p) => labelTexts(p.labels).join(' ') },
  ];
  if (mayWrite) {
    columns.push({
      key: 'actions',
      fixed: 'right',
      title: t('table.actions'),
      render: (p) => <LevelActions of={p} resume={resume} text={t('projects.resumeText')} onEdit={() => setOpen({ what: 'edit', project: p })} onSuspend={() => setOpen({ what: 'suspend', project: p })} />,
    });
  }
  return (
    <Panel
      title={t('projects.title')}
      extra={
        mayWrite && (
          <Button size="small" onClick={() => setOpen({ what: 'create' })}>
            {t('projects.create')}
          </Button>
        )
      }
    >
      <DataTable name={t('projects.title')} columns={columns} rows={projects.data} rowKey={(p) => p.id} loading={projects.isFetching} error={projects.error} reload={() => void projects.refetch()} empty={t('projects.empty')} />
      {open?.what === 'create' && (
        <WriteLevel title={t('projects.create')} pattern={projectPattern} patternHelp={t('projects.idHelp')} limitsHelp={t('organisations.limitsHelp')} save={({ id, name, labels, limits }) => call(api.POST('/projects', { body: { id, name: name!, labels, limits } }))} onClose={close} />
      )}
      {open?.what === 'edit' && (
        <WriteLevel
          title={t('projects.editTitle', { name: open.project.id })}
          edited={open.project}
          pattern={projectPattern}
          patternHelp={t('projects.idHelp')}
          limitsHelp={t('organisations.limitsHelp')}
          save={({ name, labels, limits }) => call(api.PATCH('/projects/{id}', { params: params(open.project), body: { name, labels, limits } }))}
          onClose={close}
        />
      )}
      {open?.what === 'suspend' && (
        <SuspendLevel of={open.project} text={t('projects.suspendText')} suspend={(reason) => call(api.POST('/projects/{id}/suspend', { params: params(open.project), body: { reason } }))} onClose={close} />
      )}
    </Panel>
  );
}
