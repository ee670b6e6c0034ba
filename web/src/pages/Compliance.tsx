import { DownloadOutlined } from '@ant-design/icons';
import { useMutation, useQuery } from '@tanstack/react-query';
import { Button, Descriptions, Drawer, Flex, Segmented, Tag, Typography } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { Link, useSearchParams } from 'react-router';

import { api, call, type Schema } from '../api/client';
import { type Column, DataTable } from '../components/DataTable';
import { Failure } from '../components/Failure';
import { LinkButton } from '../components/LinkButton';
import { Page, Panel } from '../components/Panel';
import { Time } from '../components/Time';
import { useLanguage } from '../i18n';
import { download } from '../lib/csv';

type State = Schema['ComplianceState'];
type Clause = Schema['ComplianceClause'] & { source: string };
type Control = Schema['ComplianceControl'];

const states: State[] = ['broken', 'unknown', 'off', 'partly', 'built', 'holds', 'operator'];
const colours: Record<State, string> = { broken: 'error', unknown: 'error', off: 'warning', partly: 'warning', built: 'success', holds: 'success', operator: 'default' };

function StateTag({ state }: { state: State }) {
  const { t } = useTranslation();
  return <Tag color={colours[state]}>{t(`compliance.state.${state}`)}</Tag>;
}

/** What laws and standards demand, how the installation stands to it now, and what is behind each line. */
export default function Compliance() {
  const { t } = useTranslation();
  const [language] = useLanguage();
  const [params, setParams] = useSearchParams();
  const [shown, setShown] = useState<Control>();
  const chosen = states.find((s) => s === params.get('state'));
  const headers = { 'Accept-Language': language };
  const matrix = useQuery({
    queryKey: ['compliance', language],
    queryFn: async () => (await call(api.GET('/compliance/matrix', { headers }))) as Schema['ComplianceMatrix'],
    staleTime: 60_000, // each look asks the whole installation, and is recorded
  });
  const file = useMutation({
    mutationFn: async (format: 'pdf' | 'docx') => {
      const content = (await call(api.GET('/compliance/matrix', { params: { query: { format } }, headers, parseAs: 'blob' }))) as unknown as Blob;
      download(`compliance-${new Date().toISOString().slice(0, 10)}.${format}`, content.type, content);
    },
  });
  const data = matrix.data;
  const controls = new Map(data?.controls.map((c) => [c.id, c]));
  const columns: Column<Clause>[] = [
    { key: 'at', title: t('compliance.clause'), render: (c) => c.at, csv: (c) => c.at, width: 190 },
    {
      key: 'duty',
      title: t('compliance.duty'),
      render: (c) => (
        <div style={{ whiteSpace: 'normal', minWidth: 220 }}>
          {c.duty}
          {c.operator && <Typography.Paragraph type="secondary">{t('compliance.operator', { what: c.operator })}</Typography.Paragraph>}
        </div>
      ),
      csv: (c) => [c.duty, c.operator && t('compliance.operator', { what: c.operator })].filter(Boolean).join(' '),
    },
    {
      key: 'controls',
      title: t('compliance.controls'),
      render: (c) => (
        <Flex vertical gap={4} align="flex-start">
          {c.controls.map((id) => (
            <Flex key={id} gap={6} align="center">
              <StateTag state={controls.get(id)!.state} />
              <LinkButton onClick={() => setShown(controls.get(id))}>{controls.get(id)!.name}</LinkButton>
            </Flex>
          ))}
        </Flex>
      ),
      csv: (c) => c.controls.join(' '),
    },
    { key: 'state', title: t('compliance.stands'), render: (c) => <StateTag state={c.state} />, csv: (c) => t(`compliance.state.${c.state}`), width: 130 },
  ];
  return (
    <Page
      title={t('nav.compliance')}
      note={t('compliance.note')}
      actions={(['pdf', 'docx'] as const).map((format) => (
        <Button key={format} icon={<DownloadOutlined aria-hidden />} loading={file.isPending && file.variables === format} onClick={() => file.mutate(format)}>
          {t('compliance.report', { format: format.toUpperCase() })}
        </Button>
      ))}
    >
      {matrix.error || file.error ? <Failure error={matrix.error ?? file.error} retry={() => void matrix.refetch()} /> : null}
      {data && (
        <Flex gap={16} align="center" wrap>
          <Segmented
            aria-label={t('compliance.stands')}
            value={chosen ?? 'all'}
            onChange={(s) => setParams(s === 'all' ? {} : { state: s }, { replace: true })}
            options={[
              { value: 'all', label: t('compliance.all') },
              ...states.filter((s) => data.counts[s]).map((s) => ({ value: s, label: `${t(`compliance.state.${s}`)} ${data.counts[s]}` })),
            ]}
          />
          <Typography.Text type="secondary">
            {t('compliance.evaluated')} <Time at={data.evaluated_at} />
          </Typography.Text>
        </Flex>
      )}
      {(data?.sources ?? [])
        .map((s) => ({ ...s, clauses: s.clauses.filter((c) => !chosen || c.state === chosen).map((c) => ({ ...c, source: s.id })) }))
        .filter((s) => s.clauses.length > 0)
        .map((s) => (
          <Panel key={s.id} title={s.name}>
            {s.note && <Typography.Paragraph type="secondary">{s.note}</Typography.Paragraph>}
            <DataTable<Clause> name={s.name} columns={columns} rows={s.clauses} rowKey={(c) => c.at} />
          </Panel>
        ))}
      <Drawer open={shown !== undefined} onClose={() => setShown(undefined)} title={shown?.name} size={520}>
        {shown && (
          <Flex vertical gap={16}>
            <Descriptions
              column={1}
              size="small"
              bordered
              items={[
                { key: 'state', label: t('compliance.stands'), children: <StateTag state={shown.state} /> },
                ...shown.facts.map((f) => ({ key: f.name, label: f.name, children: f.value })),
                ...(shown.remedy ? [{ key: 'remedy', label: t('compliance.remedy'), children: shown.remedy }] : []),
                { key: 'tests', label: t('compliance.tests'), children: <Typography.Text code>{shown.tests.join(' ')}</Typography.Text> },
              ]}
            />
            <Link to={shown.page}>{t('compliance.evidence')}</Link>
          </Flex>
        )}
      </Drawer>
    </Page>
  );
}
