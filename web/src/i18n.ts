import 'dayjs/locale/zh-cn';

import dayjs from 'dayjs';
import i18next from 'i18next';
import { initReactI18next, useTranslation } from 'react-i18next';

import { session } from './api/session';
import en from './locales/en.json';
import zh from './locales/zh.json';

export type Language = 'en' | 'zh';

declare module 'i18next' {
  interface CustomTypeOptions {
    resources: { translation: typeof en };
  }
}

const storageKey = 'sluice.language';

function firstLanguage(): Language {
  const asked = new URLSearchParams(location.search).get('lang') ?? stored() ?? navigator.language;
  return asked.toLowerCase().startsWith('zh') ? 'zh' : 'en';
}

function stored(): string | null {
  try {
    return localStorage.getItem(storageKey);
  } catch {
    return null; // storage is blocked; the choice lasts until the page is left
  }
}

// Everything that depends on the language switches here and in App: texts, dates, the kit, charts and what the server is asked for.
function apply(language: Language) {
  document.documentElement.lang = language === 'zh' ? 'zh-CN' : 'en';
  session.language = language === 'zh' ? 'zh-CN' : 'en';
  dayjs.locale(language === 'zh' ? 'zh-cn' : 'en');
}

export function setUpLanguage(language: Language = firstLanguage()) {
  apply(language);
  return i18next.use(initReactI18next).init({
    resources: { en: { translation: en }, zh: { translation: zh } },
    lng: language,
    fallbackLng: 'en',
    interpolation: { escapeValue: false }, // React escapes
  });
}

export function useLanguage(): [Language, (language: Language) => void] {
  const { i18n } = useTranslation();
  const set = (language: Language) => {
    apply(language);
    try {
      localStorage.setItem(storageKey, language);
    } catch {
      // see stored
    }
    void i18n.changeLanguage(language);
  };
  return [i18n.language as Language, set];
}

/** Names for values that the server may extend, such as data classes: the translation if there is one, else the value itself. */
export function useLabel() {
  const { t, i18n } = useTranslation();
  return (group: keyof typeof en.label, value: string): string => {
    const key = `label.${group}.${value.replaceAll('.', '_')}`;
    return i18n.exists(key) ? t(key as never) : value;
  };
}
