import { useInfiniteQuery, useMutation, useQueryClient } from '@tanstack/react-query';
import { Alert, Button, Col, Flex, Input, Row, Skeleton, Tag, Typography } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { ActionHelp } from '../components/ActionHelp';
import { ComparePolicies } from '../components/ComparePolicies';
import { type Column, DataTable } from '../components/DataTable';
import { Failure } from '../components/Failure';
import { LinkButton } from '../components/LinkButton';
import { Page, Panel } from '../components/Panel';
import { PolicyTrial } from '../components/PolicyTrial';
import { everyTenant, PublishPolicy, scopeOf, usePolicy } from '../components/PublishPolicy';
import { TextDiff } from '../components/TextDiff';
import { Time } from '../components/Time';
import { getDraft, setDraft, useDrafts } from '../lib/drafts';
import { useMay, useMe } from '../lib/me';
import { useFilters } from '../lib/url';

type Policy = Schema['Policy'];

/** Drafts belong to one person in one tenant, and to the version that was open when they were begun. */
function useDraftName() {
  const me = useMe();
  return (p: Policy | undefined) => `policy.${me.id}.${me.tenant}.${p?.name ?? 'new'}`;
}

export default function Policies() {
  const { t } = useTranslation();
  const [f, setFilters] = useFilters({ policy: '' });
  const [comparing, setComparing] = useState(false);
  const draftName = useDraftName();
  useDrafts();
  const versions = useInfiniteQuery({
    queryKey: ['policies'],
    queryFn: ({ pageParam }) => call(api.GET('/policies', { params: { query: { cursor: pageParam, limit: 200 } } })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next,
  });
  const rows = versions.data?.pages.flatMap((p) => p.items);
  const drafted = (p: Policy) => getDraft(draftName(p)) !== undefined;
  const chosen = rows?.find((p) => p.name === f.policy) ?? rows?.find(drafted) ?? rows?.find((p) => p.active) ?? rows?.[0];
  const columns: Column<Policy>[] = [
    {
      key: 'version',
      title: t('policy.version'),
      render: (p) => (
        <Flex vertical gap={4} align="flex-start">
          <LinkButton strong={p === chosen} onClick={() => setFilters({ policy: p.name })} aria-current={p === chosen ? 'true' : undefined}>
            {p.name}
          </LinkButton>
          {p.active && <Tag color="success">{t('policy.active')}</Tag>}
          {drafted(p) && <Tag color="warning">{t('policy.draft')}</Tag>}
        </Flex>
      ),
      csv: (p) => p.name,
    },
    { key: 'scope', title: t('policy.scope'), render: (p) => <div style={{ maxWidth: 110 }}>{scopeOf(p) === everyTenant ? t('policy.everyTenant') : scopeOf(p)}</div>, csv: scopeOf },
    {
      key: 'created',
      title: t('policy.published'),
      render: (p) => (
        <div style={{ maxWidth: 150 }}>
          <Time at={p.created_at} />
          <br />
          <Typography.Text type="secondary" title={p.created_by}>
            {t('policy.by', { name: p.created_by_name ?? p.created_by })}
          </Typography.Text>
        </div>
      ),
      csv: (p) => p.created_at,
    },
  ];
  return (
    <Page title={t('nav.policies')} note={t('policy.note')} actions={rows && rows.length > 1 && <Button onClick={() => setComparing(true)}>{t('policy.compare')}</Button>}>
      <Row gutter={[16, 16]}>
        <Col xs={24} xl={10}>
          <Panel title={t('policy.versions')}>
            <DataTable
              name={t('nav.policies')}
              columns={columns}
              rows={rows}
              rowKey={(p) => p.name}
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
        <Col xs={24} xl={14}>
          {rows && <Document key={chosen?.name} chosen={chosen} onPublished={(p) => setFilters({ policy: p.name })} />}
        </Col>
      </Row>
      {comparing && rows && chosen && <ComparePolicies versions={rows} chosen={chosen} onClose={() => setComparing(false)} />}
    </Page>
  );
}

interface DocumentProps {
  chosen: Policy | undefined;
  onPublished: (published: Policy) => void;
}

function Document({ chosen, ...props }: DocumentProps) {
  const policy = usePolicy(chosen);
  if (policy.error) return <Failure error={policy.error} retry={() => void policy.refetch()} />;
  if (chosen && !policy.data) return <Skeleton active />;
  return <Editor published={policy.data} {...props} />;
}

function Editor({ published, onPublished }: Omit<DocumentProps, 'chosen'> & { published: Policy | undefined }) {
  const { t } = useTranslation();
  const mayWrite = useMay('policy.write');
  const mayPreview = useMay('masking.preview');
  const queries = useQueryClient();
  const draft = useDraftName()(published);
  const text = published?.yaml ?? '';
  const [yaml, setYaml] = useState(() => getDraft(draft) ?? text);
  const [trying, setTrying] = useState(false);
  const [reading, setReading] = useState(false);
  const [publishing, setPublishing] = useState(false);
  const changed = yaml !== text;
  const validate = useMutation({ mutationFn: () => call(api.POST('/policies/validations', { body: { yaml } })) });
  const edit = (next: string) => {
    setYaml(next);
    setDraft(draft, next === text ? undefined : next);
    validate.reset();
  };
  const finish = async (p: Policy) => {
    setDraft(draft, undefined);
    await queries.invalidateQueries({ queryKey: ['policies'] });
    setPublishing(false);
    setYaml(text); // this version stays what it was; the new one is opened
    onPublished(p);
  };
  return (
    <Panel
      title={published ? published.name : t('policy.new')}
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
            <Button size="small" type="primary" onClick={() => setPublishing(true)} disabled={!yaml.trim()}>
              {t('policy.publish')}
            </Button>
          )}
        </Flex>
      }
    >
      <Flex vertical gap={12}>
        {changed && (
          <Alert
            type="warning"
            showIcon
            role="status"
            title={t('policy.draft')}
            description={t('policy.draftNote')}
            action={
              <Flex gap={8} wrap>
                {published && (
                  <Button size="small" onClick={() => setReading(!reading)} aria-expanded={reading}>
                    {t('policy.changes')}
                  </Button>
                )}
                <Button size="small" danger onClick={() => edit(text)}>
                  {t('policy.discard')}
                </Button>
              </Flex>
            }
          />
        )}
        {changed && reading && published && <TextDiff from={text} to={yaml} label={t('policy.changesTitle', { name: published.name })} />}
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
        <ActionHelp />
        {published && <Typography.Text type="secondary" style={{ wordBreak: 'break-all' }}>{t('policy.digest', { digest: published.digest })}</Typography.Text>}
        <Input.TextArea
          aria-label={t('policy.text')}
          readOnly={!mayWrite}
          value={yaml}
          onChange={(e) => edit(e.target.value)}
          spellCheck={false}
          autoSize={{ minRows: 18, maxRows: 40 }}
          style={{ fontFamily: 'ui-monospace, Menlo, Consolas, monospace', fontSize: 13 }}
        />
      </Flex>
      {publishing && <PublishPolicy yaml={yaml} opened={published} onPublished={(p) => void finish(p)} onClose={() => setPublishing(false)} />}
    </Panel>
  );
}
