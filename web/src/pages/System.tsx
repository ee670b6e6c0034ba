import { useQuery } from '@tanstack/react-query';
import { Col, Descriptions, Flex, Row, Skeleton, Typography } from 'antd';
import { useTranslation } from 'react-i18next';

import { api, call } from '../api/client';
import { Capacity } from '../components/Capacity';
import { Failure } from '../components/Failure';
import { Models } from '../components/Models';
import { Page, Panel } from '../components/Panel';
import { PartList } from '../components/PartList';
import { Time } from '../components/Time';
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
                  ...(s.commit ? [{ key: 'commit', label: t('system.commit'), children: <Typography.Text code>{s.commit}</Typography.Text> }] : []),
                  ...(s.built_at ? [{ key: 'built', label: t('system.built'), children: <Time at={s.built_at} /> }] : []),
                  { key: 'go', label: t('system.runtime'), children: `${s.go} · ${s.platform}` },
                  { key: 'console', label: t('system.console'), children: t(s.console ? 'system.included' : 'system.notIncluded') },
                  { key: 'started', label: t('system.started'), children: <Time at={s.started_at} /> },
                  ...(s.installation ? [{ key: 'installation', label: t('system.storage'), children: s.installation }] : []),
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
