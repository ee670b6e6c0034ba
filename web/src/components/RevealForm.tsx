import { Alert, AutoComplete, Button, Flex, Form, Input, Segmented, Tag, Typography } from 'antd';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { toApiError } from '../api/errors';
import { useFresh } from '../lib/fresh';
import { tokensIn } from '../lib/tokens';
import { AskApproval } from './AskApproval';
import { Failure } from './Failure';
import { Revealed } from './Revealed';

type Request = Schema['RevealRequest'];

interface Props {
  request?: string;
  text?: string;
  approval?: string; // id of one that was given before
  onApprovalSpent?: () => void;
}

/** Asks for the values behind tokens and shows them for a while. They are held by this component alone and go with it. */
export function RevealForm({ request = '', text: given = '', approval, onApprovalSpent }: Props) {
  const { t } = useTranslation();
  const [by, setBy] = useState<'request' | 'session'>('request');
  const [name, setName] = useState(request);
  const [text, setText] = useState(given);
  const [left, setLeft] = useState<string[]>([]); // tokens that are not to be revealed
  const [purpose, setPurpose] = useState('');
  const purposes = useQuery({ queryKey: ['reveal-purposes'], queryFn: () => call(api.GET('/reveal/purposes')) }); // without them one types
  const { run, dialog, error } = useFresh((body: Request) => call(api.POST('/reveal', { body })));
  const tokens = tokensIn(text);
  const wanted = tokens.filter((x) => !left.includes(x));
  const ready = name.trim() && purpose.trim() && text.trim() && (tokens.length === 0 || wanted.length > 0);
  const body: Request = {
    [by]: name.trim(),
    purpose: purpose.trim(),
    ...(wanted.length < tokens.length ? { tokens: wanted } : { text }), // spellings that only the server knows count when nothing was left out
    ...(approval ? { approval } : {}),
  };
  const needsSecond = error !== undefined && toApiError(error).code === 'approval_required';
  return (
    <Flex vertical gap={16}>
      <Form layout="vertical" onFinish={() => ready && run.mutate(body, { onSuccess: () => body.approval && onApprovalSpent?.() })} autoComplete="off">
        <Form.Item label={t('reveal.where')} htmlFor="reveal-name" extra={t(by === 'request' ? 'reveal.requestHelp' : 'reveal.sessionHelp')}>
          <Flex gap={8} wrap>
            <Segmented
              aria-label={t('reveal.where')}
              value={by}
              onChange={setBy}
              options={[
                { value: 'request', label: t('reveal.request') },
                { value: 'session', label: t('reveal.session') },
              ]}
            />
            <Input id="reveal-name" style={{ flex: '1 1 260px' }} value={name} onChange={(e) => setName(e.target.value)} maxLength={256} />
          </Flex>
        </Form.Item>
        <Form.Item label={t('reveal.text')} htmlFor="reveal-text" extra={t('reveal.textHelp')}>
          <Input.TextArea id="reveal-text" autoSize={{ minRows: 3, maxRows: 10 }} value={text} onChange={(e) => setText(e.target.value)} maxLength={262144} spellCheck={false} />
        </Form.Item>
        {tokens.length > 0 && (
          <Form.Item label={t('reveal.tokens', { chosen: wanted.length, all: tokens.length })}>
            <Flex gap={4} wrap role="group" aria-label={t('reveal.choose')}>
              {tokens.map((x) => {
                const on = !left.includes(x);
                return (
                  <Button key={x} size="small" type={on ? 'primary' : 'default'} aria-pressed={on} onClick={() => setLeft(on ? [...left, x] : left.filter((y) => y !== x))}>
                    {x}
                  </Button>
                );
              })}
            </Flex>
          </Form.Item>
        )}
        <Form.Item label={t('reveal.purpose')} htmlFor="reveal-purpose" extra={t('reveal.purposeHelp')}>
          <AutoComplete
            id="reveal-purpose"
            value={purpose}
            onChange={(v: string) => setPurpose(v.slice(0, 200))}
            options={purposes.data?.items.map((value) => ({ value }))}
          />
        </Form.Item>
        <Flex gap={8} align="center" wrap>
          <Button type="primary" htmlType="submit" disabled={!ready} loading={run.isPending}>
            {t('reveal.show')}
          </Button>
          {approval && (
            <Tag closable onClose={onApprovalSpent} color="processing">
              {t('reveal.withApproval', { id: approval })}
            </Tag>
          )}
        </Flex>
      </Form>
      {error !== undefined && !needsSecond && <Failure error={error} reveal />}
      {needsSecond && run.variables && (
        <AskApproval
          body={run.variables}
          onGiven={(id) => run.mutate({ ...run.variables!, approval: id })}
        />
      )}
      {run.isSuccess && run.data.values.length === 0 && <Alert type="info" showIcon role="status" title={t('reveal.noTokens')} />}
      {run.isSuccess && run.data.values.length > 0 && <Revealed answer={run.data} onHide={run.reset} />}
      <Typography.Text type="secondary">{t('reveal.recorded')}</Typography.Text>
      {dialog}
    </Flex>
  );
}
