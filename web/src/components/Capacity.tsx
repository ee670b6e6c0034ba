import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Button, Descriptions, Flex, Form, Input, InputNumber, Modal, Select, Tag } from 'antd';
import dayjs from 'dayjs';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { useLabel } from '../i18n';
import { zone } from '../lib/format';
import { useMay } from '../lib/me';
import { Failure } from './Failure';
import { Panel } from './Panel';

/** How many requests the engine runs at once, and when that changes. */
export function Capacity() {
  const { t } = useTranslation();
  const label = useLabel();
  const mayWrite = useMay('capacity.write');
  const [editing, setEditing] = useState(false);
  const capacity = useQuery({ queryKey: ['capacity'], queryFn: () => call(api.GET('/capacity')) });
  const c = capacity.data;
  const schedule = c?.schedule;
  return (
    <Panel
      title={
        <Flex gap={8} align="center">
          {t('capacity.title')}
          {c?.phase && <Tag color={c.phase === 'peak' ? 'volcano' : 'green'}>{label('capacity', c.phase)}</Tag>}
        </Flex>
      }
      extra={
        mayWrite &&
        c && (
          <Button size="small" onClick={() => setEditing(true)}>
            {t('capacity.edit')}
          </Button>
        )
      }
    >
      {capacity.error && <Failure error={capacity.error} retry={() => void capacity.refetch()} />}
      {c && (
        <Descriptions
          size="small"
          column={1}
          items={[
            ...(c.concurrency !== undefined ? [{ key: 'now', label: t('capacity.now'), children: c.concurrency }] : []),
            ...(schedule
              ? [
                  { key: 'peak', label: t('capacity.peak'), children: t('capacity.windows', { count: schedule.peak_concurrency, windows: schedule.peak.map(windowText).join(', ') }) },
                  { key: 'valley', label: t('capacity.valley'), children: schedule.valley_concurrency },
                  { key: 'zone', label: t('capacity.zone'), children: schedule.timezone },
                ]
              : [{ key: 'none', label: t('capacity.schedule'), children: t('capacity.none') }]),
          ]}
        />
      )}
      {editing && <EditSchedule schedule={schedule} now={c?.concurrency ?? 1} onClose={() => setEditing(false)} />}
    </Panel>
  );
}

const dayName = (day: number) => dayjs().day(day).format('ddd');
const windowText = (w: Schema['PeakWindow']) => `${(w.days ?? []).map(dayName).join(' ')} ${w.from}–${w.to}`.trim();

type Schedule = Schema['CapacitySchedule'];
const clock = /^([01][0-9]|2[0-3]):[0-5][0-9]$/;

function EditSchedule({ schedule, now, onClose }: { schedule: Schedule | undefined; now: number; onClose: () => void }) {
  const { t } = useTranslation();
  const queries = useQueryClient();
  const [form] = Form.useForm<Schedule>();
  const save = useMutation({
    mutationFn: (body: Schedule) => call(api.PUT('/capacity', { body })),
    onSuccess: (c) => {
      queries.setQueryData(['capacity'], c);
      onClose();
    },
  });
  const start: Schedule = schedule ?? { timezone: zone(), peak: [{ from: '08:00', to: '20:00' }], peak_concurrency: now, valley_concurrency: Math.max(1, Math.floor(now / 2)) };
  const time = (midnight: boolean) => ({ validator: (_: unknown, v?: string) => (v && (clock.test(v) || (midnight && v === '24:00')) ? Promise.resolve() : Promise.reject(new Error(t('capacity.clock')))) });
  const required = { required: true, message: t('form.required') };
  return (
    <Modal open title={t('capacity.edit')} okText={t('capacity.save')} onCancel={onClose} onOk={() => form.submit()} confirmLoading={save.isPending}>
      {save.error && <Failure error={save.error} reveal />}
      <Form form={form} layout="vertical" initialValues={start} onFinish={(v) => save.mutate({ ...v, peak: v.peak ?? [] })} style={{ marginTop: 16 }}>
        <Form.Item name="timezone" label={t('capacity.zone')} rules={[required]}>
          <Input maxLength={64} />
        </Form.Item>
        <Form.List name="peak">
          {(fields, { add, remove }) => (
            <>
              {fields.map((field) => (
                <Flex key={field.key} gap={8} align="baseline">
                  <Form.Item name={[field.name, 'from']} label={t('capacity.from')} rules={[time(false)]}>
                    <Input />
                  </Form.Item>
                  <Form.Item name={[field.name, 'to']} label={t('capacity.to')} rules={[time(true)]}>
                    <Input />
                  </Form.Item>
                  <Form.Item name={[field.name, 'days']} label={t('capacity.days')} style={{ flex: 1 }}>
                    <Select mode="multiple" placeholder={t('capacity.everyDay')} options={[1, 2, 3, 4, 5, 6, 0].map((day) => ({ value: day, label: dayName(day) }))} />
                  </Form.Item>
                  <Button onClick={() => remove(field.name)}>{t('capacity.remove')}</Button>
                </Flex>
              ))}
              <Button block type="dashed" onClick={() => add({ from: '08:00', to: '20:00' })} style={{ marginBottom: 16 }}>
                {t('capacity.add')}
              </Button>
            </>
          )}
        </Form.List>
        <Flex gap={16}>
          {(['peak', 'valley'] as const).map((phase) => (
            <Form.Item key={phase} name={`${phase}_concurrency`} label={t(`capacity.${phase}Count`)} rules={[required]} style={{ flex: 1 }}>
              <InputNumber min={1} max={4096} precision={0} style={{ width: '100%' }} />
            </Form.Item>
          ))}
        </Flex>
      </Form>
    </Modal>
  );
}
