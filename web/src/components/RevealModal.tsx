import { Button, Modal } from 'antd';
import { useTranslation } from 'react-i18next';

import { RevealForm } from './RevealForm';

/** Shows the values of one request, from where its record is. Closing it forgets them. */
export function RevealModal({ request, text, onClose }: { request: string; text: string; onClose: () => void }) {
  const { t } = useTranslation();
  return (
    <Modal open width={860} title={t('reveal.title')} onCancel={onClose} destroyOnHidden mask={{ closable: false }} footer={<Button onClick={onClose}>{t('verify.close')}</Button>}>
      <RevealForm request={request} text={text} />
    </Modal>
  );
}
