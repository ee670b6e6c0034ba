import { useInfiniteQuery, useMutation, useQueryClient } from '@tanstack/react-query';
import { App, Button, Flex, Form, Input, Select, Tag } from 'antd';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { type Column, DataTable } from './DataTable';
import { Failure } from './Failure';
import { LinkButton } from './LinkButton';
import { Panel } from './Panel';
import { Time } from './Time';

/** The frequent questions of a knowledge base: what asks an entry gets its answer without a model, where the policy says so. */
export function FAQPanel({ collection }: { collection: string }) {
  const { t } = useTranslation();
  const { modal } = App.useApp();
  const queries = useQueryClient();
  const [form] = Form.useForm<Schema['NewFAQEntry']>();
  const queryKey = ['faq', collection];
  const path = { collection };
  const entries = useInfiniteQuery({
    queryKey,
    queryFn: ({ pageParam }) => call(api.GET('/rag/collections/{collection}/faq', { params: { path, query: { cursor: pageParam } } })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next,
  });
  const refresh = () => Promise.all([queries.invalidateQueries({ queryKey }), queries.invalidateQueries({ queryKey: ['documents', collection] })]);
  const put = useMutation({
    mutationFn: (entry: Schema['NewFAQEntry']) => call(api.POST('/rag/collections/{collection}/faq', { params: { path }, body: entry })),
    onSuccess: () => {
      form.resetFields();
      return refresh();
    },
  });
  const remove = (entry: Schema['FAQEntry']) =>
    modal.confirm({
      title: t('faq.removeTitle', { name: entry.question || entry.id }),
      okText: t('faq.remove'),
      okButtonProps: { danger: true },
      onOk: () =>
        call(api.DELETE('/rag/collections/{collection}/documents/{id}', { params: { path: { collection, id: entry.id } } })).then(
          refresh,
          (error: unknown) => void modal.error({ title: t('faq.remove'), content: <Failure error={error} /> }),
        ),
    });
  const columns: Column<Schema['FAQEntry']>[] = [
    {
      key: 'question',
      title: t('faq.question'),
      render: (x) =>
        x.damaged ? (
          t('faq.damaged')
        ) : (
          <LinkButton
            title={t('faq.edit')}
            onClick={() => {
              // Of an entry in effect the change counts from now on; another one keeps when it begins.
              form.setFieldsValue({
                id: x.id, question: x.question, similar: x.similar, negative: x.negative, answer: x.answer, valid_from: x.in_effect ? undefined : x.valid_from, valid_until: x.valid_until,
              });
              form.setFields([{ name: 'labels', value: x.labels, touched: false }]);
            }}
          >
            {x.question}
          </LinkButton>
        ),
      csv: (x) => x.question,
    },
    { key: 'similar', title: t('faq.similar'), render: (x) => x.similar.join(' · '), csv: (x) => x.similar.join(' | ') },
    { key: 'negative', title: t('faq.negative'), render: (x) => x.negative.join(' · '), csv: (x) => x.negative.join(' | ') },
    { key: 'answer', title: t('faq.answer'), render: (x) => x.answer, csv: (x) => x.answer },
    { key: 'labels', title: t('knowledge.labels'), render: (x) => x.labels.map((l) => <Tag key={l}>{l}</Tag>), csv: (x) => x.labels.join(' | ') },
    { key: 'from', title: t('access.from'), render: (x) => x.valid_from && <Time at={x.valid_from} />, csv: (x) => x.valid_from ?? '' },
    { key: 'until', title: t('access.until'), render: (x) => (x.valid_until ? <Time at={x.valid_until} /> : t('access.noEnd')), csv: (x) => x.valid_until ?? '' },
    { key: 'state', title: t('access.state'), render: (x) => (x.in_effect ? <Tag color="green">{t('access.inEffect')}</Tag> : <Tag>{t('access.notInEffect')}</Tag>), csv: (x) => String(x.in_effect) },
    {
      key: 'actions',
      title: t('table.actions'),
      render: (x) => (
        <Button size="small" danger aria-label={t('faq.removeName', { name: x.question || x.id })} onClick={() => remove(x)}>
          {t('faq.remove')}
        </Button>
      ),
    },
  ];
  const questions = (name: 'similar' | 'negative') => (
    <Form.Item name={name} label={t(`faq.${name}`)} rules={[{ type: 'array', max: 50 }]} style={{ marginBottom: 12 }}>
      <Select mode="tags" open={false} suffixIcon={null} placeholder={t(`faq.${name}Help`)} />
    </Form.Item>
  );
  return (
    <Panel title={t('faq.title')}>
      <Flex vertical gap={12}>
        <Form form={form} layout="vertical" onFinish={() => {
            const entry = form.getFieldsValue(true) as Schema['NewFAQEntry'];
            put.mutate({ ...entry, labels: form.isFieldTouched('labels') ? entry.labels : undefined }); // else they stay
          }}>
          <Form.Item name="question" label={t('faq.question')} rules={[{ required: true, whitespace: true }]} style={{ marginBottom: 12 }}>
            <Input maxLength={500} />
          </Form.Item>
          {questions('similar')}
          {questions('negative')}
          <Form.Item name="answer" label={t('faq.answer')} rules={[{ required: true, whitespace: true }]} style={{ marginBottom: 12 }}>
            <Input.TextArea maxLength={4000} autoSize={{ minRows: 2, maxRows: 10 }} />
          </Form.Item>
          <Form.Item name="labels" label={t('knowledge.labels')} extra={t('access.labelsHelp')} style={{ marginBottom: 12 }}>
            <Select mode="tags" open={false} suffixIcon={null} />
          </Form.Item>
          <Flex gap={12}>
            <Button type="primary" htmlType="submit" loading={put.isPending}>
              {t('faq.save')}
            </Button>
            <Button onClick={() => form.resetFields()}>{t('faq.clear')}</Button>
          </Flex>
        </Form>
        {put.error && <Failure error={put.error} />}
        <DataTable
          name={t('faq.title')}
          columns={columns}
          rows={entries.data?.pages.flatMap((p) => p.items)}
          rowKey={(x) => x.id}
          loading={entries.isFetching}
          error={entries.error}
          reload={() => void entries.refetch()}
          empty={t('faq.empty')}
        />
        {entries.hasNextPage && (
          <Button block onClick={() => void entries.fetchNextPage()}>
            {t('table.more')}
          </Button>
        )}
      </Flex>
    </Panel>
  );
}
