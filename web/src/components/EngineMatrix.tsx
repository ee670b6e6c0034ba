import { Button, Checkbox, Empty, Flex, Popover, Select, Typography } from 'antd';
import { type ReactNode, useState } from 'react';
import { useTranslation } from 'react-i18next';

import type { Schema } from '../api/client';
import { useLabel, useLanguage } from '../i18n';
import { count } from '../lib/format';
import { type Cell, cellOf, type Filter, filterFeatures, filterRows, groupOf, groups, type Shown, shownAs, modeCell, nameOf, type Row, rowKey } from '../lib/matrix';

const nothing: Filter = { features: [], usable: false };
const signs: Record<Shown, string> = { measured: '✓', claimed: '○', listed: '◦', depends: '?', no: '–' };

/** What each instance can do: features downwards, instances across, and in each cell how well it is known. */
export function EngineMatrix({ matrix }: { matrix: Schema['EngineMatrix'] }) {
  const { t } = useTranslation();
  const [filter, setFilter] = useState(nothing);
  const rows = filterRows(matrix.rows, filter);
  const features = filterFeatures(matrix.features, rows, filter);
  if (matrix.rows.length === 0) return <Empty image={Empty.PRESENTED_IMAGE_SIMPLE} description={t('engines.empty')} />;
  return (
    <Flex vertical gap={12}>
      <Filters matrix={matrix} filter={filter} onChange={setFilter} />
      {rows.length > 0 && features.length > 0 ? (
        <Table rows={rows} features={features} />
      ) : (
        <Empty image={Empty.PRESENTED_IMAGE_SIMPLE} description={t('engines.noMatch')}>
          <Button onClick={() => setFilter(nothing)}>{t('engines.clear')}</Button>
        </Empty>
      )}
      <Legend />
    </Flex>
  );
}

function Filters({ matrix, filter, onChange }: { matrix: Schema['EngineMatrix']; filter: Filter; onChange: (f: Filter) => void }) {
  const { t } = useTranslation();
  const label = useLabel();
  const plain = (all: (string | undefined)[]) => [...new Set(all)].filter((v) => v !== undefined).map((v) => ({ value: v, label: v }));
  return (
    <Flex gap={8} wrap align="center">
      <Select
        aria-label={t('engines.pool')} placeholder={t('engines.pool')} allowClear style={{ minWidth: 140 }}
        value={filter.pool} options={plain(matrix.rows.map((r) => r.pool))} onChange={(pool) => onChange({ ...filter, pool })}
      />
      <Select
        aria-label={t('engines.vendor')} placeholder={t('engines.vendor')} allowClear style={{ minWidth: 160 }}
        value={filter.vendor} options={plain(matrix.rows.map((r) => r.device?.vendor))} onChange={(vendor) => onChange({ ...filter, vendor })}
      />
      <FeatureSelect name={t('engines.features')} all={matrix.features} value={filter.features} onChange={(features) => onChange({ ...filter, features })} label={(f) => label('feature', f)} />
      <Checkbox checked={filter.usable} onChange={(e) => onChange({ ...filter, usable: e.target.checked })}>
        {t('engines.usableNow')}
      </Checkbox>
    </Flex>
  );
}

/** Chooses features by their names or ids. */
export function FeatureSelect(props: { name: string; all: string[]; value: string[]; onChange: (features: string[]) => void; label: (feature: string) => string }) {
  const { t } = useTranslation();
  return (
    <Select
      mode="multiple" aria-label={props.name} placeholder={props.name} allowClear maxTagCount="responsive" style={{ minWidth: 220, maxWidth: '100%', flex: '1 1 220px' }}
      value={props.value} onChange={props.onChange}
      showSearch={{ filterOption: (text, o) => `${o?.label} ${(o as { value?: string } | undefined)?.value}`.toLowerCase().includes(text.toLowerCase()) }}
      options={groups
        .map((g) => ({ label: t(`engines.groups.${g}`), options: props.all.filter((f) => groupOf(f) === g).map((f) => ({ value: f, label: props.label(f) })) }))
        .filter((g) => g.options.length > 0)}
    />
  );
}

function Table({ rows, features }: { rows: Row[]; features: string[] }) {
  const { t } = useTranslation();
  const label = useLabel();
  const modes = [...new Set(rows.flatMap((r) => r.modes.map((m) => m.mode)))].sort();
  return (
    <div className="matrix engines" role="region" aria-label={t('engines.table')} tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th scope="col">{t('engines.feature')}</th>
            {rows.map((r) => (
              <th key={rowKey(r)} scope="col">
                <div>{nameOf(r)}</div>
                <Typography.Text type="secondary">{r.model}</Typography.Text>
              </th>
            ))}
          </tr>
        </thead>
        <Facts rows={rows} />
        {modes.length > 0 && (
          <Section title={t('engines.modes')} columns={rows.length + 1}>
            {modes.map((m) => (
              <Line key={m} name={label('executionMode', m)} id={m} rows={rows} cell={(r) => modeCell(r, m)} />
            ))}
          </Section>
        )}
        {groups.map((g) => {
          const of = features.filter((f) => groupOf(f) === g);
          return of.length === 0 ? null : (
            <Section key={g} title={t(`engines.groups.${g}`)} columns={rows.length + 1}>
              {of.map((f) => (
                <Line key={f} name={label('feature', f)} id={f} rows={rows} cell={(r) => cellOf(r, f)} />
              ))}
            </Section>
          );
        })}
      </table>
    </div>
  );
}

function Section({ title, columns, children }: { title: string; columns: number; children: ReactNode }) {
  return (
    <tbody>
      <tr className="group">
        <th scope="rowgroup" colSpan={columns}>
          <span>{title}</span>
        </th>
      </tr>
      {children}
    </tbody>
  );
}

/** What is known of each instance as a whole. */
function Facts({ rows }: { rows: Row[] }) {
  const { t } = useTranslation();
  const label = useLabel();
  const [language] = useLanguage();
  const unknown = t('engines.unknown');
  const lines: { name: string; of: (r: Row) => ReactNode }[] = [
    { name: t('engines.state'), of: (r) => t(`instances.states.${r.state as Schema['Instance']['state']}`) },
    { name: t('engines.engine'), of: (r) => [r.engine ?? r.profile, r.version].filter(Boolean).join(' ') || unknown },
    { name: t('engines.device'), of: (r) => [r.device?.vendor, r.device?.family, r.device?.generation].filter(Boolean).join(' ') || unknown },
    { name: t('engines.context'), of: (r) => (r.context_tokens ? count(r.context_tokens, language) : unknown) },
    { name: t('engines.roles'), of: (r) => r.roles?.map((x) => label('engineRole', x)).join(', ') ?? unknown },
    { name: t('engines.licence'), of: (r) => r.licence ?? unknown },
    { name: t('engines.restsOn'), of: (r) => label('restsOn', r.evidence) },
  ];
  return (
    <tbody>
      {lines.map((l) => (
        <tr key={l.name}>
          <th scope="row">{l.name}</th>
          {rows.map((r) => (
            <td key={rowKey(r)}>{l.of(r)}</td>
          ))}
        </tr>
      ))}
    </tbody>
  );
}

function Line({ name, id, rows, cell }: { name: string; id: string; rows: Row[]; cell: (r: Row) => Cell }) {
  return (
    <tr>
      <th scope="row" title={id}>
        {name}
      </th>
      {rows.map((r) => (
        <td key={rowKey(r)}>
          <CellButton name={name} row={r} cell={cell(r)} />
        </td>
      ))}
    </tr>
  );
}

function CellButton({ name, row, cell }: { name: string; row: Row; cell: Cell }) {
  const label = useLabel();
  const [open, setOpen] = useState(false);
  const shown = shownAs(cell);
  const grade = shown === 'no' || shown === 'listed' ? '' : ` ${cell.grade}`;
  return (
    <Popover
      trigger="click" open={open} onOpenChange={setOpen} destroyOnHidden getPopupContainer={(b) => b.closest('main') ?? document.body}
      title={`${name} · ${nameOf(row)}`} content={<Detail row={row} cell={cell} />}
    >
      <button
        type="button" className={`cell ${shown}`} aria-expanded={open} aria-label={`${name}, ${nameOf(row)}, ${row.model}: ${label('cellShown', shown)}${grade}`}
        onKeyDown={(e) => e.key === 'Escape' && setOpen(false)}
      >
        <span aria-hidden>
          {signs[shown]}
          {grade}
        </span>
      </button>
    </Popover>
  );
}

/** All that is known of a cell. */
function Detail({ row, cell }: { row: Row; cell: Cell }) {
  const { t } = useTranslation();
  const label = useLabel();
  const lines: [string, string | undefined][] = [
    [t('engines.usable'), label('cellUsable', cell.usable)],
    [t('engines.why'), cell.why && label('cellWhy', cell.why)],
    [t('engines.status'), label('cellStatus', cell.status)],
    [t('engines.grade'), `${cell.grade} · ${label('grade', cell.grade)}`],
    [t('engines.fallback'), cell.when ? label('fallback', cell.fallback ?? 'unknown') : undefined],
    [t('engines.owner'), cell.owner && label('guarantor', cell.owner)],
    [t('engines.source'), cell.source],
    [t('engines.version'), row.version],
    [t('engines.note'), cell.note],
  ];
  return (
    <dl className="cell-detail">
      {cell.when && (
        <div>
          <dt>{t('engines.condition')}</dt>
          <dd>
            <Typography.Text code>{cell.when}</Typography.Text>
          </dd>
        </div>
      )}
      {lines.map(
        ([name, value]) =>
          value && (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ),
      )}
    </dl>
  );
}

/** What signs, colours and grades mean. */
function Legend() {
  const { t } = useTranslation();
  const label = useLabel();
  const all: Shown[] = ['measured', 'claimed', 'listed', 'depends', 'no'];
  return (
    <details open>
      <summary>{t('engines.legend')}</summary>
      <ul className="legend">
        {all.map((l) => (
          <li key={l}>
            <span className={`cell ${l}`} aria-hidden>
              {signs[l]}
            </span>{' '}
            {label('cellShownHelp', l)}
          </li>
        ))}
      </ul>
      <ul className="legend">
        {['E0', 'E1', 'E2', 'E3', 'E4'].map((g) => (
          <li key={g}>
            <strong>{g}</strong> {label('grade', g)}
          </li>
        ))}
      </ul>
      <Typography.Text type="secondary">{t('engines.cellHelp')}</Typography.Text>
    </details>
  );
}
