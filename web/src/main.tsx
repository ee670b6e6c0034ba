import './style.css';

import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';

import { session } from './api/session';
import { App } from './App';
import { setUpLanguage } from './i18n';

void setUpLanguage();
void session.restore();
createRoot(document.getElementById('root')!).render(
  <StrictMode>
    <App />
  </StrictMode>,
);
