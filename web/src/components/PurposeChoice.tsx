import { Flex, Select } from 'antd';
import { useEffect, useId } from 'react';
import { useTranslation } from 'react-i18next';

import { toApiError } from '../api/errors';
import type { Purpose } from '../lib/purpose';

/** Asks what a request is for, where the policy demands it: also once a request failed because a newer policy does. */
export function PurposeChoice({ purpose, failed }: { purpose: Purpose; failed: unknown }) {
  const { t } = useTranslation();
  const id = useId();
  useEffect(() => {
    if (failed && toApiError(failed).code === 'purpose_required') purpose.refresh();
  }, [failed]); // eslint-disable-line react-hooks/exhaustive-deps -- once for each failure
  if (purpose.all.length === 0) return null;
  return (
    <Flex gap={8} align="center">
      <label htmlFor={id}>{t('purpose.label')}</label>
      <Select
        id={id}
        aria-required
        placeholder={t('purpose.choose')}
        status={purpose.value === undefined ? 'warning' : undefined}
        style={{ minWidth: 190 }}
        value={purpose.value}
        onChange={purpose.choose}
        options={purpose.all.map((value) => ({ value, label: value }))}
      />
    </Flex>
  );
}
