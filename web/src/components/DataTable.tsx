import { DownloadOutlined, ReloadOutlined } from '@ant-design/icons';
import { Button, Empty, Flex, Table, Typography } from 'antd';
import { type ReactNode, useEffect, useRef } from 'react';
import { useTranslation } from 'react-i18next';

import { useLanguage } from '../i18n';
import { downloadCsv } from '../lib/csv';
import { time, zone } from '../lib/format';
import { Failure } from './Failure';

export interface Column<T> {
  key: string;
  title: string;
  render: (row: T) => ReactNode;
  csv?: (row: T) => string | number; // absent: not exported
  align?: 'right';
  width?: number;
  fixed?: 'right'; // stays in view when a wide table is scrolled: for actions
}

interface Props<T> {
  name: string; // accessible name, and file name of the export
  columns: Column<T>[];
  rows: T[] | undefined;
  rowKey: (row: T) => string;
  loading?: boolean;
  error?: unknown;
  reload?: () => void;
  empty?: ReactNode;
  asOf?: string;
  total?: T; // a last row that sums up; the server computed it
  pages?: { older?: () => void; newest?: () => void };
  onOpen?: (row: T) => void;
}

/** The one table of the console: states, reload, export and keyset paging are the same everywhere. */
export function DataTable<T extends object>(props: Props<T>) {
  const { t } = useTranslation();
  const [language] = useLanguage();
  const { columns, rows, total } = props;
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const content = box.current?.querySelector('.ant-table-content'); // a wide table is scrolled with the keyboard too
    content?.setAttribute('tabindex', '0');
  }, []);
  const exported = columns.filter((c) => c.csv);
  const save = () => {
    const all = total ? [...(rows ?? []), total] : (rows ?? []);
    downloadCsv(props.name, [exported.map((c) => c.title), ...all.map((row) => exported.map((c) => c.csv!(row)))]);
  };
  return (
    <div ref={box} role="group" aria-label={props.name}>
      {props.error ? <Failure error={props.error} retry={props.reload} /> : null}
      <Table<T>
        size="small"
        scroll={{ x: 'max-content' }}
        columns={columns.map((c) => ({ ...c, render: (_: unknown, row: T) => c.render(row) }))}
        dataSource={rows ?? []}
        rowKey={props.rowKey}
        loading={props.loading}
        pagination={false}
        locale={{ emptyText: props.loading || props.error ? ' ' : <Empty image={Empty.PRESENTED_IMAGE_SIMPLE} description={props.empty ?? t('table.empty')} /> }}
        onRow={(row) => (props.onOpen ? { onClick: () => props.onOpen!(row), style: { cursor: 'pointer' } } : {})}
        summary={() =>
          total && rows?.length ? (
            <Table.Summary.Row>
              {columns.map((c, i) => (
                <Table.Summary.Cell key={c.key} index={i} align={c.align}>
                  <strong>{c.render(total)}</strong>
                </Table.Summary.Cell>
              ))}
            </Table.Summary.Row>
          ) : null
        }
      />
      <Flex justify="space-between" align="center" gap={8} wrap style={{ marginTop: 8 }}>
        <Typography.Text type="secondary" style={{ fontSize: 12 }}>
          {props.asOf && t('table.asOf', { time: time(props.asOf, language), zone: zone() })}
        </Typography.Text>
        <Flex gap={8}>
          {props.pages && (
            <>
              <Button size="small" disabled={!props.pages.newest} onClick={props.pages.newest}>
                {t('table.newest')}
              </Button>
              <Button size="small" disabled={!props.pages.older} onClick={props.pages.older}>
                {t('table.older')}
              </Button>
            </>
          )}
          {props.reload && (
            <Button size="small" icon={<ReloadOutlined aria-hidden />} onClick={props.reload}>
              {t('table.reload')}
            </Button>
          )}
          {exported.length > 0 && (
            <Button size="small" icon={<DownloadOutlined aria-hidden />} onClick={save} disabled={!rows?.length}>
              {t('table.csv')}
            </Button>
          )}
        </Flex>
      </Flex>
    </div>
  );
}
