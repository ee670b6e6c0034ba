import { useQuery } from '@tanstack/react-query';
import { InputNumber, Select } from 'antd';
import { useTranslation } from 'react-i18next';

import { api, call } from '../api/client';
import { useLanguage } from '../i18n';

/** By which factor carbon dioxide is reckoned, and how much more the building takes than its machines. There is no default factor. */
export function EmissionFields({ factor, pue, onChange }: { factor: string; pue: string; onChange: (change: { factor?: string; pue?: string }) => void }) {
  const { t } = useTranslation();
  const [language] = useLanguage();
  const factors = useQuery({ queryKey: ['energy-factors'], queryFn: () => call(api.GET('/energy-factors')), staleTime: Infinity });
  return (
    <>
      <Select
        aria-label={t('costs.factor')}
        placeholder={t('costs.factor')}
        allowClear
        style={{ minWidth: 260 }}
        value={factor || undefined}
        loading={factors.isFetching}
        options={factors.data?.items.map((f) => ({ value: f.id, label: `${(language === 'zh' && f.region_zh) || f.region} ${f.year} · ${f.milligrams_per_kwh / 1000} g/kWh` }))}
        onChange={(v?: string) => onChange({ factor: v ?? '' })}
      />
      <InputNumber aria-label={t('costs.pue')} prefix="PUE" min={1} max={10} step={0.05} value={Number(pue)} onChange={(v) => v && onChange({ pue: String(v) })} style={{ width: 120 }} />
    </>
  );
}
