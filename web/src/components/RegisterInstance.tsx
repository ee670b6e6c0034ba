import { DeleteOutlined, PlusOutlined } from '@ant-design/icons';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { AutoComplete, Button, Flex, Form, Input, InputNumber, Modal, Select, Typography } from 'antd';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { Failure } from './Failure';

type Instance = Schema['Instance'];

/** What an administrator vouches for of a model, where the profile of its dialect does not know. */
const abilities = ['tools', 'formats', 'logprobs', 'sampling', 'seed', 'choices', 'rerank'] as const;

interface Model {
  id: string;
  upstream?: string;
  context_tokens?: number;
  embed_dim?: number;
  abilities?: (typeof abilities)[number][];
}

interface Fields extends Omit<Schema['NewInstance'], 'models'> {
  pool: string;
  models: Model[];
}

/** Leaves out what was left empty, so that the server's own defaults hold. */
const filled = <T extends object>(all: T): T => Object.fromEntries(Object.entries(all).filter(([, v]) => v !== undefined && v !== null && v !== '')) as T;

const modelOf = ({ abilities: can, ...m }: Model): Schema['InstanceModel'] => filled({ ...m, ...Object.fromEntries((can ?? []).map((a) => [a, true])) });

const namePattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/;

/** Registers an upstream as an instance of a pool, which need not exist before. */
export function RegisterInstance({ pools, onClose }: { pools: string[]; onClose: () => void }) {
  const { t } = useTranslation();
  const queries = useQueryClient();
  const [form] = Form.useForm<Fields>();
  const register = useMutation({
    mutationFn: ({ pool, models, ...f }: Fields) => call(api.POST('/pools/{pool}/instances', { params: { path: { pool } }, body: { ...filled(f), models: models.map(modelOf) } })),
    onSuccess: async () => {
      await Promise.all(['instances', 'engine-matrix'].map((key) => queries.invalidateQueries({ queryKey: [key] })));
      onClose();
    },
  });
  const required = { required: true, message: t('form.required') };
  const named = { pattern: namePattern, message: t('instances.nameWrong') };
  return (
    <Modal open width={720} title={t('instances.register')} okText={t('instances.register')} onCancel={onClose} onOk={form.submit} confirmLoading={register.isPending}>
      <Flex vertical gap={12}>
        <Typography.Text type="secondary">{t('instances.registerNote')}</Typography.Text>
        {register.error && <Failure error={register.error} reveal />}
        <Form form={form} layout="vertical" initialValues={{ models: [{}] }} onFinish={register.mutate}>
          <Form.Item name="pool" label={t('instances.pool')} extra={t('instances.poolHelp')} rules={[required, named]}>
            <AutoComplete options={pools.map((value) => ({ value }))} />
          </Form.Item>
          <Form.Item name="name" label={t('instances.name')} rules={[required, named]}>
            <Input maxLength={100} />
          </Form.Item>
          <Form.Item name="base_url" label={t('instances.address')} extra={t('instances.addressHelp')} rules={[required]}>
            <Input maxLength={512} placeholder="http://10.2.0.7:8000/v1" />
          </Form.Item>
          <Form.Item name="dialect" label={t('instances.dialect')} extra={t('instances.dialectHelp')}>
            <Input maxLength={64} />
          </Form.Item>
          <Form.Item name="key" label={t('instances.key')} extra={t('instances.keyHelp')}>
            <Input maxLength={100} autoComplete="off" />
          </Form.Item>
          <div className="numbers">
            <Form.Item name="weight" label={t('instances.weight')} extra={t('instances.weightHelp')}>
              <InputNumber min={1} max={1000} precision={0} style={{ width: '100%' }} />
            </Form.Item>
            <Form.Item name="zone" label={t('instances.zone')}>
              <Input maxLength={100} />
            </Form.Item>
          </div>
          <Models />
        </Form>
      </Flex>
    </Modal>
  );
}

/** The models of the upstream, one at least. */
function Models() {
  const { t } = useTranslation();
  return (
    <Form.List name="models">
      {(fields, { add, remove }) => (
        <Flex vertical gap={8}>
          {fields.map(({ key, name }) => (
            <fieldset key={key} style={{ border: 0, padding: 0, margin: 0 }}>
              <legend>{t('instances.modelNumber', { number: name + 1 })}</legend>
              <div className="numbers">
                <Form.Item name={[name, 'id']} label={t('instances.modelId')} rules={[{ required: true, message: t('form.required') }]}>
                  <Input maxLength={200} />
                </Form.Item>
                <Form.Item name={[name, 'upstream']} label={t('instances.upstream')} extra={t('instances.upstreamHelp')}>
                  <Input maxLength={200} />
                </Form.Item>
                <Form.Item name={[name, 'context_tokens']} label={t('instances.context')}>
                  <InputNumber min={1} max={100_000_000} precision={0} style={{ width: '100%' }} />
                </Form.Item>
                <Form.Item name={[name, 'embed_dim']} label={t('instances.embedDim')} extra={t('instances.embedDimHelp')}>
                  <InputNumber min={1} max={65_536} precision={0} style={{ width: '100%' }} />
                </Form.Item>
              </div>
              <Form.Item name={[name, 'abilities']} label={t('instances.abilities')} extra={t('instances.abilitiesHelp')}>
                <Select mode="multiple" options={abilities.map((a) => ({ value: a, label: t(`instances.can.${a}`) }))} />
              </Form.Item>
              {fields.length > 1 && (
                <Button icon={<DeleteOutlined aria-hidden />} onClick={() => remove(name)} aria-label={t('instances.removeModelNumber', { number: name + 1 })}>
                  {t('instances.removeModel')}
                </Button>
              )}
            </fieldset>
          ))}
          <Button icon={<PlusOutlined aria-hidden />} onClick={() => add({})}>
            {t('instances.addModel')}
          </Button>
        </Flex>
      )}
    </Form.List>
  );
}

/** Changes the share of the requests that an instance gets. */
export function WeighInstance({ instance, onClose }: { instance: Instance; onClose: () => void }) {
  const { t } = useTranslation();
  const queries = useQueryClient();
  const [form] = Form.useForm<{ weight: number }>();
  const weigh = useMutation({
    mutationFn: (body: { weight: number }) => call(api.PATCH('/pools/{pool}/instances/{name}', { params: { path: { pool: instance.pool, name: instance.name } }, body })),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ['instances'] });
      onClose();
    },
  });
  const title = t('instances.weighName', { name: `${instance.pool}/${instance.name}` });
  return (
    <Modal open title={title} okText={t('instances.weigh')} onCancel={onClose} onOk={form.submit} confirmLoading={weigh.isPending}>
      {weigh.error && <Failure error={weigh.error} reveal />}
      <Form form={form} layout="vertical" initialValues={{ weight: instance.weight }} onFinish={weigh.mutate}>
        <Form.Item name="weight" label={t('instances.weight')} extra={t('instances.weightHelp')} rules={[{ required: true, message: t('form.required') }]}>
          <InputNumber min={1} max={1000} precision={0} style={{ width: '100%' }} />
        </Form.Item>
      </Form>
    </Modal>
  );
}
