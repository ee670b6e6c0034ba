import { Flex, Form, Modal, Select, Skeleton } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import type { Schema } from '../api/client';
import { Failure } from './Failure';
import { usePolicy } from './PublishPolicy';
import { TextDiff } from './TextDiff';

type Policy = Schema['Policy'];

/** The difference between any two versions. */
export function ComparePolicies({ versions, chosen, onClose }: { versions: Policy[]; chosen: Policy; onClose: () => void }) {
  const { t } = useTranslation();
  const at = versions.indexOf(chosen);
  const [from, setFrom] = useState(versions[at + 1]?.name ?? versions.find((p) => p !== chosen)?.name ?? chosen.name);
  const [to, setTo] = useState(chosen.name);
  const named = (name: string) => versions.find((p) => p.name === name);
  const older = usePolicy(named(from));
  const newer = usePolicy(named(to));
  const options = versions.map((p) => ({ value: p.name, label: p.active ? `${p.name} · ${t('policy.active')}` : p.name }));
  const error = older.error ?? newer.error;
  return (
    <Modal open width={860} title={t('policy.compare')} onCancel={onClose} footer={null}>
      <Form layout="vertical">
        <Flex gap={12} wrap>
          <Form.Item label={t('policy.compareFrom')} htmlFor="compare-from" style={{ flex: 1, minWidth: 200 }}>
            <Select id="compare-from" value={from} onChange={setFrom} options={options} />
          </Form.Item>
          <Form.Item label={t('policy.compareTo')} htmlFor="compare-to" style={{ flex: 1, minWidth: 200 }}>
            <Select id="compare-to" value={to} onChange={setTo} options={options} />
          </Form.Item>
        </Flex>
      </Form>
      {error ? <Failure error={error} /> : older.data && newer.data ? <TextDiff from={older.data.yaml ?? ''} to={newer.data.yaml ?? ''} label={`${from} → ${to}`} /> : <Skeleton active />}
    </Modal>
  );
}
