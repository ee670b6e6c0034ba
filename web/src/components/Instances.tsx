import { useQuery, useQueryClient } from '@tanstack/react-query';
import { App, Button, Flex, Tag, Typography } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { useLanguage } from '../i18n';
import { count } from '../lib/format';
import { useMay } from '../lib/me';
import { type Column, DataTable } from './DataTable';
import { Failure } from './Failure';
import { Panel } from './Panel';
import { RegisterInstance, WeighInstance } from './RegisterInstance';
import { Time } from './Time';

type Instance = Schema['Instance'];

const colours: Record<Instance['state'], string> = { ready: 'success', starting: 'processing', warming: 'processing', draining: 'warning', sick: 'error', gone: 'error' };

/** The engines behind the models: which pool each is in, how it is for this replica, and what it has to do. */
export function Instances() {
  const { t } = useTranslation();
  const [language] = useLanguage();
  const mayWrite = useMay('models.write');
  const queries = useQueryClient();
  const { modal } = App.useApp();
  const [registering, setRegistering] = useState(false);
  const [weighed, setWeighed] = useState<Instance>();
  const list = useQuery({ queryKey: ['instances'], queryFn: () => call(api.GET('/instances')), refetchInterval: 5_000 });
  const act = async (title: string, change: () => Promise<unknown>) => {
    try {
      await change();
    } catch (error) {
      modal.error({ title, content: <Failure error={error} /> });
    }
    await queries.invalidateQueries({ queryKey: ['instances'] });
  };
  const path = (r: Instance) => ({ path: { pool: r.pool, name: r.name } });
  const drain = (r: Instance) =>
    act(t(r.draining ? 'instances.resume' : 'instances.drain'), () => call(api.PATCH('/pools/{pool}/instances/{name}', { params: path(r), body: { draining: !r.draining } })));
  const remove = (r: Instance) =>
    modal.confirm({
      title: t('instances.removeTitle', { name: `${r.pool}/${r.name}` }),
      content: t('instances.removeText'),
      okText: t('instances.remove'),
      okButtonProps: { danger: true },
      onOk: () => act(t('instances.remove'), () => call(api.DELETE('/pools/{pool}/instances/{name}', { params: path(r) }))),
    });
  const columns: Column<Instance>[] = [
    { key: 'pool', title: t('instances.pool'), render: (r) => r.pool, csv: (r) => r.pool },
    { key: 'name', title: t('instances.name'), render: (r) => r.name, csv: (r) => r.name },
    { key: 'kind', title: t('instances.kind'), render: (r) => t(`instances.kinds.${r.kind}`) + (r.profile ? ` · ${r.profile}` : ''), csv: (r) => r.kind },
    {
      key: 'state',
      title: t('instances.state'),
      render: (r) => (
        <>
          <Tag color={colours[r.state]}>{t(`instances.states.${r.state}`)}</Tag>
          <Typography.Paragraph type="secondary" style={{ margin: 0 }}>
            <Time at={r.since} /> {r.cause}
          </Typography.Paragraph>
        </>
      ),
      csv: (r) => r.state,
    },
    { key: 'weight', title: t('instances.weight'), render: (r) => count(r.weight, language), csv: (r) => String(r.weight) },
    { key: 'running', title: t('instances.running'), render: (r) => count(r.running, language), csv: (r) => String(r.running) },
    { key: 'zone', title: t('instances.zone'), render: (r) => r.zone ?? '', csv: (r) => r.zone ?? '' },
    { key: 'models', title: t('instances.models'), render: (r) => r.models.join(', '), csv: (r) => r.models.join(' ') },
  ];
  if (mayWrite) {
    columns.push({
      key: 'actions',
      fixed: 'right',
      title: t('table.actions'),
      render: (r) => (
        <Flex gap={8}>
          <Button size="small" onClick={() => setWeighed(r)} aria-label={t('instances.weighName', { name: `${r.pool}/${r.name}` })}>
            {t('instances.weigh')}
          </Button>
          <Button size="small" onClick={() => void drain(r)} aria-label={t(r.draining ? 'instances.resumeName' : 'instances.drainName', { name: `${r.pool}/${r.name}` })}>
            {t(r.draining ? 'instances.resume' : 'instances.drain')}
          </Button>
          {!r.configured && (
            <Button size="small" danger onClick={() => remove(r)} aria-label={t('instances.removeName', { name: `${r.pool}/${r.name}` })}>
              {t('instances.remove')}
            </Button>
          )}
        </Flex>
      ),
    });
  }
  return (
    <Panel
      title={t('instances.title')}
      extra={
        mayWrite && (
          <Button size="small" onClick={() => setRegistering(true)}>
            {t('instances.register')}
          </Button>
        )
      }
    >
      <Typography.Paragraph type="secondary">{t('instances.note')}</Typography.Paragraph>
      <DataTable
        name={t('instances.title')}
        columns={columns}
        rows={list.data?.items}
        rowKey={(r) => `${r.pool}/${r.name}`}
        loading={list.isLoading}
        error={list.error}
        reload={() => void list.refetch()}
        empty={t('instances.empty')}
      />
      {registering && <RegisterInstance pools={[...new Set(list.data?.items.map((r) => r.pool))]} onClose={() => setRegistering(false)} />}
      {weighed && <WeighInstance instance={weighed} onClose={() => setWeighed(undefined)} />}
    </Panel>
  );
}
