import { useInfiniteQuery, useMutation, useQueryClient } from '@tanstack/react-query';
import { App, Button, Flex, Form, Input, Select } from 'antd';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { type Column, DataTable } from './DataTable';
import { Failure } from './Failure';
import { LinkButton } from './LinkButton';
import { Panel } from './Panel';

/** The synonyms of a knowledge base: a search with one name of a term finds passages with any. */
export function GlossaryPanel({ collection }: { collection: string }) {
  const { t } = useTranslation();
  const { modal } = App.useApp();
  const queries = useQueryClient();
  const [form] = Form.useForm<Schema['NewGlossaryTerm']>();
  const queryKey = ['glossary', collection];
  const path = { collection };
  const terms = useInfiniteQuery({
    queryKey,
    queryFn: ({ pageParam }) => call(api.GET('/rag/collections/{collection}/glossary', { params: { path, query: { cursor: pageParam } } })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next,
  });
  const refresh = () => queries.invalidateQueries({ queryKey });
  const add = useMutation({
    mutationFn: (term: Schema['NewGlossaryTerm']) => call(api.POST('/rag/collections/{collection}/glossary', { params: { path }, body: { terms: [term] } })),
    onSuccess: () => {
      form.resetFields();
      return refresh();
    },
  });
  const remove = (term: Schema['GlossaryTerm']) =>
    modal.confirm({
      title: t('glossary.removeTitle', { name: term.term || term.id }),
      okText: t('glossary.remove'),
      okButtonProps: { danger: true },
      onOk: () =>
        call(api.DELETE('/rag/collections/{collection}/glossary/{id}', { params: { path: { collection, id: term.id } } })).then(
          refresh,
          (error: unknown) => void modal.error({ title: t('glossary.remove'), content: <Failure error={error} /> }),
        ),
    });
  const columns: Column<Schema['GlossaryTerm']>[] = [
    {
      key: 'term',
      title: t('glossary.term'),
      render: (x) => (x.damaged ? t('glossary.damaged') : <LinkButton title={t('glossary.edit')} onClick={() => form.setFieldsValue({ term: x.term, synonyms: x.synonyms })}>{x.term}</LinkButton>),
      csv: (x) => x.term,
    },
    { key: 'synonyms', title: t('glossary.synonyms'), render: (x) => x.synonyms.join(' · '), csv: (x) => x.synonyms.join(' | ') },
    {
      key: 'actions',
      title: t('table.actions'),
      render: (x) => (
        <Button size="small" danger aria-label={t('glossary.removeName', { name: x.term || x.id })} onClick={() => remove(x)}>
          {t('glossary.remove')}
        </Button>
      ),
    },
  ];
  return (
    <Panel title={t('glossary.title')}>
      <Flex vertical gap={12}>
        <Form form={form} layout="vertical" onFinish={(v) => add.mutate({ term: v.term.trim(), synonyms: v.synonyms })}>
          <Flex gap={12} wrap align="end">
            <Form.Item name="term" label={t('glossary.term')} rules={[{ required: true, whitespace: true, message: t('glossary.termHelp') }]} style={{ flex: 1, minWidth: 160, marginBottom: 0 }}>
              <Input maxLength={128} />
            </Form.Item>
            <Form.Item name="synonyms" label={t('glossary.synonyms')} rules={[{ required: true, type: 'array', min: 1, max: 15, message: t('glossary.synonymsHelp') }]} style={{ flex: 2, minWidth: 220, marginBottom: 0 }}>
              <Select mode="tags" open={false} suffixIcon={null} placeholder={t('glossary.synonymsHelp')} />
            </Form.Item>
            <Button type="primary" htmlType="submit" loading={add.isPending}>
              {t('glossary.save')}
            </Button>
          </Flex>
        </Form>
        {add.error && <Failure error={add.error} />}
        <DataTable
          name={t('glossary.title')}
          columns={columns}
          rows={terms.data?.pages.flatMap((p) => p.items)}
          rowKey={(x) => x.id}
          loading={terms.isFetching}
          error={terms.error}
          reload={() => void terms.refetch()}
          empty={t('glossary.empty')}
        />
        {terms.hasNextPage && (
          <Button block onClick={() => void terms.fetchNextPage()}>
            {t('table.more')}
          </Button>
        )}
      </Flex>
    </Panel>
  );
}
