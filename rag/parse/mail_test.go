package parse_test

import (
	"strings"
	"testing"

	"golang.org/x/text/encoding/simplifiedchinese"

	"github.com/sluice-project/sluice/rag/parse"
)

// multipart writes parts, each with its headers, an empty line and its text.
func multipart(kind, boundary string, parts ...string) string {
	var out strings.Builder
	out.WriteString("Content-Type: " + kind + "; boundary=" + boundary + "\r\n\r\n")
	for _, p := range parts {
		out.WriteString("--" + boundary + "\r\n" + p + "\r\n")
	}
	return out.String() + "--" + boundary + "--\r\n"
}

// TestMessages: text is taken in one of its forms, whichever says something; attachments are taken wherever they hang; and what is damaged is said.
func TestMessages(t *testing.T) {
	const (
		plain = "Content-Type: text/plain; charset=utf-8\r\n\r\nplain words"
		blank = "Content-Type: text/plain\r\n\r\n \r\n"
		page  = "Content-Type: text/html\r\n\r\n<p>page words"
		list  = "Content-Type: text/csv; name=list.csv\r\n\r\na,b\r\n1,2"
		image = "Content-Type: image/png; name=logo.png\r\n\r\nx"
	)
	gbk, err := simplifiedchinese.GBK.NewEncoder().String("差旅费管理办法适用于全体员工")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ body, want string }{
		"text before HTML":         {multipart("multipart/alternative", "x", plain, page), "P plain words\n"},
		"text behind HTML":         {multipart("multipart/alternative", "x", page, plain), "P plain words\n"},
		"HTML where text is blank": {multipart("multipart/alternative", "x", blank, page), "P page words\n"},
		"the last that says something": {multipart("multipart/alternative", "x", page, multipart("multipart/related", "y",
			"Content-Type: text/html\r\n\r\n<style>p {}</style>")), "P page words\n"},
		"attachments beside HTML": {
			multipart("multipart/alternative", "x", plain, multipart("multipart/mixed", "y", page, list)),
			"P plain words\nH1 list.csv\nT a | b⏎1 | 2\n",
		},
		"attachments of attachments' forms": {
			multipart("multipart/mixed", "z", multipart("multipart/alternative", "x", plain, multipart("multipart/related", "y", page, image)), list),
			"P plain words\nH1 list.csv\nT a | b⏎1 | 2\nleft: the attachment logo.png was not read: this type is not supported; send plain text, Markdown, HTML, CSV, DOCX, XLSX, PPTX, PDF or e-mail\n",
		},
		"two texts are both taken":      {multipart("multipart/mixed", "x", plain, page), "P plain words\nP page words\n"},
		"a name with blanks":            {multipart("multipart/mixed", "x", plain, strings.ReplaceAll(list, "list.csv", "price list.csv")), "P plain words\nH1 price list.csv\nT a | b⏎1 | 2\n"},
		"a name that is not ASCII":      {multipart("multipart/mixed", "x", plain, strings.ReplaceAll(list, "list.csv", "价格 表.csv")), "P plain words\nH1 价格 表.csv\nT a | b⏎1 | 2\n"},
		"a parameter twice":             {multipart("multipart/mixed", "x", plain, strings.ReplaceAll(list, "list.csv", "list.csv; name=b.csv")), "P plain words\nH1 list.csv\nT a | b⏎1 | 2\n"},
		"a type that is none":           {"Content-Type: text\r\n\r\nwords", "P words\n"},
		"UTF-8 that is called ASCII":    {"Content-Type: text/plain; charset=us-ascii\r\n\r\n出差标准", "P 出差标准\n"},
		"GBK that is called ASCII":      {"Content-Type: text/plain; charset=US-ASCII\r\n\r\n" + gbk, "P 差旅费管理办法适用于全体员工\n"},
		"UTF-8 that is called Latin":    {"Content-Type: text/plain; charset=iso-8859-1\r\n\r\n出差标准 é", "P 出差标准 é\n"},
		"Latin":                         {"Content-Type: text/plain; charset=iso-8859-1\r\n\r\ncaf\xe9", "P café\n"},
		"base64 that breaks off":        {"Content-Type: text/plain\r\nContent-Transfer-Encoding: base64\r\n\r\nd29yZHMgYW5kIG1vcmU=d29\r\n", "P words and more\nleft: text/plain is damaged and was read only in part\n"},
		"an attachment that breaks off": {multipart("multipart/mixed", "x", plain, strings.Replace(list, "\r\n\r\na,b\r\n1,2", "\r\nContent-Transfer-Encoding: base64\r\n\r\nYSxiCjEsMgo=d29", 1)), "P plain words\nleft: list.csv is damaged and was read only in part\nH1 list.csv\nT a | b⏎1 | 2\n"},
		"a message that is cut off":     {strings.TrimSuffix(multipart("multipart/mixed", "x", plain, page), "\r\n--x--\r\n"), "P plain words\nP page words\nleft: the message is cut off; what comes after was not read\n"},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := parse.NewReader(parse.Config{}).Read(t.Context(), parse.File{Name: "a.eml", Body: []byte("Subject: s\r\nMIME-Version: 1.0\r\n" + c.body)})
			if err != nil {
				t.Fatal(err)
			}
			holds(t, d)
			got, _ := strings.CutPrefix(outline(d), "P Subject: s\n")
			if sorted(got) != sorted(c.want) {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// sorted puts what is left out behind the text: it comes there in any case.
func sorted(outline string) string {
	var text, left []string
	for line := range strings.Lines(outline) {
		if strings.HasPrefix(line, "left: ") {
			left = append(left, line)
		} else {
			text = append(text, line)
		}
	}
	return strings.Join(append(text, left...), "")
}

// TestHiddenInTables: what a page hides in a table is not read, whichever part of the table hides it.
func TestHiddenInTables(t *testing.T) {
	for name, page := range map[string]string{
		"a caption":               `<table><caption style="display:none">SECRET</caption><tr><td>a<td>b<tr><td>c<td>d</table>`,
		"inside a caption":        `<table><caption><span hidden>SECRET</span></caption><tr><td>a<td>b<tr><td>c<td>d</table>`,
		"a template":              `<table><template><tbody><tr><td>SECRET</tbody></template><tr><td>a<td>b<tr><td>c<td>d</table>`,
		"a template in a body":    `<table><tbody><template><tr><td>SECRET</template><tr><td>a<td>b<tr><td>c<td>d</table>`,
		"a template in a row":     `<table><tr><template><td>SECRET</template><td>a<td>b<tr><td>c<td>d</table>`,
		"a body":                  `<table><tbody hidden><tr><td>SECRET</tbody><tbody><tr><td>a<td>b<tr><td>c<td>d</table>`,
		"a head":                  `<table><thead style="visibility: collapse"><tr><th>SECRET</thead><tr><td>a<td>b<tr><td>c<td>d</table>`,
		"a row":                   `<table><tr style="display:none"><td>SECRET<tr><td>a<td>b<tr><td>c<td>d</table>`,
		"a cell":                  `<table><tr><td hidden>SECRET<td>a<td>b<tr><td>c<td>d</table>`,
		"the table":               `<p>a | b c | d<table hidden><tr><td>SECRET</table>`,
		"a script between rows":   `<table><script>SECRET</script><tr><td>a<td>b<tr><td>c<td>d</table>`,
		"a row in a hidden block": `<p>a | b c | d<div style="display:none"><table><caption>SECRET</caption><tr><td>SECRET</table></div>`,
	} {
		d, err := parse.NewReader(parse.Config{}).Read(t.Context(), parse.File{MIME: parse.HTML, Body: []byte(page)})
		if err != nil || strings.Contains(d.Text, "SECRET") || !strings.Contains(d.Text, "a | b") || !strings.Contains(d.Text, "c | d") {
			t.Errorf("%s: %q, %v", name, d.Text, err)
		}
	}
}

// TestPagesOfWesternEurope: a page that says ISO-8859-1 is windows-1252, as in browsers; one that says nothing is refused.
func TestPagesOfWesternEurope(t *testing.T) {
	for _, said := range []string{`<meta charset="iso-8859-1">`, `<meta http-equiv="Content-Type" content="text/html; charset=ISO-8859-1">`, `<meta charset=windows-1252>`} {
		d, err := parse.NewReader(parse.Config{}).Read(t.Context(), parse.File{MIME: parse.HTML, Body: []byte(said + "<p>caf\xe9 \x80 5")})
		if err != nil || d.Text != "café € 5" {
			t.Errorf("%s: %q, %v", said, d.Text, err)
		}
	}
	for _, said := range []string{"", "<!-- <meta charset=iso-8859-1> -->"} {
		if d, err := parse.NewReader(parse.Config{}).Read(t.Context(), parse.File{MIME: parse.HTML, Body: []byte(said + "<p>caf\xe9 \x80 5")}); err == nil {
			t.Errorf("%q: %q", said, d.Text)
		}
	}
}
