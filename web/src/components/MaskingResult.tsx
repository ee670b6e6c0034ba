import { Alert, Flex, Tag, Typography } from 'antd';
import type { ReactNode } from 'react';
import { useTranslation } from 'react-i18next';

import type { Schema } from '../api/client';
import { useLabel, useLanguage } from '../i18n';
import { count } from '../lib/format';
import { cutAtMarks } from '../lib/spans';
import { FoundText, useActionColors } from './FoundText';

export type MaskingRequest = Schema['MaskingRequest'];
export type PreviewResult = Schema['MaskingPreview'];

/** What a policy does to a text: what was found, what the model sees, what the caller gets back. Side by side where there is room. */
export function MaskingResult({ request, preview }: { request: MaskingRequest; preview: PreviewResult }) {
  const { t } = useTranslation();
  const answer = request.direction === 'answer';
  const search = request.direction === 'passage' && request.channel === 'search'; // no model is given it
  return (
    <Flex vertical gap={12}>
      {preview.blocked && <Alert type="error" showIcon role="status" title={t('masking.blocked')} description={t(answer ? 'masking.blockedAnswer' : 'masking.blockedRequest')} />}
      <div className="stages">
        <Stage title={t('masking.found')}>
          <FoundText text={request.text} spans={preview.spans} />
          <Actions preview={preview} />
        </Stage>
        {!answer && !search && (
          <Stage title={t('masking.modelSees')} note={t('masking.modelSeesNote')}>
            <Sent text={preview.masked} blocked={preview.blocked} testid="masked" />
          </Stage>
        )}
        <Stage title={t('masking.callerGets')} note={t(answer ? 'masking.callerGetsAnswer' : search ? 'masking.callerGetsSearch' : 'masking.callerGetsNote')}>
          <Sent text={answer ? preview.masked : preview.restored} blocked={preview.blocked} testid={answer ? 'masked' : 'restored'} />
        </Stage>
      </div>
    </Flex>
  );
}

function Stage({ title, note, children }: { title: string; note?: string; children: ReactNode }) {
  return (
    <div role="group" aria-label={title}>
      <Typography.Text strong>{title}</Typography.Text>
      {children}
      {note && (
        <Typography.Text type="secondary" style={{ fontSize: 12 }}>
          {note}
        </Typography.Text>
      )}
    </div>
  );
}

/** How many values of each action there are. */
function Actions({ preview }: { preview: PreviewResult }) {
  const label = useLabel();
  const [language] = useLanguage();
  const color = useActionColors();
  const counts = new Map<string, number>();
  for (const s of preview.spans) counts.set(s.action, (counts.get(s.action) ?? 0) + 1);
  return (
    <Flex gap={4} wrap>
      {[...counts].map(([action, n]) => (
        <Tag key={action} style={{ margin: 0, background: color(action).background, borderColor: color(action).line }}>
          {label('finding', action)} × {count(n, language)}
        </Tag>
      ))}
    </Flex>
  );
}

function Sent({ text, blocked, testid }: { text: string; blocked: boolean; testid: string }) {
  const { t } = useTranslation();
  if (blocked) {
    return (
      <pre className="code" data-testid={testid} style={{ fontStyle: 'italic' }}>
        {t('masking.nothing')}
      </pre>
    );
  }
  return (
    <pre className="code" tabIndex={0} data-testid={testid}>
      {cutAtMarks(text).map((p, i) => (p.mark ? <b key={i}>{p.text}</b> : p.text))}
    </pre>
  );
}
