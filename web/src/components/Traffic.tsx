import { Flex, Tag, theme } from 'antd';
import { useTranslation } from 'react-i18next';

import type { Schema } from '../api/client';
import { useLabel, useLanguage } from '../i18n';
import { percent } from '../lib/format';

const phases: Record<Schema['RolloutPhase'], string> = {
  baseline: 'default',
  canary: 'processing',
  holding: 'warning',
  completed: 'success',
  rolled_back: 'error',
  aborted: 'default',
  failed: 'error',
};

export const running = (phase: Schema['RolloutPhase']) => phase === 'baseline' || phase === 'canary' || phase === 'holding';

/** The names of a rollout's stages: a phase, or canary-20 for the step with that share. */
export function useStageName() {
  const { t } = useTranslation();
  const label = useLabel();
  return (stage: string) => {
    const share = /^canary-(\d+)$/.exec(stage)?.[1];
    return share ? t('rollout.canaryAt', { share }) : label('phase', stage);
  };
}

export function PhaseTag({ phase }: { phase: Schema['RolloutPhase'] }) {
  const label = useLabel();
  return <Tag color={phases[phase]}>{label('phase', phase)}</Tag>;
}

/** The split of the traffic between the two versions. The numbers are text, so nothing rests on colour alone. */
export function TrafficBar({ rollout, small }: { rollout: Pick<Schema['Rollout'], 'share_basis' | 'stable' | 'candidate'>; small?: boolean }) {
  const { t } = useTranslation();
  const [language] = useLanguage();
  const { token } = theme.useToken();
  const share = rollout.share_basis / 10000;
  const text = t('rollout.split', { stable: rollout.stable, stableShare: percent(1 - share, language), candidate: rollout.candidate, candidateShare: percent(share, language) });
  const bar = (
    <div role="img" aria-label={text} title={text} style={{ display: 'flex', height: small ? 8 : 20, borderRadius: 6, overflow: 'hidden', background: token.colorFillSecondary, flex: small ? 1 : undefined, minWidth: 80 }}>
      <div style={{ width: `${share * 100}%`, background: token.colorPrimary, transition: 'width 400ms' }} />
    </div>
  );
  if (small) {
    return (
      <Flex gap={8} align="center">
        {bar}
        <span style={{ minWidth: 44, textAlign: 'right' }}>{percent(share, language)}</span>
      </Flex>
    );
  }
  return (
    <Flex vertical gap={6}>
      {bar}
      <Flex justify="space-between">
        <span>
          <strong>{rollout.candidate}</strong> {t('rollout.candidateShare')} {percent(share, language)}
        </span>
        <span>
          <strong>{rollout.stable}</strong> {t('rollout.stableShare')} {percent(1 - share, language)}
        </span>
      </Flex>
    </Flex>
  );
}
