import { iso, time, zone } from '../lib/format';
import { useLanguage } from '../i18n';

/** A time in the reader's zone; the hover names the zone and gives UTC. */
export function Time({ at }: { at: string | number }) {
  const [language] = useLanguage();
  return (
    <time dateTime={iso(at)} title={`${zone()} · ${iso(at)}`} style={{ whiteSpace: 'nowrap' }}>
      {time(at, language)}
    </time>
  );
}
