import { Flex, Popover, Progress, Tag, theme, Typography } from 'antd';
import type { ReactNode } from 'react';
import { useTranslation } from 'react-i18next';

import { useLabel, useLanguage } from '../i18n';
import { signed, weight } from '../lib/format';
import { cutAtSpans, layOut, type Span } from '../lib/spans';

/** A text with what was found in it marked by what is done to it. Each mark says more when it is pointed at, touched or reached by keyboard. */
export function FoundText({ text, spans }: { text: string; spans: Span[] }) {
  const { t } = useTranslation();
  const { shown, rest } = layOut(spans);
  return (
    <>
      <div className="found">
        {cutAtSpans(text, shown).map((p, i) =>
          p.span ? (
            <Mark key={i} span={p.span}>
              {p.text}
            </Mark>
          ) : (
            <span key={i}>{p.text}</span>
          ),
        )}
      </div>
      {spans.length === 0 && <Typography.Text type="secondary">{t('findings.none')}</Typography.Text>}
      {rest.length > 0 && (
        <div className="found">
          <Typography.Text type="secondary">{t('masking.overlapping')} </Typography.Text>
          {rest.map((span, i) => (
            <Mark key={i} span={span} />
          ))}
        </div>
      )}
    </>
  );
}

/** The colours of an action; what it is called stands beside them. */
export function useActionColors() {
  const { token } = theme.useToken();
  return (action: string): { background: string; line: string } => {
    switch (action) {
      case 'block':
        return { background: token.colorErrorBg, line: token.colorError };
      case 'token':
        return { background: token.colorInfoBg, line: token.colorInfo };
      case 'partial':
        return { background: token.colorSuccessBg, line: token.colorSuccess };
      case 'observe':
        return { background: 'transparent', line: token.colorWarning };
      default:
        return { background: token.colorFillSecondary, line: token.colorTextSecondary };
    }
  };
}

/** Where a popup belongs, so that a screen reader does not find it outside of everything. */
const landmark = (from: HTMLElement) => from.closest<HTMLElement>('main, [role=dialog]') ?? document.body;

function Mark({ span, children }: { span: Span; children?: ReactNode }) {
  const label = useLabel();
  const color = useActionColors()(span.action);
  return (
    <Popover content={<Why span={span} />} trigger={['hover', 'focus']} destroyOnHidden getPopupContainer={landmark}>
      <mark
        tabIndex={0}
        data-action={span.action}
        style={{ background: color.background, borderBottom: `2px ${span.action === 'observe' ? 'dashed' : 'solid'} ${color.line}` }}
        onKeyDown={(e) => e.key === 'Escape' && e.currentTarget.blur()}
      >
        {children}
        <small>
          {children && ' '}
          {label('class', span.class)} · {label('finding', span.action)}
        </small>
      </mark>
    </Popover>
  );
}

/** Why something was found, and what is done to it. */
function Why({ span }: { span: Span }) {
  const { t } = useTranslation();
  const label = useLabel();
  const [language] = useLanguage();
  const sum = span.form + span.reasons.reduce((n, r) => n + r.weight, 0);
  const percent = Math.round(span.score * 100);
  return (
    <Flex vertical gap={6} style={{ maxWidth: 'min(380px, 80vw)' }} data-testid="why">
      <Flex gap={8} align="center" wrap>
        <Typography.Text strong>{label('class', span.class)}</Typography.Text>
        <Tag style={{ margin: 0 }}>{t('masking.grade', { grade: span.grade })}</Tag>
      </Flex>
      <Typography.Text>
        {t('masking.does', { action: label('finding', span.action), what: label('does', span.action) })}
      </Typography.Text>
      <Flex gap={8} align="center">
        <Typography.Text style={{ whiteSpace: 'nowrap' }}>{t('masking.score', { score: weight(span.score, language) })}</Typography.Text>
        <Progress percent={percent} showInfo={false} size="small" aria-label={t('masking.score', { score: weight(span.score, language) })} />
      </Flex>
      <ul className="reasons">
        <li>
          <span>{weight(span.form, language)}</span> {t('masking.form')}
        </li>
        {[...span.reasons]
          .sort((a, b) => b.weight - a.weight)
          .map((r) => (
            <li key={r.name}>
              <span>{r.weight === 0 ? '' : signed(r.weight, language)}</span> {label('evidence', r.name)}
            </li>
          ))}
      </ul>
      {sum > 1.0001 && <Typography.Text type="secondary">{t('masking.capped', { sum: weight(sum, language) })}</Typography.Text>}
      <Typography.Text type="secondary">{t('masking.threshold')}</Typography.Text>
    </Flex>
  );
}
