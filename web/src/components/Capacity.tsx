import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Alert, AutoComplete, Button, Checkbox, Descriptions, Flex, Form, Input, InputNumber, Modal, Tag, Typography } from 'antd';
import dayjs from 'dayjs';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { useLabel, useLanguage } from '../i18n';
import { count, zone } from '../lib/format';
import { useMay } from '../lib/me';
import { outlook, type Schedule } from '../lib/schedule';
import { Failure } from './Failure';
import { Panel } from './Panel';

/** How many requests the engine runs at once, and when that changes. */
export function Capacity() {
  const { t } = useTranslation();
  const [language] = useLanguage();
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
          {c?.phase && <Tag color={c.phase === 'peak' ? 'warning' : 'success'}>{label('capacity', c.phase)}</Tag>}
        </Flex>
      }
      extra={
        mayWrite &&
        c && (
          <Flex gap={8}>
            {schedule && <RemoveSchedule configured={c.configured} />}
            <Button size="small" onClick={() => setEditing(true)}>
              {t(schedule ? 'capacity.change' : 'capacity.edit')}
            </Button>
          </Flex>
        )
      }
    >
      {capacity.error && <Failure error={capacity.error} retry={() => void capacity.refetch()} />}
      {c && (
        <Descriptions
          size="small"
          column={1}
          items={[
            ...(c.concurrency !== undefined ? [{ key: 'now', label: t('capacity.now'), children: count(c.concurrency, language) }] : []),
            ...(schedule && c.configured !== undefined ? [{ key: 'configured', label: t('capacity.configured'), children: count(c.configured, language) }] : []),
            ...(schedule
              ? [
                  { key: 'peak', label: t('capacity.peak'), children: t('capacity.windows', { count: schedule.peak_concurrency, requests: count(schedule.peak_concurrency, language), windows: schedule.peak.map(windowText).join(', ') || t('capacity.noWindow') }) },
                  { key: 'valley', label: t('capacity.valley'), children: t('capacity.windows', { count: schedule.valley_concurrency, requests: count(schedule.valley_concurrency, language), windows: t('capacity.otherwise') }) },
                  { key: 'zone', label: t('capacity.zone'), children: schedule.timezone },
                ]
              : [{ key: 'none', label: t('capacity.schedule'), children: t('capacity.none') }]),
            ...c.instances.map((i) => ({ key: `engine ${i.name}`, label: t('capacity.engine', { name: i.name }), children: <Slots of={i} /> })),
          ]}
        />
      )}
      {editing && c && <EditSchedule capacity={c} onClose={() => setEditing(false)} />}
    </Panel>
  );
}

/** What an engine of our own may take, and what it has taken. */
function Slots({ of: i }: { of: Schema['EngineInstance'] }) {
  const { t } = useTranslation();
  const [language] = useLanguage();
  const mebibytes = (n: number) => count(Math.round(n / 2 ** 20), language);
  return (
    <Flex vertical>
      <span>
        {t(`capacity.states.${i.state}`)}
        {i.concurrency_limit !== undefined && ` · ${t('capacity.slots', { count: i.concurrency_limit, slots: count(i.concurrency_limit, language) })}`}
      </span>
      {i.models.map((m) => (
        <Typography.Text key={m.model} type="secondary">
          {t('capacity.load', { model: m.model, running: count(m.running_sequences, language), waiting: count(m.waiting_sequences, language), used: count(m.kv_pages_in_use, language), pages: count(m.kv_pages, language) })}
          {m.kv_page_bytes !== undefined && ` · ${t('capacity.memory', { used: mebibytes(m.kv_pages_in_use * m.kv_page_bytes), all: mebibytes(m.kv_pages * m.kv_page_bytes) })}`}
        </Typography.Text>
      ))}
    </Flex>
  );
}

function RemoveSchedule({ configured }: { configured: number | undefined }) {
  const { t } = useTranslation();
  const [language] = useLanguage();
  const queries = useQueryClient();
  const [asking, setAsking] = useState(false);
  const remove = useMutation({
    mutationFn: () => call(api.DELETE('/capacity')),
    onSuccess: (c) => {
      queries.setQueryData(['capacity'], c);
      setAsking(false);
    },
  });
  return (
    <>
      <Button size="small" danger onClick={() => setAsking(true)}>
        {t('capacity.removeSchedule')}
      </Button>
      {asking && (
        <Modal open title={t('capacity.removeSchedule')} okText={t('capacity.removeSchedule')} okButtonProps={{ danger: true }} onCancel={() => setAsking(false)} onOk={() => remove.mutate()} confirmLoading={remove.isPending}>
          {remove.error && <Failure error={remove.error} reveal />}
          <p>{configured === undefined ? t('capacity.removeText') : t('capacity.removeTextTo', { count: configured, requests: count(configured, language) })}</p>
        </Modal>
      )}
    </>
  );
}

const week = [1, 2, 3, 4, 5, 6, 0]; // as calendars begin where most readers live
const dayName = (day: number) => dayjs().day(day).format('ddd');
const windowText = (w: Schema['PeakWindow']) => `${(w.days ?? []).map(dayName).join(' ')} ${w.from}–${w.to}`.trim();

const clock = /^([01][0-9]|2[0-3]):[0-5][0-9]$/;
const highest = 4096;

/** A value below this part of what holds now is asked about: it is how people throttle an engine by mistake. */
const farBelow = 0.5;

/** The form has every day ticked where the schedule names none. */
const opened = (s: Schedule): Schedule => ({ ...s, peak: s.peak.map((w) => ({ ...w, days: w.days?.length ? w.days : week })) });
const closed = (s: Schedule): Schedule => ({ ...s, peak: (s.peak ?? []).map(({ days, ...w }) => (days && days.length < week.length ? { ...w, days } : w)) });

function EditSchedule({ capacity, onClose }: { capacity: Schema['Capacity']; onClose: () => void }) {
  const { t } = useTranslation();
  const [language] = useLanguage();
  const queries = useQueryClient();
  const [form] = Form.useForm<Schedule>();
  const save = useMutation({
    mutationFn: (body: Schedule) => call(api.PUT('/capacity', { body })),
    onSuccess: (c) => {
      queries.setQueryData(['capacity'], c);
      onClose();
    },
  });
  const now = capacity.concurrency;
  const steady = (capacity.configured ?? now)!; // where neither is known the fields begin empty
  const [start] = useState<Schedule>(() => opened(capacity.schedule ?? { timezone: zone(), peak: [{ from: '08:00', to: '20:00' }], peak_concurrency: steady, valley_concurrency: steady }));
  const [asking, setAsking] = useState<Schedule>(); // a schedule that throttles
  const least = (s: Schedule) => Math.min(s.peak_concurrency, s.valley_concurrency);
  const submit = (values: Schedule) => {
    const body = closed(values);
    if (now !== undefined && least(body) < now * farBelow) setAsking(body);
    else save.mutate(body);
  };
  const time = (midnight: boolean) => ({ validator: (_: unknown, v?: string) => (v && (clock.test(v) || (midnight && v === '24:00')) ? Promise.resolve() : Promise.reject(new Error(t('capacity.clock')))) });
  const someDay = { validator: (_: unknown, days?: number[]) => (days?.length ? Promise.resolve() : Promise.reject(new Error(t('capacity.oneDay')))) };
  const required = { required: true, message: t('form.required') };
  return (
    <Modal open width={680} title={t(capacity.schedule ? 'capacity.change' : 'capacity.edit')} okText={t('capacity.save')} onCancel={onClose} onOk={() => form.submit()} confirmLoading={save.isPending}>
      {save.error && <Failure error={save.error} reveal />}
      <Typography.Paragraph>{t('capacity.explain')}</Typography.Paragraph>
      <Form form={form} layout="vertical" initialValues={start} onFinish={submit}>
        <Form.Item name="timezone" label={t('capacity.zone')} extra={t('capacity.zoneHelp')} rules={[required]}>
          <AutoComplete options={Intl.supportedValuesOf('timeZone').map((value) => ({ value }))} showSearch={{ filterOption: (typed, option) => option!.value.toLowerCase().includes(typed.toLowerCase()) }} />
        </Form.Item>
        <Form.List name="peak">
          {(fields, { add, remove }) => (
            <Flex vertical gap={8} style={{ marginBottom: 16 }}>
              {fields.map((field, i) => (
                <fieldset key={field.key} className="window">
                  <legend>{t('capacity.window', { number: i + 1 })}</legend>
                  <Flex gap={8} align="end" wrap>
                    <Form.Item name={[field.name, 'from']} label={t('capacity.from')} rules={[time(false)]} style={{ width: 96, marginBottom: 8 }}>
                      <Input maxLength={5} />
                    </Form.Item>
                    <Form.Item name={[field.name, 'to']} label={t('capacity.to')} rules={[time(true)]} style={{ width: 96, marginBottom: 8 }}>
                      <Input maxLength={5} />
                    </Form.Item>
                    <Button style={{ marginBottom: 8, marginInlineStart: 'auto' }} onClick={() => remove(field.name)}>
                      {t('capacity.remove')}
                    </Button>
                  </Flex>
                  <Form.Item name={[field.name, 'days']} label={t('capacity.days')} rules={[someDay]} style={{ marginBottom: 0 }}>
                    <Checkbox.Group options={week.map((day) => ({ value: day, label: dayName(day) }))} />
                  </Form.Item>
                </fieldset>
              ))}
              <Button block type="dashed" onClick={() => add({ from: '08:00', to: '20:00', days: week })}>
                {t('capacity.add')}
              </Button>
            </Flex>
          )}
        </Form.List>
        <Flex gap={16} wrap>
          {(['peak', 'valley'] as const).map((phase) => (
            <Form.Item key={phase} name={`${phase}_concurrency`} label={t(`capacity.${phase}Count`)} extra={t('capacity.bounds', { highest: count(highest, language) })} rules={[required]} style={{ flex: '1 1 240px' }}>
              <InputNumber min={1} max={highest} precision={0} style={{ width: '100%' }} />
            </Form.Item>
          ))}
        </Flex>
        <Preview form={form} capacity={capacity} />
      </Form>
      {asking && (
        <Modal
          open
          title={t('capacity.lowTitle', { least: count(least(asking), language), now: count(now!, language) })}
          okText={t('capacity.lowSave')}
          okButtonProps={{ danger: true }}
          onCancel={() => setAsking(undefined)}
          onOk={() => {
            setAsking(undefined);
            save.mutate(asking);
          }}
        >
          {t('capacity.lowText')}
        </Modal>
      )}
    </Modal>
  );
}

/** What saving will do, in words, while the form is filled in. */
function Preview({ form, capacity }: { form: ReturnType<typeof Form.useForm<Schedule>>[0]; capacity: Schema['Capacity'] }) {
  const { t } = useTranslation();
  const [language] = useLanguage();
  const label = useLabel();
  const draft = Form.useWatch([], form) as Partial<Schedule> | undefined;
  const [at] = useState(() => new Date());
  const will = draft && outlook(draft, at);
  if (!will) return null;
  const { configured, concurrency: now } = capacity;
  const most = Math.max(draft.peak_concurrency!, draft.valley_concurrency!);
  const next = will.next;
  return (
    <Flex vertical gap={8}>
      <Alert
        type="info"
        showIcon
        role="status"
        title={
          now === undefined
            ? t('capacity.willBe', { count: will.count, next: count(will.count, language), slot: label('capacity', will.slot) })
            : t('capacity.willChange', { count: will.count, now: count(now, language), next: count(will.count, language), slot: label('capacity', will.slot) })
        }
        description={
          next
            ? t(next.days === 0 ? 'capacity.thenToday' : next.days === 1 ? 'capacity.thenTomorrow' : 'capacity.thenLater', { before: count(will.count, language), after: count(next.count, language), slot: label('capacity', next.slot), time: next.at, zone: draft.timezone, days: next.days })
            : t('capacity.thenNever')
        }
      />
      {configured !== undefined && most > configured && <Alert type="warning" showIcon title={t('capacity.above', { count: configured, configured: count(configured, language) })} />}
    </Flex>
  );
}
