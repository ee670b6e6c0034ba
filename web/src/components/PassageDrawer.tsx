import { useQuery } from '@tanstack/react-query';
import { Alert, Drawer, Flex, Skeleton, Typography } from 'antd';
import { useTranslation } from 'react-i18next';

import { api, call } from '../api/client';
import { toApiError } from '../api/errors';
import type { PassageRef } from '../lib/passages';
import { usePurpose } from '../lib/purpose';
import { Failure } from './Failure';
import { PurposeChoice } from './PurposeChoice';

/** A cited passage, marked between those around it. Opening it is recorded like a search. */
export function PassageDrawer({ passage, onClose }: { passage: PassageRef; onClose: () => void }) {
  const { t } = useTranslation();
  const purpose = usePurpose();
  const found = useQuery({
    queryKey: ['passage', passage, purpose.value],
    queryFn: () => call(api.POST('/rag/passages', { params: { header: purpose.header }, body: { ...passage, neighbours: 1 } })),
    enabled: purpose.ready,
    retry: false,
    staleTime: Infinity, // each asking is a record
    gcTime: 0,
  });
  const replaced = found.error && toApiError(found.error).code === 'passage_replaced';
  return (
    <Drawer open size={640} title={t('passage.title')} onClose={onClose}>
      <Flex vertical gap={16}>
        {replaced && <Alert type="warning" showIcon role="alert" title={toApiError(found.error).detail} description={t('passage.replaced')} />}
        {found.error && !replaced && <Failure error={found.error} retry={() => void found.refetch()} />}
        {!found.data && <PurposeChoice purpose={purpose} failed={found.error} />}
        {found.isLoading && <Skeleton active />}
        {found.data && (
          <>
            <div>
              <Typography.Title level={2} style={{ margin: 0, fontSize: 16, overflowWrap: 'anywhere' }}>
                {found.data.title || found.data.document}
              </Typography.Title>
              <Typography.Text type="secondary" style={{ overflowWrap: 'anywhere' }}>
                {t('passage.of', { document: found.data.document, collection: found.data.collection, version: found.data.version })}
              </Typography.Text>
            </div>
            {found.data.items.map((p) => (
              <div key={p.chunk} data-testid={p.quoted ? 'quoted' : 'neighbour'}>
                {p.section && (
                  <Typography.Text type="secondary" style={{ fontSize: 12, overflowWrap: 'anywhere' }}>
                    {p.section}
                  </Typography.Text>
                )}
                <div className="passage">{p.quoted ? <mark>{p.text}</mark> : p.text}</div>
              </div>
            ))}
            <Typography.Text type="secondary" style={{ fontSize: 12 }}>
              {t('passage.note')}
            </Typography.Text>
          </>
        )}
      </Flex>
    </Drawer>
  );
}
