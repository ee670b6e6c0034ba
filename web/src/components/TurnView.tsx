import { Descriptions, Empty, Flex, Spin, Table, Tag, theme, Typography } from 'antd';
import { type ReactNode, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { Link } from 'react-router';

import type { Schema } from '../api/client';
import { useLabel, useLanguage } from '../i18n';
import type { Turn } from '../lib/conversation';
import { hides } from '../lib/findings';
import { count, energy, exactNano, money } from '../lib/format';
import { useMay } from '../lib/me';
import { citedPassage, marksIn, type PassageRef } from '../lib/passages';
import { ActionTag } from './ActionTag';
import { Failure } from './Failure';
import { LinkButton } from './LinkButton';
import { PassageDrawer } from './PassageDrawer';

/** What to say of an answer that was cut off, by how it ended. */
const cuts: Record<string, 'playground.length' | 'playground.filtered' | undefined> = { length: 'playground.length', content_filter: 'playground.filtered' };

export function TurnView({ turn }: { turn: Turn }) {
  const { t } = useTranslation();
  const { token } = theme.useToken();
  const cut = turn.finish && cuts[turn.finish];
  const masked = turn.extension?.findings?.reduce((n, f) => n + (hides(f.action) ? f.count : 0), 0) ?? 0;
  return (
    <Flex vertical gap={8}>
      <Bubble name={t('playground.you')} background={token.colorPrimaryBg} right>
        {turn.question}
      </Bubble>
      <Bubble name={t('playground.assistant')} background={token.colorFillTertiary}>
        <Answer turn={turn} />
        {turn.state === 'running' && <Spin size="small" style={{ marginInlineStart: 8 }} aria-label={t('playground.running')} />}
      </Bubble>
      <Flex gap={4} wrap>
        {turn.state === 'done' && !cut && <Tag color="success">{t('playground.done')}</Tag>}
        {turn.state === 'stopped' && <Tag>{t('playground.stopped')}</Tag>}
        {cut && <Tag color="warning">{t(cut)}</Tag>}
        {masked > 0 && <Tag color="blue">{t('playground.maskedCount', { count: masked })}</Tag>}
        {turn.extension?.label && <Tag>{t('playground.labelled')}</Tag>}
        <Receipt id={turn.extension?.receipt} />
      </Flex>
      {turn.error && <Failure error={turn.error} />}
    </Flex>
  );
}

/** The text of an answer; its marks open the passages they stand for, once the answer has said which these are. */
function Answer({ turn }: { turn: Turn }) {
  const { t } = useTranslation();
  const maySearch = useMay('rag.search');
  const [open, setOpen] = useState<PassageRef>();
  const citations = (maySearch && turn.extension?.citations) || [];
  return (
    <>
      {marksIn(turn.answer, citations).map((part, i) => {
        if ('text' in part) return <span key={i}>{part.text}</span>;
        const passage = citedPassage(part.citation);
        if (!passage) return <span key={i}>{part.mark}</span>;
        return (
          <LinkButton key={i} aria-label={t('passage.open', { number: part.citation.number, document: part.citation.title || part.citation.document })} onClick={() => setOpen(passage)}>
            {part.mark}
          </LinkButton>
        );
      })}
      {open && <PassageDrawer passage={open} onClose={() => setOpen(undefined)} />}
    </>
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
      {x.citations && x.citations.length > 0 && <Citations citations={x.citations} />}
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

function Citations({ citations }: { citations: Schema['Citation'][] }) {
  const { t } = useTranslation();
  const maySearch = useMay('rag.search');
  const [open, setOpen] = useState<PassageRef>();
  return (
    <div>
      <Typography.Text strong>{t('playground.citations')}</Typography.Text>
      <ol style={{ margin: '4px 0 0', paddingInlineStart: 20 }}>
        {citations.map((c, i) => {
          const passage = maySearch ? citedPassage(c) : undefined;
          const name = c.title || c.document;
          return (
            <li key={i} style={{ overflowWrap: 'anywhere' }}>
              {passage ? <LinkButton onClick={() => setOpen(passage)}>{name}</LinkButton> : name}
              {c.section && c.section !== name && <Typography.Text type="secondary"> {c.section.startsWith(`${name} > `) ? c.section.slice(name.length + 3) : c.section}</Typography.Text>}
              {c.text && (
                <Typography.Paragraph type="secondary" ellipsis={{ rows: 3 }} style={{ margin: 0 }}>
                  {c.text}
                </Typography.Paragraph>
              )}
              {c.text_withheld && <div><Typography.Text type="secondary">{t('passage.withheld')}</Typography.Text></div>}
            </li>
          );
        })}
      </ol>
      {open && <PassageDrawer passage={open} onClose={() => setOpen(undefined)} />}
    </div>
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
        { title: t('findings.direction'), onHeaderCell: whole, onCell: whole, render: (_, f) => label('direction', f.direction) },
        { title: t('findings.action'), render: (_, f) => (
            <>
              <ActionTag action={f.action} />
              {f.restored ? <div><Typography.Text type="secondary">{t('findings.restored', { times: f.restored })}</Typography.Text></div> : null}
            </>
          ) },
        { title: t('findings.count'), dataIndex: 'count', align: 'right', onHeaderCell: whole },
      ]}
    />
  );
}

/** Keeps a short text on one line. */
const whole = () => ({ style: { whiteSpace: 'nowrap' as const } });
