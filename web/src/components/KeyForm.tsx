import { useQuery } from '@tanstack/react-query';
import { DatePicker, Flex, Form, type FormInstance, Input, InputNumber, Radio, Select, Typography } from 'antd';
import dayjs, { type Dayjs } from 'dayjs';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { useLabel, useLanguage } from '../i18n';
import { count } from '../lib/format';
import { useMay, useMe } from '../lib/me';

export interface KeyFields {
  name: string;
  project?: string;
  labels?: string[];
  scopes?: Schema['KeyScope'][];
  models?: string[];
  networks?: string[];
  label_mode: Schema['LabelMode'];
  expires?: Dayjs;
  requests?: number | null;
  tokens?: number | null;
  concurrent?: number | null;
}

const scopes = ['chat', 'embed', 'rerank', 'search', 'admin-read'] as const;
const modes = ['policy', 'metadata', 'text'] as const;
const fields = { requests: 'requests_per_minute', tokens: 'tokens_per_minute', concurrent: 'concurrent' } as const;

export const useKeyDefaults = () => useQuery({ queryKey: ['key-defaults'], queryFn: () => call(api.GET('/keys/defaults')) });

export const limitsOf = (f: KeyFields): Schema['Limits'] => ({ requests_per_minute: f.requests ?? 0, tokens_per_minute: f.tokens ?? 0, concurrent: f.concurrent ?? 0 });

/** What can be said of a key; `own` says that it belongs to a person, and `edited` that it is there already. Without `keys.write` its limits can only be lowered and its life only be shortened. */
export function KeyForm({ form, own, edited, onSubmit }: { form: FormInstance<KeyFields>; own: boolean; edited?: Schema['Key']; onSubmit: (f: KeyFields) => void }) {
  const { t } = useTranslation();
  const label = useLabel();
  const me = useMe();
  const mayRaise = useMay('keys.write');
  const narrow = own && !mayRaise;
  const [language] = useLanguage();
  const defaults = useKeyDefaults().data;
  const days = defaults && Math.round(defaults.lifetime_days);
  const lifetime = own && defaults ? dayjs(edited?.created_at).add(defaults.lifetime_days, 'day').subtract(1, 'day') : undefined;
  const latest = narrow && edited?.expires_at ? dayjs(edited.expires_at) : lifetime;
  const ending = narrow && edited ? t('keys.expiresSooner') : edited || days === undefined ? t('keys.expiresKeep') : own ? t('keys.expiresOwn', { count: days }) : t('keys.expiresDefault', { count: days });
  const initial: Partial<KeyFields> = edited
    ? {
        name: edited.name,
        project: edited.project,
        labels: edited.labels,
        scopes: edited.scopes,
        models: edited.models,
        networks: edited.networks,
        label_mode: edited.label_mode,
        expires: edited.expires_at ? dayjs(edited.expires_at) : undefined,
        requests: edited.limits.requests_per_minute || null,
        tokens: edited.limits.tokens_per_minute || null,
        concurrent: edited.limits.concurrent || null,
      }
    : { label_mode: 'policy' };
  return (
    <Form form={form} layout="vertical" initialValues={initial} onFinish={onSubmit}>
      <Form.Item name="name" label={t('keys.name')} rules={[{ required: true, message: t('form.required') }]}>
        <Input autoFocus maxLength={128} />
      </Form.Item>
      <Form.Item name="project" label={t('keys.project')}>
        <Input maxLength={64} />
      </Form.Item>
      <Form.Item name="expires" label={t('keys.expires')} extra={ending}>
        <DatePicker style={{ width: '100%' }} minDate={dayjs()} maxDate={latest} allowClear={!edited} />
      </Form.Item>
      <Form.Item name="label_mode" label={t('keys.labelMode')}>
        <Radio.Group options={modes.filter((m) => !own || m !== 'metadata').map((m) => ({ value: m, label: label('labelMode', m) }))} />
      </Form.Item>
      <Form.Item name="labels" label={t('keys.labels')} extra={t('keys.labelsHelp')}>
        {own ? <Select mode="multiple" options={me.labels.map((l) => ({ value: l, label: l }))} /> : <Select mode="tags" open={false} suffixIcon={null} />}
      </Form.Item>
      <Form.Item name="scopes" label={t('keys.scopes')} extra={t('keys.scopesHelp')}>
        <Select mode="multiple" options={scopes.map((s) => ({ value: s, label: label('keyScope', s) }))} />
      </Form.Item>
      <Form.Item name="models" label={t('keys.models')} extra={t('keys.modelsHelp')}>
        <Select mode="tags" open={false} suffixIcon={null} tokenSeparators={[',', ' ']} />
      </Form.Item>
      <Form.Item name="networks" label={t('keys.networks')} extra={t('keys.networksHelp')}>
        <Select mode="tags" open={false} suffixIcon={null} tokenSeparators={[',', ' ']} />
      </Form.Item>
      {narrow && edited && <Typography.Paragraph type="secondary">{t('keys.narrowHelp')}</Typography.Paragraph>}
      <Typography.Text>{t('keys.limits')}</Typography.Text>
      <Typography.Paragraph type="secondary">{t(narrow ? 'keys.limitsHelpOwn' : 'keys.limitsHelp')}</Typography.Paragraph>
      <Flex gap={12} wrap align="flex-end">
        {(['requests', 'tokens', 'concurrent'] as const).map((name) => {
          const standard = defaults?.limits[fields[name]];
          const most = narrow ? edited?.limits[fields[name]] || standard : undefined;
          return (
            <Form.Item key={name} name={name} label={t(`keys.${name}`)} extra={most ? t('keys.most', { most: count(most, language) }) : undefined} style={{ flex: 1, minWidth: 140, marginBottom: 0 }}>
              <InputNumber min={0} max={most || undefined} precision={0} style={{ width: '100%' }} placeholder={standard ? count(standard, language) : undefined} />
            </Form.Item>
          );
        })}
      </Flex>
    </Form>
  );
}
