import { useMutation } from '@tanstack/react-query';
import { Alert, Flex, Table, Tag, Typography } from 'antd';
import { useTranslation } from 'react-i18next';

import { api, call } from '../api/client';
import { useLabel } from '../i18n';
import { changes, type Change } from '../lib/spans';
import { Failure } from './Failure';
import { MaskingForm } from './MaskingForm';
import { type MaskingRequest, MaskingResult } from './MaskingResult';

/** Tries a draft on a text: what the policy in force does to it, what the draft would do, and what would change. Nothing is published. */
export function PolicyTrial({ yaml }: { yaml: string }) {
  const { t } = useTranslation();
  const preview = { mutationFn: (body: MaskingRequest) => call(api.POST('/masking/preview', { body })), gcTime: 0 };
  const before = useMutation(preview);
  const after = useMutation(preview);
  const submit = (body: MaskingRequest) => {
    before.mutate(body);
    after.mutate({ ...body, yaml });
  };
  const settled = before.data && after.data && !before.isPending && !after.isPending;
  return (
    <Flex vertical gap={12} role="region" aria-label={t('trial.title')}>
      <Typography.Text type="secondary">{t('trial.note')}</Typography.Text>
      <MaskingForm initial="" button={t('trial.run')} busy={before.isPending || after.isPending} onPreview={submit} />
      {after.variables && after.variables.yaml !== yaml && <Alert type="info" showIcon role="status" title={t('trial.stale')} />}
      {settled && <Changes rows={changes(before.data.spans, after.data.spans)} blocks={[before.data.blocked, after.data.blocked]} />}
      {(before.variables || after.variables) && (
        <div className="sides">
          <Side title={t('trial.before')} run={before} />
          <Side title={t('trial.after')} run={after} />
        </div>
      )}
    </Flex>
  );
}

function Side({ title, run }: { title: string; run: { error: unknown; data?: Parameters<typeof MaskingResult>[0]['preview']; variables?: MaskingRequest } }) {
  return (
    <section aria-label={title}>
      <Typography.Title level={3} style={{ fontSize: 15, marginTop: 0 }}>
        {title}
      </Typography.Title>
      {Boolean(run.error) && <Failure error={run.error} />}
      {run.data && run.variables && <MaskingResult request={run.variables} preview={run.data} />}
    </section>
  );
}

/** What the draft does otherwise than the policy in force. */
function Changes({ rows, blocks: [was, is] }: { rows: Change[]; blocks: [boolean, boolean] }) {
  const { t } = useTranslation();
  const label = useLabel();
  if (rows.length === 0) return <Alert type="success" showIcon role="status" title={t('trial.same')} />;
  const shown = (action = 'allow') => label('finding', action);
  return (
    <>
      {was !== is && <Alert type={is ? 'warning' : 'info'} showIcon role="status" title={t(is ? 'trial.nowBlocked' : 'trial.noLongerBlocked')} />}
      <Table
        size="small"
        pagination={false}
        aria-label={t('trial.changes')}
        rowKey={(r) => `${r.class} ${r.before} ${r.after}`}
        dataSource={rows}
        columns={[
          { title: t('findings.class'), render: (_, r) => label('class', r.class) },
          { title: t('trial.before'), render: (_, r) => <Tag>{shown(r.before)}</Tag> },
          { title: t('trial.after'), render: (_, r) => <Tag color="blue">{shown(r.after)}</Tag> },
          { title: t('findings.count'), dataIndex: 'count', align: 'right' },
        ]}
      />
    </>
  );
}
