import {
  ApartmentOutlined,
  ApiOutlined,
  AuditOutlined,
  BankOutlined,
  BarChartOutlined,
  BranchesOutlined,
  CheckCircleOutlined,
  ClusterOutlined,
  DashboardOutlined,
  EyeOutlined,
  FileProtectOutlined,
  FileSearchOutlined,
  FundOutlined,
  GlobalOutlined,
  HeartOutlined,
  HighlightOutlined,
  KeyOutlined,
  LockOutlined,
  LogoutOutlined,
  MenuOutlined,
  MessageOutlined,
  OrderedListOutlined,
  ReadOutlined,
  SafetyCertificateOutlined,
  SafetyOutlined,
  SettingOutlined,
  TeamOutlined,
  ThunderboltOutlined,
  UserOutlined,
} from '@ant-design/icons';
import { Button, Drawer, Dropdown, Flex, Layout, Menu, Spin, Tag, theme, Tooltip, Typography } from 'antd';
import { Suspense, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { Link, Outlet, useLocation } from 'react-router';

import { ApiError } from '../api/errors';
import { session } from '../api/session';
import { useLabel, useLanguage } from '../i18n';
import { useMe } from '../lib/me';
import { useMedia } from '../lib/media';
import { BreakGlassBanner } from './BreakGlass';
import { ChangePassword } from './ChangePassword';
import { Boundary, Failure } from './Failure';
import { OwnFactor } from './OwnFactor';
import { SecondPerson } from './SecondPerson';
import { StepUp } from './StepUp';

/** What the menu offers, and the permission without which it does not; with the one for what is one's own it does, too. */
const entries = [
  { path: '', key: 'home', icon: <DashboardOutlined />, permission: '' },
  { path: 'playground', key: 'playground', icon: <MessageOutlined />, permission: 'playground.use' },
  { path: 'batches', key: 'batches', icon: <OrderedListOutlined />, permission: 'batches.use' },
  { path: 'keys', key: 'keys', icon: <KeyOutlined />, permission: 'keys.read', own: 'keys.own' },
  { path: 'users', key: 'users', icon: <TeamOutlined />, permission: 'users.read' },
  { path: 'service-accounts', key: 'services', icon: <ApiOutlined />, permission: 'users.read' },
  { path: 'organisations', key: 'organisations', icon: <ApartmentOutlined />, permission: 'tenants.read' },
  { path: 'tenants', key: 'tenants', icon: <BankOutlined />, permission: 'tenants.read' },
  { path: 'usage', key: 'usage', icon: <BarChartOutlined />, permission: 'usage.read' },
  { path: 'costs', key: 'costs', icon: <ThunderboltOutlined />, permission: 'usage.read' },
  { path: 'knowledge', key: 'knowledge', icon: <ReadOutlined />, permission: 'rag.read' },
  { path: 'audit', key: 'audit', icon: <AuditOutlined />, permission: 'audit.read' },
  { path: 'provenance', key: 'provenance', icon: <FileSearchOutlined />, permission: 'audit.read' },
  { path: 'compliance', key: 'compliance', icon: <SafetyCertificateOutlined />, permission: 'audit.read' },
  { path: 'reveal', key: 'reveal', icon: <EyeOutlined />, permission: 'masking.reveal' },
  { path: 'approvals', key: 'approvals', icon: <CheckCircleOutlined />, permission: 'approvals.give' },
  { path: 'policies', key: 'policies', icon: <FileProtectOutlined />, permission: 'policy.read' },
  { path: 'label-agreements', key: 'agreements', icon: <HighlightOutlined />, permission: 'policy.read' },
  { path: 'rollouts', key: 'rollouts', icon: <BranchesOutlined />, permission: 'rollout.read' },
  { path: 'service-level', key: 'sla', icon: <HeartOutlined />, permission: 'usage.read' },
  { path: 'capacity', key: 'capacity', icon: <FundOutlined />, permission: 'capacity.read' },
  { path: 'engines', key: 'engines', icon: <ClusterOutlined />, permission: 'system.read' },
  { path: 'system', key: 'system', icon: <SettingOutlined />, permission: 'system.read' },
] as const;

const crash = new ApiError('client_crash', '');

export function Shell() {
  const { t } = useTranslation();
  const location = useLocation();
  const { token } = theme.useToken();
  const wide = useMedia('(min-width: 992px)');
  const [menu, setMenu] = useState(false);
  return (
    <Layout style={{ minHeight: '100vh' }}>
      <a className="skip" href="#content">
        {t('nav.skip')}
      </a>
      {wide ? (
        <Layout.Sider width={208} theme="light" style={{ borderRight: `1px solid ${token.colorBorderSecondary}`, position: 'sticky', top: 0, height: '100vh', overflow: 'auto' }}>
          <div style={{ padding: '16px 20px' }}>
            <Brand />
          </div>
          <Navigation />
        </Layout.Sider>
      ) : (
        <Drawer open={menu} placement="left" size={264} title={<Brand />} onClose={() => setMenu(false)} styles={{ body: { padding: 0 } }}>
          <Navigation onChosen={() => setMenu(false)} />
        </Drawer>
      )}
      <Layout>
        <Layout.Header
          style={{ background: token.colorBgContainer, borderBottom: `1px solid ${token.colorBorderSecondary}`, padding: wide ? '0 24px' : '0 12px', height: 56, lineHeight: 'normal' }}
        >
          <Flex justify="flex-end" align="center" gap={8} style={{ height: '100%' }}>
            <MergedDuties />
            {!wide && (
              <Flex align="center" gap={4} style={{ marginInlineEnd: 'auto' }}>
                <Button type="text" icon={<MenuOutlined aria-hidden />} aria-label={t('nav.open')} aria-expanded={menu} onClick={() => setMenu(true)} />
                <Brand />
              </Flex>
            )}
            <LanguageSwitch />
            <UserMenu />
          </Flex>
        </Layout.Header>
        <Layout.Content id="content" tabIndex={-1} style={{ padding: wide ? 24 : 12, maxWidth: 1440, width: '100%', margin: '0 auto', outline: 'none' }}>
          <BreakGlassBanner />
          <Boundary key={location.pathname} fallback={(retry) => <Failure error={crash} retry={retry} />}>
            <Suspense fallback={<Spin style={{ display: 'block', margin: '20vh auto' }} />}>
              <Outlet />
            </Suspense>
          </Boundary>
          <SecondPerson />
          <StepUp />
        </Layout.Content>
      </Layout>
    </Layout>
  );
}

function Brand() {
  return (
    <Flex align="center" gap={10}>
      <img src="./favicon.svg" alt="" width={26} height={26} />
      <Typography.Text strong style={{ fontSize: 17 }}>
        Sluice
      </Typography.Text>
    </Flex>
  );
}

function Navigation({ onChosen }: { onChosen?: () => void }) {
  const { t } = useTranslation();
  const me = useMe();
  const current = useLocation().pathname.split('/')[1] ?? '';
  return (
    <nav aria-label={t('nav.label')}>
      <Menu
        mode="inline"
        selectedKeys={[current]}
        style={{ borderInlineEnd: 0 }}
        onClick={onChosen}
        items={entries
          .filter((e) => !e.permission || me.permissions.includes(e.permission) || ('own' in e && me.permissions.includes(e.own)))
          .map((e) => ({ key: e.path, icon: e.icon, label: <Link to={`/${e.path}`}>{t(`nav.${e.key}`)}</Link> }))}
      />
    </nav>
  );
}

/** Says to whoever holds every duty that he does: nothing of what he does has a second person. */
function MergedDuties() {
  const { t } = useTranslation();
  const me = useMe();
  if (me.duties !== 'merged' || !me.roles.includes('platform_admin')) return null;
  return (
    <Tooltip title={t('acts.mergedHelp')}>
      <Tag color="warning" tabIndex={0}>
        {t('acts.mergedShort')}
      </Tag>
    </Tooltip>
  );
}

export function LanguageSwitch() {
  const [language, setLanguage] = useLanguage();
  // The button names the other language in that language, so that its readers find it.
  return (
    <Button type="text" icon={<GlobalOutlined aria-hidden />} lang={language === 'zh' ? 'en' : 'zh-CN'} onClick={() => setLanguage(language === 'zh' ? 'en' : 'zh')}>
      {language === 'zh' ? 'English' : '中文'}
    </Button>
  );
}

function UserMenu() {
  const { t } = useTranslation();
  const label = useLabel();
  const me = useMe();
  const [changing, setChanging] = useState(false);
  const [factor, setFactor] = useState(false);
  return (
    <>
      <Dropdown
        trigger={['click']}
        menu={{
          items: [
            { key: 'tenant', disabled: true, label: `${t('user.tenant')} ${me.tenant}` },
            { key: 'roles', disabled: true, label: me.roles.map((r) => label('role', r)).join(', ') },
            { type: 'divider' },
            { key: 'password', icon: <LockOutlined />, label: t('user.password'), onClick: () => setChanging(true) },
            ...(me.second_factor?.available || me.second_factor?.enrolled ? [{ key: 'factor', icon: <SafetyOutlined />, label: t('user.factor'), onClick: () => setFactor(true) }] : []),
            { key: 'out', icon: <LogoutOutlined />, label: t('user.signOut'), onClick: () => void session.logout() },
          ],
        }}
      >
        <Button type="text" icon={<UserOutlined aria-hidden />} aria-label={t('user.menu', { name: me.name })}>
          {me.name}
        </Button>
      </Dropdown>
      {factor && <OwnFactor onClose={() => setFactor(false)} />}
      {changing && <ChangePassword onClose={() => setChanging(false)} />}
    </>
  );
}
