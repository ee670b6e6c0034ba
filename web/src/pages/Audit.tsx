import { DeleteOutlined, FileZipOutlined, LockOutlined, SafetyCertificateOutlined } from '@ant-design/icons';
import { keepPreviousData, useMutation, useQuery } from '@tanstack/react-query';
import { Button, DatePicker, Flex, Input, Select, Tag, Typography } from 'antd';
import dayjs from 'dayjs';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { ActionTag } from '../components/ActionTag';
import { AuditDrawer } from '../components/AuditDrawer';
import { AuditStatusPanel } from '../components/AuditStatus';
import { type Column, DataTable } from '../components/DataTable';
import { ErasuresModal } from '../components/ErasuresModal';
import { ExportModal } from '../components/ExportModal';
import { HoldsModal } from '../components/HoldsModal';
import { LinkButton } from '../components/LinkButton';
import { Page, Panel } from '../components/Panel';
import { ReconcileModal } from '../components/ReconcileModal';
import { Time } from '../components/Time';
import { Failure } from '../components/Failure';
import { VerifyModal } from '../components/VerifyModal';
import { useLabel, useLanguage } from '../i18n';
import { exactNano, iso, money } from '../lib/format';
import { done } from '../lib/findings';
import { useMay } from '../lib/me';
import { useFilters } from '../lib/url';

type Entry = Schema['AuditEntry'];

const stages = ['admitted', 'outcome', 'action'] as const;
const outcomes = ['ok', 'refused', 'failed', 'aborted'] as const;
const outcomeColors: Record<string, string> = { ok: 'success', refused: 'warning', failed: 'error', aborted: 'default' };

/** The names that have a label, as the log writes them but for marks. */
function useNames(key: string): string[] {
  const { i18n } = useTranslation();
  return Object.keys(i18n.getResource('en', 'translation', key) as Record<string, string>);
}

export default function Audit() {
  const { t } = useTranslation();
  const label = useLabel();
  const [language] = useLanguage();
  const mayVerify = useMay('audit.verify');
  const [verifying, setVerifying] = useState(false);
  const [reconciling, setReconciling] = useState(false);
  const [looking, setLooking] = useState<'holds' | 'erasures' | 'export'>(); // on demand only: each look at them is recorded
  const [f, setFilters] = useFilters({ from: '', to: '', request: '', actor: '', action: '', stage: '', outcome: '', model: '', rollout: '', class: '', text: '', person: '', cursor: '', event: '' });
  const filter = (change: Partial<typeof f>) => setFilters({ ...change, cursor: '' }); // a cursor belongs to its filters
  const query = {
    from: f.from || undefined,
    to: f.to || undefined,
    request: f.request || undefined,
    actor: f.actor || undefined,
    action: f.action || undefined,
    stage: stages.find((s) => s === f.stage),
    outcome: outcomes.find((o) => o === f.outcome),
    model: f.model || undefined,
    rollout: f.rollout || undefined,
    class: f.class || undefined,
    text: f.text || undefined,
    on_behalf_of: f.person || undefined,
    cursor: f.cursor || undefined,
    limit: 50,
  };
  const page = useQuery({
    queryKey: ['audit', query],
    queryFn: () => call(api.GET('/audit/records', { params: { query } })),
    placeholderData: keepPreviousData,
  });
  const older = page.data?.next;
  // A name is asked for in a body and never stands in an address: the filter is its digest.
  const person = useMutation({
    mutationFn: (subject: string) => call(api.POST('/audit/subjects', { body: { subject } })),
    onSuccess: ({ digest }) => filter({ person: digest }),
  });
  const actions = useNames('label.action').map((name) => name.replace('_', '.')); // the first mark only: names of operations have none
  const classes = useNames('label.class');
  const filtered = [f.from, f.to, f.request, f.actor, f.action, f.stage, f.outcome, f.model, f.rollout, f.class, f.text, f.person].some(Boolean);

  const columns: Column<Entry>[] = [
    { key: 'time', title: t('audit.time'), render: (e) => <Time at={e.event.time} />, csv: (e) => iso(e.event.time) },
    { key: 'stage', title: t('audit.stage'), render: (e) => label('stage', e.event.stage), csv: (e) => e.event.stage },
    {
      key: 'action',
      title: t('audit.action'),
      render: (e) => (
        <LinkButton onClick={() => setFilters({ event: e.event.id })}>{label('action', e.event.action ?? '')}</LinkButton>
      ),
      csv: (e) => e.event.action ?? '',
    },
    { key: 'actor', title: t('audit.actor'), render: (e) => e.event.actor?.name || e.event.actor?.id, csv: (e) => e.event.actor?.id ?? '' },
    { key: 'object', title: t('audit.object'), render: (e) => (
        <Typography.Text ellipsis style={{ maxWidth: 200 }} title={e.event.model?.asked || e.event.resource}>
          {e.event.model?.asked || e.event.resource}
        </Typography.Text>
      ),
      csv: (e) => e.event.model?.asked || e.event.resource || '' },
    {
      key: 'findings',
      title: t('audit.findings'),
      render: (e) => e.event.findings?.map((x) => <ActionTag key={x.direction + x.class + x.action} action={x.action} title={`${label('direction', x.direction)} · ${label('finding', done(x.action))}`}>{`${label('class', x.class)} × ${x.count}`}</ActionTag>),
      csv: (e) => e.event.findings?.map((x) => `${x.direction}:${x.class}:${done(x.action)}:${x.count}`).join(' ') ?? '',
    },
    {
      key: 'outcome',
      title: t('audit.outcome'),
      render: (e) => e.event.outcome && <Tag color={outcomeColors[e.event.outcome]}>{label('outcome', e.event.outcome)}</Tag>,
      csv: (e) => e.event.outcome ?? '',
    },
    {
      key: 'cost',
      title: t('audit.cost'),
      align: 'right',
      render: (e) => (e.event.usage?.currency && e.event.stage === 'outcome' ? money(e.event.usage.cost ?? 0, e.event.usage.currency, language) : ''),
      csv: (e) => (e.event.usage?.currency && e.event.stage === 'outcome' ? exactNano(e.event.usage.cost ?? 0) : ''),
    },
    {
      key: 'index',
      title: t('audit.index'),
      align: 'right',
      render: (e) => (e.index < 0 ? <Typography.Text type="secondary">{t('audit.unsealed')}</Typography.Text> : e.index),
      csv: (e) => e.index,
    },
    { key: 'request', title: t('audit.request'), render: (e) => e.event.request && <Typography.Text code>{e.event.request}</Typography.Text>, csv: (e) => e.event.request ?? '' },
  ];
  const search = (name: 'request' | 'actor' | 'model' | 'rollout' | 'text') => (
    <Input.Search key={name + f[name]} allowClear aria-label={t(`audit.${name}`)} placeholder={t(`audit.${name}`)} defaultValue={f[name]} onSearch={(v) => filter({ [name]: v.trim() })} style={{ width: 180 }} />
  );

  return (
    <Page
      title={t('nav.audit')}
      note={t('audit.note')}
      actions={
        <Flex gap={8} wrap>
          <Button icon={<LockOutlined aria-hidden />} title={t('holds.note')} onClick={() => setLooking('holds')}>
            {t('holds.title')}
          </Button>
          <Button icon={<DeleteOutlined aria-hidden />} title={t('erasures.note')} onClick={() => setLooking('erasures')}>
            {t('erasures.title')}
          </Button>
          <Button icon={<FileZipOutlined aria-hidden />} title={t('audit.exportNote')} onClick={() => setLooking('export')}>
            {t('audit.export')}
          </Button>
          {mayVerify && (
            <Button type="primary" icon={<SafetyCertificateOutlined aria-hidden />} onClick={() => setVerifying(true)}>
              {t('audit.verify')}
            </Button>
          )}
        </Flex>
      }
    >
      {person.error && <Failure error={person.error} />}
      <AuditStatusPanel onFindings={mayVerify ? () => setReconciling(true) : undefined} />
      <Flex gap={8} wrap role="search" aria-label={t('audit.filters')}>
        <DatePicker.RangePicker
          aria-label={t('audit.range')}
          showTime
          allowEmpty={[true, true]}
          value={[f.from ? dayjs(f.from) : null, f.to ? dayjs(f.to) : null]}
          onChange={(range) => filter({ from: range?.[0]?.toISOString() ?? '', to: range?.[1]?.toISOString() ?? '' })}
        />
        <Select aria-label={t('audit.stage')} placeholder={t('audit.stage')} allowClear style={{ width: 130 }} value={f.stage || undefined} onChange={(v?: string) => filter({ stage: v ?? '' })} options={stages.map((s) => ({ value: s, label: label('stage', s) }))} />
        <Select aria-label={t('audit.outcome')} placeholder={t('audit.outcome')} allowClear style={{ width: 130 }} value={f.outcome || undefined} onChange={(v?: string) => filter({ outcome: v ?? '' })} options={outcomes.map((o) => ({ value: o, label: label('outcome', o) }))} />
        <Select
          aria-label={t('audit.action')}
          placeholder={t('audit.action')}
          allowClear
          showSearch={{ optionFilterProp: 'label' }}
          popupMatchSelectWidth={false}
          style={{ width: 180 }}
          value={f.action || undefined}
          onChange={(v?: string) => filter({ action: v ?? '' })}
          options={actions.map((a) => ({ value: a, label: label('action', a) }))}
        />
        <Select
          aria-label={t('audit.class')}
          placeholder={t('audit.class')}
          allowClear
          popupMatchSelectWidth={false}
          style={{ width: 150 }}
          value={f.class || undefined}
          onChange={(v?: string) => filter({ class: v ?? '' })}
          options={classes.map((c) => ({ value: c, label: label('class', c) }))}
        />
        {(['text', 'request', 'actor', 'model', 'rollout'] as const).map(search)}
        {f.person ? (
          <Tag closable onClose={() => filter({ person: '' })} title={f.person} style={{ alignSelf: 'center' }}>{`${t('audit.onBehalfOf')} ${f.person.slice(0, 12)}…`}</Tag>
        ) : (
          <Input.Search allowClear aria-label={t('audit.onBehalfOf')} placeholder={t('audit.onBehalfOf')} title={t('audit.personNote')} loading={person.isPending} onSearch={(v) => v.trim() && person.mutate(v.trim())} style={{ width: 180 }} />
        )}
        {filtered && <Button onClick={() => filter({ from: '', to: '', request: '', actor: '', action: '', stage: '', outcome: '', model: '', rollout: '', class: '', text: '', person: '' })}>{t('usage.clear')}</Button>}
      </Flex>
      <Panel>
        <DataTable
          name={t('nav.audit')}
          columns={columns}
          rows={page.data?.items}
          rowKey={(e) => e.event.id}
          loading={page.isFetching}
          error={page.error}
          reload={() => void page.refetch()}
          empty={t('audit.empty')}
          asOf={page.data?.as_of}
          pages={{ older: older ? () => setFilters({ cursor: older }) : undefined, newest: f.cursor ? () => setFilters({ cursor: '' }) : undefined }}
          onOpen={(e) => setFilters({ event: e.event.id })}
        />
      </Panel>
      {f.event && <AuditDrawer id={f.event} onClose={() => setFilters({ event: '' })} onRequest={(request) => setFilters({ request, cursor: '', event: '' })} />}
      {reconciling && (
        <ReconcileModal
          onClose={() => setReconciling(false)}
          onRecord={(event) => setFilters({ event })}
          onRequest={(request) => {
            setReconciling(false);
            filter({ request });
          }}
        />
      )}
      {looking === 'export' && <ExportModal period={{ from: query.from, to: query.to }} onClose={() => setLooking(undefined)} />}
      {looking === 'holds' && <HoldsModal onClose={() => setLooking(undefined)} />}
      {looking === 'erasures' && (
        <ErasuresModal
          onClose={() => setLooking(undefined)}
          onRecord={(event) => setFilters({ event })}
          onPerson={(digest) => {
            setLooking(undefined);
            filter({ person: digest });
          }}
        />
      )}
      {verifying && <VerifyModal onClose={() => setVerifying(false)} onRecord={(event) => setFilters({ event })} />}
    </Page>
  );
}
