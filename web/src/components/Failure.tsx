import { Alert, Button, Space, Typography } from 'antd';
import { Component, type ReactNode, useEffect, useRef } from 'react';
import { useTranslation } from 'react-i18next';

import { type ApiError, toApiError } from '../api/errors';
import { useLanguage } from '../i18n';
import { time } from '../lib/format';
import { useMe } from '../lib/me';
import { signInAt } from '../lib/provider';

/** What went wrong, for people: the server's sentence (already in their language), the code, and the request id to hand on. */
export function Failure({ error, retry, reveal }: { error: unknown; retry?: () => void; reveal?: boolean }) {
  const { t } = useTranslation();
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (reveal) box.current?.scrollIntoView({ block: 'nearest' }); // the answer to a press of a button far below
  }, [error, reveal]);
  const e = toApiError(error);
  const detail = useDetail(e);
  const { tenant, provider } = useMe();
  const again = e.code === 'reauthenticate' ? provider : undefined; // at which he proves it
  if (e.code === 'client_asked') return <Alert type="info" showIcon role="status" title={detail} />; // it waits for a second person
  if (e.code === 'workflows_off') return <Alert type="info" showIcon title={detail} />; // as somebody has chosen, not a failure
  return (
    <div ref={box}>
      <Alert
        type="error"
        showIcon
        role="alert"
        title={detail}
        description={
          <Space orientation="vertical" size={2}>
            {e.code === 'not_allowed' && <span>{t('failure.whoHelps', { tenant })}</span>}
            {again && <span>{t('provider.leaves')}</span>}
            {e.fields.map((f) => (
              <span key={f.field + f.detail}>
                <Typography.Text code>{f.field}</Typography.Text> {f.detail}
              </span>
            ))}
            <Typography.Text type="secondary">
              {t('failure.code')} <Typography.Text code>{e.code}</Typography.Text>
            </Typography.Text>
            {e.requestId && (
              <Typography.Text type="secondary">
                {t('failure.requestId')}{' '}
                <Typography.Text code copyable={{ text: e.requestId, tooltips: false }}>
                  {e.requestId}
                </Typography.Text>
              </Typography.Text>
            )}
          </Space>
        }
        action={again ? <Button onClick={() => signInAt(again, true)}>{t('provider.again')}</Button> : retry && <Button onClick={retry}>{t('failure.retry')}</Button>}
      />
    </div>
  );
}

function useDetail(e: ApiError): string {
  const { t } = useTranslation();
  const [language] = useLanguage();
  switch (e.code) {
    case 'client_asked':
      return t('acts.asked', { time: time(e.detail, language) });
    case 'client_key':
      return t('failure.key');
    case 'client_key_known':
      return t('failure.keyKnown');
    case 'client_network':
      return t('failure.network');
    case 'client_stream':
      return t('failure.stream');
    case 'client_reply':
      return t('failure.reply', { status: e.status });
    case 'client_crash':
      return t('failure.crash');
    default:
      return e.detail;
  }
}

/** Keeps a crash inside its panel. */
export class Boundary extends Component<{ children: ReactNode; fallback: (retry: () => void) => ReactNode }, { failed: boolean }> {
  override state = { failed: false };
  static getDerivedStateFromError() {
    return { failed: true };
  }
  override render() {
    return this.state.failed ? this.props.fallback(() => this.setState({ failed: false })) : this.props.children;
  }
}
