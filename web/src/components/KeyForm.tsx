import { useQuery } from '@tanstack/react-query';
import { DatePicker, Form, type FormInstance, Input, Radio, Select, Typography } from 'antd';
import dayjs, { type Dayjs } from 'dayjs';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { useLabel } from '../i18n';
import { useProjects } from '../lib/levels';
import { useMay, useMe } from '../lib/me';
import { LimitFields, limitsEntered, type LimitsEntered } from './LimitFields';

export interface KeyFields extends LimitsEntered {
  name: string;
  project?: string;
  labels?: string[];
  scopes?: Schema['KeyScope'][];
  models?: string[];
  networks?: string[];
  label_mode: Schema['LabelMode'];
  expires?: Dayjs;
}

const scopes = ['chat', 'embed', 'rerank', 'search', 'admin-read'] as const;
const modes = ['policy', 'metadata', 'text'] as const;

export const useKeyDefaults = () => useQuery({ queryKey: ['key-defaults'], queryFn: () => call(api.GET('/keys/defaults')) });

/** What can be said of a key; `own` says that it belongs to a person, and `edited` that it is there already. Without `keys.write` its limits can only be lowered and its life only be shortened. */
export function KeyForm({ form, own, edited, onSubmit }: { form: FormInstance<KeyFields>; own: boolean; edited?: Schema['Key']; onSubmit: (f: KeyFields) => void }) {
  const { t } = useTranslation();
  const label = useLabel();
  const me = useMe();
  const mayRaise = useMay('keys.write');
  const narrow = own && !mayRaise;
  const defaults = useKeyDefaults().data;
  const projects = useProjects().data?.filter((p) => !p.suspension || p.id === edited?.project);
  const days = defaults && Math.round(defaults.lifetime_days);
  const lifetime = own && defaults ? dayjs(edited?.created_at).add(defaults.lifetime_days, 'day').subtract(1, 'day') : undefined;
  const latest = narrow && edited?.expires_at ? dayjs(edited.expires_at) : lifetime;
  const ending = narrow && edited ? t('keys.expiresSooner') : edited || days === undefined ? t('keys.expiresKeep') : own ? t('keys.expiresOwn', { count: days }) : t('keys.expiresDefault', { count: days });
  const initial: Partial<KeyFields> = edited
    ? {
        name: edited.name,
        project: edited.project || undefined,
        labels: edited.labels,
        scopes: edited.scopes,
        models: edited.models,
        networks: edited.networks,
        label_mode: edited.label_mode,
        expires: edited.expires_at ? dayjs(edited.expires_at) : undefined,
        ...limitsEntered(edited.limits),
      }
    : { label_mode: 'policy' };
  return (
    <Form form={form} layout="vertical" initialValues={initial} onFinish={onSubmit}>
      <Form.Item name="name" label={t('keys.name')} rules={[{ required: true, message: t('form.required') }]}>
        <Input autoFocus maxLength={128} />
      </Form.Item>
      <Form.Item name="project" label={t('keys.project')} extra={t(narrow && edited ? 'keys.projectKept' : 'keys.projectHelp')}>
        <Select allowClear showSearch={{ optionFilterProp: 'label' }} disabled={narrow && edited !== undefined} options={projects?.map((p) => ({ value: p.id, label: p.name === p.id ? p.id : `${p.name} · ${p.id}` }))} />
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
      <LimitFields standard={defaults?.limits} most={(name) => (narrow ? edited?.limits[name] || defaults?.limits[name] : undefined)} />
    </Form>
  );
}
