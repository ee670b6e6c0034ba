import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Alert, App, Button, Col, Flex, Input, Row, Skeleton, Tag, Typography } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { type Column, DataTable } from '../components/DataTable';
import { Failure } from '../components/Failure';
import { Page, Panel } from '../components/Panel';
import { PolicyTrial } from '../components/PolicyTrial';
import { Time } from '../components/Time';
import { useMay, useMe } from '../lib/me';
import { useFilters } from '../lib/url';

type Policy = Schema['Policy'];

export default function Policies() {
  const { t } = useTranslation();
  const [f, setFilters] = useFilters({ scope: '', version: '' });
  const versions = useInfiniteQuery({
    queryKey: ['policies'],
    queryFn: ({ pageParam }) => call(api.GET('/policies', { params: { query: { cursor: pageParam } } })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next,
  });
  const rows = versions.data?.pages.flatMap((p) => p.items);
  const chosen = rows?.find((p) => p.version === f.version && (!f.scope || p.tenant === f.scope)) ?? rows?.find((p) => p.active) ?? rows?.[0];
  const columns: Column<Policy>[] = [
    {
      key: 'version',
      title: t('policy.version'),
      render: (p) => (
        <Flex gap={8}>
          <Typography.Link strong={p === chosen} onClick={() => setFilters({ scope: p.tenant, version: p.version })}>
            {p.version}
          </Typography.Link>
          {p.active && <Tag color="success">{t('policy.active')}</Tag>}
        </Flex>
      ),
      csv: (p) => p.version,
    },
    { key: 'scope', title: t('policy.scope'), render: (p) => (p.tenant === '*' ? t('policy.everyTenant') : p.tenant), csv: (p) => p.tenant },
    { key: 'created', title: t('policy.published'), render: (p) => <Time at={p.created_at} />, csv: (p) => p.created_at },
    { key: 'by', title: t('policy.by'), render: (p) => p.created_by, csv: (p) => p.created_by },
  ];
  return (
    <Page title={t('nav.policies')} note={t('policy.note')}>
      <Row gutter={[16, 16]}>
        <Col xs={24} xl={9}>
          <Panel title={t('policy.versions')}>
            <DataTable
              name={t('policy.versions')}
              columns={columns}
              rows={rows}
              rowKey={(p) => `${p.tenant}/${p.version}`}
              loading={versions.isFetching}
              error={versions.error}
              reload={() => void versions.refetch()}
              empty={t('policy.empty')}
            />
            {versions.hasNextPage && (
              <Button block onClick={() => void versions.fetchNextPage()} style={{ marginTop: 8 }}>
                {t('table.more')}
              </Button>
            )}
          </Panel>
        </Col>
        <Col xs={24} xl={15}>
          {rows && <Document key={`${chosen?.tenant}/${chosen?.version}`} chosen={chosen} onPublished={(p) => setFilters({ scope: p.tenant, version: p.version })} />}
        </Col>
      </Row>
    </Page>
  );
}

function Document({ chosen, onPublished }: { chosen: Policy | undefined; onPublished: (published: Policy) => void }) {
  const policy = useQuery({
    queryKey: ['policy', chosen?.tenant, chosen?.version],
    queryFn: () => call(api.GET('/policies/{version}', { params: { path: { version: chosen!.version }, query: { tenant: chosen!.tenant } } })),
    enabled: chosen !== undefined,
  });
  if (policy.error) return <Failure error={policy.error} retry={() => void policy.refetch()} />;
  if (chosen && !policy.data) return <Skeleton active />;
  return <Editor published={policy.data} onPublished={onPublished} />;
}

function Editor({ published, onPublished }: { published: Policy | undefined; onPublished: (published: Policy) => void }) {
  const { t } = useTranslation();
  const { modal } = App.useApp();
  const mayWrite = useMay('policy.write');
  const mayPreview = useMay('masking.preview');
  const { tenant } = useMe();
  const queries = useQueryClient();
  const [yaml, setYaml] = useState(published?.yaml ?? '');
  const [trying, setTrying] = useState(false);
  const changed = yaml !== (published?.yaml ?? '');
  const validate = useMutation({ mutationFn: () => call(api.POST('/policies/validations', { body: { yaml } })) });
  const publish = useMutation({
    mutationFn: () => call(api.POST('/policies', { body: { yaml } })),
    onSuccess: async (p) => {
      await queries.invalidateQueries({ queryKey: ['policies'] });
      onPublished(p);
    },
  });
  const confirm = () => modal.confirm({ title: t('policy.publishTitle'), content: t('policy.publishText', { tenant }), okText: t('policy.publish'), onOk: () => publish.mutateAsync().catch(() => undefined) });
  return (
    <Panel
      title={published ? t('policy.document', { version: published.version }) : t('policy.new')}
      extra={
        <Flex gap={8} wrap>
          <Button size="small" onClick={() => validate.mutate()} loading={validate.isPending} disabled={!yaml.trim()}>
            {t('policy.validate')}
          </Button>
          {mayPreview && (
            <Button size="small" onClick={() => setTrying(!trying)} aria-expanded={trying} disabled={!yaml.trim()}>
              {t('trial.title')}
            </Button>
          )}
          {mayWrite && (
            <Button size="small" type="primary" onClick={confirm} loading={publish.isPending} disabled={!changed || !yaml.trim()}>
              {t('policy.publish')}
            </Button>
          )}
        </Flex>
      }
    >
      <Flex vertical gap={12}>
        {publish.error && <Failure error={publish.error} />}
        {validate.error && <Failure error={validate.error} />}
        {validate.data?.valid && <Alert type="success" showIcon role="status" title={t('policy.valid')} />}
        {validate.data && !validate.data.valid && (
          <Alert
            type="error"
            showIcon
            title={t('policy.invalid')}
            description={
              <ul style={{ margin: 0, paddingInlineStart: 20 }}>
                {validate.data.errors.map((e) => (
                  <li key={e.field + e.detail}>
                    <Typography.Text code>{e.field}</Typography.Text> {e.detail}
                  </li>
                ))}
              </ul>
            }
          />
        )}
        {trying && <PolicyTrial yaml={yaml} />}
        {published && <Typography.Text type="secondary" style={{ wordBreak: 'break-all' }}>{t('policy.digest', { digest: published.digest })}</Typography.Text>}
        <Input.TextArea
          aria-label={t('policy.text')}
          readOnly={!mayWrite}
          value={yaml}
          onChange={(e) => {
            setYaml(e.target.value);
            validate.reset();
          }}
          spellCheck={false}
          autoSize={{ minRows: 18, maxRows: 40 }}
          style={{ fontFamily: 'ui-monospace, Menlo, Consolas, monospace', fontSize: 13 }}
        />
      </Flex>
    </Panel>
  );
}
