# Makes the files of this folder with programs that know nothing of Sluice. See README.md.
import datetime, email.message, email.policy, io, sys
import docx, docx.enum.text, openpyxl, pptx, xlsxwriter
from docx.oxml import OxmlElement, parse_xml
from docx.oxml.ns import qn
from openpyxl.styles import numbers

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'

def word():
    d = docx.Document()
    d.core_properties.title = "Properties title"
    d.sections[0].header.paragraphs[0].text = "HEADERTEXT"
    d.sections[0].footer.paragraphs[0].text = "FOOTERTEXT"
    d.add_heading("差旅费管理办法", 0)
    d.add_heading("第一章 总则", 1)
    d.add_paragraph("为规范差旅费管理，制定本办法。Travel expenses follow these rules.")
    d.add_heading("适用范围", 2)
    for s in ("员工", "外聘专家"):
        d.add_paragraph(s, style="List Number")
    for s in ("机票", "火车票"):
        d.add_paragraph(s, style="List Bullet")
    t = d.add_table(rows=3, cols=3)
    for r, row in enumerate((("城市", "级别", "标准"), ("北京", "经理", "650元"), ("", "员工", "500元"))):
        for c, s in enumerate(row):
            t.cell(r, c).text = s
    t.cell(1, 0).merge(t.cell(2, 0))
    p = d.add_paragraph("Kept ")
    p._p.append(parse_xml(f'<w:del {W} w:id="1" w:author="a"><w:r><w:delText>DELETED</w:delText></w:r></w:del>'))
    p._p.append(parse_xml(f'<w:ins {W} w:id="2" w:author="a"><w:r><w:t>inserted</w:t></w:r></w:ins>'))
    p._p.append(parse_xml(f'<w:r {W}><w:rPr><w:vanish/></w:rPr><w:t>HIDDENTEXT</w:t></w:r>'))
    p._p.append(parse_xml(f'<w:r {W}><w:tab/><w:t>after tab</w:t><w:br/><w:t>next line</w:t></w:r>'))
    p = d.add_paragraph("A joined ")
    p._p.get_or_add_pPr().append(parse_xml(f'<w:rPr {W}><w:del w:id="3" w:author="a"/></w:rPr>'))
    d.add_paragraph("paragraph.")
    p = d.add_paragraph("Box: ")
    p._p.append(parse_xml(f'''<w:r {W} xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape" xmlns:v="urn:schemas-microsoft-com:vml"><mc:AlternateContent>
<mc:Choice Requires="wps"><w:drawing><wps:txbx><w:txbxContent><w:p><w:r><w:t>text in a box</w:t></w:r></w:p></w:txbxContent></wps:txbx></w:drawing></mc:Choice>
<mc:Fallback><w:pict><v:textbox><w:txbxContent><w:p><w:r><w:t>text in a box</w:t></w:r></w:p></w:txbxContent></v:textbox></w:pict></mc:Fallback></mc:AlternateContent></w:r>'''))
    d.save("word.docx")

def sheet():
    w = openpyxl.Workbook()
    s = w.active
    s.title = "价目表"
    s["A1"] = "2026 年价目表"
    s.merge_cells("A1:D1")
    for row in (("品类", "项目", "单价", "生效日"), ("存储", "对象存储", 0.1234, datetime.date(2026, 3, 1)), (None, "块存储", 1234.5, datetime.date(2026, 4, 15))):
        s.append(row)
    s.merge_cells("A3:A4")
    for r in (3, 4):
        s.cell(r, 3).number_format = '"¥"#,##0.00'
        s.cell(r, 4).number_format = 'yyyy"年"m"月"d"日"'
    s["F2"], s["F3"] = "Note", "HIDDENCOLUMN"
    s.column_dimensions["F"].hidden = True
    s.append(("HIDDENROW", "x", 1, None)); s.row_dimensions[5].hidden = True
    s.append(("折扣", "长期", 0.125, None)); s["C6"].number_format = "0.0%"
    s["B7"] = "=SUM(C3:C4)"
    t = w.create_sheet("Second")
    for row in (("Code", "Started", "Ok"), (13800138000, datetime.datetime(2026, 1, 2, 15, 4), True), (7, datetime.datetime(2026, 1, 3, 0, 30), False)):
        t.append(row)
    h = w.create_sheet("Secret"); h["A1"] = "HIDDENSHEET"; h.sheet_state = "hidden"
    w.save("sheet.xlsx")
    x = xlsxwriter.Workbook("merged.xlsx")
    s = x.add_worksheet("M")
    bold = x.add_format({"bold": True})
    s.merge_range("A1:A2", "地区"); s.merge_range("B1:C1", "人数")
    s.write("B2", "男"); s.write("C2", "女")
    s.write_row("A3", ["华东", 10, 12]); s.write_row("A4", ["华北", 8, 9])
    s.write_rich_string("A6", "Rich ", bold, "text", " cell")
    s.write_formula("A7", "=1+2", None, 3)
    x.close()

def slides():
    p = pptx.Presentation()
    p.core_properties.title = "PowerPoint Presentation"
    s = p.slides.add_slide(p.slide_layouts[1])
    s.shapes.title.text = "发布计划"
    f = s.placeholders[1].text_frame
    f.text = "第一阶段：试点"
    q = f.add_paragraph(); q.text = "三家分行"; q.level = 1
    s.notes_slide.notes_text_frame.text = "Speaker note."
    s = p.slides.add_slide(p.slide_layouts[5])
    s.shapes.title.text = "Costs"
    t = s.shapes.add_table(2, 2, 0, 0, 100000, 100000).table
    for r, row in enumerate((("Item", "Cost"), ("Licence", "100"))):
        for c, v in enumerate(row):
            t.cell(r, c).text = v
    s = p.slides.add_slide(p.slide_layouts[6])
    b = s.shapes.add_textbox(0, 0, 100000, 100000); b.text_frame.text = "untitled slide"
    s = p.slides.add_slide(p.slide_layouts[5]); s.shapes.title.text = "HIDDENSLIDE"; s._element.set("show", "0")
    p.save("slides.pptx")

def mail():
    m = email.message.EmailMessage(policy=email.policy.SMTP)
    m["From"] = "张三 <zhang@example.com>"; m["To"] = "li@example.com"; m["Subject"] = "合同审批：A-12"
    m["Date"] = "Fri, 27 Nov 2026 10:00:00 +0800"
    m.set_content("请审批附件。\n\n> 上一封：何时签？\n")
    m.add_alternative("<p>HTMLFORM</p>", subtype="html")
    m.add_attachment("名称,金额\n服务器,100\n".encode("gb18030"), maintype="text", subtype="csv", filename="清单.csv", params={"charset": "gb18030"})
    m.add_attachment(b"\x89PNG\r\n\x1a\n\x00", maintype="image", subtype="png", filename="章.png")
    inner = email.message.EmailMessage(policy=email.policy.SMTP)
    inner["From"] = "b@example.com"; inner["Subject"] = "inner"; inner.set_content("inner text")
    m.add_attachment(inner)
    open("mail.eml", "wb").write(m.as_bytes())

for make in (word, sheet, slides, mail):
    make()

# What the templates of python-docx and python-pptx bring and no reader of text opens would be most of the files.
import os, zipfile
for f in ("word.docx", "slides.pptx"):
    with zipfile.ZipFile(f) as z:
        parts = [(i, z.read(i)) for i in z.infolist() if "thumbnail" not in i.filename and "WithEffects" not in i.filename and "printerSettings" not in i.filename and "customXml" not in i.filename]
    with zipfile.ZipFile(f + ".new", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as z:
        for i, content in parts:
            z.writestr(i.filename, content)
    os.replace(f + ".new", f)
