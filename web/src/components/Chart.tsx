import { BarChart } from 'echarts/charts';
import { AriaComponent, GridComponent, LegendComponent, TooltipComponent } from 'echarts/components';
import { type EChartsCoreOption, init, registerLocale, use as install } from 'echarts/core';
import langEN from 'echarts/i18n/langEN-obj.js';
import langZH from 'echarts/i18n/langZH-obj.js';
import { CanvasRenderer } from 'echarts/renderers';
import { useEffect, useRef } from 'react';

import { useLanguage } from '../i18n';
import { useDark } from '../lib/media';

install([BarChart, GridComponent, LegendComponent, TooltipComponent, AriaComponent, CanvasRenderer]);
registerLocale('ZH', langZH);
registerLocale('EN', langEN);

const palette = ['#3d7be0', '#1f9e82', '#d9772b', '#8a5cc7', '#c9a21a', '#cc4b7c', '#5b8796'];

/** A chart for the eye; screen readers get the label, and every chart has its table beside it. */
export function Chart({ option, label, height = 300 }: { option: EChartsCoreOption; label: string; height?: number }) {
  const box = useRef<HTMLDivElement>(null);
  const [language] = useLanguage();
  const dark = useDark();
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const chart = init(element, dark ? 'dark' : undefined, { locale: language === 'zh' ? 'ZH' : 'EN' });
    chart.setOption({ color: palette, backgroundColor: 'transparent', animationDuration: 300, ...option, aria: { enabled: true, decal: { show: true }, label: { description: label } } });
    const observer = new ResizeObserver(() => chart.resize());
    observer.observe(element);
    return () => {
      observer.disconnect();
      chart.dispose();
    };
  }, [option, label, language, dark]);
  return <div ref={box} role="img" aria-label={label} style={{ height }} />;
}
