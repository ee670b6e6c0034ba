package labelfile

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/sluice-project/sluice/internal/fault"
)

// The bounds of a PDF: how deep objects nest, how many sections of cross-references there are, how many objects, and how many entries all sections have.
const (
	maxNesting  = 64
	maxSections = 256
	maxObjects  = 512 << 10
	maxEntries  = 1 << 20
)

// pdf is what of a PDF is read: where its objects are, and its newest trailer.
type pdf struct {
	data     []byte
	objects  map[int]place
	trailer  dict  // of the newest section; entries of older ones where it lacks them
	start    int   // of the newest section
	sections []int // where all of them begin
	stream   bool  // whether that is a stream
	size     int
	room     *room
	unpacked map[int]objectStream
	freed    map[int]bool // objects that the section that is read calls free
	beside   bool         // while the stream beside a table is read
	entries  int          // that were read
	work     int          // bytes that may still be read: places may be read more than once, such as where sections overlap
}

// place is where an object is: at an offset, or in a stream of objects.
type place struct {
	offset, generation int
	in, index          int // the number of the stream, 0 for none
	free               bool
}

// dict has the texts of values, as they are in the file.
type dict map[string][]byte

func isSpace(c byte) bool {
	return c == 0 || c == '\t' || c == '\n' || c == '\f' || c == '\r' || c == ' '
}
func isDelimiter(c byte) bool { return strings.IndexByte("()<>[]{}/%", c) >= 0 }

// blanks skips spaces and comments.
func blanks(b []byte, at int) int {
	for at < len(b) {
		switch {
		case isSpace(b[at]):
			at++
		case b[at] == '%':
			for at < len(b) && b[at] != '\n' && b[at] != '\r' {
				at++
			}
		default:
			return at
		}
	}
	return at
}

// word returns the end of a word: a number, a name behind its slash, or a keyword.
func word(b []byte, at int) int {
	for at < len(b) && !isSpace(b[at]) && !isDelimiter(b[at]) {
		at++
	}
	return at
}

// value returns the end of the object that begins at a place, -1 if there is none. A reference, of three words, is one.
func value(b []byte, at, depth int) int {
	if at >= len(b) || depth > maxNesting {
		return -1
	}
	switch c := b[at]; {
	case c == '(':
		return literalEnd(b, at)
	case c == '/':
		return word(b, at+1)
	case c == '<' && at+1 < len(b) && b[at+1] == '<':
		return many(b, at+2, ">>", depth)
	case c == '<':
		if end := bytes.IndexByte(b[at:], '>'); end >= 0 {
			return at + end + 1
		}
		return -1
	case c == '[':
		return many(b, at+1, "]", depth)
	case isDelimiter(c):
		return -1
	}
	end := word(b, at)
	if _, _, ref := reference(b[at:]); ref > 0 {
		return at + ref
	}
	return end
}

// many returns the end of a list of objects.
func many(b []byte, at int, closing string, depth int) int {
	for {
		at = blanks(b, at)
		if bytes.HasPrefix(b[min(at, len(b)):], []byte(closing)) {
			return at + len(closing)
		}
		if at = value(b, at, depth+1); at < 0 {
			return -1
		}
	}
}

// literalEnd returns the end of a string in parentheses.
func literalEnd(b []byte, at int) int {
	for open := 0; at < len(b); at++ {
		switch b[at] {
		case '\\':
			at++
		case '(':
			open++
		case ')':
			if open--; open == 0 {
				return at + 1
			}
		}
	}
	return -1
}

// natural reads a number of digits only.
func natural(b []byte) (int, bool) {
	if len(b) == 0 || len(b) > 10 || b[0] < '0' || b[0] > '9' {
		return 0, false
	}
	n, err := strconv.Atoi(string(b))
	return n, err == nil
}

// numbers reads natural numbers at a place.
func numbers(b []byte, at, count int) (out []int, end int) {
	for range count {
		if at = blanks(b, at); at >= len(b) {
			return nil, -1
		}
		to := word(b, at)
		n, ok := natural(b[at:to])
		if !ok {
			return nil, -1
		}
		out, at = append(out, n), to
	}
	return out, at
}

// reference reads "12 0 R"; length is 0 if it is none.
func reference(b []byte) (number, generation, length int) {
	if len(b) > 64 {
		b = b[:64]
	}
	n, at := numbers(b, 0, 2)
	if at < 0 {
		return 0, 0, 0
	}
	at = blanks(b, at)
	if at >= len(b) || b[at] != 'R' || word(b, at) != at+1 {
		return 0, 0, 0
	}
	return n[0], n[1], at + 1
}

// dictionary reads a dictionary that begins at a place. A key that is there twice is refused: programs differ in which they take.
func dictionary(b []byte, at int) (dict, int, bool) {
	if !bytes.HasPrefix(b[min(at, len(b)):], []byte("<<")) {
		return nil, 0, false
	}
	out := dict{}
	for at += 2; ; {
		at = blanks(b, at)
		if bytes.HasPrefix(b[min(at, len(b)):], []byte(">>")) {
			return out, at + 2, true
		}
		if at >= len(b) || b[at] != '/' {
			return nil, 0, false
		}
		to := word(b, at+1)
		key := nameOf(b[at+1 : to])
		from := blanks(b, to)
		if at = value(b, from, 1); at < 0 || out[key] != nil || len(out) == maxPieces {
			return nil, 0, false
		}
		out[key] = b[from:at]
	}
}

// nameOf resolves the escapes of a name.
func nameOf(b []byte) string {
	if !bytes.Contains(b, []byte("#")) {
		return string(b)
	}
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		if b[i] == '#' && i+2 < len(b) {
			if c, err := hex.DecodeString(string(b[i+1 : i+3])); err == nil {
				out, i = append(out, c[0]), i+2
				continue
			}
		}
		out = append(out, b[i])
	}
	return string(out)
}

// openPDF follows the cross-references from the newest section to the oldest.
func openPDF(data []byte) (*pdf, error) {
	tail := data[max(0, len(data)-2048):]
	at := bytes.LastIndex(tail, []byte("startxref"))
	if !bytes.HasPrefix(data, []byte("%PDF-")) || at < 0 {
		return nil, refuse(fault.Say("labelfile.pdf"))
	}
	n, end := numbers(tail, at+len("startxref"), 1)
	if end < 0 {
		return nil, refuse(fault.Say("labelfile.pdf"))
	}
	p := &pdf{data: data, objects: map[int]place{}, trailer: dict{}, start: n[0], room: newRoom(), unpacked: map[int]objectStream{}, work: 4*len(data) + maxPart}
	if err := p.follow(n[0]); err != nil {
		return nil, err
	}
	size, ok := natural(p.trailer["Size"])
	if !ok || size > maxObjects || p.trailer["Root"] == nil {
		return nil, refuse(fault.Say("labelfile.pdf"))
	}
	if p.size = size; p.trailer["Encrypt"] != nil {
		return nil, refuse(fault.Say("labelfile.encrypted"))
	}
	return p, nil
}

// follow reads the sections from the newest to the oldest.
func (p *pdf) follow(at int) error {
	for seen, more := map[int]bool{}, true; more; {
		if twice := seen[at]; twice || len(seen) == maxSections || at <= 0 || at >= len(p.data) {
			return refuse(fault.Say("labelfile.pdf"))
		}
		seen[at] = true
		p.sections = append(p.sections, at)
		p.freed = map[int]bool{}
		trailer, err := p.section(at)
		if err != nil {
			return err
		}
		hidden, hybrid, err := numberIn(trailer, "XRefStm")
		if err == nil && hybrid {
			err = p.hidden(hidden)
		}
		if err != nil {
			return err
		}
		for k, v := range trailer {
			if p.trailer[k] == nil {
				p.trailer[k] = v
			}
		}
		if at, more, err = numberIn(trailer, "Prev"); err != nil {
			return err
		}
	}
	return nil
}

// hidden reads the stream of cross-references beside a table. It has the objects that old programs are not to see, which the table calls free.
func (p *pdf) hidden(at int) error {
	if at <= 0 || at >= len(p.data) {
		return refuse(fault.Say("labelfile.pdf"))
	}
	p.sections = append(p.sections, at)
	p.beside = true
	defer func() { p.beside = false }()
	_, err := p.crossStream(blanks(p.data, at))
	return err
}

// numberIn returns a number of a trailer, and whether it is there.
func numberIn(d dict, key string) (n int, there bool, err error) {
	v, there := d[key]
	if !there {
		return 0, false, nil
	}
	n, ok := natural(v)
	if !ok {
		return 0, false, refuse(fault.Say("labelfile.pdf"))
	}
	return n, true, nil
}

// spend counts bytes that were read.
func (p *pdf) spend(n int) error {
	if p.work -= n; p.work < 0 {
		return refuse(fault.Say("labelfile.unpacked"))
	}
	return nil
}

// section reads one section of cross-references and returns its trailer.
func (p *pdf) section(at int) (dict, error) {
	from := at
	at = blanks(p.data, at)
	if err := p.spend(at - from); err != nil {
		return nil, err
	}
	if bytes.HasPrefix(p.data[at:], []byte("xref")) {
		return p.table(at + len("xref"))
	}
	if at == blanks(p.data, p.start) {
		p.stream = true
	}
	return p.crossStream(at)
}

// enter notes where an object is, unless a newer section did.
func (p *pdf) enter(number int, x place) error {
	if p.entries++; p.entries > maxEntries {
		return refuse(fault.Say("labelfile.unpacked"))
	}
	if number > maxObjects {
		return refuse(fault.Say("labelfile.pdf"))
	}
	if _, ok := p.objects[number]; !ok || p.beside && p.freed[number] {
		p.objects[number] = x
		if x.free && !p.beside {
			p.freed[number] = true
		}
	}
	return nil
}

// table reads a table of cross-references.
func (p *pdf) table(at int) (dict, error) {
	for from := at; ; {
		at = blanks(p.data, at)
		if bytes.HasPrefix(p.data[at:], []byte("trailer")) {
			d, end, ok := dictionary(p.data, blanks(p.data, at+len("trailer")))
			if !ok {
				return nil, refuse(fault.Say("labelfile.pdf"))
			}
			return d, p.spend(end - from)
		}
		head, end := numbers(p.data, at, 2)
		if end < 0 || head[0] > maxObjects || head[1] > len(p.data)/10 {
			return nil, refuse(fault.Say("labelfile.pdf"))
		}
		at = end
		for i := range head[1] {
			n, end := numbers(p.data, at, 2)
			if end < 0 {
				return nil, refuse(fault.Say("labelfile.pdf"))
			}
			at = blanks(p.data, end)
			if at >= len(p.data) || p.data[at] != 'n' && p.data[at] != 'f' {
				return nil, refuse(fault.Say("labelfile.pdf"))
			}
			if err := p.enter(head[0]+i, place{offset: n[0], generation: n[1], free: p.data[at] == 'f'}); err != nil {
				return nil, err
			}
			at++
		}
	}
}

// indirect reads the object that begins at an offset: its number, its text without a stream, and where that ends.
func (p *pdf) indirect(at int) (number int, text []byte, end int, err error) {
	if at < 0 || at >= len(p.data) {
		return 0, nil, 0, refuse(fault.Say("labelfile.pdf"))
	}
	n, to := numbers(p.data, at, 2)
	if to < 0 {
		return 0, nil, 0, refuse(fault.Say("labelfile.pdf"))
	}
	to = blanks(p.data, to)
	if !bytes.HasPrefix(p.data[to:], []byte("obj")) {
		return 0, nil, 0, refuse(fault.Say("labelfile.pdf"))
	}
	from := blanks(p.data, to+len("obj"))
	end = value(p.data, from, 0)
	if end < 0 {
		return 0, nil, 0, refuse(fault.Say("labelfile.pdf"))
	}
	return n[0], p.data[from:end], end, p.spend(end - at)
}

// streamAt returns the dictionary and the unpacked data of a stream, at most so many bytes.
func (p *pdf) streamAt(at, most int) (dict, []byte, error) {
	d, from, to, err := p.rawStream(at)
	if err != nil {
		return nil, nil, err
	}
	body, err := p.filtered(d, p.data[from:to], most)
	return d, body, err
}

// rawStream returns the dictionary of a stream, and where its data stand as they are.
func (p *pdf) rawStream(at int) (d dict, from, to int, err error) {
	_, text, end, err := p.indirect(at)
	if err != nil {
		return nil, 0, 0, err
	}
	d, _, ok := dictionary(text, 0)
	end = blanks(p.data, end)
	if !ok || !bytes.HasPrefix(p.data[min(end, len(p.data)):], []byte("stream")) {
		return nil, 0, 0, refuse(fault.Say("labelfile.pdf"))
	}
	end += len("stream")
	if bytes.HasPrefix(p.data[end:], []byte("\r\n")) {
		end += 2
	} else if bytes.HasPrefix(p.data[end:], []byte("\n")) {
		end++
	}
	length, ok := natural(d["Length"])
	if number, _, ref := reference(d["Length"]); ref > 0 {
		text, err := p.object(number, true)
		if err != nil {
			return nil, 0, 0, err
		}
		length, ok = natural(bytes.TrimSpace(text))
	}
	if !ok || length > len(p.data)-end {
		return nil, 0, 0, refuse(fault.Say("labelfile.pdf"))
	}
	if after := blanks(p.data, end+length); !bytes.HasPrefix(p.data[after:], []byte("endstream")) { // other programs would look for its end
		return nil, 0, 0, refuse(fault.Say("labelfile.pdf"))
	}
	return d, end, end + length, nil
}

// filtered undoes the one compression that cross-references, object streams and metadata have.
func (p *pdf) filtered(d dict, body []byte, most int) ([]byte, error) {
	filter := strings.TrimSpace(strings.Trim(string(d["Filter"]), "[]"))
	switch strings.TrimSpace(filter) {
	case "":
		return body, nil
	case "/FlateDecode":
	default:
		return nil, refuse(fault.Say("labelfile.pdf_filter"))
	}
	out, err := unpack(body, most, p.room)
	if err != nil {
		return nil, err
	}
	text := bytes.TrimSpace(bytes.Trim(d["DecodeParms"], "[]"))
	if len(text) == 0 || string(text) == "null" {
		return out, nil
	}
	parameters, _, ok := dictionary(text, 0)
	if !ok {
		return nil, refuse(fault.Say("labelfile.pdf_filter"))
	}
	return predicted(parameters, out)
}

// predicted undoes the differences between rows of the PNG predictors.
func predicted(parameters dict, b []byte) ([]byte, error) {
	kind, _ := natural(parameters["Predictor"])
	if kind <= 1 {
		return b, nil
	}
	columns, ok := natural(parameters["Columns"])
	for _, key := range []string{"Colors", "BitsPerComponent"} {
		if v := string(parameters[key]); v != "" && v != map[string]string{"Colors": "1", "BitsPerComponent": "8"}[key] {
			return nil, refuse(fault.Say("labelfile.pdf_filter"))
		}
	}
	if !ok || columns < 1 || columns > 1<<16 || kind < 10 || len(b)%(columns+1) != 0 {
		return nil, refuse(fault.Say("labelfile.pdf_filter"))
	}
	out, before := make([]byte, 0, len(b)), make([]byte, columns)
	for ; len(b) > 0; b = b[columns+1:] {
		row := b[1 : columns+1]
		for i := range row {
			var left, corner byte
			if i > 0 {
				left, corner = row[i-1], before[i-1]
			}
			switch b[0] {
			case 0:
			case 1:
				row[i] += left
			case 2:
				row[i] += before[i]
			case 3:
				row[i] += byte((int(left) + int(before[i])) / 2) // below 256
			case 4:
				row[i] += paeth(left, before[i], corner)
			default:
				return nil, refuse(fault.Say("labelfile.pdf_filter"))
			}
		}
		out, before = append(out, row...), row
	}
	return out, nil
}

// paeth is the predictor of that name (PNG, 9.4).
func paeth(a, b, c byte) byte {
	p := int(a) + int(b) - int(c)
	da, db, dc := abs(p-int(a)), abs(p-int(b)), abs(p-int(c))
	switch {
	case da <= db && da <= dc:
		return a
	case db <= dc:
		return b
	default:
		return c
	}
}

func abs(n int) int { return max(n, -n) }

// crossStream reads a stream of cross-references.
func (p *pdf) crossStream(at int) (dict, error) {
	d, body, err := p.streamAt(at, maxPart)
	if err != nil {
		return nil, err
	}
	widths, end := numbers(d["W"], 1, 3)
	if string(d["Type"]) != "/XRef" || end < 0 || widths[0] > 8 || widths[1] > 8 || widths[2] > 8 {
		return nil, refuse(fault.Say("labelfile.pdf"))
	}
	index, err := indexOf(d)
	if err != nil {
		return nil, err
	}
	row := widths[0] + widths[1] + widths[2]
	for i := 0; i+1 < len(index); i += 2 {
		for k := range index[i+1] {
			if len(body) < row || row == 0 {
				return nil, refuse(fault.Say("labelfile.pdf"))
			}
			if err := p.enter(index[i]+k, rowOf(body, widths)); err != nil {
				return nil, err
			}
			body = body[row:]
		}
	}
	return d, nil
}

// indexOf returns the ranges of numbers of a stream of cross-references.
func indexOf(d dict) ([]int, error) {
	size, ok := natural(d["Size"])
	if !ok || size > maxObjects {
		return nil, refuse(fault.Say("labelfile.pdf"))
	}
	text := bytes.Trim(d["Index"], "[] \r\n\t")
	if len(text) == 0 {
		return []int{0, size}, nil
	}
	words := bytes.Fields(text)
	out, end := numbers(text, 0, len(words))
	if end < 0 || len(out)%2 != 0 {
		return nil, refuse(fault.Say("labelfile.pdf"))
	}
	return out, nil
}

// rowOf reads a row of a stream of cross-references.
func rowOf(b []byte, widths []int) place {
	field := func(width int) int {
		var wide [8]byte
		copy(wide[8-width:], b[:width])
		b = b[width:]
		return int(min(binary.BigEndian.Uint64(wide[:]), 1<<40)) // bounded here
	}
	kind := 1
	if widths[0] > 0 {
		kind = field(widths[0])
	}
	second, third := field(widths[1]), field(widths[2])
	switch kind {
	case 1:
		return place{offset: second, generation: third}
	case 2:
		return place{in: second, index: third}
	default:
		return place{free: true}
	}
}

// object returns the text of an object; plain refuses those in streams of objects.
func (p *pdf) object(number int, plain bool) ([]byte, error) {
	x, ok := p.objects[number]
	if !ok || x.free || plain && x.in != 0 {
		return nil, refuse(fault.Say("labelfile.pdf"))
	}
	if x.in != 0 {
		return p.packed(x, number)
	}
	n, text, _, err := p.indirect(x.offset)
	if err != nil || n != number {
		return nil, refuse(fault.Say("labelfile.pdf"))
	}
	return text, nil
}

// packed returns the text of an object in a stream of objects.
func (p *pdf) packed(x place, number int) ([]byte, error) {
	holder, ok := p.objects[x.in]
	if !ok || holder.free || holder.in != 0 {
		return nil, refuse(fault.Say("labelfile.pdf"))
	}
	s, err := p.streamOfObjects(x.in, holder.offset)
	if err != nil {
		return nil, err
	}
	if x.index >= len(s.heads)/2 || s.heads[2*x.index] != number || s.heads[2*x.index+1] > len(s.body) {
		return nil, refuse(fault.Say("labelfile.pdf"))
	}
	from := blanks(s.body, s.heads[2*x.index+1])
	to := value(s.body, from, 0)
	if to < 0 {
		return nil, refuse(fault.Say("labelfile.pdf"))
	}
	return s.body[from:to], p.spend(to - from)
}

// objectStream is a stream of objects, unpacked: the numbers and places of the objects, in turn, and their texts.
type objectStream struct {
	heads []int
	body  []byte
}

// streamOfObjects unpacks a stream of objects once, however many of them are asked for.
func (p *pdf) streamOfObjects(number, offset int) (objectStream, error) {
	if s, ok := p.unpacked[number]; ok {
		return s, nil
	}
	d, body, err := p.streamAt(offset, maxPart)
	if err != nil {
		return objectStream{}, err
	}
	count, ok := natural(d["N"])
	firstAt, ok2 := natural(d["First"])
	if !ok || !ok2 || count > maxPieces || count > len(body) || firstAt > len(body) {
		return objectStream{}, refuse(fault.Say("labelfile.pdf"))
	}
	heads, end := numbers(body[:firstAt], 0, 2*count)
	if end < 0 {
		return objectStream{}, refuse(fault.Say("labelfile.pdf"))
	}
	s := objectStream{heads, body[firstAt:]}
	p.unpacked[number] = s
	return s, nil
}

// dictOf returns a dictionary that stands directly or by reference.
func (p *pdf) dictOf(text []byte) (dict, error) {
	if number, _, ref := reference(text); ref > 0 {
		var err error
		if text, err = p.object(number, false); err != nil {
			return nil, err
		}
	}
	d, _, ok := dictionary(text, 0)
	if !ok {
		return nil, refuse(fault.Say("labelfile.pdf"))
	}
	return d, nil
}

// textOf decodes a string.
func textOf(b []byte) (string, bool) {
	var raw []byte
	switch {
	case bytes.HasPrefix(b, []byte("(")):
		raw = literal(b[1 : len(b)-1])
	case bytes.HasPrefix(b, []byte("<")) && !bytes.HasPrefix(b, []byte("<<")):
		digits := strings.Map(func(r rune) rune {
			if r < 0x80 && isSpace(byte(r)) {
				return -1
			}
			return r
		}, string(b[1:len(b)-1]))
		if len(digits)%2 == 1 {
			digits += "0"
		}
		var err error
		if raw, err = hex.DecodeString(digits); err != nil {
			return "", false
		}
	default:
		return "", false
	}
	if rest, ok := bytes.CutPrefix(raw, []byte("\xfe\xff")); ok && len(rest)%2 == 0 {
		units := make([]uint16, len(rest)/2)
		for i := range units {
			units[i] = binary.BigEndian.Uint16(rest[2*i:])
		}
		return string(utf16.Decode(units)), true
	}
	raw = bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf"))
	return string(raw), utf8.Valid(raw)
}

// literal resolves the escapes of a string in parentheses.
func literal(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		if b[i] != '\\' || i+1 == len(b) {
			out = append(out, b[i])
			continue
		}
		i++
		if c, ok := map[byte]byte{'n': '\n', 'r': '\r', 't': '\t', 'b': '\b', 'f': '\f'}[b[i]]; ok {
			out = append(out, c)
			continue
		}
		switch {
		case b[i] == '\n':
		case b[i] == '\r':
			if i+1 < len(b) && b[i+1] == '\n' {
				i++
			}
		case b[i] >= '0' && b[i] <= '7':
			n, digits := 0, 0
			for ; digits < 3 && i+digits < len(b) && b[i+digits] >= '0' && b[i+digits] <= '7'; digits++ {
				n = n*8 + int(b[i+digits]-'0')
			}
			out, i = append(out, byte(n)), i+digits-1 // PDF takes the low eight bits
		default:
			out = append(out, b[i])
		}
	}
	return out
}

func readPDF(data []byte) (Found, error) {
	p, err := openPDF(data)
	if err != nil {
		return Found{}, err
	}
	out := Found{Signed: bytes.Contains(data, []byte("/ByteRange"))}
	if info := p.trailer["Info"]; info != nil && string(info) != "null" {
		d, err := p.dictOf(info)
		if err != nil {
			return Found{}, err
		}
		if out.Marks, err = p.informationMarks(d); err != nil {
			return Found{}, err
		}
	}
	packet, err := p.metadata()
	if err != nil {
		return Found{}, err
	}
	marks, err := xmpMarks(packet, p.room)
	out.Marks = append(out.Marks, marks...)
	return out, err
}

// informationMarks returns the labels of a document information.
func (p *pdf) informationMarks(d dict) (out []Mark, err error) {
	for key, v := range d {
		if !namesLabel(key) || len(out) == maxMarks {
			continue
		}
		if number, _, ref := reference(v); ref > 0 {
			if v, err = p.object(number, false); err != nil {
				return nil, err
			}
		}
		s, _ := textOf(v)
		out = append(out, mark("document information", strings.TrimSpace(s)))
	}
	return out, nil
}

// metadata returns the XMP packet of the document, nil without one.
func (p *pdf) metadata() ([]byte, error) {
	root, err := p.dictOf(p.trailer["Root"])
	if err != nil {
		return nil, err
	}
	number, _, ref := reference(root["Metadata"])
	if ref == 0 {
		return nil, nil
	}
	x, ok := p.objects[number]
	if !ok || x.free || x.in != 0 {
		return nil, refuse(fault.Say("labelfile.pdf"))
	}
	_, packet, err := p.streamAt(x.offset, maxPacket)
	return packet, err
}

// writePDF appends an update that sets the key AIGC of the document information.
func writePDF(data []byte, v, _ string) ([]byte, error) {
	p, err := openPDF(data)
	if err != nil {
		return nil, err
	}
	if err := p.changeable(); err != nil {
		return nil, err
	}
	number, generation, text, err := p.information(v)
	if err != nil {
		return nil, err
	}
	out, _ := p.update(written{number: number, generation: generation, text: text, information: true})
	return out, nil
}

// changeable refuses a document that an update would break.
func (p *pdf) changeable() error {
	root, err := p.dictOf(p.trailer["Root"])
	if err != nil {
		return err
	}
	if root["Perms"] != nil || bytes.Contains(p.data, []byte("/DocMDP")) {
		return refuse(fault.Say("labelfile.certified"))
	}
	for n, x := range p.objects {
		if x.in == 0 && !x.free && x.offset >= len(p.data) { // it would be what the update puts there
			return refuse(fault.Say("labelfile.pdf"))
		}
		if n >= p.size && !x.free { // other programs take it for missing; a new object of that number would be taken for it
			return refuse(fault.Say("labelfile.pdf"))
		}
	}
	return nil
}

// written is an object of an update.
type written struct {
	number, generation int
	text               string
	stream             []byte // nil for none
	information        bool   // it is the document information
}

// update returns the file with objects appended, in the order of their numbers, and where the data of the last stream begin.
func (p *pdf) update(objects ...written) (file []byte, stream int) {
	out := bytes.NewBuffer(append([]byte(nil), p.data...))
	if p.data[len(p.data)-1] != '\n' {
		_ = out.WriteByte('\n')
	}
	places := make([]place, len(objects))
	for i, o := range objects {
		places[i] = place{offset: out.Len(), generation: o.generation}
		_, _ = fmt.Fprintf(out, "%d %d obj\n%s\n", o.number, o.generation, o.text)
		if o.stream != nil {
			stream = out.Len() + len("stream\n")
			_, _ = fmt.Fprintf(out, "stream\n%s\nendstream\n", o.stream)
		}
		_, _ = out.WriteString("endobj\n")
	}
	p.finish(out, objects, places)
	return out.Bytes(), stream
}

// information returns the number of the document information and its new text.
func (p *pdf) information(v string) (number, generation int, text string, err error) {
	entry := "/AIGC (" + strings.NewReplacer(`\`, `\\`, `(`, `\(`, `)`, `\)`).Replace(v) + ")"
	info := p.trailer["Info"]
	if info == nil || string(info) == "null" {
		return p.size, 0, "<< " + entry + " >>", nil
	}
	old := info
	number = p.size
	if n, g, ref := reference(info); ref > 0 {
		if number, generation = n, g; p.objects[n].in != 0 {
			generation = 0
		}
		if old, err = p.object(n, false); err != nil {
			return 0, 0, "", err
		}
	}
	d, end, ok := dictionary(old, 0)
	if !ok {
		return 0, 0, "", refuse(fault.Say("labelfile.pdf"))
	}
	if there, ok := d["AIGC"]; ok {
		from := cap(old) - cap(there) // the value is a part of the text
		return number, generation, string(splice(old[:end], from, from+len(there), entry[len("/AIGC "):])), nil
	}
	return number, generation, string(splice(old[:end], end-2, end-2, " "+entry+" ")), nil
}

// finish writes the cross-references of the update, in the form that the newest section has.
func (p *pdf) finish(out *bytes.Buffer, objects []written, places []place) {
	here, size, info := out.Len(), p.size, p.trailer["Info"]
	for _, o := range objects {
		size = max(size, o.number+1)
		if o.information {
			info = fmt.Appendf(nil, "%d %d R", o.number, o.generation)
		}
	}
	trailer := fmt.Sprintf("/Root %s /Prev %d%s", p.trailer["Root"], p.start, p.ids(objects))
	if info != nil {
		trailer = fmt.Sprintf("/Info %s %s", info, trailer)
	}
	if !p.stream {
		_, _ = out.WriteString("xref\n")
		for i, o := range objects {
			_, _ = fmt.Fprintf(out, "%d 1\n%010d %05d n \n", o.number, places[i].offset, places[i].generation)
		}
		_, _ = fmt.Fprintf(out, "trailer\n<< /Size %d %s >>\nstartxref\n%d\n%%%%EOF\n", size, trailer, here)
		return
	}
	// The stream of cross-references is an object too, and has an entry for itself.
	own, index := size, ""
	var rows []byte
	for i, o := range objects {
		rows = append(rows, row(places[i].offset, places[i].generation)...)
		index += fmt.Sprintf("%d 1 ", o.number)
	}
	rows = append(rows, row(here, 0)...)
	_, _ = fmt.Fprintf(out, "%d 0 obj\n<< /Type /XRef /Size %d /W [1 5 2] /Index [%s%d 1] /Length %d %s >>\nstream\n%s\nendstream\nendobj\nstartxref\n%d\n%%%%EOF\n",
		own, own+1, index, own, len(rows), trailer, rows, here)
}

// row is an entry of a stream of cross-references for an object at an offset.
func row(offset, generation int) []byte {
	out := binary.BigEndian.AppendUint64(nil, uint64(offset)) // not negative
	out = append([]byte{1}, out[3:]...)
	return binary.BigEndian.AppendUint16(out, uint16(generation)) // at most 65535 in a file that was read
}

// ids returns the identifiers of the file, the second of which names this version: it is over all but the data of new streams, since content credentials are such data, and
// cover the identifiers.
func (p *pdf) ids(objects []written) string {
	text := p.trailer["ID"]
	if len(text) < 2 {
		return ""
	}
	from := blanks(text, 1)
	to := value(text, from, 1)
	if to < 0 || text[from] != '<' && text[from] != '(' {
		return ""
	}
	h := sha256.New()
	_, _ = h.Write(p.data)
	for _, o := range objects {
		_, _ = fmt.Fprintf(h, "%d %d %s", o.number, o.generation, o.text)
	}
	return fmt.Sprintf(" /ID [%s <%x>]", text[from:to], h.Sum(nil)[:16])
}
