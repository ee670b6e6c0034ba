import { SafetyOutlined } from '@ant-design/icons';
import { Form, Input } from 'antd';
import { useTranslation } from 'react-i18next';

/** The field of a code, or of a recovery code, in a form. */
export function CodeField({ help, onEnter }: { help: string; onEnter?: () => void }) {
  const { t } = useTranslation();
  return (
    <Form.Item name="code" label={t('factor.code')} extra={help} rules={[{ required: true, message: t('form.required') }]}>
      <Input prefix={<SafetyOutlined aria-hidden />} autoComplete="one-time-code" spellCheck={false} maxLength={64} autoFocus onPressEnter={onEnter} />
    </Form.Item>
  );
}
