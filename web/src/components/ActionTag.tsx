import { Tag } from 'antd';
import type { ReactNode } from 'react';

import { useLabel } from '../i18n';
import { done } from '../lib/findings';

const colors: Record<string, string> = { block: 'error', token: 'blue' };

/** What was done to a value, under the one name that it has on every page; or another text in its colour. */
export function ActionTag({ action, title, children }: { action: string; title?: string; children?: ReactNode }) {
  const label = useLabel();
  return (
    <Tag color={colors[done(action)] ?? 'default'} title={title}>
      {children ?? label('finding', done(action))}
    </Tag>
  );
}
