import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Alert, App, Button, Collapse, Descriptions, Flex, Form, Input, Modal, Skeleton, Steps, Tag, Timeline, Typography } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { Link, useParams } from 'react-router';

import { api, call, type Schema } from '../api/client';
import { Failure } from '../components/Failure';
import { Checks, Interval, KeptEvaluation, Sample, useThresholds } from '../components/Evaluation';
import { Page, Panel } from '../components/Panel';
import { Time } from '../components/Time';
import { PhaseTag, running, TrafficBar, useStageName } from '../components/Traffic';
import { useLabel, useLanguage } from '../i18n';
import { count, duration, percent, sentence, stretch } from '../lib/format';
import { useMay } from '../lib/me';

const verdictColors = { better: 'success', same: 'success', worse: 'error', inconclusive: 'default' };

export default function Rollout() {
  const { t } = useTranslation();
  const label = useLabel();
  const { id = '' } = useParams();
  const mayWrite = useMay('rollout.write');
  const [acting, setActing] = useState<'approve' | 'abort'>();
  const [language] = useLanguage();
  const rollout = useQuery({
    queryKey: ['rollout', id, language], // its sentences are the server's
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
          {r.preset === 'trial' && <Alert type="warning" showIcon title={t('rollout.trial')} />}
          <CurrentStep r={r} />
          {running(r.phase) && r.next_analysis_at && (
            <Typography.Text type="secondary">
              {t('rollout.nextAnalysis')} <Time at={r.next_analysis_at} />
            </Typography.Text>
          )}
          {r.evidence && <Sample evaluation={r.evidence} versions={r} passes={r.verdict === 'same'} />}
          <Settings r={r} />
        </Flex>
      </Panel>
      <Panel title={t('rollout.comparison')} extra={r.verdict && <VerdictTag verdict={r.verdict} />}>
        {r.evidence?.metrics.length ? <Checks evaluation={r.evidence} name={t('rollout.checks')} versions={r} /> : <Typography.Text type="secondary">{t('rollout.noMetrics')}</Typography.Text>}
      </Panel>
      <Panel title={t('rollout.course')}>
        <Course r={r} />
      </Panel>
      <Panel title={t('rollout.history')}>
        <History r={r} />
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

/** Why it stands where it stands, and who must do something; for a rollout that is over what happened, when, by whom and why. */
function CurrentStep({ r }: { r: Schema['Rollout'] }) {
  const { t } = useTranslation();
  const [language] = useLanguage();
  const last = r.history?.at(-1);
  if (r.phase === 'failed' && !last) return <Alert type="error" showIcon title={t('rollout.neverStarted')} />;
  if (!running(r.phase)) return last ? <Ending r={r} last={last} /> : null;
  if (r.awaiting_approval) return <Alert type="warning" showIcon role="status" title={t('rollout.awaiting')} description={r.reason && sentence(r.reason)} />;
  if (!r.reason || !r.verdict) return <Alert type="info" showIcon role="status" title={t(last ? 'rollout.notJudged' : 'rollout.starting')} />;
  if (r.verdict === 'worse') return <Alert type="error" showIcon role="status" title={sentence(r.reason)} description={t('rollout.goesBack')} />;
  if (r.verdict !== 'same') return <Alert type="warning" showIcon role="status" title={t('rollout.held', { holding: holding(r, t('rollout.requestsMissing')).join(language === 'zh' ? '、' : ', ') })} description={sentence(r.reason)} />;
  const until = r.entered_at && r.dwell_seconds !== undefined ? new Date(Date.parse(r.entered_at) + r.dwell_seconds * 1000) : undefined;
  return <Alert type="info" showIcon role="status" title={sentence(r.reason)} description={until && until > new Date(r.checked_at ?? 0) ? <>{t('rollout.dwells')} <Time at={until.toISOString()} /></> : t('rollout.movesOn')} />;
}

/** What holds the step, by name: the checks that do not hold, or the requests that are missing. */
function holding(r: Schema['Rollout'], missing: string): string[] {
  const open = r.evidence?.metrics.filter((m) => m.state === 'unproven' || m.state === 'broken').map((m) => m.title) ?? [];
  return r.reason_code === 'too_few_requests' ? [missing, ...open] : open.length > 0 ? open : [r.reason ?? ''];
}

const endings = { completed: 'success', rolled_back: 'error', failed: 'error', aborted: 'warning' } as const;

function Ending({ r, last }: { r: Schema['Rollout']; last: Schema['RolloutTransition'] }) {
  const { t } = useTranslation();
  const stageName = useStageName();
  const phase = r.phase as keyof typeof endings;
  return (
    <Alert
      type={endings[phase]}
      showIcon
      role="status"
      title={t(`rollout.ended.${phase}`, { stable: r.stable, candidate: r.candidate, stage: stageName(last.from) })}
      description={
        <>
          <Time at={last.at} /> · {last.by_system ? t('rollout.itself') : last.actor}
          <div>{last.by_system ? sentence(last.reason) : last.reason}</div>
        </>
      }
    />
  );
}

function Settings({ r }: { r: Schema['Rollout'] }) {
  const { t } = useTranslation();
  const label = useLabel();
  const [language] = useLanguage();
  const thresholds = useThresholds(r.thresholds);
  const items = [
    { key: 'started', label: t('rollout.started'), children: <span><Time at={r.started_at} /> · {r.started_by}</span> },
    ...(r.entered_at && running(r.phase) ? [{ key: 'entered', label: t('rollout.entered'), children: <Time at={r.entered_at} /> }] : []),
    ...(r.checked_at ? [{ key: 'checked', label: t('rollout.checked'), children: <span><Time at={r.checked_at} />{running(r.phase) && r.poll_seconds ? ` · ${t('rollout.everySeconds', { seconds: r.poll_seconds })}` : ''}</span> }] : []),
    ...(r.dwell_seconds !== undefined ? [{ key: 'dwell', label: t('rollout.dwell'), children: duration(r.dwell_seconds * 1e6, language) }] : []),
    ...(r.deadline_seconds !== undefined ? [{ key: 'deadline', label: t('rollout.set.deadline_minutes'), children: stretch(r.deadline_seconds * 1000, language) }] : []),
    ...(r.accept_losses?.length ? [{ key: 'accept', label: t('rollout.accept'), children: r.accept_losses.join(', ') }] : []),
    ...(r.require_approval?.length ? [{ key: 'approval', label: t('rollout.approval'), children: r.require_approval.map((s) => (s === 0 ? label('phase', 'baseline') : `${s} %`)).join(', ') }] : []),
    ...(r.without ?? []).map((w) => ({ key: `without ${w.gate}`, label: t('rollout.withoutGate', { gate: w.gate }), children: w.reason })),
    ...(r.results ?? []).map((s) => ({ key: `suite ${s.suite}`, label: t('rollout.suite', { suite: s.suite }), children: t('rollout.suiteCounts', { stable: count(s.both + s.only_stable, language), candidate: count(s.both + s.only_candidate, language), cases: count(s.both + s.only_stable + s.only_candidate + s.neither, language) }) })),
    ...(r.finished_at ? [{ key: 'finished', label: t('rollout.finished'), children: <Time at={r.finished_at} /> }] : []),
    ...thresholds,
  ];
  return <Descriptions size="small" column={{ xs: 1, md: 2, xl: 3 }} items={items} />;
}

/** The interval of each gate over the steps: what every step was left on, and how the current one stands. */
function Course({ r }: { r: Schema['Rollout'] }) {
  const { t } = useTranslation();
  const stageName = useStageName();
  const evaluations = [...(r.history ?? []).flatMap((h) => (h.look ? [h.look] : [])), ...(running(r.phase) && r.evidence ? [r.evidence] : [])].filter((e) => e.metrics.some((m) => m.interval));
  const gates = [...new Map(evaluations.flatMap((e) => e.metrics.filter((m) => m.interval).map((m) => [m.name, m.title]))).entries()];
  if (gates.length === 0) return <Typography.Text type="secondary">{t('rollout.noMetrics')}</Typography.Text>;
  return (
    <div style={{ overflowX: 'auto' }}>
      <table className="course">
        <thead>
          <tr>
            <th scope="col">{t('rollout.check')}</th>
            {evaluations.map((e) => (
              <th key={e.hash} scope="col">
                {stageName(e.stage)} · <Time at={e.at} />
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {gates.map(([name, title]) => (
            <tr key={name}>
              <th scope="row">{sentence(title)}</th>
              {evaluations.map((e) => {
                const i = e.metrics.find((m) => m.name === name)?.interval;
                return <td key={e.hash}>{i && <Interval of={i} name={`${title}, ${stageName(e.stage)}`} />}</td>;
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function VerdictTag({ verdict }: { verdict: Schema['Verdict'] }) {
  const label = useLabel();
  return <Tag color={verdictColors[verdict]}>{label('verdict', verdict)}</Tag>;
}

function History({ r }: { r: Schema['Rollout'] }) {
  const history = r.history ?? [];
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
            <div>{h.by_system ? sentence(h.reason) : h.reason}</div>
            <Typography.Text type="secondary">
              <Time at={h.at} /> · {h.by_system ? t('rollout.itself') : h.actor}
              {h.receipt && mayAudit && (
                <>
                  {' · '}
                  <Link to={`/audit?event=${encodeURIComponent(h.receipt)}`} style={{ textDecoration: 'underline' }}>{t('playground.receipt')}</Link>
                </>
              )}
            </Typography.Text>
            {h.look && (
              <Collapse
                ghost
                size="small"
                items={[{ key: 'evaluation', label: t('rollout.leftOn', { stage: stageName(h.from) }), children: <KeptEvaluation evaluation={h.look} versions={r} name={t('rollout.checksOf', { stage: stageName(h.from) })} /> }]}
              />
            )}
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
  const [shareBasis] = useState(share); // the step the decision is about, whatever comes while the form is open
  const act = useMutation({
    mutationFn: (body: { reason: string }) => {
      const params = { path: { id } };
      return action === 'approve'
        ? call(api.POST('/rollouts/{id}/approve', { params, body: { ...body, share_basis: shareBasis } }))
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
