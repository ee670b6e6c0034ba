import { CheckCircleTwoTone, CloseCircleTwoTone, MinusCircleTwoTone, WarningTwoTone } from '@ant-design/icons';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { Button, Flex, Skeleton, Typography } from 'antd';
import { type ReactNode } from 'react';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { useLabel, useLanguage } from '../i18n';
import { judge, type Level, type Part, parts, worst } from '../lib/auditStatus';
import { ago, count, stretch } from '../lib/format';
import { Failure } from './Failure';
import { Panel } from './Panel';
import { Time } from './Time';

type Status = Schema['AuditStatus'];

const marks: Record<Level, ReactNode> = {
  ok: <CheckCircleTwoTone twoToneColor="#389e0d" aria-hidden />,
  warn: <WarningTwoTone twoToneColor="#d48806" aria-hidden />,
  bad: <CloseCircleTwoTone twoToneColor="#cf1322" aria-hidden />,
  off: <MinusCircleTwoTone twoToneColor="#8c8c8c" aria-hidden />,
};

/** The state of the audit log, fresh every ten seconds, every second while a reconciliation runs; the server keeps no record of this look. */
export const useAuditStatus = () =>
  useQuery({
    queryKey: ['audit-status'],
    queryFn: () => call(api.GET('/audit/status')),
    refetchInterval: (query) => (query.state.data?.reconciliation.running ? 1_000 : 10_000),
    placeholderData: keepPreviousData,
  });

/** How the audit log is doing, for someone who has a minute: a verdict in words, then each part with its figures and what to do. */
export function AuditStatusPanel({ onFindings }: { onFindings?: () => void }) {
  const { t } = useTranslation();
  const status = useAuditStatus();
  const s = status.data;
  const levels = s && judge(s);
  const verdict = levels && worst(Object.values(levels));
  return (
    <Panel
      title={t('auditStatus.title')}
      extra={
        verdict && (
          <Flex gap={8} align="baseline" role="status">
            {marks[verdict]}
            <Typography.Text strong>{t(`auditStatus.verdict.${verdict === 'off' ? 'ok' : verdict}`)}</Typography.Text>
          </Flex>
        )
      }
    >
      {status.error && <Failure error={status.error} retry={() => void status.refetch()} />}
      {!s && !status.error && <Skeleton active />}
      {s && levels && (
        <ul style={{ listStyle: 'none', margin: 0, padding: 0, display: 'grid', gap: 16, gridTemplateColumns: 'repeat(auto-fit, minmax(min(100%, 300px), 1fr))' }}>
          {parts.map((part) => (
            <li key={part} data-level={levels[part]} data-part={part}>
              <Flex gap={8} align="baseline">
                {marks[levels[part]]}
                <Flex vertical style={{ minWidth: 0 }}>
                  <Typography.Text strong>
                    {t(`auditStatus.part.${part}`)} · {t(`auditStatus.level.${levels[part]}`)}
                  </Typography.Text>
                  <Facts part={part} s={s} onFindings={onFindings} />
                </Flex>
              </Flex>
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}

function Facts({ part, s, onFindings }: { part: Part; s: Status; onFindings?: () => void }) {
  switch (part) {
    case 'capture':
      return <Capture s={s} />;
    case 'shipping':
      return <Shipping s={s} />;
    case 'sealing':
      return <Sealing s={s} />;
    case 'witnesses':
      return <Witnesses s={s} />;
    case 'reconciliation':
      return <Reconciled s={s} onFindings={onFindings} />;
    case 'verification':
      return <Verified s={s} />;
    case 'retention':
      return <Kept s={s} />;
  }
}

/** What is wrong by one cause, and what to do about it. */
function Trouble({ s, code }: { s: Status; code: Schema['AuditTrouble']['code'] }) {
  const { t } = useTranslation();
  const trouble = s.problems.find((p) => p.code === code);
  if (!trouble) return null;
  return (
    <>
      <span>{t(`auditStatus.trouble.${code}`)}</span>
      {trouble.detail && (
        <Typography.Text type="secondary" style={{ fontSize: 12, overflowWrap: 'anywhere' }}>
          {trouble.detail}
        </Typography.Text>
      )}
    </>
  );
}

/** A time, and how long ago it was by the clock of the server. */
function When({ at, s }: { at: string; s: Status }) {
  const [language] = useLanguage();
  return (
    <Typography.Text type="secondary">
      <Time at={at} /> · {ago(Date.parse(s.as_of) - Date.parse(at), language)}
    </Typography.Text>
  );
}

function Capture({ s }: { s: Status }) {
  const { t } = useTranslation();
  const label = useLabel();
  const [language] = useLanguage();
  const lost = s.losses.filter((l) => l.records > 0);
  return (
    <>
      <Trouble s={s} code="device" />
      {lost.map((l) => (
        <span key={l.tenant}>{t('auditStatus.lost', { records: count(l.records, language), tenant: l.tenant, since: ago(Date.parse(s.as_of) - Date.parse(s.since), language) })}</span>
      ))}
      {s.modes.map((m) => (
        <span key={m.tenant}>
          {m.tenant ? t('auditStatus.tenant', { tenant: m.tenant }) : t('auditStatus.everyone')} {label('auditMode', m.mode)}
        </span>
      ))}
    </>
  );
}

function Shipping({ s }: { s: Status }) {
  const { t } = useTranslation();
  const [language] = useLanguage();
  const away = s.problems.some((p) => p.code === 'database');
  const since = s.oldest_waiting && stretch(Date.parse(s.as_of) - Date.parse(s.oldest_waiting), language);
  return (
    <>
      <Trouble s={s} code="database" />
      {since ? (
        <span>{s.waiting === undefined ? t('auditStatus.waiting', { since }) : t('auditStatus.waitingCount', { count: s.waiting, records: count(s.waiting, language), since })}</span>
      ) : (
        !away && <span>{t('auditStatus.shipped')}</span>
      )}
    </>
  );
}

function Sealing({ s }: { s: Status }) {
  const { t } = useTranslation();
  const [language] = useLanguage();
  const { size, root, seen_at } = s.checkpoint;
  return (
    <>
      <Trouble s={s} code="rewritten" />
      <span>{size === 0 ? t('auditStatus.noCheckpoint') : t('auditStatus.checkpoint', { records: count(size, language) })}</span>
      {!!s.unsealed && <span>{t('auditStatus.unsealed', { count: s.unsealed, records: count(s.unsealed, language) })}</span>}
      {seen_at && <When at={seen_at} s={s} />}
      {root && (
        <Typography.Text code copyable ellipsis style={{ maxWidth: 260 }} title={t('verify.root')}>
          {root}
        </Typography.Text>
      )}
    </>
  );
}

function Witnesses({ s }: { s: Status }) {
  const { t } = useTranslation();
  const [language] = useLanguage();
  if (s.problems.some((p) => p.code === 'cosignature')) return <Trouble s={s} code="cosignature" />;
  if (!s.witnesses) return <span>{t('auditStatus.unknown')}</span>;
  if (s.witnesses.length === 0) return <span>{t('auditStatus.noWitness')}</span>;
  return s.witnesses.map((w) => (
    <Flex vertical key={w.witness}>
      <span style={{ overflowWrap: 'anywhere' }}>
        {w.witness}: {w.size === 0 ? t('auditStatus.neverCosigned') : w.behind === 0 ? t('auditStatus.cosigned') : t('auditStatus.behind', { count: w.behind, records: count(w.behind, language) })}
      </span>
      {w.time && <When at={w.time} s={s} />}
    </Flex>
  ));
}

function Reconciled({ s, onFindings }: { s: Status; onFindings?: () => void }) {
  const { t } = useTranslation();
  const [language] = useLanguage();
  if (s.problems.some((p) => p.code === 'database')) return <span>{t('auditStatus.unknown')}</span>;
  const { open, finished_at, running } = s.reconciliation;
  return (
    <>
      {running && <span>{t('auditStatus.reconciling')}</span>}
      <span>{!finished_at ? t('auditStatus.notReconciled') : open === 0 ? t('auditStatus.reconciled') : t('auditStatus.findings', { count: open, findings: count(open, language) })}</span>
      {finished_at && <When at={finished_at} s={s} />}
      {onFindings && (
        <Button size="small" onClick={onFindings} style={{ alignSelf: 'flex-start', marginTop: 4 }}>
          {t('reconcile.title')}
        </Button>
      )}
    </>
  );
}

function Verified({ s }: { s: Status }) {
  const { t } = useTranslation();
  const [language] = useLanguage();
  const v = s.verification;
  return (
    <>
      {s.verifying && <span>{t('auditStatus.verifying')}</span>}
      <span>{!v ? t('auditStatus.notVerified') : v.ok ? t('verify.ok', { records: count(v.records, language) }) : t('verify.broken', { problems: count(v.problems, language) })}</span>
      {v && <When at={v.finished_at} s={s} />}
    </>
  );
}

function Kept({ s }: { s: Status }) {
  const { t } = useTranslation();
  const [language] = useLanguage();
  const { records_days, sensitive_days, archives, least_index } = s.retention;
  return (
    <>
      <span>{t('auditStatus.kept', { days: count(records_days, language), sensitive: count(sensitive_days, language) })}</span>
      <span>{!archives ? t('auditStatus.noArchive') : least_index ? t('auditStatus.least', { index: count(least_index, language) }) : t('auditStatus.notPruned')}</span>
    </>
  );
}
