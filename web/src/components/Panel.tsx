import { Card, Flex, Typography } from 'antd';
import { useId, type ReactNode } from 'react';

import { ApiError } from '../api/errors';
import { Boundary, Failure } from './Failure';

const crash = new ApiError('client_crash', '');

/** A titled part of a page. It fails alone. */
export function Panel({ title, extra, children }: { title?: ReactNode; extra?: ReactNode; children: ReactNode }) {
  const id = useId();
  return (
    <Card role="region" aria-labelledby={title ? id : undefined} title={title && <h2 id={id}>{title}</h2>} extra={extra} size="small">
      <Boundary fallback={(retry) => <Failure error={crash} retry={retry} />}>{children}</Boundary>
    </Card>
  );
}

export function Page({ title, note, actions, children }: { title: string; note?: ReactNode; actions?: ReactNode; children: ReactNode }) {
  return (
    <Flex vertical gap={16}>
      <Flex justify="space-between" align="flex-start" gap={16} wrap>
        <div>
          <Typography.Title level={1} style={{ fontSize: 22, margin: 0 }}>
            {title}
          </Typography.Title>
          {note && <Typography.Text type="secondary">{note}</Typography.Text>}
        </div>
        <Flex gap={8} wrap>
          {actions}
        </Flex>
      </Flex>
      {children}
    </Flex>
  );
}
