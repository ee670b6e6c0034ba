import { DownloadOutlined } from '@ant-design/icons';
import { useMutation } from '@tanstack/react-query';
import { Button, DatePicker, Flex, Typography } from 'antd';
import dayjs from 'dayjs';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import { api, call } from '../api/client';
import { useLanguage } from '../i18n';
import { download } from '../lib/csv';
import { Failure } from './Failure';
import { Panel } from './Panel';

const formats = ['pdf', 'docx', 'csv', 'json', 'focus'] as const;
type Format = (typeof formats)[number];

/** The statement of a month, to file or to hand on. Until the month is closed it is provisional, and says so itself. */
export function StatementPanel() {
  const { t } = useTranslation();
  const [language] = useLanguage();
  const [month, setMonth] = useState(() => dayjs().format('YYYY-MM'));
  const file = useMutation({
    mutationFn: async (format: Format) => {
      const content = (await call(
        api.GET('/billing/statements/{month}', { params: { path: { month }, query: { format } }, headers: { 'Accept-Language': language }, parseAs: 'blob' }),
      )) as unknown as Blob;
      download(`statement-${month}.${format === 'focus' ? 'focus.csv' : format}`, content.type, content);
    },
  });
  return (
    <Panel title={t('statement.title')}>
      <Flex gap={8} align="center" wrap>
        <DatePicker
          picker="month"
          aria-label={t('statement.month')}
          allowClear={false}
          maxDate={dayjs()}
          value={dayjs(`${month}-01`)}
          onChange={(m) => m && setMonth(m.format('YYYY-MM'))}
        />
        {formats.map((format) => (
          <Button
            key={format}
            icon={<DownloadOutlined aria-hidden />}
            aria-label={t('statement.download', { month, format: format.toUpperCase() })}
            loading={file.isPending && file.variables === format}
            onClick={() => file.mutate(format)}
          >
            {format.toUpperCase()}
          </Button>
        ))}
      </Flex>
      <Typography.Paragraph type="secondary" style={{ marginBlock: 8 }}>
        {t('statement.note')}
      </Typography.Paragraph>
      {file.error && <Failure error={file.error} />}
    </Panel>
  );
}
