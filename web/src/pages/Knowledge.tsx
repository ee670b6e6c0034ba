import { InboxOutlined, PlusOutlined } from '@ant-design/icons';
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Alert, App, Button, Col, Flex, Form, Input, Modal, Row, Select, Skeleton, Tag, Typography, Upload } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { type Column, DataTable } from '../components/DataTable';
import { DocumentDrawer, instant } from '../components/DocumentDrawer';
import { Failure } from '../components/Failure';
import { FAQPanel } from '../components/FAQPanel';
import { GlossaryPanel } from '../components/GlossaryPanel';
import { LinkButton } from '../components/LinkButton';
import { Page, Panel } from '../components/Panel';
import { PurposeChoice } from '../components/PurposeChoice';
import { Time } from '../components/Time';
import { Findings } from '../components/TurnView';
import { useLanguage } from '../i18n';
import { count } from '../lib/format';
import { base64 } from '../lib/base64';
import { useMay } from '../lib/me';
import { usePurpose } from '../lib/purpose';
import { useFilters } from '../lib/url';

type Collection = Schema['Collection'];

export default function Knowledge() {
  const { t } = useTranslation();
  const [language] = useLanguage();
  const mayWrite = useMay('rag.write');
  const maySearch = useMay('rag.search');
  const [creating, setCreating] = useState(false);
  const [f, setFilters] = useFilters({ collection: '' });
  const collections = useQuery({ queryKey: ['collections'], queryFn: () => call(api.GET('/rag/collections')) });
  const chosen = collections.data?.items.find((c) => c.name === f.collection) ?? collections.data?.items[0];
  const columns: Column<Collection>[] = [
    { key: 'title', title: t('knowledge.collection'), render: (c) => <LinkButton strong={c === chosen} onClick={() => setFilters({ collection: c.name })}>{c.title || c.name}</LinkButton>, csv: (c) => c.name },
    { key: 'documents', title: t('knowledge.documents'), align: 'right', render: (c) => count(c.documents, language), csv: (c) => c.documents },
    { key: 'labels', title: t('knowledge.labels'), render: (c) => (c.labels.length ? c.labels.map((l) => <Tag key={l}>{l}</Tag>) : t('knowledge.everyone')), csv: (c) => c.labels.join(' ') },
  ];
  return (
    <Page
      title={t('nav.knowledge')}
      note={t('knowledge.note')}
      actions={
        mayWrite && (
          <Button type="primary" icon={<PlusOutlined aria-hidden />} onClick={() => setCreating(true)}>
            {t('knowledge.create')}
          </Button>
        )
      }
    >
      <Row gutter={[16, 16]}>
        <Col xs={24} xl={9}>
          <Panel title={t('knowledge.collections')}>
            <DataTable
              name={t('knowledge.collections')}
              columns={columns}
              rows={collections.data?.items}
              rowKey={(c) => c.name}
              loading={collections.isFetching}
              error={collections.error}
              reload={() => void collections.refetch()}
              empty={t('knowledge.empty')}
            />
          </Panel>
        </Col>
        <Col xs={24} xl={15}>
          {chosen && (
            <Flex vertical gap={16}>
              <Documents key={chosen.name} collection={chosen} mayWrite={mayWrite} onDeleted={() => setFilters({ collection: '' })} />
              {mayWrite && <FAQPanel key={`faq-${chosen.name}`} collection={chosen.name} />}
              {mayWrite && <GlossaryPanel key={`glossary-${chosen.name}`} collection={chosen.name} />}
              {maySearch && <TestSearch key={`search-${chosen.name}`} collection={chosen} />}
            </Flex>
          )}
        </Col>
      </Row>
      {creating && (
        <CreateCollection
          onClose={(name) => {
            setCreating(false);
            if (name) setFilters({ collection: name });
          }}
        />
      )}
    </Page>
  );
}

function Documents({ collection, mayWrite, onDeleted }: { collection: Collection; mayWrite: boolean; onDeleted: () => void }) {
  const { t } = useTranslation();
  const { modal } = App.useApp();
  const queries = useQueryClient();
  const [opened, setOpened] = useState<Schema['Document']>();
  const [left, setLeft] = useState<{ name: string; reasons: string[] }[]>([]);
  const documents = useInfiniteQuery({
    queryKey: ['documents', collection.name],
    queryFn: ({ pageParam }) =>
      call(api.GET('/rag/collections/{collection}/documents', { params: { path: { collection: collection.name }, query: { cursor: pageParam } } })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next,
  });
  const refresh = () => Promise.all([queries.invalidateQueries({ queryKey: ['documents', collection.name] }), queries.invalidateQueries({ queryKey: ['collections'] })]);
  const ingest = useMutation({
    mutationFn: async (file: File) =>
      call(
        api.POST('/rag/collections/{collection}/documents', {
          params: { path: { collection: collection.name } },
          body: { name: file.name, mime: file.type || undefined, content: await base64(file) },
        }),
      ),
    onSuccess: (d) => {
      if (d.left_out?.length) setLeft((all) => [...all.filter((x) => x.name !== d.name), { name: d.name, reasons: d.left_out! }]);
      return refresh();
    },
  });
  const confirm = (title: string, remove: () => Promise<unknown>) =>
    modal.confirm({
      title,
      content: t('knowledge.deleteText'),
      okText: t('knowledge.delete'),
      okButtonProps: { danger: true },
      onOk: () => remove().then(refresh, (error: unknown) => void modal.error({ title, content: <Failure error={error} /> })),
    });
  const columns: Column<Schema['Document']>[] = [
    { key: 'name', title: t('knowledge.document'), render: (d) => <LinkButton title={t('knowledge.open')} onClick={() => setOpened(d)}>{d.name}</LinkButton>, csv: (d) => d.name },
    { key: 'chunks', title: t('knowledge.chunks'), align: 'right', render: (d) => d.chunks, csv: (d) => d.chunks },
    { key: 'version', title: t('knowledge.version'), render: (d) => <Typography.Text code>{d.version.slice(0, 12)}</Typography.Text>, csv: (d) => d.version },
    { key: 'created', title: t('knowledge.added'), render: (d) => <Time at={d.created_at} />, csv: (d) => d.created_at },
  ];
  if (mayWrite) {
    columns.push({
      key: 'actions',
      title: t('table.actions'),
      render: (d) => (
        <Button
          size="small"
          danger
          onClick={() =>
            confirm(t('knowledge.deleteTitle', { name: d.name }), () =>
              call(api.DELETE('/rag/collections/{collection}/documents/{id}', { params: { path: { collection: collection.name, id: d.id } } })),
            )
          }
        >
          {t('knowledge.delete')}
        </Button>
      ),
    });
  }
  return (
    <Panel
      title={collection.title || collection.name}
      extra={
        mayWrite && (
          <Button
            size="small"
            danger
            type="text"
            onClick={() =>
              confirm(t('knowledge.deleteTitle', { name: collection.title || collection.name }), async () => {
                await call(api.DELETE('/rag/collections/{collection}', { params: { path: { collection: collection.name } } }));
                onDeleted();
              })
            }
          >
            {t('knowledge.deleteCollection')}
          </Button>
        )
      }
    >
      <Flex vertical gap={12}>
        {mayWrite && (
          <Upload.Dragger
            multiple
            showUploadList={false}
            accept=".txt,.md,.markdown,.html,.htm,.csv,.tsv,.docx,.xlsx,.pptx,.pdf,.eml"
            customRequest={({ file, onSuccess, onError }) => {
              if (file instanceof File) ingest.mutateAsync(file).then(onSuccess, onError);
            }}
          >
            <InboxOutlined aria-hidden style={{ fontSize: 24 }} />
            <div>{ingest.isPending ? t('knowledge.uploading') : t('knowledge.upload')}</div>
          </Upload.Dragger>
        )}
        {ingest.error && <Failure error={ingest.error} />}
        {left.map((d) => (
          <Alert key={d.name} type="warning" showIcon closable onClose={() => setLeft((all) => all.filter((x) => x !== d))} title={t('knowledge.leftOut', { name: d.name })} description={d.reasons.map((r) => <div key={r}>{r}</div>)} />
        ))}
        <DataTable
          name={t('knowledge.documents')}
          columns={columns}
          rows={documents.data?.pages.flatMap((p) => p.items)}
          rowKey={(d) => d.id}
          loading={documents.isFetching}
          error={documents.error}
          reload={() => void documents.refetch()}
          empty={t('knowledge.noDocuments')}
        />
        {documents.hasNextPage && (
          <Button block onClick={() => void documents.fetchNextPage()}>
            {t('table.more')}
          </Button>
        )}
        {opened && <DocumentDrawer collection={collection.name} document={opened} onClose={() => setOpened(undefined)} />}
      </Flex>
    </Panel>
  );
}

function TestSearch({ collection }: { collection: Collection }) {
  const { t } = useTranslation();
  const purpose = usePurpose();
  const [asOf, setAsOf] = useState('');
  const search = useMutation({
    mutationFn: (text: string) => call(api.POST('/rag/search', { params: { header: purpose.header }, body: { collection: collection.name, text, top_k: 5, as_of: instant(asOf) } })),
  });
  return (
    <Panel title={t('knowledge.test')}>
      <Flex vertical gap={12}>
        <PurposeChoice purpose={purpose} failed={search.error} />
        <Input.Search
          aria-label={t('knowledge.query')}
          placeholder={t('knowledge.query')}
          enterButton={
            <Button type="primary" loading={search.isPending} disabled={!purpose.ready}>
              {t('knowledge.search')}
            </Button>
          }
          onSearch={(text) => text.trim() && purpose.ready && search.mutate(text.trim())}
        />
        <Input type="datetime-local" step={1} aria-label={t('knowledge.asOf')} addonBefore={t('knowledge.asOf')} value={asOf} onChange={(e) => setAsOf(e.target.value)} />
        {search.error && <Failure error={search.error} />}
        {search.isPending && <Skeleton active />}
        {search.data?.items.length === 0 && <Typography.Text type="secondary">{t('knowledge.nothingFound')}</Typography.Text>}
        {search.data?.answered_by && <Typography.Text>{t('faq.answers')}</Typography.Text>}
        {search.data?.expanded?.map((e) => (
          <Typography.Text key={`${e.term}/${e.found}`} type="secondary">
            {t('glossary.expanded', { found: e.found, added: e.added.join(', ') })}
          </Typography.Text>
        ))}
        {search.data && search.data.items.length > 0 && (
          <ol style={{ margin: 0, paddingInlineStart: 24 }}>
            {search.data.items.map((p) => (
              <li key={`${p.document_id}/${p.chunk}`} style={{ marginBottom: 8 }}>
                <strong>{p.document}</strong>{' '}
                <Typography.Text type="secondary">
                  {t('knowledge.hit', { score: p.score.toFixed(3), start: p.start, end: p.end })}
                </Typography.Text>
                {p.faq_score !== undefined && <Tag style={{ marginInlineStart: 8 }}>{t(p.faq_vetoed ? 'faq.vetoed' : 'faq.score', { score: p.faq_score.toFixed(2) })}</Tag>}
                <Typography.Paragraph style={{ margin: 0 }} ellipsis={{ rows: 3, expandable: true, symbol: t('knowledge.expand') }}>
                  {p.text}
                </Typography.Paragraph>
              </li>
            ))}
          </ol>
        )}
        {search.data && search.data.items.length > 0 && <Findings findings={search.data.findings} />}
      </Flex>
    </Panel>
  );
}

function CreateCollection({ onClose }: { onClose: (created?: string) => void }) {
  const { t } = useTranslation();
  const queries = useQueryClient();
  const [form] = Form.useForm<Schema['NewCollection']>();
  const create = useMutation({
    mutationFn: (body: Schema['NewCollection']) => call(api.POST('/rag/collections', { body })),
    onSuccess: async (c) => {
      await queries.invalidateQueries({ queryKey: ['collections'] });
      onClose(c.name);
    },
  });
  return (
    <Modal open title={t('knowledge.create')} okText={t('knowledge.create')} onCancel={() => onClose()} onOk={() => form.submit()} confirmLoading={create.isPending}>
      {create.error && <Failure error={create.error} reveal />}
      <Form form={form} layout="vertical" onFinish={(v) => create.mutate(v)} style={{ marginTop: 16 }}>
        <Form.Item name="name" label={t('knowledge.name')} extra={t('knowledge.nameHelp')} rules={[{ required: true, pattern: /^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$/, message: t('knowledge.nameHelp') }]}>
          <Input autoFocus />
        </Form.Item>
        <Form.Item name="title" label={t('knowledge.title')}>
          <Input maxLength={128} />
        </Form.Item>
        <Form.Item name="labels" label={t('knowledge.labels')} extra={t('knowledge.labelsHelp')}>
          <Select mode="tags" open={false} suffixIcon={null} />
        </Form.Item>
      </Form>
    </Modal>
  );
}
