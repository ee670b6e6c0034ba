import { useMutation, useQuery } from '@tanstack/react-query';
import { Collapse, Form, Input, InputNumber, Modal, Select, Typography } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { Link, useNavigate } from 'react-router';

import { api, call, type Schema } from '../api/client';
import { useLabel, useLanguage } from '../i18n';
import { count } from '../lib/format';
import { Failure } from './Failure';

/** Every number of the form: what it begins with, and what the server takes. */
const numbers = {
  min_requests: { value: 50, min: 1, precision: 0, advanced: false },
  dwell_seconds: { value: 300, min: 1, precision: 0, advanced: false },
  deadline_minutes: { value: 120, min: 1, precision: 0, advanced: false },
  error_percent: { value: 5, min: 0.01, max: 99.99, precision: 2, advanced: false },
  margin_percent: { value: 5, min: 0.01, max: 99.99, precision: 2, advanced: false },
  latency_percent: { value: 150, min: 100, max: 10000, precision: 0, advanced: false },
  quantile_percent: { value: 95, min: 50, max: 99.9, precision: 2, advanced: true },
  floor_ms: { value: 50, min: 1, max: 3_600_000, precision: 0, advanced: true },
  promote_percent: { value: 1, min: 0.0001, max: 49.99, precision: 4, advanced: true },
  abort_percent: { value: 1, min: 0.0001, max: 49.99, precision: 4, advanced: true },
  poll_seconds: { value: 10, min: 1, max: 3600, precision: 0, advanced: true },
} as const;
type Name = keyof typeof numbers;
const names = Object.keys(numbers) as Name[];

/** What only a trial has, and what the preset standard takes from its gates. */
const trialOnly: Name[] = ['margin_percent', 'latency_percent', 'quantile_percent', 'floor_ms'];
/** What the numbers of the preset standard begin with, where they differ. */
const standardValues: Partial<Record<Name, number>> = { min_requests: 1000, dwell_seconds: 259_200, deadline_minutes: 12_960, error_percent: 10, poll_seconds: 60 };
/** The gates of the preset that can be taken out, by the names of the server. */
const gateNames = ['failures', 'refusals', 'first_token_p95', 'total_p95', 'total_p99', 'tokens', 'cost', 'accuracy'] as const;

type Preset = Schema['RolloutPreset'];
const valueOf = (preset: Preset, name: Name) => (preset === 'standard' ? standardValues[name] : undefined) ?? numbers[name].value;
const valuesOf = (preset: Preset) => Object.fromEntries(names.map((n) => [n, valueOf(preset, n)]));
type Fields = Record<Name, number> & { preset: Preset; without?: string[]; why?: string; results?: string; model: string; candidate: string; steps: string; approval?: number[]; accept?: string[]; reason?: string };

const stepsOf = (text: string) => text.split(/[\s,，、]+/).filter(Boolean).map(Number);
const rising = (steps: number[]) => steps.length > 0 && steps.at(-1) === 100 && steps.every((s, i) => Number.isInteger(s) && s > (steps[i - 1] ?? 0) && s <= 100);

export function StartRollout({ onClose }: { onClose: () => void }) {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const label = useLabel();
  const [form] = Form.useForm<Fields>();
  const [open, setOpen] = useState<string[]>([]);
  const model = Form.useWatch('model', form);
  const preset = Form.useWatch('preset', form) ?? 'standard';
  const without = Form.useWatch('without', form) ?? [];
  const shown = names.filter((n) => preset === 'trial' || !trialOnly.includes(n));
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
            poll_seconds: f.poll_seconds,
            max_error_rate_basis: Math.round(f.error_percent * 100),
            preset: f.preset,
            ...(f.preset === 'trial'
              ? {
                  error_margin_basis: Math.round(f.margin_percent * 100),
                  max_latency_ratio_percent: f.latency_percent,
                  latency_quantile_basis: Math.round(f.quantile_percent * 100),
                  latency_floor_ms: f.floor_ms,
                }
              : {
                  without: f.without?.length ? f.without.map((gate) => ({ gate, reason: f.why ?? '' })) : undefined,
                  results: f.results?.trim() ? (JSON.parse(f.results) as Schema['SuiteResults'][]) : undefined,
                }),
            promote_alpha: f.promote_percent / 100,
            abort_alpha: f.abort_percent / 100,
            require_approval: f.approval?.length ? f.approval : undefined,
            accept_losses: f.accept?.length ? f.accept : undefined,
            reason: f.reason || undefined,
          },
        }),
      ),
    onSuccess: (r) => void navigate(`/rollouts/${encodeURIComponent(r.id)}`),
  });
  const required = { required: true, message: t('form.required') };
  return (
    <Modal open width={720} title={t('rollout.start')} okText={t('rollout.start')} onCancel={onClose} onOk={() => form.submit()} confirmLoading={start.isPending}>
      {start.error && <Failure error={start.error} reveal />}
      {models.error && <Failure error={models.error} retry={() => void models.refetch()} />}
      <Form
        form={form}
        layout="vertical"
        style={{ marginTop: 16 }}
        initialValues={{ preset: 'standard', steps: '20, 40, 80, 100', ...valuesOf('standard') }}
        onFinish={(f) => start.mutate(f)}
        onFinishFailed={({ errorFields }) => errorFields.some((e) => numbers[e.name[0] as Name]?.advanced) && setOpen(['advanced'])}
      >
        <Form.Item name="model" label={t('rollout.model')} rules={[required]}>
          <Select options={models.data?.items.map((m) => ({ value: m.name, label: m.name }))} onChange={() => form.resetFields(['candidate'])} />
        </Form.Item>
        <Form.Item name="candidate" label={t('rollout.candidate')} rules={[required]} extra={chosen?.stable && <Typography.Text type="secondary">{t('rollout.stableNow', { version: chosen.stable })}</Typography.Text>}>
          <Select disabled={!chosen} notFoundContent={<>{t('rollout.noCandidates')} <Link to="/system">{t('models.register')}</Link></>} options={candidates.map((v) => ({ value: v.version, label: [v.version, v.precision].filter(Boolean).join(' · ') }))} />
        </Form.Item>
        <Form.Item name="preset" label={t('rollout.preset')} extra={t(`rollout.presetHelp.${preset}`)}>
          <Select
            options={(['standard', 'trial'] as const).map((value) => ({ value, label: t(`rollout.presets.${value}`) }))}
            onChange={(to: Preset) => form.setFieldsValue(valuesOf(to))}
          />
        </Form.Item>
        {preset === 'standard' && (
          <>
            <Form.Item name="without" label={t('rollout.without')} extra={t('rollout.withoutHelp')}>
              <Select mode="multiple" allowClear options={gateNames.map((value) => ({ value, label: t(`rollout.gates.${value}`) }))} />
            </Form.Item>
            {without.length > 0 && (
              <Form.Item name="why" label={t('rollout.why')} rules={[required]}>
                <Input maxLength={1024} />
              </Form.Item>
            )}
            {!without.includes('accuracy') && (
              <Form.Item name="results" label={t('rollout.results')} extra={t('rollout.resultsHelp')} rules={[required, { validator: (_, v?: string) => (listOf(v) ? Promise.resolve() : Promise.reject(new Error(t('rollout.resultsWrong')))) }]}>
                <Input.TextArea rows={3} />
              </Form.Item>
            )}
          </>
        )}
        <Form.Item name="steps" label={t('rollout.steps')} extra={t('rollout.stepsHelp')} rules={[{ validator: (_, v: string) => (rising(stepsOf(v ?? '')) ? Promise.resolve() : Promise.reject(new Error(t('rollout.stepsWrong')))) }]}>
          <Input />
        </Form.Item>
        <Form.Item name="approval" label={t('rollout.approval')} extra={t('rollout.approvalHelp')}>
          <Select mode="multiple" allowClear options={[{ value: 0, label: label('phase', 'baseline') }, ...(rising(steps) ? steps : []).map((s) => ({ value: s, label: `${s} %` }))]} />
        </Form.Item>
        <Form.Item name="accept" label={t('rollout.accept')} extra={t('rollout.acceptHelp')}>
          <Select mode="tags" open={false} suffixIcon={null} tokenSeparators={[',', ' ', '，', '、']} />
        </Form.Item>
        <Numbers preset={preset} of={shown.filter((n) => !numbers[n].advanced)} />
        <Collapse
          activeKey={open}
          onChange={(keys) => setOpen([...keys])}
          style={{ marginBottom: 16 }}
          items={[{ key: 'advanced', label: t('rollout.advanced'), forceRender: true, children: <Numbers preset={preset} of={shown.filter((n) => numbers[n].advanced)} /> }]}
        />
        <Form.Item name="reason" label={t('rollout.reason')} extra={t('rollout.reasonHelp')}>
          <Input.TextArea rows={2} maxLength={1024} />
        </Form.Item>
      </Form>
    </Modal>
  );
}

/** Whether the text is a JSON list; what is in it the server checks. */
function listOf(text?: string): boolean {
  if (!text?.trim()) return true; // said by the other rule
  try {
    return Array.isArray(JSON.parse(text));
  } catch {
    return false;
  }
}

function Numbers({ of, preset }: { of: Name[]; preset: Preset }) {
  const { t } = useTranslation();
  const [language] = useLanguage();
  return (
    <div className="numbers">
      {of.map((name) => {
        const { precision, ...range } = numbers[name];
        return (
          <Form.Item
            key={name}
            name={name}
            label={t('rollout.withUnit', { name: t(`rollout.set.${name}`), unit: t(`rollout.unit.${name}`) })}
            extra={t('rollout.withDefault', { help: t(`rollout.help.${name}`), value: count(valueOf(preset, name), language), unit: t(`rollout.unit.${name}`) })}
            rules={[{ required: true, message: t('form.required') }]}
            style={{ marginBottom: 8 }}
          >
            <InputNumber min={range.min} max={'max' in range ? range.max : undefined} precision={precision === 0 ? 0 : undefined} style={{ width: '100%' }} />
          </Form.Item>
        );
      })}
    </div>
  );
}
