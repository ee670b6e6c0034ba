import { Button, Flex, Input, Select } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import { useLabel } from '../i18n';
import type { MaskingRequest } from './MaskingResult';

const directions = ['request', 'passage', 'answer'] as const;
const channels = ['chat', 'completions', 'embeddings', 'rerank', 'score', 'search'] as const;

/** A text to be masked, where it comes from, and the kind of call. The text begins as given and is the user's own once it was changed. */
export function MaskingForm({ initial, button, busy, onPreview }: { initial: string; button: string; busy: boolean; onPreview: (request: MaskingRequest) => void }) {
  const { t } = useTranslation();
  const label = useLabel();
  const [own, setOwn] = useState<string>();
  const [direction, setDirection] = useState<MaskingRequest['direction']>('request');
  const [channel, setChannel] = useState<MaskingRequest['channel']>();
  const text = own ?? initial;
  const submit = () => text.trim() && onPreview({ text, direction, channel });
  return (
    <Flex vertical gap={8}>
      <Input.TextArea
        aria-label={t('masking.text')}
        placeholder={t('masking.placeholder')}
        autoSize={{ minRows: 3, maxRows: 10 }}
        value={text}
        onChange={(e) => setOwn(e.target.value)}
        onPressEnter={(e) => {
          if (!e.ctrlKey && !e.metaKey) return;
          e.preventDefault();
          submit();
        }}
        maxLength={16384}
      />
      <Flex gap={8} wrap>
        <Select
          aria-label={t('masking.direction')}
          style={{ flex: '1 1 180px', maxWidth: 260 }}
          value={direction}
          onChange={setDirection}
          options={directions.map((d) => ({ value: d, label: label('way', d) }))}
        />
        <Select
          aria-label={t('masking.channel')}
          placeholder={t('masking.anyChannel')}
          allowClear
          style={{ flex: '1 1 180px', maxWidth: 260 }}
          value={channel}
          onChange={setChannel}
          options={channels.map((c) => ({ value: c, label: label('channel', c) }))}
        />
        <Button type="primary" onClick={submit} disabled={!text.trim()} loading={busy} title={t('masking.shortcut')}>
          {button}
        </Button>
      </Flex>
    </Flex>
  );
}
