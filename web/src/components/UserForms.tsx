import { useMutation } from '@tanstack/react-query';
import { Alert, Button, Checkbox, Flex, Form, type FormInstance, Input, Modal, Select, Typography } from 'antd';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { useLabel } from '../i18n';
import { useMe } from '../lib/me';
import { oneTimePassword } from '../lib/password';
import { Failure } from './Failure';

type Role = Schema['Role'];
type Once = Schema['PasswordReset'];

interface UserFields {
  name: string;
  roles: string[];
  labels?: string[];
}

/** Creates a user with a one-time password, which the caller shows. */
export function CreateUser({ roles, onClose, onCreated }: { roles: Role[]; onClose: () => void; onCreated: (made: Once) => void }) {
  const { t } = useTranslation();
  const [form] = Form.useForm<UserFields>();
  const create = useMutation({
    gcTime: 0, // passwords do not outlive the dialog
    mutationFn: async (f: UserFields): Promise<Once> => {
      const password = oneTimePassword();
      const user = await call(api.POST('/users', { body: { name: f.name, password, roles: f.roles, labels: f.labels, must_change_password: true } }));
      return { user, password };
    },
    onSuccess: onCreated,
  });
  return (
    <Modal open title={t('users.create')} onCancel={onClose} okText={t('users.create')} onOk={form.submit} confirmLoading={create.isPending}>
      <Flex vertical gap={12}>
        <Typography.Text type="secondary">{t('users.createNote')}</Typography.Text>
        {create.error && <Failure error={create.error} reveal />}
        <UserForm form={form} roles={roles} onSubmit={create.mutate} />
      </Flex>
    </Modal>
  );
}

/** Invites a person, who chooses a password; the caller shows the link. */
export function InviteUser({ roles, onClose, onInvited }: { roles: Role[]; onClose: () => void; onInvited: (made: Schema['CreatedInvitation']) => void }) {
  const { t } = useTranslation();
  const [form] = Form.useForm<UserFields>();
  const invite = useMutation({
    gcTime: 0, // a token does not outlive the dialog
    mutationFn: (f: UserFields) => call(api.POST('/invitations', { body: { name: f.name, roles: f.roles, labels: f.labels } })),
    onSuccess: onInvited,
  });
  return (
    <Modal open title={t('users.invite')} onCancel={onClose} okText={t('users.invite')} onOk={form.submit} confirmLoading={invite.isPending}>
      <Flex vertical gap={12}>
        <Typography.Text type="secondary">{t('users.inviteNote')}</Typography.Text>
        {invite.error && <Failure error={invite.error} reveal />}
        <UserForm form={form} roles={roles} onSubmit={invite.mutate} />
      </Flex>
    </Modal>
  );
}

export function EditUser({ user, roles, onClose }: { user: Schema['User']; roles: Role[]; onClose: () => void }) {
  const { t } = useTranslation();
  const [form] = Form.useForm<UserFields>();
  const save = useMutation({
    mutationFn: (f: UserFields) => call(api.PATCH('/users/{id}', { params: { path: { id: user.id }, query: { tenant: user.tenant } }, body: { roles: f.roles, labels: f.labels ?? [] } })),
    onSuccess: onClose,
  });
  return (
    <Modal open title={t('users.editTitle', { name: user.name })} onCancel={onClose} okText={t('users.save')} onOk={form.submit} confirmLoading={save.isPending}>
      <Flex vertical gap={12}>
        <Typography.Text type="secondary">{t('users.editNote')}</Typography.Text>
        {save.error && <Failure error={save.error} reveal />}
        <UserForm form={form} roles={roles} user={user} onSubmit={save.mutate} />
      </Flex>
    </Modal>
  );
}

function UserForm({ form, roles, user, onSubmit }: { form: FormInstance<UserFields>; roles: Role[]; user?: Schema['User']; onSubmit: (f: UserFields) => void }) {
  const { t } = useTranslation();
  const label = useLabel();
  const mayPlatform = useMe().roles.includes('platform_admin');
  const chosen = Form.useWatch('roles', form) ?? user?.roles ?? [];
  // Keys hold the role of applications and emergency sessions theirs, never people; and only a platform administrator makes another one.
  const offered = roles.filter((r) => r.name !== 'application' && r.name !== 'break_glass' && (r.name !== 'platform_admin' || mayPlatform));
  const excluded = (r: Role) => chosen.some((c) => r.conflicts.includes(c));
  return (
    <Form form={form} layout="vertical" initialValues={{ roles: user?.roles ?? [], labels: user?.labels }} onFinish={onSubmit}>
      {!user && (
        <Form.Item name="name" label={t('users.name')} rules={[{ required: true, message: t('form.required') }]}>
          <Input autoFocus maxLength={128} autoComplete="off" />
        </Form.Item>
      )}
      <Form.Item name="roles" label={t('users.roles')} extra={t('users.rolesHelp')} rules={[{ validator: (_, chosen?: string[]) => (chosen?.length ? Promise.resolve() : Promise.reject(new Error(t('form.required')))) }]}>
        <Checkbox.Group options={offered.map((r) => ({ value: r.name, label: label('role', r.name), disabled: excluded(r) }))} style={{ display: 'grid', gridTemplateColumns: '1fr 1fr' }} />
      </Form.Item>
      <Form.Item name="labels" label={t('users.labels')} extra={t('users.labelsHelp')}>
        <Select mode="tags" open={false} suffixIcon={null} />
      </Form.Item>
    </Form>
  );
}

/** Shows a one-time password this once. */
export function OneTimePassword({ made, onClose }: { made: Once; onClose: () => void }) {
  const { t } = useTranslation();
  return (
    <Modal open title={t('users.onceTitle', { name: made.user.name })} onCancel={onClose} mask={{ closable: false }} footer={<Button type="primary" onClick={onClose}>{t('users.handed')}</Button>}>
      <Flex vertical gap={12}>
        <Alert type="warning" showIcon title={t('users.once')} />
        <Typography.Paragraph code copyable={{ text: made.password }} style={{ wordBreak: 'break-all', margin: 0 }} data-testid="once">
          {made.password}
        </Typography.Paragraph>
      </Flex>
    </Modal>
  );
}
