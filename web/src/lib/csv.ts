/** One line of RFC 4180. Text that a spreadsheet would run as a formula is quoted with an apostrophe. */
export function csvLine(cells: (string | number)[]): string {
  return cells.map(csvCell).join(',');
}

function csvCell(cell: string | number): string {
  let text = String(cell);
  if (typeof cell === 'string' && /^[=+\-@\t\r]/.test(text) && Number.isNaN(Number(text))) text = `'${text}`;
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function download(name: string, kind: string, content: BlobPart) {
  const url = URL.createObjectURL(new Blob([content], { type: kind }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}

/** Downloads rows as CSV. The byte order mark lets Excel read Chinese. */
export function downloadCsv(name: string, lines: (string | number)[][]) {
  download(`${name}.csv`, 'text/csv;charset=utf-8', `\ufeff${lines.map(csvLine).join('\r\n')}\r\n`);
}
