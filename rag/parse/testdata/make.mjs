import * as d from 'docx'; import fs from 'fs';
const { Document, Packer, Paragraph, TextRun, HeadingLevel, Table, TableRow, TableCell, FootnoteReferenceRun, LevelFormat } = d;
const num = (levels) => levels;
const doc = new Document({
  footnotes: { 1: { children: [new Paragraph('The first footnote.')] } },
  numbering: { config: [{ reference: 'zh', levels: [
    { level: 0, format: 'chineseCounting', text: '第%1章', start: 1 },
    { level: 1, format: LevelFormat.DECIMAL, text: '%1.%2', start: 1 },
    { level: 2, format: LevelFormat.LOWER_ROMAN, text: '(%3)', start: 1 }] }] },
  sections: [{ children: [
    new Paragraph({ text: 'Scope', heading: HeadingLevel.HEADING_1, numbering: { reference: 'zh', level: 0 } }),
    new Paragraph({ children: [new TextRun('With a note'), new FootnoteReferenceRun(1), new TextRun(' in it.')] }),
    new Paragraph({ text: 'first', numbering: { reference: 'zh', level: 1 } }),
    new Paragraph({ text: 'deep', numbering: { reference: 'zh', level: 2 } }),
    new Paragraph({ text: 'second', numbering: { reference: 'zh', level: 1 } }),
    new Paragraph({ text: 'Fees', heading: HeadingLevel.HEADING_1, numbering: { reference: 'zh', level: 0 } }),
    new Paragraph({ text: 'again', numbering: { reference: 'zh', level: 1 } }),
    new Table({ rows: ['h', 'r'].map((x) => new TableRow({ tableHeader: x === 'h', children: ['1', '2'].map((y) => new TableCell({ children: [new Paragraph(x + y)] })) })) }),
  ] }],
});
fs.writeFileSync(process.argv[2], await Packer.toBuffer(doc));
