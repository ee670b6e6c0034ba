import { QueryClient, QueryClientProvider, useQueryClient } from '@tanstack/react-query';
import { App as Kit, ConfigProvider, Spin, theme } from 'antd';
import enUS from 'antd/locale/en_US';
import zhCN from 'antd/locale/zh_CN';
import { lazy, useEffect, useState } from 'react';
import { createBrowserRouter, Navigate, RouterProvider } from 'react-router';

import { toApiError } from './api/errors';
import { Shell } from './components/Shell';
import { useLanguage } from './i18n';
import { useSession } from './lib/me';
import { useDark, useMedia } from './lib/media';
import { FirstFactor } from './pages/FirstFactor';
import { FirstPassword } from './pages/FirstPassword';
import { Invitation, isInvitation } from './pages/Invitation';
import { Login } from './pages/Login';

const Home = lazy(() => import('./pages/Home'));
const Playground = lazy(() => import('./pages/Playground'));
const Batches = lazy(() => import('./pages/Batches'));
const Keys = lazy(() => import('./pages/Keys'));
const Usage = lazy(() => import('./pages/Usage'));
const Costs = lazy(() => import('./pages/Costs'));
const Knowledge = lazy(() => import('./pages/Knowledge'));
const Audit = lazy(() => import('./pages/Audit'));
const LabelAgreements = lazy(() => import('./pages/LabelAgreements'));
const Provenance = lazy(() => import('./pages/Provenance'));
const Compliance = lazy(() => import('./pages/Compliance'));
const Policies = lazy(() => import('./pages/Policies'));
const Rollouts = lazy(() => import('./pages/Rollouts'));
const Reveal = lazy(() => import('./pages/Reveal'));
const Rollout = lazy(() => import('./pages/Rollout'));
const Approvals = lazy(() => import('./pages/Approvals'));
const ServiceAccounts = lazy(() => import('./pages/ServiceAccounts'));
const Users = lazy(() => import('./pages/Users'));
const Organisations = lazy(() => import('./pages/Organisations'));
const Tenants = lazy(() => import('./pages/Tenants'));
const ServiceLevel = lazy(() => import('./pages/ServiceLevel'));
const CapacityPlan = lazy(() => import('./pages/CapacityPlan'));
const Engines = lazy(() => import('./pages/Engines'));
const System = lazy(() => import('./pages/System'));

function newRouter() {
  return createBrowserRouter(
    [
      {
        element: <Shell />,
        children: [
          { path: '/', element: <Home /> },
          { path: '/playground', element: <Playground /> },
          { path: '/batches', element: <Batches /> },
          { path: '/keys', element: <Keys /> },
          { path: '/users', element: <Users /> },
          { path: '/service-accounts', element: <ServiceAccounts /> },
          { path: '/organisations', element: <Organisations /> },
          { path: '/tenants', element: <Tenants /> },
          { path: '/usage', element: <Usage /> },
          { path: '/costs', element: <Costs /> },
          { path: '/knowledge', element: <Knowledge /> },
          { path: '/audit', element: <Audit /> },
          { path: '/provenance', element: <Provenance /> },
          { path: '/compliance', element: <Compliance /> },
          { path: '/reveal', element: <Reveal /> },
          { path: '/approvals', element: <Approvals /> },
          { path: '/policies', element: <Policies /> },
          { path: '/label-agreements', element: <LabelAgreements /> },
          { path: '/rollouts', element: <Rollouts /> },
          { path: '/rollouts/:id', element: <Rollout /> },
          { path: '/service-level', element: <ServiceLevel /> },
          { path: '/capacity', element: <CapacityPlan /> },
          { path: '/engines', element: <Engines /> },
          { path: '/system', element: <System /> },
          { path: '*', element: <Navigate to="/" replace /> },
        ],
      },
    ],
    { basename: new URL(document.baseURI).pathname.replace(/\/$/, '') || '/' },
  );
}

function newQueryClient() {
  return new QueryClient({
    defaultOptions: {
      queries: {
        staleTime: 10_000,
        refetchOnWindowFocus: false, // nothing refreshes unasked, except what says so
        retry: (failures, error) => failures < 2 && ['client_network', 'client_reply'].includes(toApiError(error).code),
      },
    },
  });
}

// Contrast on the tinted backgrounds of tags and menus is at least 4.5:1 with these; the kit's own colours are paler.
const lightTokens = {
  colorPrimary: '#1d5fd1',
  colorPrimaryHover: '#174fb0', // darker, where the kit's is paler: white on it stays readable
  colorInfo: '#1d5fd1',
  colorLink: '#1d5fd1',
  colorLinkHover: '#174fb0',
  colorSuccess: '#237a14',
  colorSuccessBg: '#f0faeb',
  colorSuccessBorder: '#b5dfa5',
  colorWarning: '#9a5b00',
  colorWarningBg: '#fff8e6',
  colorWarningBorder: '#f2d795',
  colorError: '#c5221f',
  colorErrorHover: '#a31b18',
  colorErrorBg: '#fff2f0',
  colorErrorBorder: '#f5bdb8',
  colorTextDescription: '#5f5f5f',
  colorTextTertiary: '#5f5f5f',
  colorTextPlaceholder: '#6b6b6b',
  borderRadius: 6,
};
const darkTokens = {
  colorPrimary: '#437de0',
  colorPrimaryHover: '#3467c4',
  colorInfo: '#7fb0ff',
  colorLink: '#7fb0ff',
  colorLinkHover: '#9cc2ff',
  colorSuccess: '#58c322',
  colorWarning: '#e8a21c',
  colorError: '#ff7373',
  colorErrorHover: '#ff9494',
  colorTextDescription: '#a6a6a6',
  colorTextTertiary: '#a6a6a6',
  colorTextPlaceholder: '#909090',
  borderRadius: 6,
};
const darkComponents = { Button: { dangerColor: '#2a0606' }, Menu: { itemSelectedColor: '#bcd4ff' }, Tabs: { itemSelectedColor: '#7fb0ff', itemHoverColor: '#9cc2ff' } };

export function App() {
  const [language] = useLanguage();
  const dark = useDark();
  const still = useMedia('(prefers-reduced-motion: reduce)');
  const [queries] = useState(newQueryClient);
  return (
    <ConfigProvider
      locale={language === 'zh' ? zhCN : enUS}
      button={{ autoInsertSpace: false }}
      theme={{ algorithm: dark ? theme.darkAlgorithm : theme.defaultAlgorithm, token: { ...(dark ? darkTokens : lightTokens), motion: !still }, components: dark ? darkComponents : {} }}
    >
      <Kit>
        <QueryClientProvider client={queries}>
          <Gate />
        </QueryClientProvider>
      </Kit>
    </ConfigProvider>
  );
}

function Gate() {
  const { status, me } = useSession();
  const [router] = useState(newRouter);
  const queries = useQueryClient();
  const user = me?.id;
  useEffect(() => (user === undefined ? undefined : () => queries.clear()), [queries, user]); // the next user must not see what the last one loaded; cleared later, it would be lost what the next one's page asks for as it opens
  if (isInvitation()) return <Invitation />; // whoever is signed in here is not the person who was invited
  if (status === 'unknown') return <Spin fullscreen />;
  if (status === 'in' && me?.must_change_password) return <FirstPassword />;
  if (status === 'in' && me?.second_factor?.must_enrol) return <FirstFactor />;
  return status === 'in' ? <RouterProvider router={router} /> : <Login />;
}
