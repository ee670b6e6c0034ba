import { CheckOutlined } from '@ant-design/icons';
import { Flex, Skeleton, Typography } from 'antd';
import { useTranslation } from 'react-i18next';

import type { Schema } from '../api/client';
import { useLabel } from '../i18n';

/** Which role may do what, and which roles exclude each other. */
export function RoleMatrix({ roles }: { roles: Schema['Role'][] | undefined }) {
  const { t } = useTranslation();
  const label = useLabel();
  if (!roles) return <Skeleton active />;
  const excluded = (r: Schema['Role']) => {
    if (r.conflicts.length === 0) return t('users.conflictsNone');
    if (r.conflicts.length === roles.length - 1) return t('users.conflictsAll');
    return r.conflicts.map((c) => <div key={c}>{label('role', c)}</div>);
  };
  const permissions = [...new Set(roles.flatMap((r) => r.permissions))];
  return (
    <Flex vertical gap={12}>
      <Typography.Text type="secondary">{t('users.matrixNote')}</Typography.Text>
      <div className="matrix" role="region" aria-label={t('users.permission')} tabIndex={0}>
        <table>
          <thead>
            <tr>
              <th scope="col">{t('users.permission')}</th>
              {roles.map((r) => (
                <th key={r.name} scope="col">
                  {label('role', r.name)}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            <tr>
              <th scope="row">{t('users.conflicts')}</th>
              {roles.map((r) => (
                <td key={r.name}>{excluded(r)}</td>
              ))}
            </tr>
            {permissions.map((p) => (
              <tr key={p}>
                <th scope="row">
                  {label('permission', p)} <Typography.Text type="secondary">{p}</Typography.Text>
                </th>
                {roles.map((r) => (
                  <td key={r.name}>{r.permissions.includes(p) ? <CheckOutlined aria-label={t('users.granted')} /> : <span aria-label={t('users.notGranted')}>–</span>}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Flex>
  );
}
