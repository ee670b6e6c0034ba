import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Form, InputNumber, Modal, Select } from 'antd';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { useLabel } from '../i18n';
import { toNano } from '../lib/format';
import { useProjects } from '../lib/levels';
import { useMay } from '../lib/me';
import { Failure } from './Failure';

const periods = ['day', 'month', 'total'] as const;

interface Fields {
  of?: string; // key:ID or project:ID; absent: the whole tenant
  period: Schema['BudgetPeriod'];
  limit: string;
}

/** Sets or replaces the budget of an organisation, or of the tenant, one of its projects or one of its keys. */
export function SetBudget({ organisation, onClose }: { organisation?: string; onClose: () => void }) {
  const { t } = useTranslation();
  const label = useLabel();
  const queries = useQueryClient();
  const [form] = Form.useForm<Fields>();
  const mayKeys = useMay('keys.read');
  const mayPrices = useMay('price.read');
  const keys = useQuery({ queryKey: ['keys', 'names'], queryFn: () => call(api.GET('/keys', { params: { query: { limit: 200 } } })), enabled: mayKeys && !organisation });
  const projects = useProjects(mayKeys && !organisation);
  const books = useQuery({ queryKey: ['price-books'], queryFn: () => call(api.GET('/price-books')), enabled: mayPrices });
  const currency = books.data?.items.find((b) => b.active)?.currency;
  const save = useMutation({
    mutationFn: (f: Fields) => {
      const [kind, id] = f.of?.split(':') ?? [];
      return call(api.PUT('/budgets', { body: { organisation, key: kind === 'key' ? id : undefined, project: kind === 'project' ? id : undefined, period: f.period, limit_nano: toNano(f.limit)! } }));
    },
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ['budgets'] });
      onClose();
    },
  });
  return (
    <Modal open title={t('budget.set')} okText={t('budget.set')} onCancel={onClose} onOk={() => form.submit()} confirmLoading={save.isPending}>
      {save.error && <Failure error={save.error} reveal />}
      <Form form={form} layout="vertical" style={{ marginTop: 16 }} initialValues={{ period: 'month' }} onFinish={(f) => save.mutate(f)}>
        {!organisation && (
          <Form.Item name="of" label={t('budget.for')} extra={t('budget.forHelp')}>
            <Select
              allowClear
              placeholder={t('budget.wholeTenant')}
              options={[
                ...(projects.data?.map((p) => ({ value: `project:${p.id}`, label: t('home.projectBudget', { project: p.name }) })) ?? []),
                ...(keys.data?.items.filter((k) => !k.revoked_at).map((k) => ({ value: `key:${k.id}`, label: `${k.name} · ${k.prefix}…` })) ?? []),
              ]}
            />
          </Form.Item>
        )}
        <Form.Item name="period" label={t('budget.period')}>
          <Select options={periods.map((p) => ({ value: p, label: label('period', p) }))} />
        </Form.Item>
        <Form.Item name="limit" label={t('budget.limit')} extra={t('budget.limitHelp')} rules={[{ validator: (_, v: unknown) => (toNano(String(v ?? '')) === undefined ? Promise.reject(new Error(t('budget.limitWrong'))) : Promise.resolve()) }]}>
          <InputNumber stringMode min="0" autoFocus suffix={currency} style={{ width: '100%' }} />
        </Form.Item>
      </Form>
    </Modal>
  );
}
