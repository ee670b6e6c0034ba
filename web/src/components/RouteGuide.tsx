import { Empty, Flex, InputNumber, Select, Tag, Typography } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import type { Schema } from '../api/client';
import { useLabel, useLanguage } from '../i18n';
import { count } from '../lib/format';
import { type Ask, judge, nameOf, type Reason, type Row, rowKey } from '../lib/matrix';
import { FeatureSelect } from './EngineMatrix';

/** Which instances a request can go to, and for the others why not: from the same cells as the table. */
export function RouteGuide({ matrix }: { matrix: Schema['EngineMatrix'] }) {
  const { t } = useTranslation();
  const label = useLabel();
  const [ask, setAsk] = useState<Ask>({ features: [] });
  const asked = ask.features.length > 0 || ask.tokens !== undefined || ask.least !== undefined;
  return (
    <Flex vertical gap={12}>
      <Typography.Text type="secondary">{t('engines.guideNote')}</Typography.Text>
      <Flex gap={8} wrap align="center">
        <FeatureSelect name={t('engines.needs')} all={matrix.features} value={ask.features} onChange={(features) => setAsk({ ...ask, features })} label={(f) => label('feature', f)} />
        <InputNumber
          aria-label={t('engines.tokens')} placeholder={t('engines.tokens')} min={1} precision={0} style={{ width: 220 }}
          value={ask.tokens} onChange={(tokens) => setAsk({ ...ask, tokens: tokens ?? undefined })}
        />
        <Select
          aria-label={t('engines.least')} placeholder={t('engines.least')} allowClear style={{ minWidth: 180 }}
          value={ask.least} options={['E1', 'E2', 'E3', 'E4'].map((g) => ({ value: g, label: `${g} · ${label('grade', g)}` }))} onChange={(least) => setAsk({ ...ask, least })}
        />
      </Flex>
      {asked ? <Answers rows={matrix.rows} ask={ask} /> : <Empty image={Empty.PRESENTED_IMAGE_SIMPLE} description={t('engines.chooseNeeds')} />}
    </Flex>
  );
}

function Answers({ rows, ask }: { rows: Row[]; ask: Ask }) {
  const { t } = useTranslation();
  const judged = rows.map((row) => ({ row, ...judge(row, ask) }));
  const fit = judged.filter((j) => j.no.length === 0);
  const others = judged.filter((j) => j.no.length > 0);
  return (
    <Flex vertical gap={8}>
      <Typography.Text strong role="status">
        {t('engines.qualify', { fit: fit.length, all: rows.length })}
      </Typography.Text>
      <Typography.Text type="secondary">{t('engines.loadDecides')}</Typography.Text>
      <ul className="guide" aria-label={t('engines.fit')}>
        {fit.map((j) => (
          <Answer key={rowKey(j.row)} row={j.row} reasons={j.depends} fits />
        ))}
      </ul>
      <ul className="guide" aria-label={t('engines.unfit')}>
        {others.map((j) => (
          <Answer key={rowKey(j.row)} row={j.row} reasons={j.no} />
        ))}
      </ul>
    </Flex>
  );
}

function Answer({ row, reasons, fits }: { row: Row; reasons: Reason[]; fits?: boolean }) {
  const { t } = useTranslation();
  const say = useReason();
  const [colour, word] = !fits ? (['default', 'engines.no'] as const) : reasons.length > 0 ? (['warning', 'engines.depends'] as const) : (['success', 'engines.yes'] as const);
  return (
    <li>
      <Tag color={colour}>{t(word)}</Tag> <strong>{nameOf(row)}</strong> <Typography.Text type="secondary">{row.model}</Typography.Text>
      {reasons.length > 0 && (
        <ul>
          {reasons.map((r) => (
            <li key={`${r.kind} ${r.feature ?? ''}`}>{say(r)}</li>
          ))}
        </ul>
      )}
    </li>
  );
}

/** A reason for people. */
function useReason() {
  const { t } = useTranslation();
  const label = useLabel();
  const [language] = useLanguage();
  return (r: Reason): string => {
    const what = r.feature ? label('feature', r.feature) : '';
    const detail = r.detail ?? '';
    switch (r.kind) {
      case 'tokens':
        return t('engines.reason.tokens', { most: count(Number(detail), language) });
      case 'state':
        return t('engines.reason.state', { state: t(`instances.states.${detail as Schema['Instance']['state']}`) });
      case 'role':
        return t('engines.reason.role', { roles: detail.split(', ').map((x) => label('engineRole', x)).join(', ') });
      case 'sick':
        return t('engines.reason.sick');
      case 'grade':
        return t('engines.reason.grade', { what, grade: detail });
      case 'condition':
        return t('engines.reason.condition', { what, when: detail });
      case 'unknown':
        return t('engines.reason.unknown', { what, when: detail });
      case 'depends':
        return t('engines.reason.depends', { what, when: detail });
      case 'roadmap':
        return t('engines.reason.roadmap', { what });
      case 'listing':
        return t('engines.reason.listing', { what });
      case 'missing':
        return t('engines.reason.missing', { what });
    }
  };
}
