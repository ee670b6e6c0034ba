import { Button, type ButtonProps } from 'antd';

/** An action in a text: it looks like a link and answers to the keyboard as buttons do. */
export function LinkButton({ strong, style, ...props }: Omit<ButtonProps, 'type' | 'size'> & { strong?: boolean }) {
  return <Button type="link" size="small" style={{ padding: 0, height: 'auto', whiteSpace: 'normal', textAlign: 'start', overflowWrap: 'anywhere', fontSize: 'inherit', fontWeight: strong ? 600 : undefined, ...style }} {...props} />;
}
