# Makes the PDF files of this folder. See README.md.
import subprocess, sys, os, tempfile
from reportlab.lib.pagesizes import A4
from reportlab.lib import colors
from reportlab.lib.styles import getSampleStyleSheet, ParagraphStyle
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.cidfonts import UnicodeCIDFont
from reportlab.pdfgen import canvas
from reportlab.platypus import BaseDocTemplate, Frame, PageTemplate, Paragraph, Table, TableStyle, SimpleDocTemplate, PageBreak, Spacer
import fpdf

pdfmetrics.registerFont(UnicodeCIDFont("STSong-Light"))

def cid():  # a predefined CMap and no ToUnicode, as much Chinese office software writes
    c = canvas.Canvas("gbk.pdf", pagesize=A4)
    c.setFont("STSong-Light", 18); c.drawString(72, 760, "关于印发差旅费管理办法的通知")
    c.setFont("STSong-Light", 12)
    for i, s in enumerate(("各部门：", "现将差旅费管理办法印发给你们，请遵照执行。", "出差人员按规定等级乘坐交通工具，凭据报销。")):
        c.drawString(72, 720 - 20 * i, s)
    c.showPage(); c.save()

LOREM = ("The policy covers every trip that an employee makes on behalf of the company. Bookings are made through the travel desk at least five days ahead. "
         "Exceptions need the consent of the head of department and are recorded with their reason. ")

def columns():
    def page(c, d):
        c.setFont("Helvetica", 8); c.drawString(72, 810, "Travel policy 2026"); c.drawCentredString(297, 20, "Page %d" % c.getPageNumber())
    st = getSampleStyleSheet()
    d = BaseDocTemplate("columns.pdf", pagesize=A4)
    w = 215
    d.addPageTemplates(PageTemplate(frames=[Frame(70, 60, w, 730), Frame(310, 60, w, 730)], onPage=page))
    body = []
    for i in range(1, 16):
        if i % 5 == 1:
            body.append(Paragraph("%d. Section number %d" % (i, i), st["Heading1"]))
        body.append(Paragraph("Paragraph %d begins. " % i + LOREM * 2 + "Paragraph %d ends." % i, st["BodyText"]))
    d.build(body)

def table():
    st = getSampleStyleSheet()
    d = SimpleDocTemplate("table.pdf", pagesize=A4)
    rows = [["City", "Grade", "Limit"]] + [["City %d" % i, "Grade %s" % "ABC"[i % 3], "%d yuan" % (400 + 10 * i)] for i in range(1, 9)]
    t = Table(rows, style=TableStyle([("GRID", (0, 0), (-1, -1), .5, colors.black)]), colWidths=[120, 120, 120])
    d.build([Paragraph("Limits", st["Heading1"]), Paragraph(LOREM, st["BodyText"]), Spacer(1, 12), t, Spacer(1, 12), Paragraph("After the table. " + LOREM, st["BodyText"])])

def encrypted():
    from reportlab.lib.pdfencrypt import StandardEncryption
    c = canvas.Canvas("encrypted.pdf", encrypt=StandardEncryption("user", "owner")); c.drawString(72, 700, "secret"); c.save()
    c = canvas.Canvas("owner.pdf", encrypt=StandardEncryption("", "owner")); c.drawString(72, 700, "Anyone may read this page."); c.save()

def fp():
    p = fpdf.FPDF(); p.add_page(); p.set_font("Helvetica", size=12)
    p.multi_cell(0, 8, "Written by fpdf2. " + LOREM + "\n\nfi ligature office, e-mail and a hyphen-\nated word. Price: 12.50.")
    p.output("fpdf.pdf")
    p = fpdf.FPDF(); p.add_page(); p.rect(20, 20, 100, 100, "F"); p.output("blank.pdf")

def garbled():  # a font whose map to Unicode leads to private use
    import re, zlib
    p = fpdf.FPDF(); p.set_compression(False) if hasattr(p, "set_compression") else None
    c = canvas.Canvas("garbled.pdf", pageCompression=0)
    from reportlab.pdfbase.ttfonts import TTFont
    pdfmetrics.registerFont(TTFont("N", sys.argv[1])); c.setFont("N", 12)
    c.drawString(72, 700, "本页的文字无法复制出来因为字体的映射被移走了"); c.drawString(72, 680, "出差人员按规定等级乘坐交通工具凭据报销")
    c.save()
    raw = open("garbled.pdf", "rb").read()
    def private(m):
        n = [0]
        def line(x):
            n[0] += 1
            return b"<" + x.group(1) + b"> <" + (b"%04X" % (0xE000 + n[0])) + b">"
        return re.sub(rb"<([0-9A-Fa-f]{2,4})> <([0-9A-Fa-f]{4})>(?=\r?\n)", line, m.group(0))
    new = re.sub(rb"beginbfchar.*?endbfchar", private, raw, flags=re.S)
    new = re.sub(rb"beginbfrange.*?endbfrange", lambda m: re.sub(rb"\[[^\]]*\]", lambda k: b"[" + b" ".join(b"<%04X>" % (0xE000 + i) for i in range(k.group(0).count(b"<"))) + b"]", m.group(0)), new, flags=re.S)
    print("garbled", new != raw, len(new))
    open("garbled.pdf", "wb").write(new)

def chrome():
    html = """<!doctype html><meta charset=utf-8><style>body{font-family:sans-serif;font-size:12pt}</style><title>Printed</title><h1>Printed by a browser</h1>
<p>%s</p><h2>Fees</h2><table border=1><tr><th>Desk<th>Fee<tr><td>Counter A<td>5 yuan<tr><td>Counter B<td>7 yuan</table><ul><li>first point<li>second point</ul>""" % LOREM
    with tempfile.TemporaryDirectory() as t:
        open(t + "/a.html", "w").write(html)
        subprocess.run(["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer", "--print-to-pdf=" + os.path.abspath("chromium.pdf"), "file://" + t + "/a.html"], check=True, stderr=subprocess.DEVNULL, timeout=120)

for make in (cid, columns, table, encrypted, fp, garbled, chrome):
    make()
