import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import { Approvals } from '../components/Approvals';
import { Page, Panel } from '../components/Panel';
import { RevealForm } from '../components/RevealForm';
import { useFilters } from '../lib/url';

/** Values behind tokens, for those who may see them. The address may name a request, and never a text or a value. */
export default function Reveal() {
  const { t } = useTranslation();
  const [f] = useFilters({ request: '' });
  const [approval, setApproval] = useState<string>();
  return (
    <Page title={t('nav.reveal')} note={t('reveal.note')}>
      <Panel title={t('reveal.title')}>
        <RevealForm key={f.request} request={f.request} approval={approval} onApprovalSpent={() => setApproval(undefined)} />
      </Panel>
      <Panel title={t('approval.title')}>
        <Approvals onUse={setApproval} />
      </Panel>
    </Page>
  );
}
