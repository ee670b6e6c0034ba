import { PlusOutlined } from '@ant-design/icons';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Button, Flex, Modal, Select } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { type Column, DataTable } from '../components/DataTable';
import { Failure } from '../components/Failure';
import { labelTexts, LevelActions, LevelLabels, LevelState, levelState, SuspendLevel, WriteLevel } from '../components/LevelForms';
import { Page, Panel } from '../components/Panel';
import { SetBudget } from '../components/SetBudget';
import { useLabel, useLanguage } from '../i18n';
import { count, money } from '../lib/format';
import { idPattern, useOrganisations, useTenants } from '../lib/levels';
import { useMay } from '../lib/me';

type Organisation = Schema['Organisation'];
type Tenant = Schema['Tenant'];

/** A row of the tree: an organisation, or a tenant below its own. */
type Row = { organisation: Organisation; tenant?: undefined } | { tenant: Tenant; organisation?: undefined };

const of = (r: Row) => r.organisation ?? r.tenant;

/** The organisations with their tenants: what all callers of each may ask together, and who is suspended and why. */
export default function Organisations() {
  const { t } = useTranslation();
  const [language] = useLanguage();
  const mayWrite = useMay('tenants.write');
  const queries = useQueryClient();
  const [open, setOpen] = useState<{ what: 'create' } | { what: 'edit' | 'suspend' | 'budget'; organisation: Organisation } | { what: 'move'; tenant: Tenant }>();
  const organisations = useOrganisations();
  const tenants = useTenants();
  const rows: Row[] | undefined =
    organisations.data && tenants.data && organisations.data.flatMap((o): Row[] => [{ organisation: o }, ...tenants.data.filter((x) => x.organisation === o.id).map((tenant): Row => ({ tenant }))]);
  const refresh = () => Promise.all([queries.invalidateQueries({ queryKey: ['organisations'] }), queries.invalidateQueries({ queryKey: ['tenants'] }), queries.invalidateQueries({ queryKey: ['budgets'] })]);
  const close = () => {
    setOpen(undefined);
    void refresh();
  };
  const path = (o: Organisation) => ({ path: { id: o.id } });
  const resume = async (o: Organisation) => {
    await call(api.POST('/organisations/{id}/resume', { params: path(o), body: { since: o.suspension!.since } }));
    await refresh();
  };
  const limit = (r: Row, n: number) => (n === 0 ? (r.tenant ? t('keys.limitDefault') : '–') : count(n, language));
  const columns: Column<Row>[] = [
    { key: 'id', title: t('tenants.id'), render: (r) => <span style={r.tenant && { paddingInlineStart: 24 }}>{of(r).id}</span>, csv: (r) => of(r).id },
    { key: 'kind', title: t('organisations.kind'), render: (r) => t(r.tenant ? 'organisations.tenant' : 'organisations.organisation'), csv: (r) => (r.tenant ? 'tenant' : 'organisation') },
    { key: 'name', title: t('tenants.name'), render: (r) => of(r).name, csv: (r) => of(r).name },
    { key: 'state', title: t('tenants.state'), render: (r) => <LevelState of={of(r)} />, csv: (r) => levelState(of(r)) },
    { key: 'requests', title: t('keys.requests'), render: (r) => limit(r, of(r).limits.requests_per_minute), csv: (r) => of(r).limits.requests_per_minute },
    { key: 'tokens', title: t('keys.tokens'), render: (r) => limit(r, of(r).limits.tokens_per_minute), csv: (r) => of(r).limits.tokens_per_minute },
    { key: 'concurrent', title: t('keys.concurrent'), render: (r) => limit(r, of(r).limits.concurrent), csv: (r) => of(r).limits.concurrent },
    { key: 'budgets', title: t('home.budgets'), render: (r) => r.organisation && <Budgets of={r.organisation} /> },
    { key: 'labels', title: t('organisations.labels'), render: (r) => <LevelLabels of={of(r)} />, csv: (r) => labelTexts(of(r).labels).join(' ') },
  ];
  if (mayWrite) {
    columns.push({
      key: 'actions',
      fixed: 'right',
      title: t('table.actions'),
      render: (r) =>
        r.tenant ? (
          <Button size="small" onClick={() => setOpen({ what: 'move', tenant: r.tenant })} aria-label={t('organisations.moveName', { name: r.tenant.id })}>
            {t('organisations.move')}
          </Button>
        ) : (
          <Flex gap={8}>
            <LevelActions of={r.organisation} resume={resume} text={t('organisations.resumeText')} onEdit={() => setOpen({ what: 'edit', organisation: r.organisation })} onSuspend={() => setOpen({ what: 'suspend', organisation: r.organisation })} />
            <Button size="small" onClick={() => setOpen({ what: 'budget', organisation: r.organisation })} aria-label={t('organisations.budgetName', { name: r.organisation.id })}>
              {t('budget.set')}
            </Button>
          </Flex>
        ),
    });
  }
  return (
    <Page
      title={t('nav.organisations')}
      note={t('organisations.note')}
      actions={
        mayWrite && (
          <Button type="primary" icon={<PlusOutlined aria-hidden />} onClick={() => setOpen({ what: 'create' })}>
            {t('organisations.create')}
          </Button>
        )
      }
    >
      <Panel title={organisations.data && t('organisations.count', { count: organisations.data.length })}>
        <DataTable
          name={t('nav.organisations')}
          columns={columns}
          rows={rows}
          rowKey={(r) => (r.tenant ? `tenant ${r.tenant.id}` : `organisation ${r.organisation.id}`)}
          loading={organisations.isFetching || tenants.isFetching}
          error={organisations.error ?? tenants.error}
          reload={() => void refresh()}
          empty={t('organisations.empty')}
        />
      </Panel>
      {open?.what === 'create' && (
        <WriteLevel title={t('organisations.create')} pattern={idPattern} patternHelp={t('tenants.idHelp')} limitsHelp={t('organisations.limitsHelp')} save={({ id, name, labels, limits }) => call(api.POST('/organisations', { body: { id, name: name!, labels, limits } }))} onClose={close} />
      )}
      {open?.what === 'edit' && (
        <WriteLevel
          title={t('organisations.editTitle', { name: open.organisation.id })}
          edited={open.organisation}
          pattern={idPattern}
          patternHelp={t('tenants.idHelp')}
          limitsHelp={t('organisations.limitsHelp')}
          save={({ name, labels, limits }) => call(api.PATCH('/organisations/{id}', { params: path(open.organisation), body: { name, labels, limits } }))}
          onClose={close}
        />
      )}
      {open?.what === 'suspend' && (
        <SuspendLevel of={open.organisation} text={t('organisations.suspendText')} suspend={(reason) => call(api.POST('/organisations/{id}/suspend', { params: path(open.organisation), body: { reason } }))} onClose={close} />
      )}
      {open?.what === 'budget' && <SetBudget organisation={open.organisation.id} onClose={close} />}
      {open?.what === 'move' && <Move tenant={open.tenant} organisations={organisations.data ?? []} onClose={close} />}
    </Page>
  );
}

/** The budgets of an organisation, with what is spent of each. */
function Budgets({ of }: { of: Organisation }) {
  const label = useLabel();
  const [language] = useLanguage();
  const mayRead = useMay('budget.read');
  const budgets = useQuery({ queryKey: ['budgets', of.id], queryFn: () => call(api.GET('/budgets', { params: { query: { organisation: of.id } } })), enabled: mayRead });
  return budgets.data?.items.map((b) => (
    <div key={b.period}>
      {label('period', b.period)}: {money(b.spent_nano, b.currency, language)} / {money(b.limit_nano, b.currency, language)}
    </div>
  ));
}

/** Puts a tenant into another organisation. */
function Move({ tenant, organisations, onClose }: { tenant: Tenant; organisations: Organisation[]; onClose: () => void }) {
  const { t } = useTranslation();
  const [to, setTo] = useState<string>();
  const move = useMutation({ mutationFn: () => call(api.POST('/tenants/{id}/move', { params: { path: { id: tenant.id } }, body: { organisation: to! } })), onSuccess: onClose });
  return (
    <Modal open title={t('organisations.moveTitle', { name: tenant.name })} onCancel={onClose} okText={t('organisations.move')} okButtonProps={{ disabled: !to }} onOk={() => move.mutate()} confirmLoading={move.isPending}>
      <Flex vertical gap={12}>
        <span>{t('organisations.moveText')}</span>
        {move.error && <Failure error={move.error} reveal />}
        <Select
          aria-label={t('organisations.organisation')}
          value={to}
          onChange={setTo}
          options={organisations.filter((o) => o.id !== tenant.organisation).map((o) => ({ value: o.id, label: `${o.name} · ${o.id}`, disabled: o.suspension !== undefined }))}
        />
      </Flex>
    </Modal>
  );
}
