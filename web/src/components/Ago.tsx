import { Typography } from 'antd';
import { useState } from 'react';

import { useLanguage } from '../i18n';
import { ago } from '../lib/format';
import { Time } from './Time';

/** How long ago something was, and when exactly. */
export function Ago({ at }: { at: string }) {
  const [language] = useLanguage();
  const [now] = useState(Date.now); // when the page was opened
  return (
    <span style={{ whiteSpace: 'nowrap' }}>
      {ago(now - new Date(at).getTime(), language)}
      <br />
      <Typography.Text type="secondary" style={{ fontSize: 12 }}>
        <Time at={at} />
      </Typography.Text>
    </span>
  );
}
