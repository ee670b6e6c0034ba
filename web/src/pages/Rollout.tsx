import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Alert, App, Button, Descriptions, Flex, Form, Input, Modal, Progress, Skeleton, Steps, Tag, Timeline, Typography } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { Link, useParams } from 'react-router';

import { api, call, type Schema } from '../api/client';
import { type Column, DataTable } from '../components/DataTable';
import { Failure } from '../components/Failure';
import { Page, Panel } from '../components/Panel';
import { Time } from '../components/Time';
import { PhaseTag, running, TrafficBar, useStageName } from '../components/Traffic';
import { useLabel, useLanguage } from '../i18n';
import { count, duration, percent } from '../lib/format';
import { useMay } from '../lib/me';

type Metric = Schema['RolloutMetric'];
const verdictColors = { better: 'success', same: 'success', worse: 'error', inconclusive: 'default' };

export default function Rollout() {
  const { t } = useTranslation();
  const label = useLabel();
  const { id = '' } = useParams();
  const mayWrite = useMay('rollout.write');
  const [acting, setActing] = useState<'approve' | 'abort'>();
  const rollout = useQuery({
    queryKey: ['rollout', id],
    queryFn: () => call(api.GET('/rollouts/{id}', { params: { path: { id } } })),
    refetchInterval: (q) => (q.state.data && running(q.state.data.phase) ? 3000 : false), // pauses in hidden tabs
  });
  const r = rollout.data;
  if (!r) return rollout.error ? <Failure error={rollout.error} retry={() => void rollout.refetch()} /> : <Skeleton active />;
  return (
    <Page
      title={t('rollout.title', { model: r.model, candidate: r.candidate })}
      note={<Link to="/rollouts">{t('rollout.all')}</Link>}
      actions={
        mayWrite &&
        running(r.phase) && (
          <>
            <Button danger onClick={() => setActing('abort')}>
              {t('rollout.abort')}
            </Button>
            <Button type="primary" onClick={() => setActing('approve')}>
              {t('rollout.approve')}
            </Button>
          </>
        )
      }
    >
      {rollout.error && <Failure error={rollout.error} retry={() => void rollout.refetch()} />}
      <Panel title={t('rollout.traffic')} extra={<PhaseTag phase={r.phase} />}>
        <Flex vertical gap={20}>
          <TrafficBar rollout={r} />
          <Steps
            size="small"
            responsive
            current={stageIndex(r)}
            status={r.phase === 'rolled_back' || r.phase === 'failed' || r.phase === 'aborted' ? 'error' : r.phase === 'completed' ? 'finish' : 'process'}
            items={[label('phase', 'baseline'), ...r.steps.map((s) => `${s} %`)].map((title) => ({ title }))}
          />
          <Standing r={r} />
          {running(r.phase) && <Sample r={r} />}
          <Settings r={r} />
        </Flex>
      </Panel>
      <Panel title={t('rollout.comparison')} extra={r.verdict && <VerdictTag verdict={r.verdict} />}>
        <Comparison r={r} reload={() => void rollout.refetch()} loading={rollout.isFetching && !running(r.phase)} />
      </Panel>
      <Panel title={t('rollout.history')}>
        <History history={r.history ?? []} />
      </Panel>
      {acting && <Act id={r.id} share={r.share_basis} action={acting} onClose={() => setActing(undefined)} />}
    </Page>
  );
}

/** The stage a rollout is on, or was on when it ended: 0 is the baseline. */
function stageIndex(r: Schema['Rollout']): number {
  if (r.phase === 'completed') return r.steps.length + 1;
  const shares = (r.history ?? []).filter((h) => h.to === 'baseline' || h.to.startsWith('canary')).map((h) => h.share_basis / 100);
  return r.steps.indexOf(shares.at(-1) ?? 0) + 1;
}

/** Why it stands where it stands, and who must do something. */
function Standing({ r }: { r: Schema['Rollout'] }) {
  const { t } = useTranslation();
  const label = useLabel();
  const ended = r.phase === 'rolled_back' || r.phase === 'failed';
  if (r.awaiting_approval) return <Alert type="warning" showIcon role="status" title={t('rollout.awaiting')} description={r.reason} />;
  if (r.phase === 'failed' && !r.history?.length) return <Alert type="error" showIcon title={t('rollout.neverStarted')} />;
  if (!r.reason) return running(r.phase) ? <Alert type="info" showIcon role="status" title={t(r.history?.length ? 'rollout.notJudged' : 'rollout.starting')} /> : null;
  const metric = r.metrics?.find((m) => m.name === r.reason_code);
  const says = metric
    ? t(r.verdict === 'worse' ? 'rollout.broken' : 'rollout.unproven', { metric: label('metric', metric.name) })
    : r.reason_code
      ? label('reason', r.reason_code)
      : undefined;
  return <Alert type={ended ? 'error' : r.phase === 'completed' ? 'success' : r.phase === 'holding' ? 'warning' : 'info'} showIcon role="status" title={says ?? r.reason} description={says && <span lang="en">{r.reason}</span>} />;
}

/** How far the sample of the current step has grown; it is counted again with every refresh. */
function Sample({ r }: { r: Schema['Rollout'] }) {
  const { t } = useTranslation();
  const [language] = useLanguage();
  if (!r.evidence || !r.min_requests) return null;
  const arms = [
    { name: t('rollout.baseline', { version: r.stable }), arm: r.evidence.stable, shown: true },
    { name: t('rollout.candidateColumn', { version: r.candidate }), arm: r.evidence.candidate, shown: r.share_basis > 0 },
  ].filter((a) => a.shown);
  return (
    <Flex gap={24} wrap>
      {arms.map(({ name, arm }) => (
        <div key={name} style={{ flex: '1 1 260px' }}>
          <Flex justify="space-between" gap={8} wrap>
            <span>{name}</span>
            <span>{t('rollout.sample', { requests: count(arm.requests, language), needed: count(r.min_requests!, language), errors: count(arm.errors, language) })}</span>
          </Flex>
          <Progress percent={Math.min(100, (arm.requests / r.min_requests!) * 100)} showInfo={false} size="small" aria-label={name} />
        </div>
      ))}
    </Flex>
  );
}

function Settings({ r }: { r: Schema['Rollout'] }) {
  const { t } = useTranslation();
  const label = useLabel();
  const [language] = useLanguage();
  const items = [
    { key: 'started', label: t('rollout.started'), children: <span><Time at={r.started_at} /> · {r.started_by}</span> },
    ...(r.entered_at && running(r.phase) ? [{ key: 'entered', label: t('rollout.entered'), children: <Time at={r.entered_at} /> }] : []),
    ...(r.checked_at ? [{ key: 'checked', label: t('rollout.checked'), children: <span><Time at={r.checked_at} />{running(r.phase) && r.poll_seconds ? ` · ${t('rollout.everySeconds', { seconds: r.poll_seconds })}` : ''}</span> }] : []),
    ...(r.dwell_seconds !== undefined ? [{ key: 'dwell', label: t('rollout.dwell'), children: duration(r.dwell_seconds * 1e6, language) }] : []),
    ...(r.deadline_seconds !== undefined ? [{ key: 'deadline', label: t('rollout.deadline_minutes'), children: count(r.deadline_seconds / 60, language) }] : []),
    ...(r.require_approval?.length ? [{ key: 'approval', label: t('rollout.approval'), children: r.require_approval.map((s) => (s === 0 ? label('phase', 'baseline') : `${s} %`)).join(', ') }] : []),
    ...(r.finished_at ? [{ key: 'finished', label: t('rollout.finished'), children: <Time at={r.finished_at} /> }] : []),
    ...(r.min_requests !== undefined ? [{ key: 'min', label: t('rollout.min_requests'), children: count(r.min_requests, language) }] : []),
    ...(r.max_error_rate_basis !== undefined ? [{ key: 'error', label: t('rollout.error_percent'), children: percent(r.max_error_rate_basis / 10000, language) }] : []),
    ...(r.max_latency_ratio_percent !== undefined ? [{ key: 'latency', label: t('rollout.latency_percent'), children: percent(r.max_latency_ratio_percent / 100, language) }] : []),
  ];
  return <Descriptions size="small" column={{ xs: 1, md: 2, xl: 3 }} items={items} />;
}

function VerdictTag({ verdict }: { verdict: Schema['Verdict'] }) {
  const label = useLabel();
  return <Tag color={verdictColors[verdict]}>{label('verdict', verdict)}</Tag>;
}

function Comparison({ r, reload, loading }: { r: Schema['Rollout']; reload: () => void; loading: boolean }) {
  const { t } = useTranslation();
  const label = useLabel();
  const [language] = useLanguage();
  const show = (m: Metric, value: number | undefined) => (value === undefined ? t('rollout.noSamples') : m.unit === 'us' ? duration(value, language) : percent(value, language));
  const cell = (m: Metric, s: Schema['RolloutSample']) => (
    <span>
      {show(m, s.value)} <Typography.Text type="secondary">{t('rollout.samples', { n: count(s.samples, language) })}</Typography.Text>
    </span>
  );
  const columns: Column<Metric>[] = [
    { key: 'name', title: t('rollout.metric'), render: (m) => label('metric', m.name), csv: (m) => `${m.name} (${m.unit})` },
    { key: 'baseline', title: t('rollout.baseline', { version: r.stable }), align: 'right', render: (m) => cell(m, m.baseline), csv: (m) => m.baseline.value ?? '' },
    { key: 'candidate', title: t('rollout.candidateColumn', { version: r.candidate }), align: 'right', render: (m) => cell(m, m.candidate), csv: (m) => m.candidate.value ?? '' },
    { key: 'limit', title: t('rollout.limit'), align: 'right', render: (m) => (m.limit === undefined ? '–' : show(m, m.limit)), csv: (m) => m.limit ?? '' },
    { key: 'verdict', title: t('rollout.verdict'), render: (m) => <VerdictTag verdict={m.verdict} />, csv: (m) => m.verdict },
  ];
  return <DataTable name={t('rollout.comparison')} columns={columns} rows={r.metrics ?? []} rowKey={(m) => m.name} empty={t('rollout.noMetrics')} reload={reload} loading={loading} />;
}

function History({ history }: { history: Schema['RolloutTransition'][] }) {
  const { t } = useTranslation();
  const stageName = useStageName();
  const [language] = useLanguage();
  const mayAudit = useMay('audit.read');
  if (history.length === 0) return <Typography.Text type="secondary">{t('rollout.noHistory')}</Typography.Text>;
  return (
    <Timeline
      items={[...history].reverse().map((h, i) => ({
        key: i,
        color: h.to === 'rolled_back' || h.to === 'failed' ? 'red' : h.to === 'completed' ? 'green' : 'blue',
        content: (
          <div>
            <strong>
              {h.from && h.from !== h.to ? `${stageName(h.from)} → ` : ''}
              {stageName(h.to)}
            </strong>{' '}
            · {percent(h.share_basis / 10000, language)}
            <div>{h.reason}</div>
            <Typography.Text type="secondary">
              <Time at={h.at} /> · {h.actor === 'rollout' ? t('rollout.itself') : h.actor}
              {h.receipt && mayAudit && (
                <>
                  {' · '}
                  <Link to={`/audit?event=${encodeURIComponent(h.receipt)}`} style={{ textDecoration: 'underline' }}>{t('playground.receipt')}</Link>
                </>
              )}
            </Typography.Text>
          </div>
        ),
      }))}
    />
  );
}

function Act({ id, share, action, onClose }: { id: string; share: number; action: 'approve' | 'abort'; onClose: () => void }) {
  const { t } = useTranslation();
  const queries = useQueryClient();
  const { message } = App.useApp();
  const [form] = Form.useForm<{ reason: string }>();
  const [seen] = useState(share); // the step the decision is about, whatever comes while the form is open
  const act = useMutation({
    mutationFn: (body: { reason: string }) => {
      const params = { path: { id } };
      return action === 'approve'
        ? call(api.POST('/rollouts/{id}/approve', { params, body: { ...body, share_basis: seen } }))
        : call(api.POST('/rollouts/{id}/abort', { params, body }));
    },
    onSuccess: () => {
      void queries.invalidateQueries({ queryKey: ['rollout', id] });
      void message.success(t(`rollout.${action}Done`));
      onClose();
    },
  });
  const title = t(`rollout.${action}`);
  return (
    <Modal open title={title} okText={title} okButtonProps={{ danger: action === 'abort' }} onCancel={onClose} onOk={() => form.submit()} confirmLoading={act.isPending}>
      {act.error && <Failure error={act.error} reveal />}
      <Typography.Paragraph>{t(`rollout.${action}Text`)}</Typography.Paragraph>
      <Form form={form} layout="vertical" onFinish={(v) => act.mutate(v)}>
        <Form.Item name="reason" label={t('rollout.reason')} rules={[{ required: true, whitespace: true, message: t('form.required') }]}>
          <Input.TextArea autoFocus maxLength={1024} rows={3} />
        </Form.Item>
      </Form>
    </Modal>
  );
}
