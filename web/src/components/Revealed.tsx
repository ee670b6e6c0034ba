import { EyeInvisibleOutlined } from '@ant-design/icons';
import { Alert, Button, Flex, Table, Tag, Typography } from 'antd';
import { useEffect, useRef, useState } from 'react';
import { useTranslation } from 'react-i18next';

import type { Schema } from '../api/client';
import { useLabel } from '../i18n';

/** How long values stay on the screen. */
const life = 180_000;

const colors = { clear: 'warning', partial: 'blue', token: 'default', unknown: 'default' } as const;

/** The values that somebody may see, how much of each and why not more. They are hidden after a while and when the page is left. */
export function Revealed({ answer, onHide }: { answer: Schema['RevealAnswer']; onHide: () => void }) {
  const { t } = useTranslation();
  const label = useLabel();
  const [left, setLeft] = useState(life);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    box.current?.scrollIntoView({ block: 'nearest' }); // the answer to a press of a button above; newer browsers return a promise here, which is no clean-up
  }, [answer]);
  useEffect(() => {
    const end = Date.now() + life;
    const timer = setInterval(() => {
      setLeft(end - Date.now());
      if (Date.now() >= end) onHide();
    }, 1000);
    window.addEventListener('pagehide', onHide); // a browser may keep a page that was left and show it again
    return () => {
      clearInterval(timer);
      window.removeEventListener('pagehide', onHide);
    };
  }, [answer, onHide]);
  const seconds = Math.max(0, Math.ceil(left / 1000));
  return (
    <Flex ref={box} vertical gap={12} role="region" aria-label={t('reveal.result')}>
      <Alert
        type="warning"
        role="timer"
        showIcon
        title={t('reveal.vanishes', { time: `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}` })}
        action={
          <Button size="small" icon={<EyeInvisibleOutlined aria-hidden />} onClick={onHide}>
            {t('reveal.hide')}
          </Button>
        }
      />
      <Table
        size="small"
        pagination={false}
        aria-label={t('reveal.result')}
        rowKey={(v) => v.token}
        dataSource={answer.values}
        columns={[
          {
            title: t('reveal.token'),
            render: (_, v) => (
              <Flex vertical align="flex-start" gap={2}>
                <Typography.Text code>{v.token}</Typography.Text>
                {v.class && (
                  <Typography.Text type="secondary">
                    {label('class', v.class)} · {t('masking.grade', { grade: v.grade })}
                  </Typography.Text>
                )}
              </Flex>
            ),
          },
          { title: t('reveal.value'), render: (_, v) => v.value && <Typography.Text strong style={{ overflowWrap: 'anywhere' }}>{v.value}</Typography.Text> },
          {
            title: t('reveal.shown'),
            render: (_, v) => (
              <Flex vertical align="flex-start" gap={2}>
                <Tag color={colors[v.shown]}>{label('shown', v.shown)}</Tag>
                <Typography.Text type="secondary">{label('shownWhy', v.shown)}</Typography.Text>
              </Flex>
            ),
          },
        ]}
      />
      {answer.text !== undefined && (
        <div>
          <Typography.Text strong>{t('reveal.textShown')}</Typography.Text>
          <pre className="code" tabIndex={0} data-testid="revealed">
            {answer.text}
          </pre>
        </div>
      )}
    </Flex>
  );
}
