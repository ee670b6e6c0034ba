// echarts ships these locale tables without types.
declare module 'echarts/i18n/*-obj.js' {
  const table: Exclude<Parameters<typeof import('echarts/core').registerLocale>[1], undefined>;
  export default table;
}
