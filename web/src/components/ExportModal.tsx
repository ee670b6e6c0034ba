import { useMutation, useQuery } from '@tanstack/react-query';
import { Alert, Button, DatePicker, Flex, Modal, Progress, Radio, Typography } from 'antd';
import dayjs, { type Dayjs } from 'dayjs';
import { useEffect, useRef, useState } from 'react';
import { useTranslation } from 'react-i18next';

import { api, call } from '../api/client';
import { useLanguage } from '../i18n';
import { download } from '../lib/csv';
import { bytes, count } from '../lib/format';
import { Failure } from './Failure';
import { Time } from './Time';

const presets = [7, 30, 90] as const;
type Choice = (typeof presets)[number] | 'custom';
type Period = [Dayjs | null, Dayjs | null];

/** Exports the evidence of a period. How many records it will hold is shown before, and how far it is while it runs. */
export function ExportModal({ period, onClose }: { period: { from?: string; to?: string }; onClose: () => void }) {
  const { t } = useTranslation();
  const [language] = useLanguage();
  const [choice, setChoice] = useState<Choice>(period.from || period.to ? 'custom' : 30);
  const [custom, setCustom] = useState<Period>([period.from ? dayjs(period.from) : null, period.to ? dayjs(period.to) : null]);
  const [now] = useState(() => dayjs());
  const [range, open] = choice === 'custom' ? [custom, !custom[0] && !custom[1]] : [[now.subtract(choice, 'day'), now] as Period, false];
  const query = { from: range[0]?.toISOString(), to: range[1]?.toISOString() };
  const size = useQuery({ queryKey: ['export-size', query], queryFn: () => call(api.GET('/audit/export/size', { params: { query } })) });
  const [got, setGot] = useState<{ bytes: number; of?: number }>();
  const stop = useRef<AbortController>(undefined);
  useEffect(() => () => stop.current?.abort(), []);
  const run = useMutation({
    mutationFn: async () => {
      stop.current = new AbortController();
      setGot(undefined);
      const pending = api.GET('/audit/export', { params: { query }, parseAs: 'stream', signal: stop.current.signal });
      const body = (await call(pending)) as unknown as ReadableStream<Uint8Array>;
      const of = Number((await pending).response.headers.get('content-length')) || undefined;
      const parts: BlobPart[] = [];
      let n = 0;
      for (const reader = body.getReader(); ; ) {
        const { done, value } = await reader.read();
        if (done) break;
        parts.push(value as BlobPart);
        n += value.length;
        setGot({ bytes: n, of });
      }
      download(`evidence-${new Date().toISOString().slice(0, 19).replaceAll(':', '')}.zip`, 'application/zip', new Blob(parts));
      return n;
    },
    gcTime: 0,
  });
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const offset = now.format('Z');
  const cancelled = run.error instanceof Error && run.error.name === 'AbortError';
  return (
    <Modal
      open
      width={680}
      title={t('export.title')}
      onCancel={onClose}
      mask={{ closable: false }}
      footer={
        <>
          <Button onClick={onClose}>{t('verify.close')}</Button>
          {run.isPending && <Button onClick={() => stop.current?.abort()}>{t('export.cancel')}</Button>}
          <Button type="primary" loading={run.isPending} onClick={() => run.mutate()}>
            {t('audit.export')}
          </Button>
        </>
      }
    >
      <Flex vertical gap={16}>
        <Typography.Text>{t('export.note')}</Typography.Text>
        <Radio.Group
          aria-label={t('export.period')}
          value={choice}
          disabled={run.isPending}
          onChange={(e) => {
            run.reset();
            setChoice(e.target.value as Choice);
          }}
          options={[...presets.map((d) => ({ value: d as Choice, label: t('export.days', { days: d }) })), { value: 'custom', label: t('export.custom') }]}
        />
        {choice === 'custom' && <DatePicker.RangePicker aria-label={t('audit.range')} showTime allowEmpty={[true, true]} disabled={run.isPending} value={custom} onChange={(v) => setCustom([v?.[0] ?? null, v?.[1] ?? null])} style={{ width: '100%' }} />}
        <Flex vertical gap={4} role="status">
          <span>
            {range[0] ? (
              <>
                {t('holds.from')} <Time at={range[0].toISOString()} />
              </>
            ) : (
              t('export.fromFirst')
            )}
            {' · '}
            {range[1] ? (
              <>
                {t('holds.to')} <Time at={range[1].toISOString()} />
              </>
            ) : (
              t('export.toLast')
            )}
          </span>
          <Typography.Text type="secondary">{t('export.zone', { zone, offset })}</Typography.Text>
          {size.data && <Typography.Text strong>{t('export.records', { count: size.data.records, records: `${count(size.data.records, language)}${size.data.more ? '+' : ''}` })}</Typography.Text>}
        </Flex>
        {open && <Alert type="warning" showIcon title={t('export.whole')} />}
        {size.error && <Failure error={size.error} />}
        <ul style={{ margin: 0, paddingInlineStart: 18 }}>
          {(['sealed', 'selection', 'texts', 'pruned', 'all'] as const).map((k) => (
            <li key={k}>
              <Typography.Text type="secondary">{t(`export.limit.${k}`)}</Typography.Text>
            </li>
          ))}
        </ul>
        {run.isPending && (
          <Flex vertical gap={4} role="status" aria-live="polite">
            <span>{got ? t('export.receiving', { got: bytes(got.bytes, language), of: got.of ? bytes(got.of, language) : '…' }) : t('export.preparing')}</span>
            <Progress percent={got?.of ? Math.floor((100 * got.bytes) / got.of) : 0} status="active" aria-label={t('export.title')} />
          </Flex>
        )}
        {run.data !== undefined && <Alert type="success" showIcon role="status" title={t('export.done', { size: bytes(run.data, language) })} description={t('export.check')} />}
        {run.error && !cancelled && <Failure error={run.error} reveal />}
        {cancelled && <Alert type="info" showIcon role="status" title={t('export.cancelled')} />}
      </Flex>
    </Modal>
  );
}
