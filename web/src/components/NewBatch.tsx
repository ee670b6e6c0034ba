import { useMutation } from '@tanstack/react-query';
import { Alert, Descriptions, Flex, Modal, Typography } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { useLanguage } from '../i18n';
import { type CheckedInput, checkInput } from '../lib/batchInput';
import { bytes, count } from '../lib/format';
import { usePurpose } from '../lib/purpose';
import { Failure } from './Failure';
import { PurposeChoice } from './PurposeChoice';

/** Takes a file of requests, says what is wrong with it before it is sent, and starts a batch of it. */
export function NewBatch({ onClose, onMade }: { onClose: () => void; onMade: (made: Schema['Batch']) => void }) {
  const { t } = useTranslation();
  const [language] = useLanguage();
  const purpose = usePurpose();
  const [file, setFile] = useState<File>();
  const [checked, setChecked] = useState<CheckedInput>();
  const run = useMutation({
    mutationFn: async () => {
      const form = new FormData();
      form.set('purpose', 'batch');
      form.set('file', file!);
      const stored = await call(api.POST('/batches/files', { body: form as never, bodySerializer: (body: unknown) => body as FormData }));
      return call(api.POST('/batches', { params: { header: purpose.header }, body: { file: stored.id, endpoint: checked!.endpoint as Schema['NewBatch']['endpoint'] } }));
    },
    onSuccess: onMade,
    gcTime: 0,
  });
  const choose = async (chosen: File | undefined) => {
    run.reset();
    setFile(chosen);
    setChecked(chosen ? checkInput(await chosen.text()) : undefined);
  };
  const good = checked !== undefined && checked.problems.length === 0 && checked.endpoint !== undefined;
  return (
    <Modal
      open
      width={640}
      title={t('batches.new')}
      onCancel={onClose}
      mask={{ closable: false }}
      okText={t('batches.start')}
      okButtonProps={{ disabled: !good || !purpose.ready, loading: run.isPending }}
      onOk={() => run.mutate()}
    >
      <Flex vertical gap={16}>
        <Typography.Text>{t('batches.newNote')}</Typography.Text>
        <label>
          {t('batches.file')}{' '}
          <input type="file" accept=".jsonl,application/jsonl,application/x-ndjson" disabled={run.isPending} onChange={(e) => void choose(e.target.files?.[0])} />
        </label>
        <PurposeChoice purpose={purpose} failed={run.error} />
        {file && checked && good && (
          <Alert
            type="success"
            showIcon
            role="status"
            title={t('batches.checked')}
            description={
              <Descriptions
                size="small"
                column={1}
                items={[
                  { key: 'lines', label: t('batches.lines'), children: `${count(checked.lines, language)} · ${bytes(file.size, language)}` },
                  { key: 'endpoint', label: t('batches.endpoint'), children: <Typography.Text code>{checked.endpoint}</Typography.Text> },
                  { key: 'models', label: t('batches.model'), children: checked.models.join(', ') },
                ]}
              />
            }
          />
        )}
        {checked && !good && (
          <Alert
            type="error"
            showIcon
            role="alert"
            title={t('batches.wrongFile')}
            description={
              <ul style={{ margin: 0, paddingInlineStart: 18 }}>
                {checked.problems.map((p) => (
                  <li key={p.line + p.code}>
                    {p.line > 0 && <strong>{t('batches.line', { line: p.line })} </strong>}
                    {t(`batches.problem.${p.code}`)}
                  </li>
                ))}
              </ul>
            }
          />
        )}
        {run.error && <Failure error={run.error} reveal />}
      </Flex>
    </Modal>
  );
}
