import { PlusOutlined } from '@ant-design/icons';
import { useInfiniteQuery, useMutation, useQuery } from '@tanstack/react-query';
import { Button, Flex, Form, Input, InputNumber, Modal, Select, Typography } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { Link, useNavigate } from 'react-router';

import { api, call, type Schema } from '../api/client';
import { toApiError } from '../api/errors';
import { type Column, DataTable } from '../components/DataTable';
import { Failure } from '../components/Failure';
import { Page, Panel } from '../components/Panel';
import { PhaseTag, running, TrafficBar } from '../components/Traffic';
import { Time } from '../components/Time';
import { useLabel } from '../i18n';
import { useMay } from '../lib/me';

type Rollout = Schema['Rollout'];

export default function Rollouts() {
  const { t } = useTranslation();
  const mayWrite = useMay('rollout.write');
  const [starting, setStarting] = useState(false);
  const rollouts = useInfiniteQuery({
    queryKey: ['rollouts'],
    queryFn: ({ pageParam }) => call(api.GET('/rollouts', { params: { query: { cursor: pageParam } } })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next,
    refetchInterval: (q) => (q.state.data?.pages.length === 1 && q.state.data.pages[0]?.items.some((r) => running(r.phase)) ? 5000 : false), // pauses in hidden tabs
  });
  const off = rollouts.error && toApiError(rollouts.error).code === 'workflows_off';
  const columns: Column<Rollout>[] = [
    { key: 'model', title: t('rollout.model'), render: (r) => <Link to={`/rollouts/${encodeURIComponent(r.id)}`}>{r.model}</Link>, csv: (r) => r.model },
    { key: 'versions', title: t('rollout.versions'), render: (r) => `${r.stable} → ${r.candidate}`, csv: (r) => `${r.stable} → ${r.candidate}` },
    { key: 'phase', title: t('rollout.phase'), render: (r) => <PhaseTag phase={r.phase} />, csv: (r) => r.phase },
    { key: 'share', title: t('rollout.share'), width: 200, render: (r) => <TrafficBar rollout={r} small />, csv: (r) => r.share_basis / 100 },
    { key: 'started', title: t('rollout.started'), render: (r) => <Time at={r.started_at} />, csv: (r) => r.started_at },
    { key: 'by', title: t('rollout.by'), render: (r) => r.started_by, csv: (r) => r.started_by },
  ];
  return (
    <Page
      title={t('nav.rollouts')}
      note={t('rollout.note')}
      actions={
        mayWrite && !off && (
          <Button type="primary" icon={<PlusOutlined aria-hidden />} onClick={() => setStarting(true)}>
            {t('rollout.start')}
          </Button>
        )
      }
    >
      {off ? (
        <Failure error={rollouts.error} />
      ) : (
      <Panel>
        <DataTable
          name={t('nav.rollouts')}
          columns={columns}
          rows={rollouts.data?.pages.flatMap((p) => p.items)}
          rowKey={(r) => r.id}
          loading={rollouts.isPending}
          error={rollouts.error}
          reload={() => void rollouts.refetch()}
          empty={
            <>
              {t('rollout.empty')} <Link to="/system">{t('models.title')}</Link>
            </>
          }
        />
        {rollouts.hasNextPage && (
          <Button block onClick={() => void rollouts.fetchNextPage()} style={{ marginTop: 8 }}>
            {t('table.more')}
          </Button>
        )}
      </Panel>
      )}
      {starting && <StartRollout onClose={() => setStarting(false)} />}
    </Page>
  );
}

interface Fields {
  model: string;
  candidate: string;
  steps: string;
  min_requests: number;
  dwell_seconds: number;
  deadline_minutes: number;
  error_percent: number;
  latency_percent: number;
  approval?: number[];
  reason?: string;
}

const stepsOf = (text: string) => text.split(/[\s,，、]+/).filter(Boolean).map(Number);
const rising = (steps: number[]) => steps.length > 0 && steps.at(-1) === 100 && steps.every((s, i) => Number.isInteger(s) && s > (steps[i - 1] ?? 0) && s <= 100);

function StartRollout({ onClose }: { onClose: () => void }) {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const label = useLabel();
  const [form] = Form.useForm<Fields>();
  const model = Form.useWatch('model', form);
  const steps = stepsOf(Form.useWatch('steps', form) ?? '');
  const models = useQuery({ queryKey: ['models'], queryFn: () => call(api.GET('/models')) });
  const chosen = models.data?.items.find((m) => m.name === model);
  const candidates = chosen?.versions.filter((v) => v.version !== chosen.stable) ?? [];
  const start = useMutation({
    mutationFn: (f: Fields) =>
      call(
        api.POST('/rollouts', {
          body: {
            model: f.model,
            candidate: f.candidate,
            steps: stepsOf(f.steps),
            min_requests: f.min_requests,
            dwell_seconds: f.dwell_seconds,
            deadline_seconds: f.deadline_minutes * 60,
            max_error_rate_basis: Math.round(f.error_percent * 100),
            max_latency_ratio_percent: f.latency_percent,
            require_approval: f.approval?.length ? f.approval : undefined,
            reason: f.reason || undefined,
          },
        }),
      ),
    onSuccess: (r) => void navigate(`/rollouts/${encodeURIComponent(r.id)}`),
  });
  const required = { required: true, message: t('form.required') };
  return (
    <Modal open title={t('rollout.start')} okText={t('rollout.start')} onCancel={onClose} onOk={() => form.submit()} confirmLoading={start.isPending}>
      {start.error && <Failure error={start.error} reveal />}
      {models.error && <Failure error={models.error} retry={() => void models.refetch()} />}
      <Form
        form={form}
        layout="vertical"
        style={{ marginTop: 16 }}
        initialValues={{ steps: '20, 40, 80, 100', min_requests: 50, dwell_seconds: 300, deadline_minutes: 120, error_percent: 5, latency_percent: 150 }}
        onFinish={(f) => start.mutate(f)}
      >
        <Form.Item name="model" label={t('rollout.model')} rules={[required]}>
          <Select options={models.data?.items.map((m) => ({ value: m.name, label: m.name }))} onChange={() => form.resetFields(['candidate'])} />
        </Form.Item>
        <Form.Item name="candidate" label={t('rollout.candidate')} rules={[required]} extra={chosen?.stable && <Typography.Text type="secondary">{t('rollout.stableNow', { version: chosen.stable })}</Typography.Text>}>
          <Select disabled={!chosen} notFoundContent={<>{t('rollout.noCandidates')} <Link to="/system">{t('models.register')}</Link></>} options={candidates.map((v) => ({ value: v.version, label: [v.version, v.precision].filter(Boolean).join(' · ') }))} />
        </Form.Item>
        <Form.Item name="steps" label={t('rollout.steps')} extra={t('rollout.stepsHelp')} rules={[{ validator: (_, v: string) => (rising(stepsOf(v ?? '')) ? Promise.resolve() : Promise.reject(new Error(t('rollout.stepsWrong')))) }]}>
          <Input />
        </Form.Item>
        <Form.Item name="approval" label={t('rollout.approval')} extra={t('rollout.approvalHelp')}>
          <Select mode="multiple" allowClear options={[{ value: 0, label: label('phase', 'baseline') }, ...(rising(steps) ? steps : []).map((s) => ({ value: s, label: `${s} %` }))]} />
        </Form.Item>
        <Flex gap={16} wrap>
          {(['min_requests', 'dwell_seconds', 'deadline_minutes', 'error_percent', 'latency_percent'] as const).map((name) => (
            <Form.Item key={name} name={name} label={t(`rollout.${name}`)} extra={name === 'min_requests' && t('rollout.minHelp')} rules={[required]} style={{ flex: '1 1 200px', marginBottom: 8 }}>
              <InputNumber min={name === 'latency_percent' ? 100 : 0} max={name === 'error_percent' ? 100 : undefined} precision={name === 'error_percent' ? 2 : 0} style={{ width: '100%' }} />
            </Form.Item>
          ))}
        </Flex>
        <Form.Item name="reason" label={t('rollout.reason')} extra={t('rollout.reasonHelp')}>
          <Input.TextArea rows={2} maxLength={1024} />
        </Form.Item>
      </Form>
    </Modal>
  );
}
