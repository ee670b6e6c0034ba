import { Col, Row, Skeleton, Statistic } from 'antd';
import { useTranslation } from 'react-i18next';

import type { Schema } from '../api/client';
import { useLabel, useLanguage } from '../i18n';
import { compact, count, energy, exactJoules, exactNano, money } from '../lib/format';

export function UsageTiles({ total }: { total: Schema['UsageRow'] | undefined }) {
  const { t } = useTranslation();
  const label = useLabel();
  const [language] = useLanguage();
  if (!total) return <Skeleton active paragraph={{ rows: 1 }} />;
  const tokens = total.prompt_tokens + total.completion_tokens;
  const tiles = [
    { title: t('usage.requests'), value: compact(total.requests, language), exact: count(total.requests, language) },
    { title: t('usage.tokens'), value: compact(tokens, language), exact: count(tokens, language) },
    { title: t('usage.cost'), value: money(total.cost_nano, total.currency, language), exact: `${exactNano(total.cost_nano)} ${total.currency}` },
    {
      title: total.energy_method ? `${t('usage.energy')} · ${label('method', total.energy_method)}` : t('usage.energy'),
      value: energy(total.energy_uj, language),
      exact: `${exactJoules(total.energy_uj)} J`,
    },
  ];
  return (
    <Row gutter={[16, 16]}>
      {tiles.map((tile) => (
        <Col key={tile.title} xs={12} md={6}>
          <div title={tile.exact}>
            <Statistic title={tile.title} value={tile.value} />
          </div>
        </Col>
      ))}
    </Row>
  );
}
