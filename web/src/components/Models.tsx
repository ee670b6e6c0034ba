import { PlusOutlined } from '@ant-design/icons';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { AutoComplete, Button, Flex, Form, Input, InputNumber, Modal, Typography } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { useMay } from '../lib/me';
import { type Column, DataTable } from './DataTable';
import { Failure } from './Failure';
import { Panel } from './Panel';
import { Time } from './Time';

type Version = Schema['ModelVersion'] & { share: string };

/** Every version of every model, and its share of the traffic. */
export function Models() {
  const { t } = useTranslation();
  const mayWrite = useMay('models.write');
  const [registering, setRegistering] = useState(false);
  const models = useQuery({ queryKey: ['models'], queryFn: () => call(api.GET('/models')) });
  const rows = models.data?.items.flatMap((m) =>
    m.versions.map((v): Version => {
      const basis = m.candidate_basis ?? 0;
      const share = v.version === m.stable ? `${(10000 - basis) / 100} %` : v.version === m.candidate ? `${basis / 100} %` : '–';
      return { ...v, share };
    }),
  );
  const defaults = (v: Version) =>
    [
      [t('models.temperature'), v.defaults?.temperature],
      [t('models.topP'), v.defaults?.top_p],
      [t('models.maxTokens'), v.defaults?.max_tokens],
    ]
      .filter(([, value]) => value !== undefined)
      .map(([name, value]) => `${name} ${value}`)
      .join(', ');
  const columns: Column<Version>[] = [
    { key: 'model', title: t('models.model'), render: (v) => v.model, csv: (v) => v.model },
    { key: 'version', title: t('models.version'), render: (v) => v.version, csv: (v) => v.version },
    { key: 'share', title: t('models.traffic'), align: 'right', render: (v) => v.share, csv: (v) => v.share },
    { key: 'precision', title: t('models.precision'), render: (v) => v.precision, csv: (v) => v.precision },
    { key: 'engine', title: t('models.engine'), render: (v) => `${v.engine} · ${v.engine_model}`, csv: (v) => `${v.engine} ${v.engine_model}` },
    { key: 'defaults', title: t('models.defaultsColumn'), render: (v) => defaults(v) || t('models.engineDefaults'), csv: defaults },
    { key: 'digest', title: t('models.digest'), render: (v) => v.digest && <Typography.Text code copyable={{ text: v.digest }}>{v.digest.slice(0, 16)}</Typography.Text>, csv: (v) => v.digest },
    { key: 'created', title: t('models.registered'), render: (v) => <Time at={v.created_at} />, csv: (v) => v.created_at },
  ];
  return (
    <Panel
      title={t('models.title')}
      extra={
        mayWrite && (
          <Button size="small" icon={<PlusOutlined aria-hidden />} onClick={() => setRegistering(true)}>
            {t('models.register')}
          </Button>
        )
      }
    >
      <DataTable name={t('models.table')} columns={columns} rows={rows} rowKey={(v) => `${v.model}@${v.version}`} loading={models.isFetching} error={models.error} reload={() => void models.refetch()} />
      {registering && <Register known={rows ?? []} onClose={() => setRegistering(false)} />}
    </Panel>
  );
}

/** Where a version comes from: most new versions of a model share it. */
const origin = (v: Version | undefined) => v && { model: v.model, engine: v.engine, engine_model: v.engine_model, precision: v.precision };

type Fields = Omit<Schema['NewModelVersion'], 'defaults'> & Schema['ModelDefaults'];

// The same weights with other sampling defaults count as a version, so a rollout can compare them.
function Register({ known, onClose }: { known: Version[]; onClose: () => void }) {
  const { t } = useTranslation();
  const queries = useQueryClient();
  const [form] = Form.useForm<Fields>();
  const register = useMutation({
    mutationFn: ({ temperature, top_p, max_tokens, ...version }: Fields) =>
      call(api.POST('/model-versions', { body: { ...version, defaults: { temperature: temperature ?? undefined, top_p: top_p ?? undefined, max_tokens: max_tokens ?? undefined } } })),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ['models'] });
      onClose();
    },
  });
  const options = (field: 'model' | 'engine' | 'engine_model' | 'precision') => [...new Set(known.map((v) => v[field]))].filter(Boolean).map((value) => ({ value }));
  const required = { required: true, whitespace: true, message: t('form.required') };
  return (
    <Modal open title={t('models.register')} okText={t('models.register')} onCancel={onClose} onOk={() => form.submit()} confirmLoading={register.isPending}>
      {register.error && <Failure error={register.error} reveal />}
      <Form form={form} layout="vertical" style={{ marginTop: 16 }} initialValues={origin(known[0])} onFinish={(f) => register.mutate(f)}>
        <Form.Item name="model" label={t('models.model')} rules={[required]}>
          <AutoComplete options={options('model')} onSelect={(model: string) => form.setFieldsValue(origin(known.find((v) => v.model === model)) ?? {})} />
        </Form.Item>
        <Form.Item name="version" label={t('models.version')} rules={[required]}>
          <Input autoFocus maxLength={64} />
        </Form.Item>
        <Flex gap={12}>
          <Form.Item name="engine" label={t('models.engine')} rules={[required]} style={{ flex: 1 }}>
            <AutoComplete options={options('engine')} />
          </Form.Item>
          <Form.Item name="engine_model" label={t('models.engineModel')} rules={[required]} style={{ flex: 2 }}>
            <AutoComplete options={options('engine_model')} />
          </Form.Item>
          <Form.Item name="precision" label={t('models.precision')} style={{ flex: 1 }}>
            <AutoComplete options={options('precision')} />
          </Form.Item>
        </Flex>
        <Typography.Paragraph type="secondary">{t('models.defaults')}</Typography.Paragraph>
        <Flex gap={12}>
          <Form.Item name="temperature" label={t('models.temperature')} style={{ flex: 1 }}>
            <InputNumber min={0} max={2} step={0.1} style={{ width: '100%' }} />
          </Form.Item>
          <Form.Item name="top_p" label={t('models.topP')} style={{ flex: 1 }}>
            <InputNumber min={0} max={1} step={0.05} style={{ width: '100%' }} />
          </Form.Item>
          <Form.Item name="max_tokens" label={t('models.maxTokens')} style={{ flex: 1 }}>
            <InputNumber min={1} precision={0} style={{ width: '100%' }} />
          </Form.Item>
        </Flex>
      </Form>
    </Modal>
  );
}
