import { CheckCircleTwoTone, CloseCircleTwoTone, MinusCircleTwoTone, WarningTwoTone } from '@ant-design/icons';
import { Flex, Typography } from 'antd';

import type { Schema } from '../api/client';
import { useLabel } from '../i18n';

const marks = {
  ok: <CheckCircleTwoTone twoToneColor="#389e0d" />,
  degraded: <WarningTwoTone twoToneColor="#d48806" />,
  failed: <CloseCircleTwoTone twoToneColor="#cf1322" />,
  off: <MinusCircleTwoTone twoToneColor="#8c8c8c" />,
};

export function PartList({ parts }: { parts: Schema['SystemPart'][] }) {
  const label = useLabel();
  return (
    <Flex vertical gap={6} component="ul" style={{ listStyle: 'none', margin: 0, padding: 0 }}>
      {parts.map((p) => {
        const [part, ...names] = p.name.split(' '); // "engine native": what it is, and which one
        return (
          <li key={p.name}>
            <Flex gap={8} align="baseline">
              {marks[p.status]}
              <span style={{ minWidth: 110 }}>{[label('part', part!), ...names].join(' ')}</span>
              <span style={{ minWidth: 76 }}>{label('status', p.status)}</span>
              <Typography.Text type="secondary">{p.detail}</Typography.Text>
            </Flex>
          </li>
        );
      })}
    </Flex>
  );
}
