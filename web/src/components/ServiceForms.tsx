import { useMutation } from '@tanstack/react-query';
import { Alert, Button, DatePicker, Flex, Form, Input, InputNumber, List, Modal, Select, Typography } from 'antd';
import dayjs, { type Dayjs } from 'dayjs';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { useLabel } from '../i18n';
import { Failure } from './Failure';

type Account = Schema['ServiceAccount'];
type Created = Schema['CreatedServiceAccount'];

/** The roles that a program can have: an application calls the data plane, the others the management API. */
const roles = ['application', 'developer', 'auditor', 'witness', 'system_admin', 'security_admin'] as const;
const dataScopes = ['chat', 'embed', 'rerank', 'search'] as const;

interface Fields {
  name: string;
  role: (typeof roles)[number];
  owner?: string;
  project?: string;
  labels?: string[];
  scopes?: Schema['KeyScope'][];
  models?: string[];
  networks?: string[];
  expires?: Dayjs;
  keys?: string;
}

const bodyOf = (f: Fields): Schema['NewServiceAccount'] => ({
  name: f.name,
  roles: [f.role],
  owner: f.owner || undefined,
  project: f.project || undefined,
  labels: f.labels,
  scopes: f.scopes,
  models: f.models,
  networks: f.networks,
  expires_at: f.expires?.endOf('day').toISOString(),
  keys: f.keys || undefined,
});

/** Creates a service account, and shows its secret this once. */
export function CreateService({ onClose }: { onClose: () => void }) {
  const { t } = useTranslation();
  const label = useLabel();
  const [form] = Form.useForm<Fields>();
  const role = Form.useWatch('role', form) ?? 'application';
  const create = useMutation({
    gcTime: 0, // a secret does not outlive the dialog
    mutationFn: (f: Fields) => call(api.POST('/service-accounts', { body: bodyOf(f) })),
  });
  if (create.data) return <ServiceSecret made={create.data} onClose={onClose} />;
  const scopes: Schema['KeyScope'][] = role === 'application' ? [...dataScopes] : ['admin-read'];
  const tags = <Select mode="tags" open={false} suffixIcon={null} tokenSeparators={[',', ' ']} />;
  return (
    <Modal open title={t('services.create')} onCancel={onClose} okText={t('services.create')} onOk={form.submit} confirmLoading={create.isPending}>
      <Flex vertical gap={12}>
        {create.error && <Failure error={create.error} reveal />}
        <Form form={form} layout="vertical" initialValues={{ role: 'application' }} onFinish={create.mutate}>
          <Form.Item name="name" label={t('services.name')} rules={[{ required: true, message: t('form.required') }]}>
            <Input autoFocus maxLength={128} autoComplete="off" />
          </Form.Item>
          <Form.Item name="role" label={t('services.role')} extra={t('services.roleHelp')}>
            <Select options={roles.map((r) => ({ value: r, label: label('role', r) }))} onChange={() => form.setFieldValue('scopes', [])} />
          </Form.Item>
          <Form.Item name="owner" label={t('services.owner')} extra={t('services.ownerHelp')}>
            <Input maxLength={128} autoComplete="off" />
          </Form.Item>
          <Form.Item name="project" label={t('keys.project')}>
            <Input maxLength={64} />
          </Form.Item>
          <Form.Item name="scopes" label={t('services.scopes')} extra={t('services.scopesHelp')}>
            <Select mode="multiple" options={scopes.map((s) => ({ value: s, label: label('keyScope', s) }))} />
          </Form.Item>
          <Form.Item name="models" label={t('keys.models')} extra={t('keys.modelsHelp')}>
            {tags}
          </Form.Item>
          <Form.Item name="networks" label={t('keys.networks')} extra={t('services.networksHelp')}>
            {tags}
          </Form.Item>
          <Form.Item name="labels" label={t('keys.labels')} extra={t('keys.labelsHelp')}>
            {tags}
          </Form.Item>
          <Form.Item name="expires" label={t('keys.expires')}>
            <DatePicker style={{ width: '100%' }} minDate={dayjs()} />
          </Form.Item>
          <Form.Item name="keys" label={t('services.publicKeys')} extra={t('services.publicKeysHelp')}>
            <Input.TextArea rows={3} spellCheck={false} />
          </Form.Item>
        </Form>
      </Flex>
    </Modal>
  );
}

/** Shows the client id and the secret of a service account, this once, and where it gets tokens. */
function ServiceSecret({ made, onClose }: { made: Created; onClose: () => void }) {
  const { t } = useTranslation();
  return (
    <Modal open width={640} title={t('services.madeTitle', { name: made.account.name })} onCancel={onClose} mask={{ closable: false }} footer={<Button type="primary" onClick={onClose}>{t('keys.stored')}</Button>}>
      <Flex vertical gap={12}>
        {made.secret && <Alert type="warning" showIcon title={t('services.once')} />}
        <Shown title={t('services.clientId')} text={made.account.id} />
        {made.secret && <Shown title={t('services.clientSecret')} text={made.secret} testid="secret" />}
        <Shown title={t('services.tokenUrl')} text={made.token_url} />
      </Flex>
    </Modal>
  );
}

function Shown({ title, text, testid }: { title: string; text: string; testid?: string }) {
  return (
    <div>
      <Typography.Text strong>{title}</Typography.Text>
      <Typography.Paragraph code copyable={{ text }} style={{ wordBreak: 'break-all', margin: 0 }} data-testid={testid}>
        {text}
      </Typography.Paragraph>
    </div>
  );
}

/** The credentials of a service account: its secret is rotated, its public keys are added and removed. */
export function ServiceCredentials({ account, onClose, onChanged }: { account: Account; onClose: () => void; onChanged: (now: Account) => void }) {
  const { t } = useTranslation();
  const params = { path: { id: account.id }, query: { tenant: account.tenant } };
  const rotate = useMutation({ gcTime: 0, mutationFn: (f: { hours: number }) => call(api.POST('/service-accounts/{id}/secret', { params, body: { overlap_hours: f.hours } })) });
  const add = useMutation({ mutationFn: (f: { keys: string }) => call(api.POST('/service-accounts/{id}/keys', { params, body: { keys: f.keys } })), onSuccess: onChanged });
  const remove = useMutation({ mutationFn: (key: string) => call(api.DELETE('/service-accounts/{id}/keys/{key}', { params: { ...params, path: { id: account.id, key } } })), onSuccess: onChanged });
  if (rotate.data) return <ServiceSecret made={rotate.data} onClose={onClose} />;
  const error = rotate.error ?? add.error ?? remove.error;
  return (
    <Modal open title={t('services.credentialsTitle', { name: account.name })} onCancel={onClose} footer={null}>
      <Flex vertical gap={16}>
        {error && <Failure error={error} reveal />}
        <Form layout="vertical" initialValues={{ hours: 24 }} onFinish={rotate.mutate}>
          <Form.Item name="hours" label={t('keys.overlap')} extra={t('services.rotateHelp')} rules={[{ required: true, message: t('form.required') }]}>
            <InputNumber min={0} max={720} precision={0} style={{ width: '100%' }} />
          </Form.Item>
          <Button htmlType="submit" type="primary" loading={rotate.isPending}>
            {t(account.has_secret ? 'services.rotate' : 'services.firstSecret')}
          </Button>
        </Form>
        <List
          size="small"
          header={t('services.publicKeys')}
          locale={{ emptyText: t('services.noKeys') }}
          dataSource={account.keys}
          renderItem={(k) => (
            <List.Item
              actions={[
                <Button key="remove" size="small" danger onClick={() => remove.mutate(k.id)} aria-label={t('services.removeKeyName', { name: k.id })}>
                  {t('services.remove')}
                </Button>,
              ]}
            >
              <Typography.Text code style={{ wordBreak: 'break-all' }}>
                {k.id}
              </Typography.Text>{' '}
              {k.algorithm}
            </List.Item>
          )}
        />
        <Form layout="vertical" onFinish={add.mutate}>
          <Form.Item name="keys" label={t('services.addKey')} extra={t('services.addKeyHelp')} rules={[{ required: true, message: t('form.required') }]}>
            <Input.TextArea rows={3} spellCheck={false} />
          </Form.Item>
          <Button htmlType="submit" loading={add.isPending}>
            {t('services.add')}
          </Button>
        </Form>
      </Flex>
    </Modal>
  );
}
