import { DownloadOutlined } from '@ant-design/icons';
import { useMutation, useQuery } from '@tanstack/react-query';
import { Alert, Button, Descriptions, Drawer, Flex, Skeleton, Tag, Typography } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { toApiError } from '../api/errors';
import { useLabel, useLanguage } from '../i18n';
import { download } from '../lib/csv';
import { done } from '../lib/findings';
import { tokensIn } from '../lib/tokens';
import { useMay, useMe } from '../lib/me';
import { recordedPassage } from '../lib/passages';
import { count, duration, energy, exactNano } from '../lib/format';
import { Failure } from './Failure';
import { LinkButton } from './LinkButton';
import { RequestBill } from './RequestBill';
import { PassageDrawer } from './PassageDrawer';
import { RevealModal } from './RevealModal';
import { Time } from './Time';
import { Findings } from './TurnView';

/** One record: the facts people ask for, then the record exactly as it was hashed. */
export function AuditDrawer({ id, onClose, onRequest }: { id: string; onClose: () => void; onRequest: (request: string) => void }) {
  const { t } = useTranslation();
  const entry = useQuery({
    queryKey: ['audit-event', id],
    queryFn: () => call(api.GET('/audit/records/{id}', { params: { path: { id } } })),
    // a record that was just written becomes searchable a moment later
    retry: (failures, error) => failures < 4 && toApiError(error).code === 'not_found',
    retryDelay: 500,
  });
  const proof = useMutation({
    mutationFn: () => call(api.GET('/audit/records/{id}/proof', { params: { path: { id } } })),
    onSuccess: (p) => download(`proof-${id}.json`, 'application/json', JSON.stringify(p, null, 2)),
  });
  return (
    <Drawer open size={720} title={t('audit.record')} onClose={onClose} extra={entry.data && <Button icon={<DownloadOutlined aria-hidden />} loading={proof.isPending} disabled={entry.data.index < 0} onClick={() => proof.mutate()}>{t('audit.proof')}</Button>}>
      <Flex vertical gap={16}>
        {entry.error && <Failure error={entry.error} retry={() => void entry.refetch()} />}
        {proof.error && <Failure error={proof.error} />}
        {entry.isPending && <Skeleton active />}
        {entry.data && <Record entry={entry.data} onRequest={onRequest} />}
      </Flex>
    </Drawer>
  );
}

function Record({ entry, onRequest }: { entry: Schema['AuditEntry']; onRequest: (request: string) => void }) {
  const { t } = useTranslation();
  const label = useLabel();
  const [language] = useLanguage();
  const mayRead = useMay('audit.content');
  const mayReveal = useMay('masking.reveal');
  const mayUsage = useMay('usage.read');
  const [explained, setExplained] = useState(false);
  const [revealing, setRevealing] = useState<string>(); // a text with tokens, or an empty one to paste it into
  const e = entry.event;
  const masked = e.findings?.some((f) => done(f.action) === 'token') ?? false;
  const facts: [string, React.ReactNode][] = [
    [t('audit.time'), <Time at={e.time} />],
    [t('audit.action'), e.action && `${label('action', e.action)} · ${label('stage', e.stage)}`],
    [t('audit.actor'), e.actor && [e.actor.name, e.actor.id].filter(Boolean).join(' · ')],
    [t('audit.onBehalfOf'), e.actor?.on_behalf_of && <Typography.Text code copyable>{e.actor.on_behalf_of}</Typography.Text>],
    [t('audit.tenant'), [e.tenant, e.project].filter(Boolean).join(' / ')],
    [t('audit.source'), e.source],
    [t('audit.request'), e.request && <LinkButton onClick={() => onRequest(e.request!)}>{e.request}</LinkButton>],
    [t('audit.model'), e.model?.asked && [e.model.asked, e.model.version, e.model.precision].filter(Boolean).join(' · ')],
    [t('audit.dataGrade'), e.detail?.data_grade],
    [t('audit.place'), e.detail?.place && label('place', e.detail.place)],
    [t('audit.routed'), e.detail?.route && <Routed text={e.detail.route} />],
    [t('audit.policy'), e.policy],
    [t('audit.rollout'), e.rollout && `${e.rollout} · ${e.arm ?? ''}`],
    [t('audit.outcome'), e.outcome && `${label('outcome', e.outcome)}${e.error_code ? ` · ${e.error_code}` : ''}`],
    [t('audit.tokens'), e.usage?.currency && t('playground.tokenCounts', { prompt: count(e.usage.prompt_tokens ?? 0, language), completion: count(e.usage.completion_tokens ?? 0, language) })],
    [t('audit.cost'), e.usage?.currency && `${exactNano(e.usage.cost ?? 0)} ${e.usage.currency}`],
    [t('audit.energy'), e.usage?.energy && `${energy(e.usage.energy, language)} · ${label('method', e.usage.energy_method ?? '')}`],
    [t('audit.latency'), e.latency?.total && duration(e.latency.total, language)],
    [t('audit.steps'), e.steps && Object.entries(e.steps).map(([step, us]) => <div key={step}>{`${label('step', step)}: ${duration(us, language)}`}</div>)],
    [t('audit.documents'), e.documents?.map((d) => <RecordedPassage key={d} name={d} tenant={e.tenant} />)],
    [t('audit.leaf'), entry.leaf_hash && <Typography.Text code copyable>{entry.leaf_hash}</Typography.Text>],
  ];
  return (
    <>
      {entry.index < 0 ? <Alert type="info" showIcon title={t('audit.unsealedNote')} /> : <Tag color="blue" style={{ alignSelf: 'flex-start' }}>{t('audit.sealed', { index: entry.index })}</Tag>}
      <Descriptions bordered size="small" column={1} styles={{ label: { width: 140 }, content: { wordBreak: 'break-all' } }} items={facts.filter(([, v]) => v).map(([name, value]) => ({ key: name, label: name, children: value }))} />
      {e.findings && e.findings.length > 0 && <Findings findings={e.findings} />}
      {mayUsage && e.request && e.usage?.currency && !explained && (
        <Button style={{ alignSelf: 'flex-start' }} onClick={() => setExplained(true)}>
          {t('costs.explain')}
        </Button>
      )}
      {explained && e.request && <RequestBill request={e.request} tenant={e.tenant} />}
      {mayReveal && e.request && masked && (
        <Flex gap={8} wrap align="center">
          <Button onClick={() => setRevealing('')}>{t('reveal.ofRecord')}</Button>
          <Typography.Text type="secondary">{t('reveal.ofRecordNote')}</Typography.Text>
        </Flex>
      )}
      {mayRead && e.contents && e.contents.length > 0 && <KeptTexts id={e.id} onReveal={mayReveal && e.request ? setRevealing : undefined} />}
      {revealing !== undefined && e.request && <RevealModal request={e.request} text={revealing} onClose={() => setRevealing(undefined)} />}
      <div>
        <Typography.Text strong>{t('audit.canonical')}</Typography.Text>
        <pre className="code" data-testid="canonical">{JSON.stringify(e, null, 2)}</pre>
      </div>
    </>
  );
}

interface Considered {
  instance: string;
  verdict: string;
  why?: string;
  running?: number;
  sum?: number;
}

/** How the instance was chosen among several: what was made of each of them. */
function Routed({ text }: { text: string }) {
  const { t } = useTranslation();
  const label = useLabel();
  let all: { instances?: Considered[]; more?: number };
  try {
    all = JSON.parse(text) as typeof all;
  } catch {
    return <>{text}</>;
  }
  return (
    <>
      {all.instances?.map((x) => (
        <div key={x.instance}>
          {[
            `${x.instance}: ${label('verdict', x.verdict)}`,
            x.why && label('unfit', x.why),
            t('audit.routedRunning', { count: x.running ?? 0 }),
            x.sum !== undefined && t('audit.routedSum', { sum: (x.sum / 100).toFixed(2) }),
          ]
            .filter(Boolean)
            .join(' · ')}
        </div>
      ))}
      {all.more ? <div>{t('audit.routedMore', { count: all.more })}</div> : null}
    </>
  );
}

/** The name of a passage in a record; it opens the passage for whom a search in its tenant would show it. */
function RecordedPassage({ name, tenant }: { name: string; tenant?: string }) {
  const me = useMe();
  const maySearch = useMay('rag.search');
  const [open, setOpen] = useState(false);
  const passage = recordedPassage(name);
  if (!passage || !maySearch || tenant !== me.tenant) return <div>{name}</div>;
  return (
    <div>
      <Button type="link" size="small" style={{ padding: 0, height: 'auto', whiteSpace: 'normal', textAlign: 'start' }} onClick={() => setOpen(true)}>
        {name}
      </Button>
      {open && <PassageDrawer passage={passage} onClose={() => setOpen(false)} />}
    </div>
  );
}

/** The texts that were kept with a record. They are asked for by a press of the button, never in passing: each reading is itself recorded. */
function KeptTexts({ id, onReveal }: { id: string; onReveal?: (text: string) => void }) {
  const { t } = useTranslation();
  const label = useLabel();
  const texts = useMutation({ mutationFn: () => call(api.GET('/audit/records/{id}/content', { params: { path: { id } } })), gcTime: 0 });
  return (
    <Flex vertical gap={8} align="stretch">
      <Flex gap={8} wrap align="center">
        <Button loading={texts.isPending} onClick={() => texts.mutate()}>{t('audit.readTexts')}</Button>
        <Typography.Text type="secondary">{t('audit.readTextsNote')}</Typography.Text>
      </Flex>
      {texts.error && <Failure error={texts.error} />}
      {texts.data?.items.map((x) => (
        <div key={x.direction}>
          <Typography.Text strong>{`${label('direction', x.direction)} · ${label('form', x.form.replace('-cut', ''))}`}</Typography.Text>
          {x.form.endsWith('-cut') && <Typography.Text type="warning">{` · ${t('audit.cut')}`}</Typography.Text>}
          {onReveal && tokensIn(x.text ?? '').length > 0 && (
            <Button size="small" type="link" onClick={() => onReveal(x.text!.replaceAll('\u0000', '\n'))}>
              {t('reveal.ofText')}
            </Button>
          )}
          {x.erased ? <Alert type="info" showIcon title={t('audit.erased')} /> : <pre className="code" data-testid={`kept-${x.direction}`}>{x.text?.replaceAll('\u0000', '\n')}</pre>}
        </div>
      ))}
    </Flex>
  );
}
