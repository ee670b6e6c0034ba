import { ClearOutlined, PauseCircleOutlined, SendOutlined } from '@ant-design/icons';
import { useQuery } from '@tanstack/react-query';
import { Button, Col, Empty, Flex, Input, InputNumber, Row, Select, Tabs } from 'antd';
import { useEffect, useRef, useState } from 'react';
import { useTranslation } from 'react-i18next';

import { api, call } from '../api/client';
import { ExportConversation } from '../components/ExportConversation';
import { Failure } from '../components/Failure';
import { MaskingPreview } from '../components/MaskingPreview';
import { Page, Panel } from '../components/Panel';
import { PurposeChoice } from '../components/PurposeChoice';
import { Governance, TurnView } from '../components/TurnView';
import { useConversation } from '../lib/conversation';
import { useMay } from '../lib/me';
import { usePurpose } from '../lib/purpose';
import { useFilters } from '../lib/url';

export default function Playground() {
  const { t } = useTranslation();
  const mayRag = useMay('rag.read');
  const mayPreview = useMay('masking.preview');
  const [f, setFilters] = useFilters({ view: 'chat' });
  const [model, setModel] = useState<string>();
  const [collection, setCollection] = useState<string>();
  const [maxTokens, setMaxTokens] = useState<number | null>(256);
  const [temperature, setTemperature] = useState<number | null>(null);
  const [draft, setDraft] = useState('');
  const { turns, ask, stop, clear, busy } = useConversation();
  const models = useQuery({ queryKey: ['playground-models'], queryFn: () => call(api.GET('/playground/models')) });
  const collections = useQuery({ queryKey: ['collections'], queryFn: () => call(api.GET('/rag/collections')), enabled: mayRag });
  const chosen = model ?? models.data?.items[0];
  const end = useRef<HTMLDivElement>(null);
  const last = turns.at(-1);
  const purpose = usePurpose();
  useEffect(() => {
    end.current?.scrollIntoView({ block: 'nearest' }); // newer browsers return a promise here, which is no clean-up
  }, [last?.answer, turns.length]);
  useEffect(() => stop, [stop]); // leaving the page stops the model

  const send = () => {
    const question = draft.trim();
    if (!question || busy || !chosen || !purpose.ready) return;
    setDraft('');
    void ask(
      question,
      { model: chosen, max_tokens: maxTokens ?? undefined, temperature: temperature ?? undefined, rag: collection ? { collection } : undefined },
      turns,
      purpose.header,
    );
  };

  const conversation = (
    <Row gutter={[16, 16]}>
      <Col xs={24} xl={15}>
        <Panel>
          <Flex gap={8} wrap align="center" style={{ marginBottom: 8 }}>
            <Select
              aria-label={t('playground.model')}
              placeholder={t('playground.model')}
              style={{ minWidth: 170 }}
              loading={models.isPending}
              value={chosen}
              onChange={setModel}
              options={models.data?.items.map((m) => ({ value: m, label: m }))}
            />
            {mayRag && (
              <Select
                aria-label={t('playground.collection')}
                placeholder={t('playground.collection')}
                allowClear
                style={{ minWidth: 150 }}
                value={collection}
                onChange={setCollection}
                options={collections.data?.items.map((c) => ({ value: c.name, label: c.title || c.name }))}
                notFoundContent={t('playground.noCollections')}
              />
            )}
            <PurposeChoice purpose={purpose} failed={last?.error} />
            <InputNumber aria-label={t('playground.maxTokens')} prefix={t('playground.maxTokens')} min={1} precision={0} value={maxTokens} onChange={setMaxTokens} style={{ width: 140 }} />
            <InputNumber aria-label={t('playground.temperature')} prefix={t('playground.temperature')} min={0} max={2} step={0.1} value={temperature} onChange={setTemperature} style={{ width: 104 }} />
            <span style={{ marginInlineStart: 'auto' }}>
              <ExportConversation turns={turns} />
            </span>
            <Button
              type="text"
              icon={<ClearOutlined aria-hidden />}
              aria-label={t('playground.clear')}
              title={t('playground.clear')}
              onClick={clear}
              disabled={turns.length === 0}
            />
          </Flex>
          <Flex vertical gap={16} role="log" aria-label={t('playground.conversation')} style={{ height: '52vh', minHeight: 280, overflowY: 'auto', padding: 4 }}>
            {turns.length === 0 && <Empty image={Empty.PRESENTED_IMAGE_SIMPLE} description={t('playground.empty')} style={{ margin: 'auto' }} />}
            {turns.map((turn) => (
              <TurnView key={turn.id} turn={turn} />
            ))}
            <div ref={end} />
          </Flex>
          <Flex gap={8} align="flex-end" style={{ marginTop: 12 }}>
            <Input.TextArea
              aria-label={t('playground.message')}
              placeholder={t('playground.placeholder')}
              autoSize={{ minRows: 2, maxRows: 8 }}
              value={draft}
              onChange={(e) => setDraft(e.target.value)}
              onPressEnter={(e) => {
                if (e.shiftKey || e.nativeEvent.isComposing) return; // Enter inside an input method picks a word
                e.preventDefault();
                send();
              }}
            />
            {busy ? (
              <Button danger icon={<PauseCircleOutlined aria-hidden />} onClick={stop}>
                {t('playground.stop')}
              </Button>
            ) : (
              <Button type="primary" icon={<SendOutlined aria-hidden />} onClick={send} disabled={!draft.trim() || !chosen || !purpose.ready}>
                {t('playground.send')}
              </Button>
            )}
          </Flex>
        </Panel>
      </Col>
      <Col xs={24} xl={9}>
        <Panel title={t('playground.governance')}>
          <Governance turn={last} />
        </Panel>
      </Col>
    </Row>
  );

  return (
    <Page title={t('nav.playground')} note={t('playground.note')}>
      {models.error && <Failure error={models.error} retry={() => void models.refetch()} />}
      {mayPreview ? (
        <Tabs
          activeKey={f.view}
          onChange={(view) => setFilters({ view })}
          items={[
            { key: 'chat', label: t('playground.conversation'), children: conversation },
            { key: 'masking', label: t('playground.masking'), children: (
              <Panel>
                <MaskingPreview text={draft || last?.question || ''} />
              </Panel>
            ) },
          ]}
        />
      ) : (
        conversation
      )}
    </Page>
  );
}
