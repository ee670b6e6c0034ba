import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Alert, Button, Card, Drawer, Flex, Form, Input, Popconfirm, Select, Skeleton, Switch, Tag, Typography } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { ApiError } from '../api/errors';
import { useMay } from '../lib/me';
import { type Column, DataTable } from './DataTable';
import { Failure } from './Failure';
import { Time } from './Time';

interface Of {
  collection: string;
  document: Schema['Document'];
}

/** Who sees a document, when its versions are in effect, and why somebody does not see it. */
export function DocumentDrawer({ collection, document, onClose }: Of & { onClose: () => void }) {
  const { t } = useTranslation();
  const mayAccess = useMay('rag.access');
  return (
    <Drawer open size={720} title={document.name} onClose={onClose}>
      <Flex vertical gap={24}>
        <Versions collection={collection} document={document} />
        {mayAccess && <AccessEditor collection={collection} document={document} />}
        {mayAccess && <Explain collection={collection} document={document} />}
        {!mayAccess && document.restricted && <Alert type="info" showIcon title={t('access.restricted')} />}
      </Flex>
    </Drawer>
  );
}

const paths = ({ collection, document }: Of) => ({ collection, id: document.id });

function Versions(of: Of) {
  const { t } = useTranslation();
  const queries = useQueryClient();
  const mayWrite = useMay('rag.write');
  const [chosen, setChosen] = useState<Schema['DocumentVersion']>();
  const versions = useQuery({
    queryKey: ['versions', of.collection, of.document.id],
    queryFn: () => call(api.GET('/rag/collections/{collection}/documents/{id}/versions', { params: { path: paths(of), query: { limit: 200 } } })),
  });
  const refresh = async () => {
    setChosen(undefined);
    await Promise.all([queries.invalidateQueries({ queryKey: ['versions', of.collection, of.document.id] }), queries.invalidateQueries({ queryKey: ['documents', of.collection] })]);
  };
  const date = useMutation({
    mutationFn: ({ version, body }: { version: string; body: Schema['Validity'] }) =>
      call(api.PATCH('/rag/collections/{collection}/documents/{id}/versions/{version}', { params: { path: { ...paths(of), version } }, body })),
    onSuccess: refresh,
  });
  const remove = useMutation({
    mutationFn: (version: string) => call(api.DELETE('/rag/collections/{collection}/documents/{id}/versions/{version}', { params: { path: { ...paths(of), version } } })),
    onSuccess: refresh,
  });
  const columns: Column<Schema['DocumentVersion']>[] = [
    { key: 'version', title: t('knowledge.version'), render: (v) => <Typography.Text code>{v.version}</Typography.Text>, csv: (v) => v.version },
    { key: 'from', title: t('access.from'), render: (v) => <Time at={v.valid_from} />, csv: (v) => v.valid_from },
    { key: 'until', title: t('access.until'), render: (v) => (v.valid_until ? <Time at={v.valid_until} /> : t('access.noEnd')), csv: (v) => v.valid_until ?? '' },
    { key: 'state', title: t('access.state'), render: (v) => (v.in_effect ? <Tag color="green">{t('access.inEffect')}</Tag> : <Tag>{t('access.notInEffect')}</Tag>), csv: (v) => String(v.in_effect) },
  ];
  if (mayWrite) {
    columns.push({
      key: 'actions',
      title: t('table.actions'),
      render: (v) => (
        <Flex gap={8}>
          <Button size="small" onClick={() => setChosen(v)}>
            {t('access.date')}
          </Button>
          <Popconfirm title={t('access.deleteVersion', { version: v.version })} okText={t('knowledge.delete')} onConfirm={() => remove.mutate(v.version)}>
            <Button size="small" danger disabled={(versions.data?.items.length ?? 0) < 2}>
              {t('knowledge.delete')}
            </Button>
          </Popconfirm>
        </Flex>
      ),
    });
  }
  const failed = date.error ?? remove.error;
  return (
    <section aria-label={t('access.versions')}>
      <Typography.Title level={3} style={{ fontSize: 16 }}>
        {t('access.versions')}
      </Typography.Title>
      {failed && <Failure error={failed} />}
      <DataTable
        name={t('access.versions')}
        columns={columns}
        rows={versions.data?.items}
        rowKey={(v) => v.version}
        loading={versions.isFetching}
        error={versions.error}
        reload={() => void versions.refetch()}
        empty={t('access.noVersions')}
      />
      {versions.data?.next && <Typography.Text type="secondary">{t('access.more')}</Typography.Text>}
      {chosen && (
        <Form
          key={chosen.version}
          layout="inline"
          style={{ marginTop: 12 }}
          initialValues={{ from: local(chosen.valid_from), until: local(chosen.valid_until) }}
          onFinish={(v: { from?: string; until?: string }) => date.mutate({ version: chosen.version, body: datedAs(chosen, v) })}
        >
          <Form.Item name="from" label={`${chosen.version}, ${t('access.from')}`}>
            <Input type="datetime-local" step={0.001} />
          </Form.Item>
          <Form.Item name="until" label={t('access.until')}>
            <Input type="datetime-local" step={0.001} />
          </Form.Item>
          <Button htmlType="submit" type="primary" loading={date.isPending}>
            {t('access.save')}
          </Button>
        </Form>
      )}
    </section>
  );
}

/** A time as the browser's field has it, to the millisecond, and back; nothing stays nothing. */
export function local(at?: string): string {
  if (!at) return '';
  const d = new Date(at);
  return new Date(d.getTime() - d.getTimezoneOffset() * 60_000).toISOString().slice(0, 23);
}

export function instant(text?: string): string | undefined {
  return text ? new Date(text).toISOString() : undefined;
}

/**
 * What to ask of a version whose dates were edited: only what was changed. Versions follow each other to the microsecond, which the field does not show:
 * sent back, a beginning that nobody touched would lie before the end of the version before.
 */
export function datedAs(is: Schema['DocumentVersion'], edited: { from?: string; until?: string }): Schema['Validity'] {
  const body: Schema['Validity'] = { revision: is.revision };
  if (edited.from && edited.from !== local(is.valid_from)) body.valid_from = instant(edited.from);
  if ((edited.until ?? '') !== local(is.valid_until)) {
    if (edited.until) body.valid_until = instant(edited.until);
    else body.no_end = true;
  }
  return body;
}

type Allowance = Schema['AccessAllowance'];

function AccessEditor(of: Of) {
  const { t } = useTranslation();
  const queries = useQueryClient();
  const key = ['access', of.collection, of.document.id];
  const access = useQuery({ queryKey: key, queryFn: () => call(api.GET('/rag/collections/{collection}/documents/{id}/access', { params: { path: paths(of) } })), retry: false });
  const save = useMutation({
    mutationFn: (body: Schema['NewDocumentAccess']) => call(api.PUT('/rag/collections/{collection}/documents/{id}/access', { params: { path: paths(of) }, body })),
    onSuccess: async (saved) => {
      queries.setQueryData(key, saved);
      await Promise.all([queries.invalidateQueries({ queryKey: ['documents', of.collection] }), queries.invalidateQueries({ queryKey: ['versions', of.collection, of.document.id] })]);
    },
  });
  // A rule that is damaged cannot be shown: one that lets nobody in, with revision 0, takes its place when it is saved.
  const damaged = access.error instanceof ApiError && access.error.status === 409;
  const is: Schema['DocumentAccess'] | undefined = damaged ? { labels: of.document.labels, rule: { restricted: true, allow: [], parts: [] }, revision: 0, sections: [] } : access.data;
  return (
    <section aria-label={t('access.title')}>
      <Typography.Title level={3} style={{ fontSize: 16 }}>
        {t('access.title')}
      </Typography.Title>
      {access.isLoading && <Skeleton active />}
      {access.error && !damaged && <Failure error={access.error} retry={() => void access.refetch()} />}
      {damaged && <Alert type="error" showIcon title={t('access.damaged')} />}
      {save.error && <Failure error={save.error} retry={() => void access.refetch()} />}
      {is && (
        <Form
          key={is.revision}
          layout="vertical"
          initialValues={{ labels: is.labels, rule: is.rule }}
          onFinish={(v: { labels: string[]; rule: Schema['AccessRule'] }) =>
            save.mutate({
              labels: v.labels,
              revision: is.revision,
              rule: {
                restricted: v.rule.restricted,
                allow: v.rule.restricted ? v.rule.allow?.map(named) : undefined,
                parts: v.rule.parts?.map((p) => ({ ...p, allow: (p.allow ?? []).map(named) })),
              },
            })
          }
        >
          <Form.Item name="labels" label={t('knowledge.labels')} extra={t('access.labelsHelp')}>
            <Select mode="tags" open={false} suffixIcon={null} />
          </Form.Item>
          <Form.Item name={['rule', 'restricted']} label={t('access.onlyThese')} extra={t('access.onlyTheseHelp')} valuePropName="checked">
            <Switch />
          </Form.Item>
          <Form.Item noStyle shouldUpdate>
            {({ getFieldValue }) => getFieldValue(['rule', 'restricted']) && <Allowances name={['rule', 'allow']} />}
          </Form.Item>
          <Form.List name={['rule', 'parts']}>
            {(fields, { add, remove }) => (
              <Flex vertical gap={8}>
                {fields.map((f) => (
                  <Card key={f.key} size="small" title={t('access.part')} extra={<RemoveButton onClick={() => remove(f.name)} />}>
                    <Form.Item noStyle shouldUpdate>
                      {({ getFieldValue }) => {
                        const part = getFieldValue(['rule', 'parts', f.name]) as Schema['AccessPart'] | undefined;
                        if (part?.chunks?.length) return <p>{t('access.passages', { version: part.version, passages: part.chunks.join(', ') })}</p>;
                        const known = is.sections.find((s) => s.id === part?.section);
                        return (
                          <Form.Item name={[f.name, 'section']} label={t('access.section')} extra={known ? t('access.sectionIs', known) : t('access.sectionHelp')} rules={[{ required: true, message: t('access.sectionHelp') }]}>
                            <Input />
                          </Form.Item>
                        );
                      }}
                    </Form.Item>
                    <Allowances name={[f.name, 'allow']} />
                  </Card>
                ))}
                <Button onClick={() => add({ section: '', allow: [] })}>{t('access.addPart')}</Button>
              </Flex>
            )}
          </Form.List>
          <Button style={{ marginTop: 16 }} type="primary" htmlType="submit" loading={save.isPending}>
            {t('access.save')}
          </Button>
        </Form>
      )}
    </section>
  );
}

function named(a: Allowance): Allowance {
  return Object.fromEntries(Object.entries(a).filter(([, values]) => values?.length));
}

function RemoveButton({ onClick }: { onClick: () => void }) {
  const { t } = useTranslation();
  return (
    <Button size="small" onClick={onClick}>
      {t('access.remove')}
    </Button>
  );
}

function Allowances({ name }: { name: (string | number)[] }) {
  const { t } = useTranslation();
  return (
    <Form.List name={name}>
      {(fields, { add, remove }) => (
        <Flex vertical gap={8} style={{ marginBottom: 12 }}>
          {fields.length === 0 && <Alert type="warning" showIcon title={t('access.nobody')} />}
          {fields.map((f) => (
            <Card key={f.key} size="small" title={t('access.entry')} extra={<RemoveButton onClick={() => remove(f.name)} />}>
              {(['principals', 'roles', 'labels', 'purposes'] as const).map((field) => (
                <Form.Item key={field} name={[f.name, field]} label={t(`access.${field}`)} style={{ marginBottom: 8 }}>
                  <Select mode="tags" open={false} suffixIcon={null} />
                </Form.Item>
              ))}
            </Card>
          ))}
          <Button onClick={() => add({})}>{t('access.add')}</Button>
        </Flex>
      )}
    </Form.List>
  );
}

function Explain(of: Of) {
  const { t } = useTranslation();
  const why = useMutation({
    mutationFn: (body: Schema['Reader']) => call(api.POST('/rag/collections/{collection}/documents/{id}/explain', { params: { path: paths(of) }, body })),
  });
  return (
    <section aria-label={t('access.why')}>
      <Typography.Title level={3} style={{ fontSize: 16 }}>
        {t('access.why')}
      </Typography.Title>
      <Form
        layout="vertical"
        onFinish={(v: Schema['Reader']) =>
          why.mutate({
            principals: v.principals?.length ? v.principals : undefined,
            roles: v.roles?.length ? v.roles : undefined,
            labels: v.labels?.length ? v.labels : undefined,
            purpose: v.purpose || undefined,
            as_of: instant(v.as_of),
          })
        }
      >
        {(['principals', 'roles', 'labels'] as const).map((field) => (
          <Form.Item key={field} name={field} label={t(`access.${field}`)} style={{ marginBottom: 8 }}>
            <Select mode="tags" open={false} suffixIcon={null} />
          </Form.Item>
        ))}
        <Form.Item name="purpose" label={t('access.purpose')} style={{ marginBottom: 8 }}>
          <Input />
        </Form.Item>
        <Form.Item name="as_of" label={t('access.asOf')} extra={t('access.whyHelp')}>
          <Input type="datetime-local" step={1} />
        </Form.Item>
        <Button htmlType="submit" loading={why.isPending}>
          {t('access.ask')}
        </Button>
      </Form>
      {why.error && <Failure error={why.error} />}
      {why.data && (
        <Alert
          style={{ marginTop: 12 }}
          role="status"
          type={why.data.reasons.length ? 'warning' : 'success'}
          title={t('access.shown', { shown: why.data.shown, passages: why.data.passages })}
          description={
            why.data.reasons.length > 0 && (
              <ul style={{ margin: 0, paddingInlineStart: 20 }}>
                {why.data.reasons.map((r) => (
                  <li key={r}>{t(`access.reason.${r}`)}</li>
                ))}
              </ul>
            )
          }
        />
      )}
    </section>
  );
}
