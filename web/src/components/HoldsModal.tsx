import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Alert, Button, DatePicker, Flex, Form, Input, Modal, Switch, Tag, Typography } from 'antd';
import type { Dayjs } from 'dayjs';
import { type ReactNode, useState } from 'react';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { useLanguage } from '../i18n';
import { count, iso } from '../lib/format';
import { useMay, useMe } from '../lib/me';
import { useAuditStatus } from './AuditStatus';
import { type Column, DataTable } from './DataTable';
import { Failure } from './Failure';
import { Time } from './Time';

type Hold = Schema['Hold'];
type Scope = Pick<Hold, 'tenant' | 'request' | 'actor' | 'subject' | 'from' | 'to'>;

/** The legal holds of the tenant: which there are and what each covers, placing one, and releasing one. */
export function HoldsModal({ onClose }: { onClose: () => void }) {
  const [view, setView] = useState<'list' | 'place' | Hold>('list');
  const back = () => setView('list');
  if (view === 'place') return <PlaceHold onBack={back} />;
  if (view !== 'list') return <ReleaseHold hold={view} onBack={back} />;
  return <Holds onClose={onClose} onPlace={() => setView('place')} onRelease={setView} />;
}

function Holds({ onClose, onPlace, onRelease }: { onClose: () => void; onPlace: () => void; onRelease: (hold: Hold) => void }) {
  const { t } = useTranslation();
  const [language] = useLanguage();
  const mayHold = useMay('audit.hold');
  const [all, setAll] = useState(false);
  const holds = useQuery({ queryKey: ['holds'], queryFn: () => call(api.GET('/audit/holds')) });
  const items = holds.data?.items;
  const active = items?.filter((h) => !h.released_at);

  const columns: Column<Hold>[] = [
    { key: 'covers', title: t('holds.covers'), render: (h) => <Covers scope={h} />, csv: (h) => [h.tenant, h.from, h.to, h.request, h.actor, h.subject].map((x) => x ?? '').join(' | ') },
    { key: 'reason', title: t('holds.reason'), render: (h) => <div style={{ maxWidth: 240, whiteSpace: 'normal', overflowWrap: 'anywhere' }}>{h.reason}</div>, csv: (h) => h.reason },
    { key: 'placed', title: t('holds.placed'), render: (h) => <Who at={h.created_at} by={h.created_by} />, csv: (h) => `${iso(h.created_at)} ${h.created_by}` },
    {
      key: 'state',
      title: t('holds.state'),
      render: (h) =>
        h.released_at ? (
          <>
            <Tag>{t('holds.released')}</Tag>
            <Who at={h.released_at} by={h.released_by} />
          </>
        ) : (
          <Tag color="processing">{t('holds.active')}</Tag>
        ),
      csv: (h) => (h.released_at ? `released ${iso(h.released_at)} ${h.released_by ?? ''}` : 'in force'),
    },
  ];
  if (mayHold) {
    columns.push({
      key: 'actions',
      title: t('table.actions'),
      render: (h) =>
        !h.released_at && (
          <Button size="small" danger onClick={() => onRelease(h)} aria-label={t('holds.releaseThis', { reason: h.reason })}>
            {t('holds.release')}
          </Button>
        ),
    });
  }
  return (
    <Modal
      open
      width={980}
      title={t('holds.title')}
      onCancel={onClose}
      footer={
        <>
          <Button onClick={onClose}>{t('verify.close')}</Button>
          {mayHold && (
            <Button type="primary" onClick={onPlace}>
              {t('holds.place')}
            </Button>
          )}
        </>
      }
    >
      <Flex vertical gap={12}>
        <Typography.Text>{t('holds.note')}</Typography.Text>
        <Typography.Text type="secondary">{t('holds.limits')}</Typography.Text>
        {active && <Alert type={active.length ? 'info' : 'success'} showIcon role="status" title={active.length ? t('holds.activeCount', { count: active.length, holds: count(active.length, language) }) : t('holds.none')} />}
        <Flex gap={8} align="center">
          <Switch checked={all} aria-label={t('holds.all')} onChange={setAll} />
          {t('holds.all')}
        </Flex>
        <DataTable name={t('holds.title')} columns={columns} rows={all ? items : active} rowKey={(h) => h.id} loading={holds.isFetching} error={holds.error} reload={() => void holds.refetch()} empty={t('holds.none')} />
      </Flex>
    </Modal>
  );
}

function Who({ at, by }: { at: string; by?: string }) {
  return (
    <Flex vertical>
      <Time at={at} />
      <Typography.Text type="secondary">{by}</Typography.Text>
    </Flex>
  );
}

/** Which records a hold keeps: every condition is named, and a hold without one says that it keeps all. */
function Covers({ scope }: { scope: Scope }) {
  const { t } = useTranslation();
  const whole = !scope.from && !scope.to && !scope.request && !scope.actor && !scope.subject;
  return (
    <div style={{ whiteSpace: 'normal', maxWidth: 320 }}>
      <Typography.Text strong>{t(whole ? 'holds.every' : 'holds.some', { whose: scope.tenant ? t('holds.tenant', { tenant: scope.tenant }) : t('holds.allTenants') })}</Typography.Text>
      {!whole && (
        <ul style={{ margin: 0, paddingInlineStart: 18, overflowWrap: 'anywhere' }}>
          {scope.from && (
            <li>
              {t('holds.from')} <Time at={scope.from} />
            </li>
          )}
          {scope.to && (
            <li>
              {t('holds.to')} <Time at={scope.to} />
            </li>
          )}
          {scope.request && (
            <li>
              {t('holds.request')} <Typography.Text code>{scope.request}</Typography.Text>
            </li>
          )}
          {scope.subject && (
            <li>
              {t('holds.person')} <Typography.Text code title={scope.subject}>{scope.subject.length > 40 ? `${scope.subject.slice(0, 16)}…` : scope.subject}</Typography.Text>
            </li>
          )}
          {scope.actor && (
            <li>
              {t('holds.actor')} <Typography.Text code>{scope.actor}</Typography.Text>
            </li>
          )}
        </ul>
      )}
    </div>
  );
}

interface Fields {
  range?: [Dayjs | null, Dayjs | null] | null;
  request?: string;
  actor?: string;
  person?: string;
  reason: string;
}

/** What the fields of the form select, as the server will be told. */
function selected(f: Partial<Fields>) {
  return { request: f.request?.trim() || undefined, actor: f.actor?.trim() || undefined, subject: f.person?.trim() || undefined, from: f.range?.[0]?.toISOString(), to: f.range?.[1]?.toISOString() };
}

/** A dialog that does what its title says. */
function Step({ title, danger, busy, onBack, onDone, children }: { title: string; danger?: boolean; busy: boolean; onBack: () => void; onDone: () => void; children: ReactNode }) {
  const { t } = useTranslation();
  return (
    <Modal
      open
      width={680}
      title={title}
      onCancel={onBack}
      footer={
        <>
          <Button onClick={onBack}>{t('holds.back')}</Button>
          <Button danger={danger} type="primary" onClick={onDone} loading={busy}>
            {title}
          </Button>
        </>
      }
    >
      {children}
    </Modal>
  );
}

function PlaceHold({ onBack }: { onBack: () => void }) {
  const { t } = useTranslation();
  const [language] = useLanguage();
  const { tenant } = useMe();
  const queries = useQueryClient();
  const least = useAuditStatus().data?.retention.least_index;
  const [form] = Form.useForm<Fields>();
  const scope = selected(Form.useWatch((f: Partial<Fields>) => f, form) ?? {});
  const whole = Object.values(scope).every((x) => !x);
  const place = useMutation({
    mutationFn: (f: Fields) => call(api.POST('/audit/holds', { body: { ...selected(f), reason: f.reason.trim() } })),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ['holds'] });
      onBack();
    },
  });
  return (
    <Step title={t('holds.place')} onBack={onBack} onDone={() => form.submit()} busy={place.isPending}>
      <Form form={form} layout="vertical" onFinish={(f) => place.mutate(f)}>
        <Form.Item name="range" label={t('holds.range')} extra={t('holds.rangeHelp')}>
          <DatePicker.RangePicker aria-label={t('holds.range')} showTime allowEmpty={[true, true]} style={{ width: '100%' }} />
        </Form.Item>
        <Flex gap={12} wrap>
          <Form.Item name="request" label={t('holds.request')} style={{ flex: '1 1 240px' }}>
            <Input allowClear maxLength={256} />
          </Form.Item>
          <Form.Item name="actor" label={t('holds.actor')} style={{ flex: '1 1 240px' }}>
            <Input allowClear maxLength={256} />
          </Form.Item>
        </Flex>
        <Form.Item name="person" label={t('holds.person')} extra={t('holds.personHelp')}>
          <Input allowClear autoComplete="off" maxLength={512} />
        </Form.Item>
        <Form.Item name="reason" label={t('holds.reason')} extra={t('holds.reasonHelp')} rules={[{ required: true, whitespace: true, message: t('form.required') }]}>
          <Input.TextArea rows={2} maxLength={340} />
        </Form.Item>
      </Form>
      <Flex vertical gap={12}>
        <Alert type={whole ? 'warning' : 'info'} showIcon title={t('holds.willCover')} description={<Covers scope={{ ...scope, tenant }} />} data-testid="covers" />
        <Typography.Text type="secondary">{t('holds.limits')}</Typography.Text>
        {!!least && <Typography.Text type="secondary">{t('holds.least', { index: count(least, language) })}</Typography.Text>}
        {place.error && <Failure error={place.error} reveal />}
      </Flex>
    </Step>
  );
}

function ReleaseHold({ hold, onBack }: { hold: Hold; onBack: () => void }) {
  const { t } = useTranslation();
  const queries = useQueryClient();
  const [form] = Form.useForm<{ why: string }>();
  const release = useMutation({
    mutationFn: (why: string) => call(api.POST('/audit/holds/{id}/release', { params: { path: { id: hold.id }, query: { tenant: hold.tenant || undefined } }, body: { reason: why } })),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ['holds'] });
      onBack();
    },
  });
  return (
    <Step title={t('holds.release')} danger onBack={onBack} onDone={() => form.submit()} busy={release.isPending}>
      <Flex vertical gap={12}>
        <Covers scope={hold} />
        <Typography.Text>
          {t('holds.reason')}: {hold.reason}
        </Typography.Text>
        <Alert type="warning" showIcon title={t('holds.releaseText')} />
        <Form form={form} layout="vertical" onFinish={({ why }) => release.mutate(why.trim())}>
          <Form.Item name="why" label={t('holds.why')} extra={t('holds.reasonHelp')} rules={[{ required: true, whitespace: true, message: t('form.required') }]} style={{ marginBottom: 0 }}>
            <Input.TextArea rows={2} maxLength={340} autoFocus />
          </Form.Item>
        </Form>
        {release.error && <Failure error={release.error} reveal />}
      </Flex>
    </Step>
  );
}
