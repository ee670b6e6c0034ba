package segment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/sluice-project/sluice/audit/durable"
	"github.com/sluice-project/sluice/internal/seal"
)

// pageBytes is how much of a file one page has in clear: small enough to read a passage, large enough that the tags do not count.
const pageBytes = 16 << 10

// sealer encrypts the parts of one store.
type sealer struct {
	key   seal.Key
	store string // its random id: what is of another store does not open
}

func (v sealer) label(file string, position int64, more ...string) []byte {
	return seal.Label(append([]string{"rag/segment", v.store, file, strconv.FormatInt(position, 10)}, more...)...)
}

// damaged is the error of what a file has at offset.
func damaged(path string, offset int64, format string, args ...any) error {
	return fmt.Errorf("%w: %s, offset %d: "+format, append([]any{ErrDamaged, path, offset}, args...)...)
}

// pageWriter writes a file of pages. Its size is that of what was written to it, in clear.
type pageWriter struct {
	ctx    context.Context //nolint:containedctx // of what writes the file, which is one call
	sealer sealer
	name   string
	f      durable.File
	page   []byte
	out    []byte // sealed pages that are not written yet
	size   int64
}

// Write implements [io.Writer].
func (w *pageWriter) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		took := min(len(b), pageBytes-len(w.page))
		w.page = append(w.page, b[:took]...)
		b = b[took:]
		w.size += int64(took)
		if len(w.page) == pageBytes {
			if err := w.seal(); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}

func (w *pageWriter) seal() error {
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	number := (w.size - 1) / pageBytes
	w.out = append(w.out, w.sealer.key.Seal(w.page, w.sealer.label(w.name, number))...)
	w.page = w.page[:0]
	if len(w.out) < 1<<20 {
		return nil
	}
	return w.flush()
}

func (w *pageWriter) flush() error {
	n, err := w.f.Write(w.out)
	if err == nil && n < len(w.out) {
		err = io.ErrShortWrite
	}
	w.out = w.out[:0]
	return err
}

// writeSealed makes the file name in dir with what fill writes, durably but for its name, and returns its size in clear. A file that could not be
// written is removed.
func writeSealed(ctx context.Context, files durable.Files, dir string, v sealer, name string, fill func(io.Writer) error) (
	size int64, err error,
) {
	path := filepath.Join(dir, name)
	f, err := files.Create(path)
	if err != nil {
		return 0, fmt.Errorf("write %s: %w", path, err)
	}
	w := &pageWriter{ctx: ctx, sealer: v, name: name, f: f}
	err = fill(w)
	if err == nil && len(w.page) > 0 {
		err = w.seal()
	}
	if err == nil {
		err = w.flush()
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return 0, fmt.Errorf("write %s: %w", path, errors.Join(err, files.Remove(path)))
	}
	return w.size, nil
}

// sealedFile reads a file of pages. It is safe for concurrent use.
type sealedFile struct {
	sealer sealer
	name   string
	f      *os.File
	size   int64 // in clear
}

// openSealed opens a file that must have size bytes in clear.
func openSealed(dir string, v sealer, name string, size int64) (*sealedFile, error) {
	path := filepath.Join(dir, name)
	f, err := os.Open(path) //nolint:gosec // a name of ours, from an authentic manifest
	if err != nil {
		return nil, damaged(path, 0, "%w", err)
	}
	s := &sealedFile{v, name, f, size}
	info, err := f.Stat()
	want := size + (size+pageBytes-1)/pageBytes*seal.Overhead
	if err == nil && info.Size() != want {
		err = damaged(path, min(want, info.Size()), "it has %d bytes instead of %d", info.Size(), want)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return s, nil
}

// page returns a page in clear.
func (s *sealedFile) page(number int64) ([]byte, error) {
	offset := number * (pageBytes + seal.Overhead)
	n := min(pageBytes, s.size-number*pageBytes)
	if number < 0 || n <= 0 {
		return nil, damaged(s.f.Name(), offset, "there is no page %d", number)
	}
	b := make([]byte, n+seal.Overhead)
	if _, err := s.f.ReadAt(b, offset); err != nil {
		return nil, damaged(s.f.Name(), offset, "%w", err)
	}
	out, err := s.sealer.key.Open(b, s.sealer.label(s.name, number))
	if err != nil {
		return nil, damaged(s.f.Name(), offset, "page %d does not open", number)
	}
	return out, nil
}

// pageReader reads a file from a place on, keeping one page.
type pageReader struct {
	file   *sealedFile
	at     int64
	number int64
	page   []byte
}

// Read implements [io.Reader].
func (r *pageReader) Read(b []byte) (int, error) {
	if r.at >= r.file.size {
		return 0, io.EOF
	}
	if n := r.at / pageBytes; r.page == nil || n != r.number {
		page, err := r.file.page(n)
		if err != nil {
			return 0, err
		}
		r.page, r.number = page, n
	}
	n := copy(b, r.page[r.at%pageBytes:])
	r.at += int64(n)
	return n, nil
}

// texts is where the texts of a part are: in memory as long as it grows, in a file from then on.
type texts struct {
	memory []byte
	file   *sealedFile
}

// textReader reads records of texts; successive ones that lie together decrypt each page once.
type textReader struct {
	from  *texts
	pages pageReader
}

func (t *texts) reader() *textReader {
	return &textReader{t, pageReader{file: t.file}}
}

func (r *textReader) record(offset int64, length uint32) ([]byte, error) {
	if r.from.file == nil {
		if offset < 0 || offset > int64(len(r.from.memory)) || int64(length) > int64(len(r.from.memory))-offset {
			return nil, fmt.Errorf("%w: a text of %d bytes at %d", ErrDamaged, length, offset)
		}
		return r.from.memory[offset : offset+int64(length)], nil
	}
	if offset < 0 || offset > r.from.file.size || int64(length) > r.from.file.size-offset {
		return nil, damaged(r.from.file.f.Name(), offset, "a text of %d bytes", length)
	}
	r.pages.at = offset
	b := make([]byte, length)
	if _, err := io.ReadFull(&r.pages, b); err != nil {
		return nil, err
	}
	return b, nil
}
