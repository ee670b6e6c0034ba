import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Alert, App, Button, Col, Flex, Progress, Row, Skeleton, Typography } from 'antd';
import dayjs from 'dayjs';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { Link } from 'react-router';

import { api, call, type Schema } from '../api/client';
import { Failure } from '../components/Failure';
import { SetBudget } from '../components/SetBudget';
import { Page, Panel } from '../components/Panel';
import { PartList } from '../components/PartList';
import { UsageTiles } from '../components/UsageTiles';
import { useLabel, useLanguage } from '../i18n';
import { money } from '../lib/format';
import { useMay, useMe } from '../lib/me';

export default function Home() {
  const { t } = useTranslation();
  const me = useMe();
  const [today] = useState(() => dayjs().startOf('day').toISOString());
  const maySystem = useMay('system.read');
  const mayUsage = useMay('usage.read');
  const mayBudget = useMay('budget.read');
  const mayLimit = useMay('budget.write');
  const [limiting, setLimiting] = useState(false);
  const system = useQuery({ queryKey: ['system'], queryFn: () => call(api.GET('/system')), enabled: maySystem });
  const usage = useQuery({
    queryKey: ['usage', 'today', today],
    queryFn: () => call(api.GET('/usage', { params: { query: { from: today } } })),
    enabled: mayUsage,
  });
  const budgets = useQuery({ queryKey: ['budgets'], queryFn: () => call(api.GET('/budgets')), enabled: mayBudget });

  return (
    <Page
      title={t('home.title', { name: me.name })}
      note={t('home.note', { tenant: me.tenant })}
      actions={
        me.permissions.includes('playground.use') && (
          <Link to="/playground">
            <Button type="primary">{t('home.try')}</Button>
          </Link>
        )
      }
    >
      {mayUsage && (
        <Panel title={t('home.today')} extra={<Link to="/usage">{t('home.usage')}</Link>}>
          {usage.error ? <Failure error={usage.error} retry={() => void usage.refetch()} /> : <UsageTiles total={usage.data?.total} />}
        </Panel>
      )}
      <Row gutter={[16, 16]}>
        {mayBudget && (
          <Col xs={24} lg={12}>
            <Panel title={t('home.budgets')} extra={mayLimit && budgets.data && <Button size="small" onClick={() => setLimiting(true)}>{t('budget.set')}</Button>}>
              {budgets.error ? (
                <Failure error={budgets.error} retry={() => void budgets.refetch()} />
              ) : budgets.data ? (
                <Budgets budgets={budgets.data.items} mayRemove={mayLimit} />
              ) : (
                <Skeleton active />
              )}
            </Panel>
          </Col>
        )}
        {maySystem && (
          <Col xs={24} lg={12}>
            <Panel title={t('home.status')} extra={<Link to="/system">{t('home.system')}</Link>}>
              {system.error ? (
                <Failure error={system.error} retry={() => void system.refetch()} />
              ) : system.data ? (
                <Status parts={system.data.parts} />
              ) : (
                <Skeleton active />
              )}
            </Panel>
          </Col>
        )}
      </Row>
      {limiting && <SetBudget onClose={() => setLimiting(false)} />}
    </Page>
  );
}

function Status({ parts }: { parts: Schema['SystemPart'][] }) {
  const { t } = useTranslation();
  const bad = parts.filter((p) => p.status === 'failed' || p.status === 'degraded');
  return (
    <Flex vertical gap={12}>
      <Alert type={bad.length === 0 ? 'success' : 'warning'} showIcon title={bad.length === 0 ? t('home.healthy') : t('home.unhealthy', { count: bad.length })} />
      <PartList parts={parts} />
    </Flex>
  );
}

function Budgets({ budgets, mayRemove }: { budgets: Schema['Budget'][]; mayRemove: boolean }) {
  const { t } = useTranslation();
  const label = useLabel();
  const [language] = useLanguage();
  const { modal } = App.useApp();
  const queries = useQueryClient();
  const confirmRemoval = (b: Schema['Budget'], name: string) =>
    modal.confirm({
      title: t('budget.removeTitle'),
      content: t('budget.removeText', { name, period: label('period', b.period), limit: money(b.limit_nano, b.currency, language) }),
      okText: t('budget.remove'),
      okButtonProps: { danger: true },
      onOk: async () => {
        try {
          await call(api.DELETE('/budgets', { params: { query: { tenant: b.tenant, project: b.project, key: b.key, period: b.period } } }));
          await queries.invalidateQueries({ queryKey: ['budgets'] });
        } catch (error) {
          modal.error({ title: t('budget.remove'), content: <Failure error={error} /> });
        }
      },
    });
  if (budgets.length === 0) return <Typography.Text type="secondary">{t('home.noBudgets')}</Typography.Text>;
  return (
    <Flex vertical gap={12}>
      {budgets.map((b) => {
        const used = b.spent_nano + b.reserved_nano;
        const ratio = b.limit_nano === 0 ? 100 : Math.min(100, (used / b.limit_nano) * 100);
        const name = b.key ? t('home.keyBudget', { key: b.key }) : b.project ? t('home.projectBudget', { project: b.project }) : t('home.tenantBudget', { tenant: b.tenant });
        const period = label('period', b.period);
        return (
          <div key={`${b.tenant}/${b.project ?? ''}/${b.key ?? ''}/${b.period}`}>
            <Flex justify="space-between" align="center" gap={8} wrap>
              <span>
                {name} <Typography.Text type="secondary">{period}</Typography.Text>
              </span>
              <Flex gap={8} align="center">
                {money(used, b.currency, language)} / {money(b.limit_nano, b.currency, language)}
                {mayRemove && (
                  <Button size="small" danger onClick={() => confirmRemoval(b, name)} aria-label={t('budget.removeName', { name, period })}>
                    {t('budget.remove')}
                  </Button>
                )}
              </Flex>
            </Flex>
            <Progress percent={ratio} showInfo={false} size="small" status={ratio >= 100 ? 'exception' : 'normal'} aria-label={`${name}, ${period}`} />
          </div>
        );
      })}
    </Flex>
  );
}
