import { Descriptions, Empty, Flex, Spin, Table, Tag, theme, Typography } from 'antd';
import type { ReactNode } from 'react';
import { useTranslation } from 'react-i18next';
import { Link } from 'react-router';

import type { Schema } from '../api/client';
import { useLabel, useLanguage } from '../i18n';
import type { Turn } from '../lib/conversation';
import { count, energy, exactNano, money } from '../lib/format';
import { useMay } from '../lib/me';
import { Failure } from './Failure';

export function TurnView({ turn }: { turn: Turn }) {
  const { t } = useTranslation();
  const { token } = theme.useToken();
  const masked = turn.extension?.findings?.reduce((n, f) => n + (f.action === 'masked' ? f.count : 0), 0) ?? 0;
  return (
    <Flex vertical gap={8}>
      <Bubble name={t('playground.you')} background={token.colorPrimaryBg} right>
        {turn.question}
      </Bubble>
      <Bubble name={t('playground.assistant')} background={token.colorFillTertiary}>
        {turn.answer}
        {turn.state === 'running' && <Spin size="small" style={{ marginInlineStart: 8 }} aria-label={t('playground.running')} />}
      </Bubble>
      <Flex gap={4} wrap>
        {turn.state === 'done' && turn.finish !== 'length' && <Tag color="success">{t('playground.done')}</Tag>}
        {turn.state === 'stopped' && <Tag>{t('playground.stopped')}</Tag>}
        {turn.finish === 'length' && <Tag color="warning">{t('playground.length')}</Tag>}
        {masked > 0 && <Tag color="blue">{t('playground.maskedCount', { count: masked })}</Tag>}
        {turn.extension?.label && <Tag>{t('playground.labelled')}</Tag>}
        <Receipt id={turn.extension?.receipt} />
      </Flex>
      {turn.error && <Failure error={turn.error} />}
    </Flex>
  );
}

function Bubble({ name, background, right, children }: { name: string; background: string; right?: boolean; children: ReactNode }) {
  return (
    <div style={{ alignSelf: right ? 'flex-end' : 'flex-start', maxWidth: '88%' }}>
      <Typography.Text type="secondary" style={{ fontSize: 12 }}>
        {name}
      </Typography.Text>
      <div style={{ background, borderRadius: 8, padding: '8px 12px', whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}>{children}</div>
    </div>
  );
}

function Receipt({ id }: { id?: string }) {
  const { t } = useTranslation();
  const mayRead = useMay('audit.read');
  if (!id) return null;
  return mayRead ? <Link to={`/audit?event=${encodeURIComponent(id)}`}>{t('playground.receipt')}</Link> : <Typography.Text code>{id}</Typography.Text>;
}

/** What governance did to one answer: findings by class, label, policy, citations, tokens. */
export function Governance({ turn }: { turn: Turn | undefined }) {
  const { t } = useTranslation();
  const label = useLabel();
  const [language] = useLanguage();
  const x = turn?.extension;
  if (!turn || !x) return <Empty image={Empty.PRESENTED_IMAGE_SIMPLE} description={t(turn?.state === 'running' ? 'playground.governanceLater' : 'playground.governanceEmpty')} />;
  return (
    <Flex vertical gap={16}>
      <Findings findings={x.findings ?? []} />
      {x.citations && x.citations.length > 0 && (
        <div>
          <Typography.Text strong>{t('playground.citations')}</Typography.Text>
          <ol style={{ margin: '4px 0 0', paddingInlineStart: 20 }}>
            {x.citations.map((c, i) => (
              <li key={i}>
                {c.document}
                <Typography.Text type="secondary">
                  {' '}
                  {c.start !== undefined && t('playground.offsets', { start: c.start, end: c.end })}
                </Typography.Text>
              </li>
            ))}
          </ol>
        </div>
      )}
      <Descriptions
        size="small"
        column={1}
        bordered
        styles={{ label: { whiteSpace: 'nowrap' } }}
        items={[
          ...(x.policy ? [{ key: 'policy', label: t('playground.policy'), children: <Typography.Text code>{x.policy}</Typography.Text> }] : []),
          ...(turn.usage
            ? [{ key: 'tokens', label: t('playground.tokens'), children: t('playground.tokenCounts', { prompt: count(turn.usage.prompt_tokens, language), completion: count(turn.usage.completion_tokens, language) }) }]
            : []),
          ...(x.model ? [{ key: 'version', label: t('playground.version'), children: [x.model.version, x.model.precision, x.model.arm].filter(Boolean).join(' · ') }] : []),
          ...(x.cost ? [{ key: 'cost', label: t('playground.cost'), children: <span title={`${exactNano(x.cost.nano)} ${x.cost.currency}`}>{money(x.cost.nano, x.cost.currency, language)}</span> }] : []),
          ...(x.energy ? [{ key: 'energy', label: t('playground.energy'), children: `${energy(x.energy.microjoules, language)} · ${label('method', x.energy.method)}` }] : []),
          ...(x.receipt ? [{ key: 'receipt', label: t('playground.receiptId'), children: <Typography.Text copyable style={{ wordBreak: 'break-all' }}>{x.receipt}</Typography.Text> }] : []),
        ]}
      />
      {x.label && (
        <div>
          <Typography.Text strong>{t('playground.label')}</Typography.Text>
          <pre className="code" tabIndex={0} aria-label={t('playground.label')}>
            {JSON.stringify(x.label, null, 2)}
          </pre>
        </div>
      )}
    </Flex>
  );
}

export function Findings({ findings }: { findings: Schema['Finding'][] }) {
  const { t } = useTranslation();
  const label = useLabel();
  if (findings.length === 0) return <Typography.Text type="secondary">{t('findings.none')}</Typography.Text>;
  return (
    <Table
      size="small"
      pagination={false}
      aria-label={t('findings.title')}
      rowKey={(f) => `${f.direction}/${f.class}/${f.action}`}
      dataSource={findings}
      columns={[
        { title: t('findings.class'), render: (_, f) => <>{label('class', f.class)} {f.detector && <Typography.Text type="secondary">{f.detector}</Typography.Text>}</> },
        { title: t('findings.direction'), render: (_, f) => label('direction', f.direction) },
        { title: t('findings.action'), render: (_, f) => <Tag color={f.action === 'blocked' ? 'error' : f.action === 'masked' ? 'blue' : 'default'}>{label('finding', f.action)}</Tag> },
        { title: t('findings.count'), dataIndex: 'count', align: 'right' },
      ]}
    />
  );
}
