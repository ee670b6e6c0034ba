import { Flex, Progress, Tag, Typography } from 'antd';
import { useTranslation } from 'react-i18next';

import type { Schema } from '../api/client';
import { useLabel, useLanguage } from '../i18n';
import { count, duration, percent, sentence, tag } from '../lib/format';
import { type Column, DataTable } from './DataTable';
import { Time } from './Time';

type Evaluation = Schema['RolloutEvidence'];
type Check = Schema['RolloutMetric'];

const stateColors: Record<Schema['RolloutCheckState'], string> = { holds: 'success', broken: 'error', unproven: 'warning', too_little_data: 'default' };

/** The checks of one evaluation: what is compared, the limit in words, how it stands and why. The words come from the server. */
export function Checks({ evaluation, name, versions }: { evaluation: Evaluation; name: string; versions: Pick<Schema['Rollout'], 'stable' | 'candidate'> }) {
  const { t } = useTranslation();
  const label = useLabel();
  const [language] = useLanguage();
  const show = (m: Check, value: number | undefined) => {
    if (value === undefined) return t('rollout.noSamples');
    if (m.unit === 'us') return duration(value, language);
    if (m.unit === 'ratio') return percent(value, language);
    return new Intl.NumberFormat(tag(language), { maximumSignificantDigits: 4 }).format(m.unit === 'nanos' ? value / 1e9 : value);
  };
  const columns: Column<Check>[] = [
    {
      key: 'name',
      title: t('rollout.check'),
      render: (m) => (
        <div className="prose" style={{ maxWidth: 240 }}>
          {sentence(m.title)}
          <div>
            <Typography.Text type="secondary">{t('rollout.allowed', { limit: m.limit_text })}</Typography.Text>
          </div>
        </div>
      ),
      csv: (m) => m.title,
    },
    { key: 'baseline', title: t('rollout.baseline', { version: versions.stable }), align: 'right', render: (m) => show(m, m.baseline.value), csv: (m) => m.baseline.value ?? '' },
    { key: 'candidate', title: t('rollout.candidateColumn', { version: versions.candidate }), align: 'right', render: (m) => show(m, m.candidate.value), csv: (m) => m.candidate.value ?? '' },
    ...(evaluation.metrics.some((m) => m.interval)
      ? [
          {
            key: 'interval',
            title: t('rollout.interval'),
            align: 'right' as const,
            render: (m: Check) => (m.interval ? <Interval of={m.interval} name={m.title} /> : ''),
            csv: (m: Check) => (m.interval ? `${m.interval.low} ${m.interval.high}` : ''),
          },
        ]
      : []),
    {
      key: 'state',
      title: t('rollout.state'),
      render: (m) => (
        <div className="prose" style={{ maxWidth: 380 }}>
          <Tag color={stateColors[m.state]}>{label('checkState', m.state)}</Tag>
          <div>
            <Typography.Text type="secondary">{sentence(m.proof)}</Typography.Text>
          </div>
          {m.needs && <div>{t('rollout.needs', { stable: count(m.needs.stable, language), candidate: count(m.needs.candidate, language) })}</div>}
        </div>
      ),
      csv: (m) => m.state,
    },
  ];
  return <DataTable name={name} columns={columns} rows={evaluation.metrics} rowKey={(m) => m.name} />;
}

/** The interval of how much worse the candidate is as a bar: zero in the middle, the limit as a line to the right. Its name is for who does not see it. */
export function Interval({ of, name }: { of: Schema['RolloutInterval']; name: string }) {
  const [language] = useLanguage();
  const signed = (v: number) => (v > 0 ? '+' : '') + percent(v, language);
  const text = `${signed(of.low)} … ${signed(of.high)}`;
  const reach = 2 * of.limit; // to both sides
  const x = (v: number) => 60 + 60 * Math.max(-1, Math.min(1, v / reach));
  const kept = of.high <= of.limit;
  return (
    <span>
      <svg width={120} height={12} role="img" aria-label={`${name}: ${text}`} style={{ verticalAlign: 'middle', color: kept ? '#389e0d' : of.low > of.limit ? '#cf1322' : '#ad6800' }}>
        <line x1={60} x2={60} y1={0} y2={12} stroke="#bfbfbf" />
        <line x1={x(of.limit)} x2={x(of.limit)} y1={0} y2={12} stroke="#cf1322" strokeDasharray="2 2" />
        <line x1={x(of.low)} x2={x(of.high)} y1={6} y2={6} stroke="currentColor" strokeWidth={3} />
        <circle cx={x(of.value)} cy={6} r={3} fill="currentColor" />
      </svg>
      <div>{text}</div>
    </span>
  );
}

/** What both versions answered, all counted at the one evaluation. A bar is green only when nothing holds the step. */
export function Sample({ evaluation, versions, passes }: { evaluation: Evaluation; versions: Pick<Schema['Rollout'], 'stable' | 'candidate'>; passes: boolean }) {
  const { t } = useTranslation();
  const [language] = useLanguage();
  const needed = evaluation.thresholds.min_requests;
  const arms = [
    { name: t('rollout.baseline', { version: versions.stable }), arm: evaluation.stable },
    ...(evaluation.stage === 'baseline' ? [] : [{ name: t('rollout.candidateColumn', { version: versions.candidate }), arm: evaluation.candidate }]),
  ];
  return (
    <div>
      <Typography.Text type="secondary">
        {t('rollout.asOf')} <Time at={evaluation.at} />
      </Typography.Text>
      <Flex gap={24} wrap>
        {arms.map(({ name, arm }) => (
          <div key={name} style={{ flex: '1 1 260px' }}>
            <Flex justify="space-between" gap={8} wrap>
              <span>{name}</span>
              <span>{t('rollout.sample', { count: arm.requests, requests: count(arm.requests, language), needed: count(needed, language), errors: count(arm.errors, language), rate: percent(arm.requests ? arm.errors / arm.requests : 0, language) })}</span>
            </Flex>
            <Progress percent={Math.min(100, (arm.requests / needed) * 100)} status={passes ? 'success' : 'normal'} showInfo={false} size="small" aria-label={name} />
          </div>
        ))}
      </Flex>
    </div>
  );
}

/** What a step was left on, as it is kept for good. */
export function KeptEvaluation({ evaluation, name, versions }: { evaluation: Evaluation; name: string; versions: Pick<Schema['Rollout'], 'stable' | 'candidate'> }) {
  const { t } = useTranslation();
  const [language] = useLanguage();
  const arm = (a: Schema['RolloutArm']) =>
    [
      t('rollout.answered', { count: a.requests, requests: count(a.requests, language), errors: count(a.errors, language), rate: percent(a.requests ? a.errors / a.requests : 0, language) }),
      ...(a.first_token_us === undefined ? [] : [t('rollout.firstToken', { quantile: evaluation.thresholds.latency_quantile_basis / 100, latency: duration(a.first_token_us, language) })]),
      ...(a.total_us === undefined ? [] : [t('rollout.inAll', { quantile: evaluation.thresholds.latency_quantile_basis / 100, latency: duration(a.total_us, language) })]),
    ].join(language === 'zh' ? '，' : ', ');
  return (
    <Flex vertical gap={4}>
      <span>
        {t('rollout.asOf')} <Time at={evaluation.at} />: {sentence(evaluation.reason)}
      </span>
      <span>
        {t('rollout.baseline', { version: versions.stable })}: {arm(evaluation.stable)}
      </span>
      {evaluation.stage !== 'baseline' && (
        <span>
          {t('rollout.candidateColumn', { version: versions.candidate })}: {arm(evaluation.candidate)}
        </span>
      )}
      {evaluation.look !== undefined && <span>{t('rollout.analysis', { number: evaluation.look, of: evaluation.looks })}</span>}
      {evaluation.metrics.length > 0 && <Checks evaluation={evaluation} name={name} versions={versions} />}
      <ThresholdText thresholds={evaluation.thresholds} />
      <Typography.Text type="secondary" style={{ wordBreak: 'break-all' }}>
        {t('rollout.hash')} <Typography.Text code copyable>{evaluation.hash}</Typography.Text>
      </Typography.Text>
    </Flex>
  );
}

function ThresholdText({ thresholds }: { thresholds: Schema['RolloutThresholds'] }) {
  const { t } = useTranslation();
  const items = useThresholds(thresholds);
  return (
    <Typography.Text type="secondary">
      {t('rollout.thresholds')}: {items.map((i) => `${i.label} ${i.children}`).join(' · ')}
    </Typography.Text>
  );
}

/** Every limit with its unit, named as in the form. */
export function useThresholds(th: Schema['RolloutThresholds']): { key: string; label: string; children: string }[] {
  const { t } = useTranslation();
  const [language] = useLanguage();
  const chance = (p: number) => new Intl.NumberFormat(tag(language), { style: 'percent', maximumSignificantDigits: 3 }).format(p);
  return [
    { key: 'min_requests', label: t('rollout.set.min_requests'), children: count(th.min_requests, language) },
    { key: 'error_percent', label: t('rollout.set.error_percent'), children: percent(th.max_error_rate_basis / 10000, language) },
    ...(th.gates ?? []).map((g) => ({ key: g.name, label: t('rollout.gate', { name: g.name }), children: percent(g.margin, language) })),
    ...(th.gates
      ? []
      : [
          { key: 'margin_percent', label: t('rollout.set.margin_percent'), children: t('rollout.points', { count: th.error_margin_basis / 100, points: count(th.error_margin_basis / 100, language) }) },
          { key: 'latency_percent', label: t('rollout.set.latency_percent'), children: percent(th.max_latency_ratio_percent / 100, language) },
          { key: 'quantile', label: t('rollout.set.quantile_percent'), children: `P${th.latency_quantile_basis / 100}` },
          { key: 'floor', label: t('rollout.set.floor_ms'), children: `${count(th.latency_floor_ms, language)} ms` },
        ]),
    { key: 'promote', label: t('rollout.set.promote_percent'), children: chance(th.promote_alpha) },
    { key: 'abort', label: t('rollout.set.abort_percent'), children: chance(th.abort_alpha) },
  ];
}
