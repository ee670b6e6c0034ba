import { useMutation } from '@tanstack/react-query';
import { App, Button, Flex, Form, Input, Modal, Select, Tag, Typography } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import type { Schema } from '../api/client';
import { Failure } from './Failure';
import { LimitFields, limitsEntered, type LimitsEntered, limitsOf } from './LimitFields';
import { Time } from './Time';

/** What organisations, tenants and projects have in common. */
export interface Level {
  id: string;
  name: string;
  operator?: boolean;
  labels: Record<string, string>;
  limits: Schema['Limits'];
  created_at: string;
  suspension?: Schema['Suspension'];
  closed_at?: string;
}

export interface LevelEntered {
  id: string;
  name?: string;
  labels?: Record<string, string>;
  limits?: Schema['Limits'];
  organisation?: string;
}

export const levelState = (l: Level) => (l.closed_at ? 'closed' : l.suspension ? 'suspended' : l.operator ? 'operator' : 'active');
const colors = { closed: 'default', suspended: 'error', operator: 'processing', active: 'success' } as const;

/** Whether a level is suspended, and since when, by whom and why. */
export function LevelState({ of }: { of: Level }) {
  const { t } = useTranslation();
  return (
    <>
      <Tag color={colors[levelState(of)]}>{t(`tenants.${levelState(of)}`)}</Tag>
      {of.suspension && (
        <Typography.Paragraph type="secondary" style={{ margin: 0 }}>
          <Time at={of.suspension.since} /> {of.suspension.by_name && t('tenants.by', { name: of.suspension.by_name })} {of.suspension.reason}
        </Typography.Paragraph>
      )}
    </>
  );
}

export const labelTexts = (labels: Record<string, string>) => Object.entries(labels).map(([name, value]) => `${name}=${value}`).sort();

export const LevelLabels = ({ of }: { of: Level }) => labelTexts(of.labels).map((l) => <Tag key={l}>{l}</Tag>);

interface Fields extends LimitsEntered {
  id: string;
  name: string;
  organisation?: string;
  labels?: string[];
}

const label = /^[a-z0-9_][a-z0-9._-]{0,63}=.{1,128}$/;

/** Makes a level, or changes one: then only what was touched is given. */
export function WriteLevel({ title, edited, pattern, patternHelp, organisations, limitsHelp, save, onClose }: {
  title: string;
  edited?: Level;
  pattern: RegExp;
  patternHelp: string;
  organisations?: { id: string; name: string }[]; // to choose from
  limitsHelp: string;
  save: (entered: LevelEntered) => Promise<unknown>;
  onClose: () => void;
}) {
  const { t } = useTranslation();
  const [form] = Form.useForm<Fields>();
  const write = useMutation({
    mutationFn: (f: Fields) => {
      const touched = (...names: (keyof Fields)[]) => !edited || names.some((n) => form.isFieldTouched(n));
      return save({
        id: f.id,
        name: touched('name') ? f.name : undefined,
        organisation: f.organisation,
        labels: touched('labels') && (edited || f.labels?.length) ? Object.fromEntries((f.labels ?? []).map((l) => [l.slice(0, l.indexOf('=')), l.slice(l.indexOf('=') + 1)])) : undefined,
        limits: touched('requests', 'tokens', 'concurrent') ? limitsOf(f) : undefined,
      });
    },
    onSuccess: onClose,
  });
  const required = { required: true, message: t('form.required') };
  const initial = edited && { name: edited.name, labels: labelTexts(edited.labels), ...limitsEntered(edited.limits) };
  return (
    <Modal open title={title} onCancel={onClose} okText={edited ? t('keys.save') : title} onOk={form.submit} confirmLoading={write.isPending}>
      <Flex vertical gap={12}>
        {write.error && <Failure error={write.error} reveal />}
        <Form form={form} layout="vertical" initialValues={initial} onFinish={write.mutate}>
          {!edited && (
            <Form.Item name="id" label={t('tenants.id')} extra={patternHelp} rules={[required, { pattern, message: patternHelp }]}>
              <Input autoFocus maxLength={64} autoComplete="off" />
            </Form.Item>
          )}
          <Form.Item name="name" label={t('tenants.name')} rules={[required]}>
            <Input maxLength={128} autoComplete="off" />
          </Form.Item>
          {!edited && organisations && (
            <Form.Item name="organisation" label={t('organisations.organisation')}>
              <Select allowClear placeholder="default" options={organisations.map((o) => ({ value: o.id, label: `${o.name} · ${o.id}` }))} />
            </Form.Item>
          )}
          <Form.Item
            name="labels"
            label={t('organisations.labels')}
            extra={t('organisations.labelsHelp')}
            rules={[{ validator: (_, v?: string[]) => (v?.every((l) => label.test(l)) ?? true ? Promise.resolve() : Promise.reject(new Error(t('organisations.labelsHelp')))) }]}
          >
            <Select mode="tags" open={false} suffixIcon={null} />
          </Form.Item>
          <Typography.Text>{t('tenants.limits')}</Typography.Text>
          <Typography.Paragraph type="secondary">{limitsHelp}</Typography.Paragraph>
          <LimitFields />
        </Form>
      </Flex>
    </Modal>
  );
}

/** Suspends a level with a reason, which its record and the page keep. */
export function SuspendLevel({ of, text, suspend, onClose }: { of: Level; text: string; suspend: (reason: string) => Promise<unknown>; onClose: () => void }) {
  const { t } = useTranslation();
  const [reason, setReason] = useState('');
  const act = useMutation({ mutationFn: () => suspend(reason.trim()), onSuccess: onClose });
  return (
    <Modal
      open
      title={t('tenants.suspendTitle', { name: of.name })}
      onCancel={onClose}
      okText={t('tenants.suspend')}
      okButtonProps={{ danger: true, disabled: !reason.trim() }}
      onOk={() => act.mutate()}
      confirmLoading={act.isPending}
    >
      <Flex vertical gap={12}>
        <span>{text}</span>
        {act.error && <Failure error={act.error} reveal />}
        <label htmlFor="suspend-reason">{t('tenants.reason')}</label>
        <Input.TextArea id="suspend-reason" autoFocus rows={2} maxLength={1024} value={reason} onChange={(e) => setReason(e.target.value)} />
      </Flex>
    </Modal>
  );
}

/** What may be done to a level: edit, suspend, resume. */
export function LevelActions<L extends Level>({ of, resume, onEdit, onSuspend, text }: { of: L; resume: (l: L) => Promise<unknown>; onEdit: () => void; onSuspend: () => void; text: string }) {
  const { t } = useTranslation();
  const { modal } = App.useApp();
  if (of.closed_at) return null; // nothing changes it any more
  const confirm = () =>
    modal.confirm({
      title: t('tenants.resumeTitle', { name: of.name }),
      content: text,
      okText: t('tenants.resume'),
      onOk: async () => {
        try {
          await resume(of);
        } catch (error) {
          modal.error({ title: t('tenants.resume'), content: <Failure error={error} /> });
        }
      },
    });
  return (
    <Flex gap={8}>
      <Button size="small" onClick={onEdit} aria-label={t('tenants.editName', { name: of.id })}>
        {t('tenants.edit')}
      </Button>
      {of.suspension ? (
        <Button size="small" onClick={confirm} aria-label={t('tenants.resumeName', { name: of.id })}>
          {t('tenants.resume')}
        </Button>
      ) : (
        !of.operator && (
          <Button size="small" danger onClick={onSuspend} aria-label={t('tenants.suspendName', { name: of.id })}>
            {t('tenants.suspend')}
          </Button>
        )
      )}
    </Flex>
  );
}
