import { DownloadOutlined } from '@ant-design/icons';
import { useMutation } from '@tanstack/react-query';
import { Button, Dropdown } from 'antd';
import { useTranslation } from 'react-i18next';

import { api, call, type Schema } from '../api/client';
import { useLanguage } from '../i18n';
import type { Turn } from '../lib/conversation';
import { download } from '../lib/csv';
import { Failure } from './Failure';

const formats = ['md', 'docx', 'pdf', 'txt', 'json'] as const;

/** Saves the answered turns as a file that the server makes, with the label of the last answer. The console makes none itself, so no file is without it. */
export function ExportConversation({ turns }: { turns: Turn[] }) {
  const { t } = useTranslation();
  const [language] = useLanguage();
  const done = turns.filter((turn) => turn.state === 'done' && turn.extension?.label);
  const label = (done.at(-1)?.extension?.label as { AIGC?: Schema['AIGC'] } | undefined)?.AIGC;
  const save = useMutation({
    mutationFn: async (format: (typeof formats)[number]) => {
      const body = {
        format,
        label: label!,
        turns: done.flatMap((turn) => [{ role: 'user' as const, text: turn.question }, { role: 'assistant' as const, text: turn.answer }]),
      };
      const content = (await call(api.POST('/labels/answers', { body, headers: { 'Accept-Language': language }, parseAs: 'blob' }))) as unknown as Blob;
      download(`${label!.ProduceID}.${format}`, 'application/octet-stream', content);
    },
  });
  return (
    <>
      <Dropdown disabled={!label} trigger={['click']} menu={{ items: formats.map((f) => ({ key: f, label: t('playground.exportAs', { format: f.toUpperCase() }) })), onClick: ({ key }) => save.mutate(key as (typeof formats)[number]) }}>
        <Button type="text" icon={<DownloadOutlined aria-hidden />} aria-label={t('playground.export')} title={t('playground.export')} loading={save.isPending} disabled={!label} />
      </Dropdown>
      {save.error && <Failure error={save.error} />}
    </>
  );
}
