package parse

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-project/sluice/internal/fault"
)

// segment is a piece of a line: characters that stand close to each other.
type segment struct {
	text                     string
	left, right, bottom, top float64
	size                     float64
}

func (s segment) middle() float64 { return (s.bottom + s.top) / 2 }
func (s segment) height() float64 { return s.top - s.bottom }

// line is what stands beside each other in one column.
type line struct{ parts []segment }

func (l line) text() string {
	var out strings.Builder
	for i, p := range l.parts {
		if i > 0 {
			out.WriteByte(' ')
		}
		out.WriteString(p.text)
	}
	return out.String()
}

// divides reports whether the line ends inside a word.
func (l line) divides() bool { return strings.HasSuffix(l.parts[len(l.parts)-1].text, string(hyphen)) }

func (l line) box() segment {
	b := l.parts[0]
	for _, p := range l.parts[1:] {
		b.left, b.right, b.bottom, b.top = min(b.left, p.left), max(b.right, p.right), min(b.bottom, p.bottom), max(b.top, p.top)
		b.size = max(b.size, p.size)
	}
	return b
}

// region is a column of a page, or what reaches over its columns.
type region struct {
	lines       []line
	left, right float64
}

// layout turns the characters of pages into blocks: columns one after the other, lines into paragraphs, what is aligned into tables, and what is
// larger than the text into headings. What stands at the edges of several pages is left out.
type layout struct {
	r        *reading
	pages    [][]region
	heights  []float64 // of the pages
	scanned  []int     // pages without text that have something on them
	segments int       // of all pages
	turned   int       // characters across the page
}

// add lays the next page out.
func (l *layout) add(p pdfPage) error {
	if err := ended(l.r.ctx); err != nil {
		return err
	}
	n := len(l.pages) + 1
	if garbled(p.glyphs) {
		return refuse(fault.Say("parse.pdf_garbled", n))
	}
	var regions []region
	segments, across := p.segments()
	l.turned += across
	if l.segments += len(segments); l.segments > maxSegments {
		return errText
	}
	switch {
	case len(segments) > 0:
		regions = columns(segments, 0)
	case p.objects > 0:
		l.scanned = append(l.scanned, n)
	}
	l.pages, l.heights = append(l.pages, regions), append(l.heights, p.height)
	return nil
}

func (l *layout) document() (Document, error) {
	if len(l.scanned) > 0 && !slices.ContainsFunc(l.pages, func(r []region) bool { return len(r) > 0 }) {
		return Document{}, refuse(fault.Say("parse.pdf_scanned"))
	}
	running := dropRunning(l.pages, l.heights)
	b := l.r.builder()
	sizes := headingSizes(l.pages)
	for i, regions := range l.pages {
		b.page = i + 1
		for _, g := range regions {
			if err := ended(l.r.ctx); err != nil {
				return Document{}, err
			}
			writeRegion(b, g, sizes)
		}
	}
	d, err := b.document("")
	if len(l.scanned) > 0 {
		d.Left = append(d.Left, fault.Say("parse.left.pages", numbersOf(l.scanned)))
	}
	if running > 0 {
		d.Left = append(d.Left, fault.Say("parse.left.running", running))
	}
	if l.turned > 0 {
		d.Left = append(d.Left, fault.Say("parse.left.turned", l.turned))
	}
	return d, err
}

// segments turns the page so that most of its text is upright, and cuts the text where the file ends a line or leaves a gap. across counts the
// characters that stand otherwise.
func (p pdfPage) segments() (out []segment, across int) {
	quarter := [4]int{}
	for _, g := range p.glyphs {
		quarter[turn(g.angle)]++
	}
	most := 0
	for q, n := range quarter {
		if n > quarter[most] {
			most = q
		}
	}
	var text strings.Builder
	var box segment
	var last glyph
	var sum, n float64
	open, blank := false, false
	end := func() {
		box.text = strings.TrimSpace(text.String())
		if box.text != "" && n > 0 {
			box.size = sum / n
			out = append(out, box)
		}
		text.Reset()
		open, blank, sum, n = false, false, 0, 0
	}
	for _, g := range p.glyphs {
		switch {
		case g.r == '\r' || g.r == '\n':
			end()
			continue
		case g.r == 2: // a hyphen at the end of a line, which PDFium has recognised
			text.WriteRune(hyphen)
			continue
		case g.r == 0 || private(g.r) || g.r < 0x20 || invisible(g.r):
			continue
		case unicode.IsSpace(g.r) || g.r == 0xa0:
			blank = true
			continue
		}
		if turn(g.angle) != most && g.right > g.left { // a watermark across the page, a mark at its side
			across++
			continue
		}
		g = g.upright(most)
		if g.size <= 0 {
			g.size = max(g.top-g.bottom, 1)
		}
		if open {
			gap := g.left - last.right
			sameLine := min(g.top, box.top)-max(g.bottom, box.bottom) > 0 || math.Abs(g.bottom-last.bottom) < g.size/3
			if !sameLine || gap > 1.1*g.size && blank || gap > 2*g.size || gap < -1.5*g.size {
				end()
			} else if blank && (!ideograph(last.r) || !ideograph(g.r) || gap > 0.6*g.size) {
				text.WriteByte(' ')
			}
		}
		if !open {
			box = segment{left: g.left, right: g.right, bottom: g.bottom, top: g.top}
			open = true
		}
		blank = false
		box.left, box.right, box.bottom, box.top = min(box.left, g.left), max(box.right, g.right), min(box.bottom, g.bottom), max(box.top, g.top)
		text.WriteRune(g.r)
		sum, n, last = sum+g.size, n+1, g
	}
	end()
	return out, across
}

// hyphen stands for one that divides a word at the end of a line. It is no character of text, and the next line takes it away.
const hyphen = '\u00ad'

// turn is the quarter of a circle, from 0 to 3, that a character is turned by.
func turn(angle float64) int {
	return int(math.Round(angle/(math.Pi/2))) & 3
}

// upright turns a character back by quarters.
func (g glyph) upright(quarters int) glyph {
	switch quarters {
	case 1:
		g.left, g.right, g.bottom, g.top = g.bottom, g.top, -g.right, -g.left
	case 2:
		g.left, g.right, g.bottom, g.top = -g.right, -g.left, -g.top, -g.bottom
	case 3:
		g.left, g.right, g.bottom, g.top = -g.top, -g.bottom, g.left, g.right
	}
	return g
}

func private(r rune) bool { return r >= 0xe000 && r <= 0xf8ff || r >= 0xf0000 || r == 0xfffe }

// ideograph reports characters that no blank separates.
func ideograph(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana) || r >= 0x3000 && r <= 0x303f || r >= 0xff00 && r <= 0xff60
}

// columns divides a page where a gap runs down between lines of text. What reaches over the gap stays between what is above and below it. A table
// has gaps too, but its cells do not fill the width between them.
func columns(all []segment, depth int) []region {
	slices.SortStableFunc(all, func(a, b segment) int { return cmp.Compare(b.middle(), a.middle()) })
	at, ok := gutter(all)
	if !ok || depth == maxColumnDepth {
		return []region{makeRegion(all)}
	}
	var out []region
	var left, right []segment
	flush := func() {
		for _, side := range [][]segment{left, right} {
			if len(side) > 0 {
				out = append(out, columns(side, depth+1)...)
			}
		}
		left, right = nil, nil
	}
	var across []segment
	for _, s := range all {
		switch {
		case s.right <= at || s.left >= at:
			if len(across) > 0 {
				out = append(out, makeRegion(across))
				across = nil
			}
			if s.right <= at {
				left = append(left, s)
			} else {
				right = append(right, s)
			}
		default:
			flush()
			across = append(across, s)
		}
	}
	if len(across) > 0 {
		flush()
		out = append(out, makeRegion(across))
	}
	flush()
	return out
}

// maxColumnDepth is how often columns are divided again.
const maxColumnDepth = 4

// maxEdges is how many places are tried for a gap.
const maxEdges = 200

// gutter looks for the place between two columns.
func gutter(all []segment) (at float64, ok bool) {
	if len(all) < 8 {
		return 0, false
	}
	left, right := math.Inf(1), math.Inf(-1)
	for _, s := range all {
		left, right = min(left, s.left), max(right, s.right)
	}
	best := 0.0
	// The right edges of segments are where a gap may begin.
	var edges []float64
	for _, s := range all {
		if s.right > left+0.2*(right-left) && s.right < left+0.8*(right-left) {
			edges = append(edges, math.Ceil(s.right/3)*3) // a few hundred places at most
		}
	}
	slices.Sort(edges)
	edges = slices.Compact(edges)
	if step := len(edges)/maxEdges + 1; step > 1 { // a page is not that wide: one that is made to take long
		kept := edges[:0]
		for i := 0; i < len(edges); i += step {
			kept = append(kept, edges[i])
		}
		edges = kept
	}
	for _, x := range edges {
		var ls, rs sides
		across := 0
		for _, s := range all {
			switch n := utf8.RuneCountInString(s.text); {
			case s.right <= x:
				ls.add(s, n)
			case s.left >= x+4:
				rs.add(s, n)
			default:
				across += n
			}
		}
		total := ls.runes + rs.runes + across
		if ls.n < 4 || rs.n < 4 || ls.runes*5 < total || rs.runes*5 < total || across*3 > total || !ls.full(all, x) || !rs.full(all, x) {
			continue
		}
		if score := float64(ls.runes+rs.runes) + (rs.left-ls.right)/100; score > best {
			best, at, ok = score, x, true
		}
	}
	return at, ok
}

// sides are the segments on one side of a gap.
type sides struct {
	n, runes    int
	left, right float64
}

func (s *sides) add(g segment, runes int) {
	if s.n == 0 {
		s.left, s.right = g.left, g.right
	}
	s.n, s.runes = s.n+1, s.runes+runes
	s.left, s.right = min(s.left, g.left), max(s.right, g.right)
}

// full reports whether most lines fill the column, as lines of text do and cells do not.
func (s *sides) full(all []segment, at float64) bool {
	if s.runes <= 12*s.n {
		return false
	}
	wide := 0
	for _, g := range all {
		if (g.right <= at) == (s.right <= at) && g.left >= s.left && g.right <= s.right && g.right-g.left > 0.6*(s.right-s.left) {
			wide++
		}
	}
	return wide*2 > s.n
}

// makeRegion puts segments into lines. They come from top to bottom.
func makeRegion(all []segment) region {
	r := region{left: math.Inf(1), right: math.Inf(-1)}
	var b segment // of the last line
	for _, s := range all {
		r.left, r.right = min(r.left, s.left), max(r.right, s.right)
		if n := len(r.lines); n > 0 {
			if shared := min(b.top, s.top) - max(b.bottom, s.bottom); shared > 0.5*min(b.height(), s.height()) {
				r.lines[n-1].parts = append(r.lines[n-1].parts, s)
				b.top, b.bottom = max(b.top, s.top), min(b.bottom, s.bottom)
				continue
			}
		}
		b = s
		r.lines = append(r.lines, line{[]segment{s}})
	}
	for _, l := range r.lines {
		slices.SortStableFunc(l.parts, func(a, b segment) int { return cmp.Compare(a.left, b.left) })
	}
	return r
}

var figures = regexp.MustCompile(`[0-9]+`)

// dropRunning takes out the lines at the top and bottom edge that several pages have, if a gap divides them from the text, and counts them. They are
// the same but for the number of the page. What is larger than the text may be a heading: it stays where it comes first, and one with a number stays
// everywhere.
func dropRunning(all [][]region, heights []float64) int {
	if len(all) < 2 {
		return 0
	}
	body := bodySize(all)
	type place struct {
		page, region, line int
		text               string
		large              bool
	}
	found := map[string][]place{}
	for i, regions := range all {
		var lines []edgeLine
		for j, g := range regions {
			for k, l := range g.lines {
				lines = append(lines, edgeLine{l.box(), l.text(), j, k})
			}
		}
		for _, l := range edges(lines, heights[i]) {
			key := figures.ReplaceAllString(l.text, "0")
			found[key] = append(found[key], place{i, l.region, l.line, l.text, l.box.size >= body*larger})
		}
	}
	drop := map[[3]int]bool{}
	for _, places := range found {
		seen := map[int]bool{}
		numbered := runningNumbers{}
		large, varies := false, false
		for _, p := range places {
			seen[p.page] = true
			numbered.add(p.page, p.text)
			large, varies = large || p.large, varies || p.text != places[0].text
		}
		if len(seen) < 2 || len(seen)*5 < 2*len(all) || varies && (large || !numbered.follow()) {
			continue
		}
		for _, p := range places {
			if !large || p.page != places[0].page {
				drop[[3]int{p.page, p.region, p.line}] = true
			}
		}
	}
	for i := range all {
		for j := range all[i] {
			var kept []line
			for k, l := range all[i][j].lines {
				if !drop[[3]int{i, j, k}] {
					kept = append(kept, l)
				}
			}
			all[i][j].lines = kept
		}
	}
	return len(drop)
}

// runningNumbers are those of lines that are the same but for them.
type runningNumbers struct {
	offsets [][2]map[int]bool // of each number of the line: its values, and what they are less the page
}

func (r *runningNumbers) add(page int, text string) {
	for i, s := range figures.FindAllString(text, maxNumbers) {
		if i == len(r.offsets) {
			r.offsets = append(r.offsets, [2]map[int]bool{{}, {}})
		}
		n := number(s, -1)
		r.offsets[i][0][n] = true
		r.offsets[i][1][n-page] = true
	}
}

// maxNumbers is how many numbers of a line are compared.
const maxNumbers = 8

// follow reports whether each number is the same in all lines, or counts the pages.
func (r *runningNumbers) follow() bool {
	return !slices.ContainsFunc(r.offsets, func(o [2]map[int]bool) bool { return len(o[0]) > 1 && len(o[1]) > 1 })
}

// edgeLine is a line of a page with its place.
type edgeLine struct {
	box          segment
	text         string
	region, line int
}

// edges returns the lines at the top and bottom of a page that a gap divides from the rest, at most three on each side.
func edges(lines []edgeLine, height float64) []edgeLine {
	var out []edgeLine
	slices.SortStableFunc(lines, func(a, b edgeLine) int { return cmp.Compare(b.box.top, a.box.top) })
	for n := 1; n <= 3 && n < len(lines); n++ {
		outer, inner := lines[n-1].box, lines[n].box
		if outer.bottom < height*0.85 {
			break
		}
		if outer.bottom-inner.top >= inner.size {
			out = append(out, lines[:n]...)
			break
		}
	}
	slices.SortStableFunc(lines, func(a, b edgeLine) int { return cmp.Compare(a.box.bottom, b.box.bottom) })
	for n := 1; n <= 3 && n < len(lines); n++ {
		outer, inner := lines[n-1].box, lines[n].box
		if outer.top > height*0.15 {
			break
		}
		if inner.bottom-outer.top >= inner.size {
			out = append(out, lines[:n]...)
			break
		}
	}
	return out
}

// larger is how much larger than the text a heading is.
const larger = 1.15

// bodySize is the size of most of the text.
func bodySize(all [][]region) float64 {
	body, _ := sizesOf(all)
	return body
}

// headingSizes returns the sizes that are larger than the text's, the largest first.
func headingSizes(all [][]region) []float64 {
	body, runes := sizesOf(all)
	var out []float64
	for size := range runes {
		if size >= body*larger {
			out = append(out, size)
		}
	}
	slices.Sort(out)
	slices.Reverse(out)
	return out[:min(len(out), 32)]
}

// sizesOf returns the size of most of the text, and how many characters have each.
func sizesOf(all [][]region) (body float64, runes map[float64]int) {
	runes = map[float64]int{}
	for _, regions := range all {
		for _, g := range regions {
			for _, l := range g.lines {
				for _, p := range l.parts {
					runes[half(p.size)] += utf8.RuneCountInString(p.text)
				}
			}
		}
	}
	most := 0
	for size, n := range runes {
		if n > most || n == most && size < body {
			body, most = size, n
		}
	}
	return body, runes
}

func half(size float64) float64 { return math.Round(size*2) / 2 }

// level is the level of a heading of a size; 0: it is text.
func level(sizes []float64, size float64) int {
	if i := slices.Index(sizes, half(size)); i >= 0 {
		return min(i+1, 4)
	}
	return 0
}

// writeRegion writes lines as headings, paragraphs and tables.
func writeRegion(b *builder, g region, sizes []float64) {
	for i := 0; i < len(g.lines); {
		if n := tableLines(g.lines[i:]); n > 1 {
			if rows := tableRows(g.lines[i : i+n]); rows != nil {
				header := 0
				if namesColumns(rows[0]) {
					header = 1
				}
				b.table(rows, header)
				i += n
				continue
			}
		}
		n := 1
		for i+n < len(g.lines) && goesOn(g, i, i+n) && tableLines(g.lines[i+n:]) < 2 {
			n++
		}
		text := joined(g.lines[i : i+n])
		box := g.lines[i].box()
		lv := level(sizes, box.size)
		if lv == 0 && n == 1 {
			lv = chapter(text)
		}
		if lv > 0 && n <= 4 && utf8.RuneCountInString(text) <= 150 {
			b.heading(lv, text)
		} else {
			b.paragraph(text)
		}
		i += n
	}
}

var chapters = regexp.MustCompile(`^第[一二三四五六七八九十百零〇0-9]{1,5}([编篇章部节])([\s　]|$|\p{Han})`)

// chapter is the level of a line that Chinese rules begin a chapter or section with, whatever its size; 0: it is none.
func chapter(text string) int {
	m := chapters.FindStringSubmatch(text)
	if m == nil || utf8.RuneCountInString(text) > 40 || strings.ContainsAny(text, "。；，、：") {
		return 0
	}
	if m[1] == "节" {
		return 2
	}
	return 1
}

// goesOn reports whether line j belongs to the paragraph that the lines from i on are.
func goesOn(g region, i, j int) bool {
	before, next := g.lines[j-1].box(), g.lines[j].box()
	size := max(before.size, next.size)
	if math.Abs(half(before.size)-half(next.size)) > 0.1*size {
		return false
	}
	step := before.middle() - next.middle()
	if step <= 0 || step > 2.1*size {
		return false
	}
	if j-1 > i { // lines of a paragraph are at the same distance
		if first := g.lines[i].box().middle() - g.lines[i+1].box().middle(); step > 1.3*first {
			return false
		}
	}
	if next.left > before.left+size && next.left < g.left+4*size && j-1 > i { // the first line of a paragraph is indented
		return false
	}
	if next.left > g.left+0.8*size && before.left < g.left+0.4*size {
		return false
	}
	if g.lines[j-1].divides() {
		return true
	}
	return before.right > g.right-0.25*(g.right-g.left) || chapterless(before, g)
}

// chapterless is for headings and centred lines, which end where they end: they go on if the next one is as large and near.
func chapterless(before segment, g region) bool {
	return before.size > 0 && before.left > g.left+0.1*(g.right-g.left)
}

// joined is the text of lines: words that were divided are whole again, and no blank is put between characters that have none.
func joined(lines []line) string {
	var out strings.Builder
	last := rune(0)
	for _, l := range lines {
		text := l.text()
		divided := strings.HasSuffix(text, string(hyphen))
		text = strings.TrimSuffix(text, string(hyphen))
		first, _ := utf8.DecodeRuneInString(text)
		if last != 0 && last != hyphen && !(ideograph(last) && ideograph(first)) {
			out.WriteByte(' ')
		}
		out.WriteString(text)
		if last, _ = utf8.DecodeLastRuneInString(text); divided {
			last = hyphen
		}
	}
	return out.String()
}

// maxTableLines is how many lines of a page are looked at for one table.
const maxTableLines = 300

// tableLines counts the lines from the first on that have several parts each, with lines of one part between them that continue a cell.
func tableLines(lines []line) int {
	n := 0
	if len(lines) == 0 || len(lines[0].parts) < 2 {
		return 0
	}
	width := lines[0].box().right - lines[0].box().left
	for i, l := range lines[:min(len(lines), maxTableLines)] {
		if i > 0 {
			before, next := lines[i-1].box(), l.box()
			if before.middle()-next.middle() > 4*max(before.size, next.size) {
				break
			}
		}
		if len(l.parts) > 1 {
			n = i + 1
			continue
		}
		if i-n >= 2 || l.parts[0].right-l.parts[0].left > 0.6*width {
			break
		}
	}
	return n
}

// tableRows puts the parts of lines into columns; nil if they are not aligned.
func tableRows(lines []line) [][]string {
	type column struct{ left, right float64 }
	var cols []column
	var parts []segment
	for _, l := range lines {
		parts = append(parts, l.parts...)
	}
	slices.SortFunc(parts, func(a, b segment) int { return cmp.Compare(a.left, b.left) })
	for _, p := range parts {
		if n := len(cols); n > 0 && p.left < cols[n-1].right {
			cols[n-1].right = max(cols[n-1].right, p.right)
			continue
		}
		cols = append(cols, column{p.left, p.right})
	}
	if len(cols) < 2 || len(cols) > 100 {
		return nil
	}
	var rows [][]string
	clashes := 0
	for _, l := range lines {
		row := make([]string, len(cols))
		for _, p := range l.parts {
			i := 0
			for i < len(cols)-1 && p.left >= cols[i].right {
				i++
			}
			if row[i] != "" {
				clashes++
				row[i] += " "
			}
			row[i] += p.text
		}
		if len(l.parts) == 1 && len(rows) > 0 && row[0] == "" { // a cell goes on
			for i, c := range row {
				if c != "" {
					rows[len(rows)-1][i] = strings.TrimSpace(rows[len(rows)-1][i] + " " + c)
				}
			}
			continue
		}
		rows = append(rows, row)
	}
	if len(rows) < 2 || clashes*4 > len(parts) {
		return nil
	}
	return rows
}

// garbled reports whether the characters of a page are not those that it shows: fonts without a map to Unicode, or with a wrong one. It counts
// characters that nobody writes: without a meaning, of private use, of no daily use in Chinese; and Latin letters without vowels or between signs.
func garbled(glyphs []glyph) bool {
	var n, bad, symbols, han, rare, latin, vowels, signs int
	simplified, traditional := dailySimplified(), dailyTraditional()
	for _, g := range glyphs {
		r := g.r
		switch {
		case r == '\r' || r == '\n' || r == 2 || unicode.IsSpace(r):
			continue
		case r >= 0xf020 && r <= 0xf0ff: // a font of symbols: points of lists, or all of a text
			symbols++
		case r == 0 || r == utf8.RuneError || private(r) || r < 0x20 || !unicode.IsGraphic(r):
			bad++
		case unicode.Is(unicode.Han, r):
			if han++; !simplified(r) && !traditional(r) {
				rare++
			}
		case r < 0x80 && unicode.IsLetter(r):
			latin++
			if strings.ContainsRune("aeiouyAEIOUY", r) {
				vowels++
			}
		case r < 0x80 && unicode.In(r, unicode.P, unicode.S) && !strings.ContainsRune(".,-/|_=*", r):
			signs++
		}
		n++
	}
	switch {
	case bad >= 5 && bad*10 > n, symbols >= 20 && symbols*3 > n:
		return true
	case han >= 30 && rare*5 > han*2:
		return true
	case latin >= 200 && (vowels*6 < latin || vowels*3 > latin*2):
		return true
	case n >= 100 && latin >= 20 && signs*5 > n*2:
		return true
	}
	return false
}
