package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"

	"github.com/sluice-project/sluice/audit/durable"
	"github.com/sluice-project/sluice/internal/seal"
)

// A log begins with walMagic and a record without a change. A record is its length and a checksum of that and its place, then the sealed change.
const (
	walMagic  = "SLUICEW1"
	walHeader = 8
	walBegin  = len(walMagic) + walHeader + seal.Overhead
)

// link is the tag of a record, to which the next one is bound, also if that is the first of the next log: a log that lacks records at its end
// fits no later log, and a record of another history fits nowhere.
type link [16]byte

func walName(number int64) string { return fmt.Sprintf("wal-%08d", number) }

// wal is the log that is written.
type wal struct {
	sealer sealer
	number int64
	f      durable.File
	size   int64
	last   link
}

// record returns a change as it stands in a log at offset behind another record, and its own link.
func (v sealer) record(plain []byte, number, offset int64, before link) ([]byte, link) {
	sealed := v.key.Seal(plain, v.recordLabel(number, offset, before))
	out := make([]byte, walHeader, walHeader+len(sealed))
	binary.LittleEndian.PutUint32(out, uint32(len(sealed)))
	binary.LittleEndian.PutUint32(out[4:], headerSum(out[:4], number, offset))
	return append(out, sealed...), linkOf(sealed)
}

func (v sealer) recordLabel(number, offset int64, before link) []byte {
	return v.label(walName(number), offset, string(before[:]))
}

func linkOf(sealed []byte) link { return link(sealed[len(sealed)-len(link{}):]) }

// begin returns what a log begins with.
func (v sealer) begin(number int64, before link) ([]byte, link) {
	b, own := v.record(nil, number, int64(len(walMagic)), before)
	return append([]byte(walMagic), b...), own
}

// createWAL begins a log behind a record of the one before, durably.
func createWAL(files durable.Files, dir string, v sealer, number int64, before link) (*wal, error) {
	f, err := files.Create(filepath.Join(dir, walName(number)))
	if err != nil {
		return nil, fmt.Errorf("begin log: %w", err)
	}
	b, own := v.begin(number, before)
	err = durable.WriteSync(f, b)
	if err == nil {
		err = files.SyncDir(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("begin log: %w", errors.Join(err, f.Close()))
	}
	return &wal{v, number, f, int64(len(b)), own}, nil
}

// append makes a record durable.
func (w *wal) append(plain []byte) error {
	record, own := w.sealer.record(plain, w.number, w.size, w.last)
	if err := durable.WriteSync(w.f, record); err != nil {
		return fmt.Errorf("write log: %w", err)
	}
	w.size, w.last = w.size+int64(len(record)), own
	return nil
}

func headerSum(length []byte, number, offset int64) uint32 {
	b := binary.LittleEndian.AppendUint64(append([]byte(nil), length...), uint64(number))
	return crc32.ChecksumIEEE(binary.LittleEndian.AppendUint64(b, uint64(offset)))
}

// walFile is a log as it was found.
type walFile struct {
	sealer sealer
	path   string
	number int64
	b      []byte
}

func loadWAL(dir string, v sealer, number int64) (*walFile, error) {
	w := &walFile{sealer: v, path: filepath.Join(dir, walName(number)), number: number}
	var err error
	if w.b, err = os.ReadFile(w.path); err != nil {
		return nil, damaged(w.path, 0, "%w", err)
	}
	return w, nil
}

// read calls replay for each change. It returns how much of the log is whole, and the link of the last record, or before if there is none. If last, the
// log may end torn, which means that its end was never stored: see isTorn. Everything else is damage.
func (w *walFile) read(last bool, before link, replay func(plain []byte) error) (whole int64, end link, err error) {
	size, at := int64(len(w.b)), int64(len(walMagic))
	head := w.b[:min(size, at)]
	if string(head) != walMagic {
		if last && (string(head) == walMagic[:len(head)] || zeros(w.b)) {
			return 0, before, nil
		}
		return 0, before, damaged(w.path, 0, "not a log of passages")
	}
	end = before
	for at < size || whole == 0 {
		plain, next, err := w.open(at, end)
		if err != nil {
			if last && w.isTorn(at) {
				return whole, end, nil
			}
			return 0, before, damaged(w.path, at, "%w", err)
		}
		if at == int64(len(walMagic)) {
			if len(plain) > 0 {
				return 0, before, damaged(w.path, at, "a log does not begin so")
			}
		} else if err := replay(plain); err != nil {
			return 0, before, damaged(w.path, at, "%w", err)
		}
		at += walHeader + int64(len(plain)) + seal.Overhead
		whole, end = at, next
	}
	return whole, end, nil
}

// length returns the length of the sealed change of a record; false if there is no header.
func (w *walFile) length(at int64) (int64, bool) {
	if int64(len(w.b))-at < walHeader {
		return 0, false
	}
	header := w.b[at:]
	n := int64(binary.LittleEndian.Uint32(header))
	return n, binary.LittleEndian.Uint32(header[4:]) == headerSum(header[:4], w.number, at) && n >= seal.Overhead && n <= maxChange+seal.Overhead
}

// open returns the change of a record, and its link.
func (w *walFile) open(at int64, before link) ([]byte, link, error) {
	n, ok := w.length(at)
	if !ok {
		return nil, link{}, errors.New("there is no header of a record")
	}
	if int64(len(w.b))-at-walHeader < n {
		return nil, link{}, errors.New("it ends in the middle of a record")
	}
	sealed := w.b[at+walHeader:][:n]
	plain, err := w.sealer.key.Open(sealed, w.sealer.recordLabel(w.number, at, before))
	if err != nil {
		return nil, link{}, errors.New("a record does not open")
	}
	return plain, linkOf(sealed), nil
}

// isTorn reports whether the record at this offset, which does not open, was never stored: it ends too early, or the file system did not come to
// write some block of it, in whatever order, and left zeros there. What was stored before something else was, is not torn.
func (w *walFile) isTorn(at int64) bool {
	size := int64(len(w.b))
	n, ok := w.length(at)
	if size-at < walHeader || ok && size-at-walHeader < n {
		return true
	}
	if !w.hasZeroBlock(at) {
		return false
	}
	for later := at + walHeader + seal.Overhead; later < size; later++ {
		if n, ok := w.length(later); ok && later+walHeader+n <= size {
			if _, _, err := w.open(later, link(w.b[later-int64(len(link{})):])); err == nil {
				return false
			}
		}
	}
	return true
}

// hasZeroBlock reports whether what a block of the disk has of the file from at on is zeros.
func (w *walFile) hasZeroBlock(at int64) bool {
	const block = 512
	for size := int64(len(w.b)); at < size; {
		end := min((at/block+1)*block, size)
		if zeros(w.b[at:end]) {
			return true
		}
		at = end
	}
	return false
}

func zeros(b []byte) bool {
	for _, v := range b {
		if v != 0 {
			return false
		}
	}
	return true
}

// resume goes on with a log of which whole bytes are good. It writes them again: what was read may lie in the memory of the operating system
// alone, and after a failed fsync nothing that is done to the old file brings it to the disk.
func (w *walFile) resume(files durable.Files, whole int64, end link) (*wal, error) {
	b := w.b[:whole]
	if whole == 0 {
		b, end = w.sealer.begin(w.number, end)
	}
	if err := durable.Replace(files, w.path, b); err != nil {
		return nil, fmt.Errorf("continue log: %w", err)
	}
	f, err := files.Open(w.path, os.O_APPEND)
	if err != nil {
		return nil, fmt.Errorf("continue log: %w", err)
	}
	return &wal{w.sealer, w.number, f, int64(len(b)), end}, nil
}
