import { Collapse, Descriptions } from 'antd';
import { useTranslation } from 'react-i18next';

import { useLabel } from '../i18n';
import { actions } from '../lib/findings';

/** What each action of a policy does. */
export function ActionHelp() {
  const { t } = useTranslation();
  const label = useLabel();
  return (
    <Collapse
      size="small"
      items={[
        {
          key: 'actions',
          label: t('policy.actions'),
          children: <Descriptions size="small" column={1} items={actions.map((a) => ({ key: a, label: label('finding', a), children: label('does', a) }))} />,
        },
      ]}
    />
  );
}
