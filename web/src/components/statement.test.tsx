import { cleanup, screen, waitFor } from '@testing-library/react';
import dayjs from 'dayjs';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';

import { setUpLanguage } from '../i18n';
import { browser, press, refusal, server, show, signIn } from '../testkit';
import { StatementPanel } from './StatementPanel';

beforeAll(browser);
beforeEach(() => setUpLanguage('zh'));
afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
});

const month = dayjs().format('YYYY-MM');

describe('The statement of a month', () => {
  it('is saved in the format that was pressed, in the language of the console', async () => {
    signIn({ permissions: ['usage.read'] });
    const saved: string[] = [];
    URL.createObjectURL = () => 'blob:x';
    URL.revokeObjectURL = () => {};
    vi.spyOn(HTMLAnchorElement.prototype, 'click').mockImplementation(function (this: HTMLAnchorElement) {
      saved.push(this.download);
    });
    const sent = server({
      [`GET /billing/statements/${month}`]: () => new Response('%PDF', { status: 200, headers: { 'content-type': 'application/pdf' } }),
    });
    show(<StatementPanel />);
    await press(`下载 ${month} 账单的 PDF 文件`);
    await waitFor(() => expect(saved).toEqual([`statement-${month}.pdf`]));
    expect(sent.map((s) => [s.path, s.query.toString(), s.headers.get('accept-language')])).toEqual([[`/billing/statements/${month}`, 'format=pdf', 'zh']]);
  });

  it('says why there is none', async () => {
    signIn({ permissions: ['usage.read'] });
    server({ [`GET /billing/statements/${month}`]: () => refusal(404, 'not_found', '没有这个账单') });
    show(<StatementPanel />);
    await press(`下载 ${month} 账单的 CSV 文件`);
    await screen.findByText(/没有这个账单/);
  });
});
