package parse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"unicode"

	pdfium "github.com/klippa-app/go-pdfium"
	pdferrors "github.com/klippa-app/go-pdfium/errors"
	"github.com/klippa-app/go-pdfium/references"
	"github.com/klippa-app/go-pdfium/requests"
	"github.com/klippa-app/go-pdfium/webassembly"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/sluice-project/sluice/internal/fault"
)

// PDFs are read by PDFium, which runs inside this process as WebAssembly: whatever a file does to it, it sees no file, no network, no clock and no
// memory but its own, and its time ends when ours does. It has no JavaScript and no forms.
const (
	pdfMemory     = 256 << 20 // bytes that one document may take PDFium
	maxPages      = 3000
	maxPageLetter = 200_000 // characters of one page
	maxSegments   = 1 << 20 // pieces of lines, of all pages
)

// pdfEngine is PDFium. It is compiled when the first PDF comes, which takes seconds, and kept.
type pdfEngine struct {
	dir    string // where what was compiled is kept; "": nowhere
	atOnce int    // documents
	mu     sync.Mutex
	start  *pdfStart // nil: not begun, or failed
	closed bool
}

// pdfStart is the start of PDFium, which all wait for who need it.
type pdfStart struct {
	done chan struct{}
	pool pdfium.Pool
	err  error
}

// started returns the pool of instances. It is compiled aside: the compilation goes on when ctx ends, and serves the next document. The next one after
// a failure tries again.
func (e *pdfEngine) started(ctx context.Context) (pdfium.Pool, error) {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil, ErrBusy
	}
	s := e.start
	if s == nil {
		s = &pdfStart{done: make(chan struct{})}
		e.start = s
		go e.compile(s)
	}
	e.mu.Unlock()
	select {
	case <-s.done:
		return s.pool, s.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (e *pdfEngine) compile(s *pdfStart) {
	pool, err := startPDFium(e.dir, e.atOnce)
	if err != nil && e.dir != "" { // a folder that is full, damaged or not ours: slower, but as good
		pool, err = startPDFium("", e.atOnce)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	defer close(s.done)
	if err == nil && e.closed {
		pool, err = nil, errors.Join(ErrBusy, pool.Close())
	}
	if err != nil {
		e.start = nil
	}
	s.pool, s.err = pool, err
}

func startPDFium(dir string, atOnce int) (pdfium.Pool, error) {
	config := wazero.NewRuntimeConfig().WithCoreFeatures(api.CoreFeaturesV2 | experimental.CoreFeaturesExceptionHandling).
		WithCloseOnContextDone(true).WithMemoryLimitPages(pdfMemory >> 16)
	if dir != "" {
		cache, err := wazero.NewCompilationCacheWithDir(dir)
		if err != nil {
			return nil, fmt.Errorf("keep compiled PDFium: %w", err)
		}
		config = config.WithCompilationCache(cache)
	}
	pool, err := webassembly.Init(webassembly.Config{
		Context:  experimental.WithCompilationWorkers(context.Background(), min(4, runtime.GOMAXPROCS(0))),
		MaxTotal: atOnce, Stdout: io.Discard, Stderr: io.Discard,
		FSConfig:      wazero.NewFSConfig(), // without it PDFium would see all files
		RuntimeConfig: config,
	})
	if err != nil {
		return nil, fmt.Errorf("start PDFium: %w", err)
	}
	return pool, nil
}

// close frees PDFium when no document is being read: the pool goes through its instances without a lock.
func (e *pdfEngine) close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	if e.start == nil {
		return nil
	}
	select {
	case <-e.start.done:
	default: // compile does it
		return nil
	}
	pool := e.start.pool
	e.start = nil
	return pool.Close()
}

// letter is a character of a page where it stands; y grows upwards.
type glyph struct {
	r                        rune
	left, right, bottom, top float64
	angle                    float64
	size                     float64
}

// pdfPage is what PDFium says of a page.
type pdfPage struct {
	glyphs        []glyph // in the order in which the file has them, with blanks and line ends where PDFium sees them
	width, height float64
	objects       int
}

// readPDF reads a PDF page by page: what is kept of a page is where its lines stand, not its characters.
func (r *reading) readPDF(body []byte) (Document, error) {
	var pool pdfium.Pool
	var err error
	r.clock.pause(func() { pool, err = r.pdf.started(r.ctx) })
	if err != nil {
		return Document{}, err
	}
	l := &layout{r: r}
	if err := eachPage(r.ctx, pool, body, l.add); err != nil {
		return Document{}, err
	}
	return l.document()
}

// eachPage calls fn with the characters of each page. An instance of PDFium reads one document and is thrown away as it is: what a file made of it
// could keep it from closing.
func eachPage(ctx context.Context, pool pdfium.Pool, body []byte, fn func(pdfPage) error) (err error) {
	in, err := pool.GetInstanceWithContext(ctx)
	if err != nil {
		if err := ended(ctx); err != nil {
			return err
		}
		return fmt.Errorf("start PDFium: %w", err)
	}
	killed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(killed)
		_ = in.Kill()
	})
	defer func() {
		if p := recover(); p != nil { // of the code around PDFium, when that has died
			err = errDamaged
		}
		if stop() {
			_ = in.Kill()
			return
		}
		<-killed
		err = context.Cause(ctx)
	}()
	doc, err := in.OpenDocument(&requests.OpenDocument{File: &body})
	switch {
	case errors.Is(err, pdferrors.ErrPassword), errors.Is(err, pdferrors.ErrSecurity):
		return errLocked
	case err != nil:
		return errDamaged
	}
	count, err := in.FPDF_GetPageCount(&requests.FPDF_GetPageCount{Document: doc.Document})
	if err != nil || count.PageCount == 0 {
		return errDamaged
	}
	if count.PageCount > maxPages {
		return refuse(fault.Say("parse.pdf_pages", count.PageCount, maxPages))
	}
	total := 0
	for i := range count.PageCount {
		p, err := readPage(in, doc.Document, i)
		if err != nil {
			return err
		}
		if total += len(p.glyphs); total > maxText/4 {
			return errText
		}
		if err := fn(p); err != nil {
			return err
		}
	}
	return nil
}

func readPage(in pdfium.Pdfium, doc references.FPDF_DOCUMENT, i int) (out pdfPage, err error) {
	loaded, err := in.FPDF_LoadPage(&requests.FPDF_LoadPage{Document: doc, Index: i})
	if err != nil {
		return out, errDamaged
	}
	defer func() { _, _ = in.FPDF_ClosePage(&requests.FPDF_ClosePage{Page: loaded.Page}) }()
	page := requests.Page{ByReference: &loaded.Page}
	sheet, err := in.FPDF_GetPageSizeByIndex(&requests.FPDF_GetPageSizeByIndex{Document: doc, Index: i})
	if err != nil {
		return out, errDamaged
	}
	out.width, out.height = sheet.Width, sheet.Height
	if n, err := in.FPDFPage_CountObjects(&requests.FPDFPage_CountObjects{Page: page}); err == nil {
		out.objects = n.Count
	}
	text, err := in.FPDFText_LoadPage(&requests.FPDFText_LoadPage{Page: page})
	if err != nil {
		return out, errDamaged
	}
	defer func() { _, _ = in.FPDFText_ClosePage(&requests.FPDFText_ClosePage{TextPage: text.TextPage}) }()
	n, err := in.FPDFText_CountChars(&requests.FPDFText_CountChars{TextPage: text.TextPage})
	if err != nil {
		return out, errDamaged
	}
	if n.Count > maxPageLetter {
		return out, errText
	}
	all, err := in.GetPageTextStructured(&requests.GetPageTextStructured{Page: page, Mode: requests.GetPageTextStructuredModeChars})
	if err != nil {
		return out, errDamaged
	}
	out.glyphs = make([]glyph, 0, len(all.Chars))
	size, since := 0.0, sizeEvery // of the font, and how many characters ago it was asked for
	for i, c := range all.Chars {
		g := glyph{left: c.PointPosition.Left, right: c.PointPosition.Right, bottom: c.PointPosition.Bottom, top: c.PointPosition.Top, angle: c.Angle}
		for _, r := range c.Text {
			g.r = r
			break
		}
		if since++; unicode.IsSpace(g.r) {
			since = sizeEvery
		} else if since > sizeEvery {
			size, since = fontSize(in, text.TextPage, i), 0
		}
		g.size = size
		out.glyphs = append(out.glyphs, g)
	}
	return out, nil
}

// sizeEvery is after how many characters of a word the size of the font is asked for again. To ask for each would take most of the time.
const sizeEvery = 12

// fontSize is the size in which a character is printed, 0 if PDFium does not say it.
func fontSize(in pdfium.Pdfium, page references.FPDF_TEXTPAGE, i int) float64 {
	size, err := in.FPDFText_GetFontSize(&requests.FPDFText_GetFontSize{TextPage: page, Index: i})
	if err != nil {
		return 0
	}
	m, err := in.FPDFText_GetMatrix(&requests.FPDFText_GetMatrix{TextPage: page, Index: i})
	if err != nil {
		return size.FontSize
	}
	return size.FontSize * math.Hypot(float64(m.Matrix.C), float64(m.Matrix.D))
}

// numbersOf lists pages, at most ten.
func numbersOf(pages []int) string {
	var out []string
	for i, p := range pages {
		if i == 10 {
			return strings.Join(out, ", ") + "…"
		}
		out = append(out, strconv.Itoa(p))
	}
	return strings.Join(out, ", ")
}
