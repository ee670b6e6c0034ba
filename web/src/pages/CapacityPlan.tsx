import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Alert, Button, Descriptions, Empty, Flex, Form, Input, InputNumber, Modal, Select, Tag, Typography } from 'antd';
import { lazy, Suspense, useMemo, useState } from 'react';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { Capacity } from '../components/Capacity';
import { type Column, DataTable } from '../components/DataTable';
import { Failure } from '../components/Failure';
import { Page, Panel } from '../components/Panel';
import { useLabel, useLanguage } from '../i18n';
import { planOption } from '../lib/capacityPlan';
import { count, time, weight } from '../lib/format';
import { useMay } from '../lib/me';
import { useFilters } from '../lib/url';

const Chart = lazy(() => import('../components/Chart').then((m) => ({ default: m.Chart })));

type Pool = Schema['ScaledPool'];
type Decision = Schema['ScalingDecision'];
type Planned = Schema['ScalingPlanned'];

/** What was ordered and is planned of each scaled pool of the replica that answers, and why it is as it is. */
export default function CapacityPlan() {
  const { t } = useTranslation();
  const [f, setFilters] = useFilters({ pool: '' });
  const scaling = useQuery({ queryKey: ['scaling'], queryFn: () => call(api.GET('/scaling')) });
  const pools = scaling.data?.items ?? [];
  const pool = pools.find((p) => p.pool === f.pool) ?? pools[0];
  return (
    <Page
      title={t('nav.capacity')}
      note={t('plan.note')}
      actions={
        <Flex gap={8}>
          {pools.length > 1 && <Select aria-label={t('plan.pool')} style={{ minWidth: 160 }} value={pool?.pool} options={pools.map((p) => ({ value: p.pool, label: p.pool }))} onChange={(name) => setFilters({ pool: name })} />}
          <Button onClick={() => void scaling.refetch()}>{t('table.reload')}</Button>
        </Flex>
      }
    >
      {scaling.error && <Failure error={scaling.error} retry={() => void scaling.refetch()} />}
      {scaling.data && !pool && (
        <Panel title={t('plan.pool')}>
          <Empty image={Empty.PRESENTED_IMAGE_SIMPLE} description={t('plan.none')} />
        </Panel>
      )}
      {pool && <OnePool key={pool.pool} pool={pool} />}
      <Capacity />
    </Page>
  );
}

function OnePool({ pool }: { pool: Pool }) {
  const { t } = useTranslation();
  const label = useLabel();
  const [language] = useLanguage();
  const mayWrite = useMay('capacity.write');
  const [asking, setAsking] = useState(false);
  const [tabled, setTabled] = useState(false);
  const now = pool.latest;
  const option = useMemo(() => planOption(pool, language, { target: t('plan.target'), plan: t('plan.planned'), floor: t('plan.floor') }), [pool, language, t]);
  const n = (x: number) => count(x, language);
  const rate = (x: number | undefined) => (x === undefined ? t('plan.unknown') : t('plan.perSecond', { n: weight(x, language) }));
  const band = (b: Schema['ScalingForecast'] | undefined) => (b ? t('plan.band', { low: weight(b.low, language), mid: weight(b.mid, language), high: weight(b.high, language) }) : t('plan.unknown'));
  const below = now?.alarms.includes('capacity_line');
  const decisions: Column<Decision>[] = [
    { key: 'at', title: t('plan.at'), render: (d) => time(d.at, language), csv: (d) => d.at },
    { key: 'ready', title: t('plan.ready'), align: 'right', render: (d) => n(d.ready), csv: (d) => d.ready },
    { key: 'target', title: t('plan.target'), align: 'right', render: (d) => `${n(d.before)} → ${n(d.target)}`, csv: (d) => d.target },
    { key: 'floor', title: t('plan.floor'), align: 'right', render: (d) => n(d.floor), csv: (d) => d.floor },
    { key: 'winner', title: t('plan.winner'), render: (d) => label('scaleWhy', d.winner), csv: (d) => d.winner },
    { key: 'needs', title: t('plan.needs'), render: (d) => Object.entries(d.needs).map(([why, x]) => `${label('scaleWhy', why)} ${n(x)}`).join(' · ') || t('plan.unknown'), csv: (d) => JSON.stringify(d.needs) },
    { key: 'limits', title: t('plan.limits'), render: (d) => d.limits.map((l) => label('scaleLimit', l)).join(' · '), csv: (d) => d.limits.join(' ') },
    { key: 'alarms', title: t('plan.alarms'), render: (d) => d.alarms.map((a) => <Tag key={a} color="warning">{label('scaleAlarm', a)}</Tag>), csv: (d) => d.alarms.join(' ') },
  ];
  const planned: Column<Planned>[] = [
    { key: 'at', title: t('plan.at'), render: (p) => time(p.at, language), csv: (p) => p.at },
    { key: 'slot', title: t('plan.slot'), render: (p) => (p.slot ? label('scaleSlot', p.slot) : t('plan.noCalendar')), csv: (p) => p.slot },
    { key: 'floor', title: t('plan.floor'), align: 'right', render: (p) => n(p.floor), csv: (p) => p.floor },
    { key: 'forecast', title: t('plan.forecast'), render: (p) => band(p.forecast), csv: (p) => (p.forecast ? `${p.forecast.low} ${p.forecast.mid} ${p.forecast.high}` : '') },
    { key: 'instances', title: t('plan.planned'), align: 'right', render: (p) => n(p.instances), csv: (p) => p.instances },
  ];
  return (
    <>
      {below && now && <Alert type="error" showIcon title={t('plan.belowLine', { room: weight(pool.head_room, language) })} description={t('plan.belowLineHelp', { line: n(now.line), max: n(pool.max) })} />}
      <Panel
        title={t('plan.now', { pool: pool.pool })}
        extra={
          mayWrite && (
            <Button size="small" onClick={() => setAsking(true)}>
              {t('plan.override')}
            </Button>
          )
        }
      >
        {now ? (
          <Descriptions
            size="small"
            column={{ xs: 1, md: 2 }}
            items={[
              { key: 'ready', label: t('plan.ready'), children: t('plan.readyOf', { ready: n(now.ready), target: n(now.target), starting: n(now.starting), draining: n(now.draining) }) },
              { key: 'bounds', label: t('plan.bounds'), children: t('plan.fromTo', { min: n(pool.min), max: n(pool.max) }) },
              { key: 'winner', label: t('plan.winner'), children: label('scaleWhy', now.winner) },
              { key: 'slot', label: t('plan.slot'), children: now.slot ? t('plan.slotFloor', { slot: label('scaleSlot', now.slot), floor: n(now.floor) }) : t('plan.noCalendarFloor', { floor: n(now.floor) }) },
              { key: 'rate', label: t('plan.rate'), children: rate(now.rate) },
              { key: 'forecast', label: t('plan.forecast'), children: band(now.forecast) },
              {
                key: 'line',
                label: t('plan.line', { room: weight(pool.head_room, language) }),
                children: now.line === 0 ? t('plan.unknown') : <Flex gap={6}>{t('plan.lineOf', { line: n(now.line), max: n(pool.max) })}<Tag color={below ? 'error' : 'success'}>{t(below ? 'plan.below' : 'plan.above')}</Tag></Flex>,
              },
              { key: 'override', label: t('plan.override'), children: now.override ? <Overridden pool={pool} override={now.override} /> : t('plan.noOverride') },
            ]}
          />
        ) : (
          <Typography.Text type="secondary">{t('plan.undecided')}</Typography.Text>
        )}
      </Panel>
      <Panel title={t('plan.chart')}>
        <Suspense fallback={<div style={{ height: 260 }} />}>
          <Chart option={option} height={260} label={t('plan.chartLabel')} />
        </Suspense>
        <Button size="small" aria-expanded={tabled} onClick={() => setTabled(!tabled)}>
          {t(tabled ? 'sla.hideTable' : 'sla.showTable')}
        </Button>
        {tabled && <DataTable name={t('plan.chart')} columns={planned} rows={pool.plan} rowKey={(p) => p.at} />}
      </Panel>
      <Panel title={t('plan.decisions')}>
        <DataTable name={t('plan.decisions')} columns={decisions} rows={pool.decisions} rowKey={(d) => d.at} asOf={now?.at} empty={t('plan.undecided')} />
      </Panel>
      {asking && <Override pool={pool} onClose={() => setAsking(false)} />}
    </>
  );
}

function Overridden({ pool, override }: { pool: Pool; override: Schema['ScalingOverride'] }) {
  const { t } = useTranslation();
  const [language] = useLanguage();
  const queries = useQueryClient();
  const mayWrite = useMay('capacity.write');
  const end = useMutation({
    mutationFn: () => call(api.DELETE('/scaling/{pool}/override', { params: { path: { pool: pool.pool } } })),
    onSuccess: () => queries.invalidateQueries({ queryKey: ['scaling'] }),
  });
  return (
    <Flex vertical gap={4} align="flex-start">
      {t('plan.overridden', { target: count(override.target, language), until: time(override.until, language), by: override.by, reason: override.reason })}
      {mayWrite && (
        <Button size="small" loading={end.isPending} onClick={() => end.mutate()}>
          {t('plan.endOverride')}
        </Button>
      )}
      {end.error && <Failure error={end.error} />}
    </Flex>
  );
}

interface Wish {
  target: number;
  hours: number;
  reason: string;
}

/** What a person demands holds until a time and no longer. */
function Override({ pool, onClose }: { pool: Pool; onClose: () => void }) {
  const { t } = useTranslation();
  const queries = useQueryClient();
  const [form] = Form.useForm<Wish>();
  const demand = useMutation({
    mutationFn: (w: Wish) =>
      call(api.PUT('/scaling/{pool}/override', { params: { path: { pool: pool.pool } }, body: { target: w.target, until: new Date(Date.now() + w.hours * 3_600_000).toISOString(), reason: w.reason } })),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ['scaling'] });
      onClose();
    },
  });
  return (
    <Modal open title={t('plan.override')} okText={t('plan.demand')} onCancel={onClose} onOk={() => form.submit()} confirmLoading={demand.isPending}>
      {demand.error && <Failure error={demand.error} reveal />}
      <p>{t('plan.overrideHelp')}</p>
      <Form form={form} layout="vertical" initialValues={{ target: pool.latest?.target ?? pool.min, hours: 2 }} onFinish={(w: Wish) => demand.mutate(w)}>
        <Form.Item name="target" label={t('plan.target')} rules={[{ required: true, message: t('plan.need') }]}>
          <InputNumber min={1} max={pool.max} precision={0} />
        </Form.Item>
        <Form.Item name="hours" label={t('plan.hours')} rules={[{ required: true, message: t('plan.need') }]}>
          <InputNumber min={0.25} max={744} />
        </Form.Item>
        <Form.Item name="reason" label={t('plan.reason')} rules={[{ required: true, whitespace: true, message: t('plan.need') }]}>
          <Input maxLength={500} />
        </Form.Item>
      </Form>
    </Modal>
  );
}
