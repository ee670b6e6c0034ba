import { ReloadOutlined } from '@ant-design/icons';
import { useQuery } from '@tanstack/react-query';
import { Button, Skeleton } from 'antd';
import { useTranslation } from 'react-i18next';

import { api, call } from '../api/client';
import { EngineMatrix } from '../components/EngineMatrix';
import { Failure } from '../components/Failure';
import { Instances } from '../components/Instances';
import { Page, Panel } from '../components/Panel';
import { RouteGuide } from '../components/RouteGuide';

/** What the engines behind the models can do, how well that is known, and which of them a request can go to. */
export default function Engines() {
  const { t } = useTranslation();
  const matrix = useQuery({ queryKey: ['engine-matrix'], queryFn: () => call(api.GET('/engine-matrix')), refetchInterval: 10_000 });
  const reload = () => void matrix.refetch();
  return (
    <Page
      title={t('nav.engines')}
      note={t('engines.pageNote')}
      actions={
        <Button icon={<ReloadOutlined aria-hidden />} onClick={reload}>
          {t('table.reload')}
        </Button>
      }
    >
      {matrix.error && <Failure error={matrix.error} retry={reload} />}
      <Panel title={t('engines.title')}>{matrix.data ? <EngineMatrix matrix={matrix.data} /> : !matrix.error && <Skeleton active />}</Panel>
      <Instances />
      {matrix.data && matrix.data.rows.length > 0 && (
        <Panel title={t('engines.guide')}>
          <RouteGuide matrix={matrix.data} />
        </Panel>
      )}
    </Page>
  );
}
