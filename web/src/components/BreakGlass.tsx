import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Alert, Button, Flex, Form, Input, Modal, Typography } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { session } from '../api/session';
import { useMay, useMe } from '../lib/me';
import { Failure } from './Failure';
import { Time } from './Time';

type Use = Schema['BreakGlassUse'];

/** Says above every page that an emergency session is open, or that the review of one is due, and lets whoever may end and review it. */
export function BreakGlassBanner() {
  const { t } = useTranslation();
  const me = useMe();
  const may = useMay('breakglass.review');
  const [about, setAbout] = useState<Use>();
  const list = useQuery({ queryKey: ['break-glass'], queryFn: () => call(api.GET('/break-glass')), enabled: may, refetchInterval: 30_000 });
  if (me.kind === 'break_glass') return <Alert banner type="error" title={t('glass.mine')} style={{ marginBottom: 16 }} />;
  const due = list.data?.uses.filter((u) => !u.reviewed_at) ?? [];
  return (
    <>
      {due.map((u) => (
        <Alert
          key={u.id}
          banner
          type={u.open ? 'error' : 'warning'}
          style={{ marginBottom: 16 }}
          title={t(u.open ? 'glass.open' : 'glass.due', { reason: u.reason, from: u.source })}
          action={
            <Button size="small" onClick={() => setAbout(u)}>
              {t('glass.look')}
            </Button>
          }
        />
      ))}
      {about && <Review use={about} onClose={() => setAbout(undefined)} />}
    </>
  );
}

function Review({ use, onClose }: { use: Use; onClose: () => void }) {
  const { t } = useTranslation();
  const queries = useQueryClient();
  const [found, setFound] = useState('');
  const done = () => {
    void queries.invalidateQueries({ queryKey: ['break-glass'] });
    onClose();
  };
  const path = { params: { path: { id: use.id } } };
  const end = useMutation({ mutationFn: () => call(api.POST('/break-glass/uses/{id}/end', path)), onSuccess: done });
  const review = useMutation({ mutationFn: () => call(api.POST('/break-glass/uses/{id}/review', { ...path, body: { reason: found.trim() } })), onSuccess: done });
  return (
    <Modal
      open
      title={t('glass.title')}
      onCancel={onClose}
      footer={[
        use.open && (
          <Button key="end" danger loading={end.isPending} onClick={() => end.mutate()}>
            {t('glass.end')}
          </Button>
        ),
        <Button key="review" type="primary" disabled={!found.trim()} loading={review.isPending} onClick={() => review.mutate()}>
          {t('glass.close')}
        </Button>,
      ]}
    >
      <Flex vertical gap={12}>
        <Typography.Text>{t('glass.reason', { reason: use.reason })}</Typography.Text>
        <Typography.Text>{t('glass.from', { from: use.source })}</Typography.Text>
        <Typography.Text>
          {t('glass.began')} <Time at={use.started_at} />, {t('glass.ends')} <Time at={use.ended_at ?? use.expires_at} />
        </Typography.Text>
        <Typography.Text type="secondary">{t('glass.records', { id: use.id })}</Typography.Text>
        <Input.TextArea aria-label={t('glass.found')} placeholder={t('glass.found')} rows={3} maxLength={1024} value={found} onChange={(e) => setFound(e.target.value)} />
        {(end.error || review.error) && <Failure error={end.error ?? review.error} />}
      </Flex>
    </Modal>
  );
}

/** The form of the sign-in page with which two custodians open an emergency session. */
export function OpenBreakGlass({ onBack }: { onBack: () => void }) {
  const { t } = useTranslation();
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const submit = async (v: { first: string; second?: string; reason: string }) => {
    setBusy(true);
    setError(undefined);
    try {
      await session.emergency([v.first, v.second ?? ''].map((h) => h.trim()).filter(Boolean), v.reason);
    } catch (e) {
      setError(e);
    } finally {
      setBusy(false);
    }
  };
  const required = [{ required: true, message: t('form.required') }];
  return (
    <Flex vertical gap={16}>
      <Alert type="warning" showIcon title={t('glass.help')} />
      {error !== undefined && <Failure error={error} />}
      <Form layout="vertical" onFinish={(v: { first: string; second?: string; reason: string }) => void submit(v)} requiredMark={false}>
        <Form.Item name="first" label={t('glass.first')} rules={required}>
          <Input.Password autoComplete="off" autoFocus />
        </Form.Item>
        <Form.Item name="second" label={t('glass.second')}>
          <Input.Password autoComplete="off" />
        </Form.Item>
        <Form.Item name="reason" label={t('glass.why')} rules={required}>
          <Input.TextArea rows={2} maxLength={1024} />
        </Form.Item>
        <Button type="primary" danger htmlType="submit" block loading={busy} aria-label={t('glass.submit')}>
          {t('glass.submit')}
        </Button>
        <Button type="link" block onClick={onBack}>
          {t('glass.back')}
        </Button>
      </Form>
    </Flex>
  );
}
