import { Flex, Form, InputNumber } from 'antd';
import { useTranslation } from 'react-i18next';

import type { Schema } from '../api/client';
import { useLanguage } from '../i18n';
import { count } from '../lib/format';

export interface LimitsEntered {
  requests?: number | null;
  tokens?: number | null;
  concurrent?: number | null;
}

const fields = { requests: 'requests_per_minute', tokens: 'tokens_per_minute', concurrent: 'concurrent' } as const;

export const limitsOf = (f: LimitsEntered): Schema['Limits'] => ({ requests_per_minute: f.requests ?? 0, tokens_per_minute: f.tokens ?? 0, concurrent: f.concurrent ?? 0 });
export const limitsEntered = (l: Schema['Limits']): LimitsEntered => ({ requests: l.requests_per_minute || null, tokens: l.tokens_per_minute || null, concurrent: l.concurrent || null });

/** The three limits of a key or a tenant; an empty field takes the standard one. `most` says how high each may be. */
export function LimitFields({ standard, most }: { standard?: Schema['Limits']; most?: (name: keyof Schema['Limits']) => number | undefined }) {
  const { t } = useTranslation();
  const [language] = useLanguage();
  return (
    <Flex gap={12} wrap align="flex-end">
      {(['requests', 'tokens', 'concurrent'] as const).map((name) => {
        const usual = standard?.[fields[name]];
        const highest = most?.(fields[name]);
        return (
          <Form.Item key={name} name={name} label={t(`keys.${name}`)} extra={highest ? t('keys.most', { most: count(highest, language) }) : undefined} style={{ flex: 1, minWidth: 140, marginBottom: 0 }}>
            <InputNumber min={0} max={highest || undefined} precision={0} style={{ width: '100%' }} placeholder={usual ? count(usual, language) : undefined} />
          </Form.Item>
        );
      })}
    </Flex>
  );
}
