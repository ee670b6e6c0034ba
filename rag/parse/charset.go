package parse

import (
	"bytes"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
	xunicode "golang.org/x/text/encoding/unicode"

	"github.com/sluice-project/sluice/internal/fault"
)

// named returns the encoding of a label such as gb2312, as the web reads it.
func named(label string) (encoding.Encoding, error) {
	e, err := htmlindex.Get(strings.TrimSpace(label))
	if err != nil || e == encoding.Replacement {
		return nil, refuse(fault.Say("parse.character_set"))
	}
	return e, nil
}

// decode turns a text into UTF-8: by its byte order mark, else by the character set that was declared, else by what a page says about itself, else as
// UTF-8 if it is valid, else by what it looks like. Where that leaves a doubt it is refused: text in the wrong characters would be found by
// nobody.
func decode(body []byte, declared string, page bool) (string, error) {
	switch {
	case bytes.HasPrefix(body, []byte("\xef\xbb\xbf")):
		body, declared = body[3:], "utf-8"
	case bytes.HasPrefix(body, []byte("\xff\xfe")):
		return convert(body[2:], xunicode.UTF16(xunicode.LittleEndian, xunicode.IgnoreBOM))
	case bytes.HasPrefix(body, []byte("\xfe\xff")):
		return convert(body[2:], xunicode.UTF16(xunicode.BigEndian, xunicode.IgnoreBOM))
	}
	if slices.Contains([]string{"us-ascii", "ascii", "ansi_x3.4-1968"}, strings.ToLower(strings.TrimSpace(declared))) {
		declared = "" // what mail programs and servers say of text of any kind
	}
	if declared == "" && page && !utf8.Valid(body) { // a page that is UTF-8 and says otherwise was saved again
		declared = ofPage(body)
	}
	if declared != "" {
		e, err := named(declared)
		if err != nil {
			return "", err
		}
		switch name, _ := htmlindex.Name(e); {
		case name == "windows-1252" && utf8.Valid(body) && bytes.IndexByte(body, 0) < 0:
			// A default that nobody has thought about: letters of Western Europe are not UTF-8 by chance.
			return string(body), nil
		case name != "utf-8":
			return convert(body, e)
		}
		if !utf8.Valid(body) {
			return "", refuse(fault.Say("parse.not_utf8"))
		}
	}
	if utf8.Valid(body) && bytes.IndexByte(body, 0) < 0 {
		return string(body), nil
	}
	if e := wide(body); e != nil {
		return convert(body, e)
	}
	if isBinary(body) {
		return "", refuse(fault.Say("parse.not_text"))
	}
	return guess(body)
}

// ofPage is the character set that the first bytes of a page declare, as browsers read it: ISO-8859-1 is windows-1252.
func ofPage(body []byte) string {
	head := body[:min(len(body), 1000)] // browsers look at 1024 bytes, and so does DetermineEncoding
	_, name, _ := charset.DetermineEncoding(head, "text/html")
	if name != "windows-1252" {
		return name
	}
	// That is also what is taken where a page says nothing. One that looks like UTF-8 would be taken for it then.
	ascii := bytes.Map(func(r rune) rune {
		if r >= utf8.RuneSelf {
			return 'x'
		}
		return r
	}, head)
	if _, name, _ = charset.DetermineEncoding(append(ascii, "é    "...), "text/html"); name == "windows-1252" {
		return name
	}
	return ""
}

// convert decodes a text that must be valid in its character set. One sign in a thousand may not be: old files have such.
func convert(body []byte, e encoding.Encoding) (string, error) {
	out, err := e.NewDecoder().Bytes(body)
	if err != nil {
		return "", refuse(fault.Say("parse.character_set"))
	}
	text := string(out)
	if bad := strings.Count(text, "\ufffd"); bad > 0 && bad*1000 > utf8.RuneCountInString(text) {
		return "", refuse(fault.Say("parse.wrong_character_set"))
	}
	if strings.IndexByte(text, 0) >= 0 {
		return "", refuse(fault.Say("parse.not_text"))
	}
	return text, nil
}

// wide recognises UTF-16 without a mark. Read the wrong way round it has characters that nobody writes; read the right way it has line ends, blanks
// or letters, and no other control characters.
func wide(body []byte) encoding.Encoding {
	if len(body) < 4 || len(body)%2 != 0 || bytes.IndexByte(body, 0) < 0 { // without it nothing tells it from Chinese in two bytes
		return nil
	}
	var found encoding.Encoding
	for _, order := range []xunicode.Endianness{xunicode.LittleEndian, xunicode.BigEndian} {
		e := xunicode.UTF16(order, xunicode.IgnoreBOM)
		text, err := e.NewDecoder().Bytes(body[:min(len(body), 8192)&^1])
		if err != nil {
			continue
		}
		simplified, traditional := dailySimplified(), dailyTraditional()
		n, strange := 0, 0
		for _, r := range string(text) {
			n++
			switch {
			case r == '\t' || r == '\n' || r == '\r' || r >= 0x20 && r < 0x7f:
			case r < 0x20 || r == utf8.RuneError:
				strange += n + 1
			case r < 0x2e80: // other letters
			case !simplified(r) && !traditional(r) && !unicode.In(r, unicode.Hiragana, unicode.Katakana, unicode.Hangul):
				strange++
			}
		}
		if n > 0 && strange*20 <= n {
			if found != nil {
				return nil
			}
			found = e
		}
	}
	return found
}

// guess tells GB18030 from Big5 by how many of the characters are in daily use. Both read nearly everything; only the right one reads
// characters that people use. Anything else, such as the single bytes of Western Europe, is not told from them safely.
func guess(body []byte) (string, error) {
	type reading struct {
		text  string
		share float64
		han   int
	}
	try := func(e encoding.Encoding, common func(rune) bool) (out reading) {
		text, err := convert(body, e)
		if err != nil {
			return reading{}
		}
		used, n := 0, 0
		for _, r := range text {
			if r < 0x80 || r == utf8.RuneError {
				continue
			}
			if n++; unicode.Is(unicode.Han, r) {
				out.han++
			}
			if common(r) {
				used++
			}
			if n == 1<<16 {
				break
			}
		}
		if n > 0 {
			out.share = float64(used) / float64(n)
		}
		out.text = text
		return out
	}
	gb, big := try(simplifiedchinese.GB18030, dailySimplified()), try(traditionalchinese.Big5, dailyTraditional())
	if big.share > gb.share {
		gb, big = big, gb
	}
	if gb.han < 4 || gb.share < 0.8 || gb.share-big.share < 0.1 {
		return "", refuse(fault.Say("parse.unknown_character_set"))
	}
	return gb.text, nil
}

// dailySimplified reports the first level of GB 2312, by frequency of use 99.7 % of a text, and punctuation of Chinese text.
func dailySimplified() func(rune) bool {
	e := simplifiedchinese.GBK.NewEncoder()
	return func(r rune) bool {
		if punctuation(r) {
			return true
		}
		b, err := e.Bytes([]byte(string(r)))
		return err == nil && len(b) == 2 && b[0] >= 0xb0 && b[0] <= 0xd7 && b[1] >= 0xa1
	}
}

// dailyTraditional reports the first level of Big5.
func dailyTraditional() func(rune) bool {
	e := traditionalchinese.Big5.NewEncoder()
	return func(r rune) bool {
		if punctuation(r) {
			return true
		}
		b, err := e.Bytes([]byte(string(r)))
		return err == nil && len(b) == 2 && b[0] >= 0xa4 && b[0] <= 0xc6
	}
}

// punctuation reports signs that are common in every Chinese text.
func punctuation(r rune) bool {
	return r >= 0x3001 && r <= 0x3011 || r >= 0xff01 && r <= 0xff1f || r == 0x3000 || r >= 0x2013 && r <= 0x2026 || r == 0xb7
}
