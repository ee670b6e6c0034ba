import { DownloadOutlined } from '@ant-design/icons';
import { useMutation } from '@tanstack/react-query';
import { Alert, Button, Descriptions, Flex, Typography } from 'antd';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { useLabel, useLanguage } from '../i18n';
import { download } from '../lib/csv';
import { count, time } from '../lib/format';
import { Failure } from './Failure';
import { LinkButton } from './LinkButton';
import { Time } from './Time';

/** Records are counted up to this many. */
const counted = 10_000;

/** What goes, or went, in figures. */
export function Goes({ title, figures }: { title: string; figures: Schema['ErasureFigures'] }) {
  const { t } = useTranslation();
  const [language] = useLanguage();
  return (
    <section aria-label={title}>
      <Typography.Text strong>{title}</Typography.Text>
      <Descriptions
        size="small"
        column={2}
        items={(['contents', 'keys', 'values', 'conversations'] as const).map((k) => ({ key: k, label: t(`erasures.figure.${k}`), children: count(figures[k], language) }))}
      />
      <Typography.Text type="secondary">{t('erasures.everywhere')}</Typography.Text>
    </section>
  );
}

/** What stays, and why. */
export function Stays({ title, stays }: { title: string; stays: Schema['ErasureStay'][] }) {
  const label = useLabel();
  const [language] = useLanguage();
  const more = (s: Schema['ErasureStay']) =>
    [s.count === undefined ? '' : s.count >= counted ? `${count(counted, language)}+` : count(s.count, language), s.until ? `≤ ${time(s.until, language)}` : ''].filter(Boolean).join(', ');
  return (
    <section aria-label={title}>
      <Typography.Text strong>{title}</Typography.Text>
      <ul style={{ margin: 0, paddingInlineStart: 18 }}>
        {stays.map((s) => (
          <li key={s.code}>
            {label('stays', s.code)}
            {more(s) && ` (${more(s)})`}
          </li>
        ))}
      </ul>
    </section>
  );
}

/** The legal holds that refuse an erasure, with some of the records that each covers. */
export function HeldBy({ holds, onRecord }: { holds: Schema['CoveringHold'][]; onRecord: (id: string) => void }) {
  const { t } = useTranslation();
  const [language] = useLanguage();
  return (
    <Alert
      type="error"
      showIcon
      role="status"
      title={t('erasures.heldTitle', { count: holds.length })}
      description={
        <ul style={{ margin: 0, paddingInlineStart: 18, overflowWrap: 'anywhere' }}>
          {holds.map((h) => (
            <li key={h.id}>
              <strong>{h.reason ?? t('erasures.heldByOperator')}</strong> · {h.created_by && `${h.created_by}, `}
              <Time at={h.created_at} /> · <Typography.Text code>{h.id}</Typography.Text>
              <br />
              {h.released_at && (
                <>
                  {t('erasures.heldReleased', { time: time(h.released_at, language) })}
                  <br />
                </>
              )}
              {h.records ? t('erasures.heldRecords', { records: h.records >= counted ? `${count(counted, language)}+` : count(h.records, language) }) : t('erasures.heldAll')}
              {h.examples.map((id) => (
                <span key={id}>
                  {' '}
                  <LinkButton onClick={() => onRecord(id)}>{id}</LinkButton>
                </span>
              ))}
            </li>
          ))}
        </ul>
      }
    />
  );
}

/** What an erasure did; the record that certifies it can be taken along with its proof and checked by others. */
export function Certificate({ done, onRecord }: { done: Schema['Erasure']; onRecord: (id: string) => void }) {
  const { t } = useTranslation();
  const figures = { keys: done.keys ?? 0, contents: done.contents ?? 0, values: done.values ?? 0, conversations: done.conversations ?? 0 };
  const { certificate } = done;
  const nothing = Object.values(figures).every((n) => !n);
  const proof = useMutation({
    mutationFn: (id: string) => call(api.GET('/audit/records/{id}/proof', { params: { path: { id } } })),
    onSuccess: (p, id) => download(`erasure-${id}.json`, 'application/json', JSON.stringify(p, null, 2)),
  });
  return (
    <Flex vertical gap={12}>
      <Alert type={nothing ? 'warning' : 'success'} showIcon role="status" title={nothing ? t('erasures.nothing') : t('erasures.done')} />
      <Goes title={t('erasures.gone')} figures={figures} />
      <Stays title={t('erasures.stays')} stays={done.stays ?? []} />
      {done.override && <Typography.Text>{t('erasures.override', { holds: done.override.holds.join(', '), by: done.override.approved_by, id: done.override.approval })}</Typography.Text>}
      {certificate && (
        <>
          <Flex gap={12} align="center" wrap>
            <Button icon={<DownloadOutlined aria-hidden />} loading={proof.isPending} onClick={() => proof.mutate(certificate)}>
              {t('erasures.certificate')}
            </Button>
            <LinkButton onClick={() => onRecord(certificate)}>{t('erasures.record')}</LinkButton>
          </Flex>
          <Typography.Text type="secondary">{t('erasures.checkIt')}</Typography.Text>
        </>
      )}
      {proof.error && <Failure error={proof.error} />}
    </Flex>
  );
}
