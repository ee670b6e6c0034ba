import { DownloadOutlined, InboxOutlined } from '@ant-design/icons';
import { useMutation } from '@tanstack/react-query';
import { Alert, Button, Card, Col, Descriptions, Flex, Form, Input, Progress, Row, Tag, Typography, Upload } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { Link } from 'react-router';

import { api, call, type Schema } from '../api/client';
import { Failure } from '../components/Failure';
import { Page, Panel } from '../components/Panel';
import { Time } from '../components/Time';
import { useLabel, useLanguage } from '../i18n';
import { base64 } from '../lib/base64';
import { download } from '../lib/csv';
import { bytes, count, percent, time } from '../lib/format';

type Verdict = Schema['ProvenanceVerdict'];
type Mark = Schema['ProvenanceMark'];
type Question = Schema['ProvenanceQuestion'];

const kinds = ['label', 'credentials', 'signature', 'watermark', 'registry'] as const;

/** How a conclusion looks. The words say the same. */
const tones: Record<string, 'success' | 'error' | 'warning' | 'info'> = { unchanged: 'success', derived: 'success', wording: 'success', contradictory: 'error', other_text: 'error', other_file: 'error', hint: 'warning' };
const colours: Record<string, string> = { confirmed: 'success', partial: 'success', indicated: 'warning', refuted: 'error', foreign: 'processing' };

/** Says where a text comes from, by its five marks, and exports the evidence. Nothing of the text gets into the address. */
export default function Provenance() {
  const { t } = useTranslation();
  const [text, setText] = useState('');
  const [file, setFile] = useState<File>();
  const [signature, setSignature] = useState('');
  const question = async (): Promise<Question> => ({
    ...(file ? { name: file.name, content: await base64(file) } : { text }),
    ...(signature.trim() && { signature: signature.trim() }),
  });
  const judge = useMutation({
    mutationFn: async () => {
      const asked = await question();
      return { asked, verdict: await call(api.POST('/audit/provenance', { body: asked })) };
    },
    gcTime: 0,
  });
  const ready = file !== undefined || text.trim() !== '';
  return (
    <Page title={t('nav.provenance')} note={t('provenance.note')}>
      <Panel title={t('provenance.title')}>
        <Form layout="vertical" onFinish={() => judge.mutate()}>
          <Row gutter={16}>
            <Col xs={24} md={14}>
              <Form.Item label={t('provenance.text')} extra={t('provenance.textHelp')} htmlFor="provenance-text">
                <Input.TextArea id="provenance-text" rows={7} value={text} disabled={file !== undefined} onChange={(e) => setText(e.target.value)} />
              </Form.Item>
            </Col>
            <Col xs={24} md={10}>
              <Form.Item label={t('provenance.file')} extra={t('provenance.dropHelp')}>
                {file ? (
                  <Tag closable={{ 'aria-label': t('provenance.remove', { name: file.name }) }} onClose={() => setFile(undefined)} style={{ whiteSpace: 'normal' }}>
                    {file.name}
                  </Tag>
                ) : (
                  <Upload.Dragger
                    showUploadList={false}
                    beforeUpload={(chosen) => {
                      setFile(chosen);
                      return false;
                    }}
                  >
                    <InboxOutlined aria-hidden style={{ fontSize: 24 }} />
                    <div>{t('provenance.drop')}</div>
                  </Upload.Dragger>
                )}
              </Form.Item>
            </Col>
          </Row>
          <Form.Item label={t('provenance.signature')} extra={t('provenance.signatureHelp')} htmlFor="provenance-signature">
            <Input id="provenance-signature" value={signature} autoComplete="off" onChange={(e) => setSignature(e.target.value)} />
          </Form.Item>
          <Button type="primary" htmlType="submit" disabled={!ready} loading={judge.isPending}>
            {t('provenance.ask')}
          </Button>
        </Form>
      </Panel>
      {judge.error && <Failure error={judge.error} reveal />}
      {judge.data && <Shown verdict={judge.data.verdict} asked={judge.data.asked} />}
    </Page>
  );
}

function Shown({ verdict, asked }: { verdict: Verdict; asked: Question }) {
  const { t } = useTranslation();
  const label = useLabel();
  const [language] = useLanguage();
  return (
    <>
      <Panel title={t('provenance.conclusion')} extra={<Evidence asked={asked} />}>
        <Flex vertical gap={12}>
          <Alert
            type={tones[verdict.conclusion] ?? 'info'}
            showIcon
            role="status"
            data-testid="conclusion"
            title={<strong>{label('provenanceConclusion', verdict.conclusion)}</strong>}
            description={verdict.contradictions.length > 0 && <Points items={verdict.contradictions.map((c) => label('provenanceContradiction', c))} />}
          />
          <div>
            <Typography.Text strong>{t('provenance.limits')}</Typography.Text>
            <Points items={verdict.limits.map((l) => label('provenanceLimit', l))} />
          </div>
          <Descriptions
            size="small"
            column={{ xs: 1, md: 2 }}
            items={[
              { key: 'sha', label: t('provenance.sha'), span: 'filled', children: <Typography.Text code copyable style={{ wordBreak: 'break-all' }}>{verdict.subject.sha256}</Typography.Text> },
              { key: 'size', label: t('provenance.characters'), children: `${count(verdict.subject.characters, language)} (${bytes(verdict.subject.bytes, language)})` },
            ]}
          />
        </Flex>
      </Panel>
      <Panel title={t('provenance.marks')}>
        <Row gutter={[16, 16]}>
          {kinds.map((kind) => (
            <Col key={kind} xs={24} md={12}>
              <MarkCard kind={kind} mark={verdict.marks[kind]} />
            </Col>
          ))}
        </Row>
      </Panel>
      {verdict.requests.length > 0 && <Requests verdict={verdict} />}
    </>
  );
}

function Points({ items }: { items: string[] }) {
  return (
    <ul style={{ margin: '4px 0 0', paddingInlineStart: 20 }}>
      {items.map((i) => (
        <li key={i}>{i}</li>
      ))}
    </ul>
  );
}

function MarkCard({ kind, mark }: { kind: (typeof kinds)[number]; mark: Mark }) {
  const { t } = useTranslation();
  const label = useLabel();
  const [language] = useLanguage();
  const shared = (share: number) => t('provenance.share', { share: percent(share, language), verified: count(mark.verified_letters ?? 0, language), letters: count(mark.compared_letters ?? 0, language) });
  const details = [
    mark.code && t('provenance.code', { code: mark.code }),
    mark.producer && t('provenance.producer', { name: mark.producer }),
    mark.signer && t('provenance.signer', { name: mark.signer }),
    mark.log10_p !== undefined && t('provenance.p', { exponent: Math.ceil(mark.log10_p) }),
    mark.passage && t('provenance.passage', { begin: count(mark.passage.begin, language), end: count(mark.passage.end, language) }),
    mark.least_tokens !== undefined && t('provenance.counted', { counted: count(mark.counted_tokens ?? 0, language), least: count(mark.least_tokens, language) }),
    mark.since && t('provenance.since', { at: time(mark.since, language) }),
    mark.model,
  ].filter(Boolean);
  return (
    <Card size="small" style={{ height: '100%' }} data-testid={`mark-${kind}`} title={<h3 style={{ margin: 0, fontSize: 14 }}>{label('provenanceMark', kind)}</h3>} extra={<Tag color={colours[mark.result]}>{label('provenanceResult', mark.result)}</Tag>}>
      <Flex vertical gap={6}>
        <span>{label('provenanceReason', mark.reason)}</span>
        {mark.share !== undefined && (
          <div>
            <Progress percent={Math.floor(mark.share * 100)} showInfo={false} size="small" aria-label={shared(mark.share)} />
            <span>{shared(mark.share)}</span>
          </div>
        )}
        {details.map((d) => (
          <span key={String(d)}>{d}</span>
        ))}
        {mark.key && (
          <span>
            {t('provenance.key')} <Typography.Text code style={{ wordBreak: 'break-all' }}>{mark.key}</Typography.Text>
          </span>
        )}
        {mark.confidence !== 'none' && <Typography.Text type="secondary">{t('provenance.rests', { what: label('provenanceConfidence', mark.confidence) })}</Typography.Text>}
      </Flex>
    </Card>
  );
}

function Requests({ verdict }: { verdict: Verdict }) {
  const { t } = useTranslation();
  const label = useLabel();
  return (
    <Panel title={t('provenance.requests')}>
      <Flex vertical gap={12}>
        {verdict.requests.map((r) => (
          <Flex key={r.id} gap={12} wrap align="center">
            <Typography.Text code style={{ wordBreak: 'break-all' }}>{r.id}</Typography.Text>
            {r.time && r.records.length > 0 && <Time at={r.time} />}
            {r.model && <span>{[r.model, r.version].filter(Boolean).join(' ')}</span>}
            <Typography.Text type="secondary">
              {t('provenance.by')} {r.by.map((b) => label('provenanceMark', b)).join(', ')}
            </Typography.Text>
            {r.records.length > 0 ? <Link to={`/audit?request=${encodeURIComponent(r.id)}`}>{t('provenance.open')}</Link> : <span>{t('provenance.noRecords')}</span>}
          </Flex>
        ))}
        {verdict.more_requests && <Typography.Text type="secondary">{t('provenance.more')}</Typography.Text>}
      </Flex>
    </Panel>
  );
}

/** Has the evidence of the same question written, and saves it. */
function Evidence({ asked }: { asked: Question }) {
  const { t } = useTranslation();
  const save = useMutation({
    mutationFn: async () => {
      const pending = api.POST('/audit/provenance/evidence', { body: asked, parseAs: 'blob' });
      const content = (await call(pending)) as unknown as Blob;
      const name = /filename="([^"]+)"/.exec((await pending).response.headers.get('content-disposition') ?? '')?.[1] ?? 'origin.zip';
      download(name, 'application/zip', content);
      return name;
    },
    gcTime: 0,
  });
  return (
    <Flex gap={8} align="center" wrap>
      {save.data && (
        <Typography.Text type="secondary" role="status">
          {t('provenance.saved', { name: save.data })}
        </Typography.Text>
      )}
      {save.error && <Failure error={save.error} />}
      <Button size="small" icon={<DownloadOutlined aria-hidden />} loading={save.isPending} onClick={() => save.mutate()} title={t('provenance.evidenceHelp')}>
        {t('provenance.evidence')}
      </Button>
    </Flex>
  );
}
