import { useMutation } from '@tanstack/react-query';
import { Alert, Button, Flex, Form, Modal, Select, Typography } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { Failure } from './Failure';
import { KeyForm, type KeyFields } from './KeyForm';
import { limitsOf } from './LimitFields';

/** Creates a key, and shows its secret and how to use it this once. */
export function CreateKey({ own, onClose }: { own: boolean; onClose: () => void }) {
  const { t } = useTranslation();
  const [form] = Form.useForm<KeyFields>();
  const create = useMutation({
    gcTime: 0, // a secret does not outlive the dialog
    mutationFn: (f: KeyFields) =>
      call(
        api.POST('/keys', {
          body: { name: f.name, project: f.project || undefined, labels: f.labels, scopes: f.scopes, models: f.models, networks: f.networks, label_mode: f.label_mode, expires_at: f.expires?.endOf('day').toISOString(), limits: limitsOf(f) },
        }),
      ),
  });
  if (create.data) return <SecretOnce title={t('keys.createdTitle')} created={create.data} onClose={onClose} />;
  return (
    <Modal open title={t('keys.create')} onCancel={onClose} okText={t('keys.create')} onOk={form.submit} confirmLoading={create.isPending}>
      <Flex vertical gap={12}>
        {create.error && <Failure error={create.error} reveal />}
        <KeyForm form={form} own={own} onSubmit={create.mutate} />
      </Flex>
    </Modal>
  );
}

/** Shows the secret of a key and how to use it, this once. */
export function SecretOnce({ title, note, created, onClose }: { title: string; note?: string; created: Schema['CreatedKey']; onClose: () => void }) {
  const { t } = useTranslation();
  return (
    <Modal open width={720} title={title} onCancel={onClose} mask={{ closable: false }} footer={<Button type="primary" onClick={onClose}>{t('keys.stored')}</Button>}>
      <Flex vertical gap={12}>
        <Alert type="warning" showIcon title={t('keys.once')} description={note} />
        <Typography.Paragraph code copyable={{ text: created.secret }} style={{ wordBreak: 'break-all', margin: 0 }} data-testid="secret">
          {created.secret}
        </Typography.Paragraph>
        <Snippet title={t('keys.baseUrl')} text={created.base_url} />
        <Snippet title={t('keys.tryCurl')} text={created.curl.replaceAll('$SLUICE_API_KEY', created.secret)} />
        <Snippet title={t('keys.tryPython')} text={withSecret(created)} />
        <FirstCalls calls={created.first_calls} />
        <Snippet title={t('keys.document')} text={`${created.base_url}/openapi.yaml`} />
      </Flex>
    </Modal>
  );
}

/** The Python example takes the secret from the environment; here it stands in it, ready to run. */
function withSecret(created: Schema['CreatedKey']): string {
  return created.python.replace('import os\n', '').replace('os.environ["SLUICE_API_KEY"]', JSON.stringify(created.secret));
}

// Names that are the same in every language of the console.
const dialects: Record<string, string> = { openai: 'OpenAI', anthropic: 'Anthropic', ollama: 'Ollama', cohere: 'Cohere', open_inference: 'Open Inference Protocol' };
const languages: Record<string, string> = { sh: 'curl', py: 'Python', go: 'Go', ts: 'TypeScript', java: 'Java' };

/** A program to copy, in the dialect and the language of one's choice. */
function FirstCalls({ calls }: { calls: Schema['FirstCall'][] }) {
  const { t } = useTranslation();
  const [chosen, choose] = useState(0);
  const call = calls[chosen];
  if (!call) return null;
  const title = (c: Schema['FirstCall']) => `${dialects[c.dialect] ?? c.dialect} · ${languages[c.language] ?? c.language}`;
  return (
    <Flex vertical gap={4}>
      <Flex gap={8} align="center" wrap>
        <Typography.Text strong>{t('keys.firstCalls')}</Typography.Text>
        <Select value={chosen} onChange={choose} options={calls.map((c, i) => ({ value: i, label: title(c) }))} aria-label={t('keys.firstCalls')} style={{ minWidth: 260 }} />
      </Flex>
      <Typography.Text type="secondary">{t('keys.firstCallsHelp')}</Typography.Text>
      <Snippet title={title(call)} text={call.text} />
    </Flex>
  );
}

function Snippet({ title, text }: { title: string; text: string }) {
  return (
    <div>
      <Typography.Text strong copyable={{ text }}>
        {title}
      </Typography.Text>
      <pre className="code" tabIndex={0} aria-label={title}>
        {text}
      </pre>
    </div>
  );
}
