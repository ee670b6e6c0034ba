import { Flex, Typography } from 'antd';
import { structuredPatch } from 'diff';
import { useMemo } from 'react';
import { useTranslation } from 'react-i18next';

/** What changed from one text to another, line by line, with some lines around it. */
export function TextDiff({ from, to, label }: { from: string; to: string; label: string }) {
  const { t } = useTranslation();
  const hunks = useMemo(() => structuredPatch('', '', from, to, undefined, undefined, { context: 3 }).hunks, [from, to]);
  const lines = hunks.flatMap((h) => h.lines);
  if (hunks.length === 0) return <Typography.Text type="secondary">{t('policy.same')}</Typography.Text>;
  const shown = (sign: string) => lines.filter((l) => l.startsWith(sign)).length;
  const end = (i: number) => (i < 0 ? 1 : hunks[i]!.oldStart + hunks[i]!.oldLines);
  return (
    <Flex vertical gap={4}>
      <Typography.Text type="secondary">{t('policy.summary', { added: shown('+'), removed: shown('-') })}</Typography.Text>
      <div role="region" aria-label={label} tabIndex={0} className="diff">
        {hunks.map((h, n) => {
          const skipped = h.oldStart - end(n - 1);
          return (
            <div key={h.oldStart + ':' + h.newStart}>
              {skipped > 0 && <div className="gap">{t('policy.unchanged', { count: skipped })}</div>}
              {h.lines.map((line, i) => (
                <Line key={i} sign={line[0]!} text={line.slice(1)} />
              ))}
            </div>
          );
        })}
      </div>
    </Flex>
  );
}

function Line({ sign, text }: { sign: string; text: string }) {
  const { t } = useTranslation();
  if (sign === '+' || sign === '-') {
    const added = sign === '+';
    const Mark = added ? 'ins' : 'del';
    return (
      <Mark className="line" title={t(added ? 'policy.added' : 'policy.removed')}>
        <span aria-hidden>{added ? '+ ' : '− '}</span>
        {text}
      </Mark>
    );
  }
  if (sign !== ' ') return null; // "no newline at the end"
  return (
    <span className="line">
      <span aria-hidden>{'  '}</span>
      {text}
    </span>
  );
}
