import { useMutation } from '@tanstack/react-query';
import { Button, Flex, Input, theme, Typography } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import { api, call } from '../api/client';
import { useLabel } from '../i18n';
import { cutAtSpans } from '../lib/spans';
import { Failure } from './Failure';

/** Shows what the policy in force would hide from the model, without asking a model. */
export function MaskingPreview({ text }: { text: string }) {
  const { t } = useTranslation();
  const label = useLabel();
  const { token } = theme.useToken();
  const [own, setOwn] = useState<string>();
  const value = own ?? text;
  const preview = useMutation({ mutationFn: (body: { text: string }) => call(api.POST('/masking/preview', { body })) });
  const shown = preview.data && preview.variables ? { ...preview.data, pieces: cutAtSpans(preview.variables.text, preview.data.spans) } : undefined;
  const color = (action: string) => (action === 'blocked' ? token.colorErrorBg : action === 'masked' ? token.colorInfoBg : token.colorFillSecondary);
  return (
    <Flex vertical gap={12}>
      <Input.TextArea aria-label={t('masking.text')} placeholder={t('masking.placeholder')} autoSize={{ minRows: 3, maxRows: 8 }} value={value} onChange={(e) => setOwn(e.target.value)} maxLength={16384} />
      <Button onClick={() => preview.mutate({ text: value })} disabled={!value.trim()} loading={preview.isPending} style={{ alignSelf: 'flex-start' }}>
        {t('masking.preview')}
      </Button>
      {preview.error && <Failure error={preview.error} />}
      {shown && (
        <>
          <div>
            <Typography.Text type="secondary">{t('masking.found')}</Typography.Text>
            <div style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere', lineHeight: 2 }}>
              {shown.pieces.map((p, i) =>
                p.span ? (
                  <mark key={i} style={{ background: color(p.span.action), color: 'inherit', borderRadius: 4, padding: '2px 4px' }}>
                    {p.text}
                    <Typography.Text type="secondary" style={{ fontSize: 11 }}>
                      {' '}
                      {label('class', p.span.class)} · {label('finding', p.span.action)}
                    </Typography.Text>
                  </mark>
                ) : (
                  <span key={i}>{p.text}</span>
                ),
              )}
            </div>
            {shown.spans.length === 0 && <Typography.Text type="secondary">{t('findings.none')}</Typography.Text>}
          </div>
          <div>
            <Typography.Text type="secondary">{t('masking.modelSees')}</Typography.Text>
            <pre className="code" style={{ whiteSpace: 'pre-wrap' }} data-testid="masked">
              {shown.masked}
            </pre>
          </div>
        </>
      )}
    </Flex>
  );
}
