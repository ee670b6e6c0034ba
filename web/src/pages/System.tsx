import { useQuery } from '@tanstack/react-query';
import { Col, Descriptions, Flex, Row, Skeleton, Tag, Typography } from 'antd';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { type Column, DataTable } from '../components/DataTable';
import { Failure } from '../components/Failure';
import { Page, Panel } from '../components/Panel';
import { PartList } from '../components/PartList';
import { Time } from '../components/Time';
import { useLabel } from '../i18n';
import { useMay } from '../lib/me';

export default function System() {
  const { t } = useTranslation();
  const mayModels = useMay('models.read');
  const mayCapacity = useMay('capacity.read');
  const system = useQuery({ queryKey: ['system'], queryFn: () => call(api.GET('/system')) });
  const s = system.data;
  return (
    <Page title={t('nav.system')} note={t('system.note')}>
      {system.error && <Failure error={system.error} retry={() => void system.refetch()} />}
      <Row gutter={[16, 16]}>
        <Col xs={24} lg={12}>
          <Panel title={t('system.build')}>
            {s ? (
              <Descriptions
                size="small"
                column={1}
                items={[
                  { key: 'version', label: t('system.version'), children: s.version },
                  { key: 'commit', label: t('system.commit'), children: <Typography.Text code>{s.commit}</Typography.Text> },
                  ...(s.built_at ? [{ key: 'built', label: t('system.built'), children: <Time at={s.built_at} /> }] : []),
                  { key: 'go', label: t('system.runtime'), children: `${s.go} · ${s.platform}` },
                  { key: 'console', label: t('system.console'), children: t(s.console ? 'system.included' : 'system.notIncluded') },
                  { key: 'started', label: t('system.started'), children: <Time at={s.started_at} /> },
                  ...(s.installation ? [{ key: 'installation', label: t('system.installation'), children: <Typography.Text copyable>{s.installation}</Typography.Text> }] : []),
                ]}
              />
            ) : (
              !system.error && <Skeleton active />
            )}
          </Panel>
        </Col>
        <Col xs={24} lg={12}>
          <Flex vertical gap={16}>
            <Panel title={t('system.health')}>{s ? <PartList parts={s.parts} /> : !system.error && <Skeleton active />}</Panel>
            {mayCapacity && <Capacity />}
          </Flex>
        </Col>
      </Row>
      {mayModels && <Models />}
    </Page>
  );
}

function Capacity() {
  const { t } = useTranslation();
  const label = useLabel();
  const capacity = useQuery({ queryKey: ['capacity'], queryFn: () => call(api.GET('/capacity')) });
  const c = capacity.data;
  const schedule = c?.schedule;
  return (
    <Panel title={t('capacity.title')} extra={c?.phase && <Tag color={c.phase === 'peak' ? 'volcano' : 'green'}>{label('capacity', c.phase)}</Tag>}>
      {capacity.error && <Failure error={capacity.error} retry={() => void capacity.refetch()} />}
      {c && (
        <Descriptions
          size="small"
          column={1}
          items={[
            ...(c.concurrency !== undefined ? [{ key: 'now', label: t('capacity.now'), children: c.concurrency }] : []),
            ...(schedule
              ? [
                  { key: 'peak', label: t('capacity.peak'), children: t('capacity.windows', { count: schedule.peak_concurrency, windows: schedule.peak.map((w) => `${w.from}–${w.to}`).join(', ') }) },
                  { key: 'valley', label: t('capacity.valley'), children: schedule.valley_concurrency },
                  { key: 'zone', label: t('capacity.zone'), children: schedule.timezone },
                ]
              : [{ key: 'none', label: t('capacity.schedule'), children: t('capacity.none') }]),
          ]}
        />
      )}
    </Panel>
  );
}

type Version = Schema['ModelVersion'] & { share: string };

function Models() {
  const { t } = useTranslation();
  const models = useQuery({ queryKey: ['models'], queryFn: () => call(api.GET('/models')) });
  const rows = models.data?.items.flatMap((m) =>
    m.versions.map((v): Version => {
      const basis = m.candidate_basis ?? 0;
      const share = v.version === m.stable ? `${(10000 - basis) / 100} %` : v.version === m.candidate ? `${basis / 100} %` : '–';
      return { ...v, share };
    }),
  );
  const columns: Column<Version>[] = [
    { key: 'model', title: t('models.model'), render: (v) => v.model, csv: (v) => v.model },
    { key: 'version', title: t('models.version'), render: (v) => v.version, csv: (v) => v.version },
    { key: 'share', title: t('models.traffic'), align: 'right', render: (v) => v.share, csv: (v) => v.share },
    { key: 'precision', title: t('models.precision'), render: (v) => v.precision, csv: (v) => v.precision },
    { key: 'engine', title: t('models.engine'), render: (v) => `${v.engine} · ${v.engine_model}`, csv: (v) => `${v.engine} ${v.engine_model}` },
    { key: 'digest', title: t('models.digest'), render: (v) => v.digest && <Typography.Text code copyable={{ text: v.digest }}>{v.digest.slice(0, 16)}</Typography.Text>, csv: (v) => v.digest },
    { key: 'created', title: t('models.registered'), render: (v) => <Time at={v.created_at} />, csv: (v) => v.created_at },
  ];
  return (
    <Panel title={t('models.title')}>
      <DataTable name={t('models.title')} columns={columns} rows={rows} rowKey={(v) => `${v.model}@${v.version}`} loading={models.isFetching} error={models.error} reload={() => void models.refetch()} />
    </Panel>
  );
}
