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
	pdfAtOnce     = 2         // documents at a time
	maxPages      = 3000
	maxPageLetter = 200_000 // characters of one page
)

// pdfEngine is PDFium. It is compiled when the first PDF comes, which takes seconds, and kept.
type pdfEngine struct {
	dir    string // where what was compiled is kept; "": nowhere
	mu     sync.Mutex
	pool   pdfium.Pool
	closed bool
}

func (e *pdfEngine) instance(ctx context.Context) (pdfium.Pdfium, error) {
	pool, err := e.compiled()
	if err != nil {
		return nil, err
	}
	return pool.GetInstanceWithContext(ctx)
}

// compiled returns the pool of instances. It waits for no context: what one document compiles serves all.
func (e *pdfEngine) compiled() (pdfium.Pool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, errors.New("parse: the reader is closed")
	}
	if e.pool != nil {
		return e.pool, nil
	}
	config := wazero.NewRuntimeConfig().WithCoreFeatures(api.CoreFeaturesV2 | experimental.CoreFeaturesExceptionHandling).
		WithCloseOnContextDone(true).WithMemoryLimitPages(pdfMemory >> 16)
	if e.dir != "" {
		cache, err := wazero.NewCompilationCacheWithDir(e.dir)
		if err != nil {
			return nil, fmt.Errorf("keep compiled PDFium: %w", err)
		}
		config = config.WithCompilationCache(cache)
	}
	pool, err := webassembly.Init(webassembly.Config{
		Context:  experimental.WithCompilationWorkers(context.Background(), min(4, runtime.GOMAXPROCS(0))),
		MaxTotal: pdfAtOnce, Stdout: io.Discard, Stderr: io.Discard,
		FSConfig:      wazero.NewFSConfig(), // without it PDFium would see all files
		RuntimeConfig: config,
	})
	if err != nil {
		return nil, fmt.Errorf("start PDFium: %w", err)
	}
	e.pool = pool
	return pool, nil
}

func (e *pdfEngine) close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	if e.pool == nil {
		return nil
	}
	err := e.pool.Close()
	e.pool = nil
	return err
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

func (r *reading) readPDF(body []byte) (Document, error) {
	if _, err := r.pdf.compiled(); err != nil { // its time is not the document's
		return Document{}, err
	}
	ctx := r.ctx
	if r.depth == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(r.parent, r.cfg.MaxTime)
		defer cancel()
	}
	pages, err := r.pdf.pages(ctx, body)
	if err != nil {
		return Document{}, err
	}
	return r.layOut(ctx, pages)
}

// pages reads the characters of all pages. An instance of PDFium reads one document and is thrown away.
func (e *pdfEngine) pages(ctx context.Context, body []byte) (pages []pdfPage, err error) {
	in, err := e.instance(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil, errSlow
		}
		return nil, fmt.Errorf("start PDFium: %w", err)
	}
	killed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(killed)
		_ = in.Kill()
	})
	defer func() {
		if p := recover(); p != nil { // of the code around PDFium, when that has died
			pages, err = nil, errDamaged
		}
		if stop() {
			_ = in.Close()
			return
		}
		<-killed
		pages, err = nil, errSlow
	}()
	doc, err := in.OpenDocument(&requests.OpenDocument{File: &body})
	switch {
	case errors.Is(err, pdferrors.ErrPassword), errors.Is(err, pdferrors.ErrSecurity):
		return nil, errLocked
	case err != nil:
		return nil, errDamaged
	}
	count, err := in.FPDF_GetPageCount(&requests.FPDF_GetPageCount{Document: doc.Document})
	if err != nil || count.PageCount == 0 {
		return nil, errDamaged
	}
	if count.PageCount > maxPages {
		return nil, refuse(fault.Say("parse.pdf_pages", count.PageCount, maxPages))
	}
	total := 0
	for i := range count.PageCount {
		p, err := readPage(in, doc.Document, i)
		if err != nil {
			return nil, err
		}
		if total += len(p.glyphs); total > maxText/4 {
			return nil, refuse(fault.Say("parse.too_much_text", maxText))
		}
		pages = append(pages, p)
	}
	return pages, nil
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
		return out, refuse(fault.Say("parse.too_much_text", maxText))
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
