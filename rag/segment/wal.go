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

// A log begins with walMagic. A record is its length and a checksum of that and its place, then the sealed change.
const (
	walMagic  = "SLUICEW1"
	walHeader = 8
)

func walName(number int64) string { return fmt.Sprintf("wal-%08d", number) }

// wal is the log that is written.
type wal struct {
	sealer sealer
	number int64
	f      durable.File
	size   int64
}

// createWAL begins a log, durably.
func createWAL(files durable.Files, dir string, v sealer, number int64) (*wal, error) {
	f, err := files.Create(filepath.Join(dir, walName(number)))
	if err != nil {
		return nil, fmt.Errorf("begin log: %w", err)
	}
	err = durable.WriteSync(f, []byte(walMagic))
	if err == nil {
		err = files.SyncDir(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("begin log: %w", errors.Join(err, f.Close()))
	}
	return &wal{v, number, f, int64(len(walMagic))}, nil
}

// append makes a record durable.
func (w *wal) append(plain []byte) error {
	sealed := w.sealer.key.Seal(plain, w.sealer.label(walName(w.number), w.size))
	record := make([]byte, walHeader, walHeader+len(sealed))
	binary.LittleEndian.PutUint32(record, uint32(len(sealed)))
	binary.LittleEndian.PutUint32(record[4:], headerSum(record[:4], w.number, w.size))
	record = append(record, sealed...)
	if err := durable.WriteSync(w.f, record); err != nil {
		return fmt.Errorf("write log: %w", err)
	}
	w.size += int64(len(record))
	return nil
}

func headerSum(length []byte, number, offset int64) uint32 {
	b := binary.LittleEndian.AppendUint64(append([]byte(nil), length...), uint64(number))
	return crc32.ChecksumIEEE(binary.LittleEndian.AppendUint64(b, uint64(offset)))
}

// readWAL calls replay for each record of a log and returns how much of it is whole. If last, it may end torn: in a record that is shorter than
// it says, or in zeros, which a file system leaves where it did not come to write. Everything else is damage, since a record that is there in
// full was stored.
func readWAL(dir string, v sealer, number int64, last bool, replay func(plain []byte) error) (whole int64, err error) {
	path := filepath.Join(dir, walName(number))
	f, err := os.Open(path)
	if err != nil {
		return 0, damaged(path, 0, "%w", err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return 0, damaged(path, 0, "%w", err)
	}
	size := info.Size()
	torn := func(at int64) (int64, error) {
		if !last {
			return 0, damaged(path, at, "it ends in the middle of a record, and is not the last log")
		}
		return at, nil
	}
	head := make([]byte, min(size, int64(len(walMagic))))
	if _, err := f.ReadAt(head, 0); err != nil && size > 0 {
		return 0, damaged(path, 0, "%w", err)
	}
	if string(head) != walMagic {
		if string(head) == walMagic[:len(head)] || zeros(head) && size == int64(len(head)) {
			return torn(0)
		}
		return 0, damaged(path, 0, "not a log of passages")
	}
	at := int64(len(walMagic))
	for at < size {
		header := make([]byte, min(walHeader, size-at))
		if _, err := f.ReadAt(header, at); err != nil {
			return 0, damaged(path, at, "%w", err)
		}
		if len(header) < walHeader {
			return torn(at)
		}
		length := int64(binary.LittleEndian.Uint32(header))
		if binary.LittleEndian.Uint32(header[4:]) != headerSum(header[:4], number, at) {
			if zeros(header) && restIsZero(f, at, size) {
				return torn(at)
			}
			return 0, damaged(path, at, "the header of a record is not ours")
		}
		if length < seal.Overhead || length > maxChange+seal.Overhead {
			return 0, damaged(path, at, "a record of %d bytes", length)
		}
		if size-at-walHeader < length {
			return torn(at)
		}
		sealed := make([]byte, length)
		if _, err := f.ReadAt(sealed, at+walHeader); err != nil {
			return 0, damaged(path, at, "%w", err)
		}
		plain, err := v.key.Open(sealed, v.label(walName(number), at))
		if err != nil {
			if restIsZero(f, at+walHeader, size) {
				return torn(at)
			}
			return 0, damaged(path, at, "a record does not open")
		}
		if err := replay(plain); err != nil {
			return 0, damaged(path, at, "%w", err)
		}
		at += walHeader + length
	}
	return at, nil
}

func zeros(b []byte) bool {
	for _, v := range b {
		if v != 0 {
			return false
		}
	}
	return true
}

func restIsZero(f *os.File, from, to int64) bool {
	b := make([]byte, 64<<10)
	for from < to {
		n, err := f.ReadAt(b[:min(int64(len(b)), to-from)], from)
		if err != nil || !zeros(b[:n]) {
			return false
		}
		from += int64(n)
	}
	return true
}

// continueWAL goes on with a log of which whole bytes are good; what follows is cut off.
func continueWAL(files durable.Files, dir string, v sealer, number, whole int64) (*wal, error) {
	path := filepath.Join(dir, walName(number))
	if whole < int64(len(walMagic)) { // not even its beginning: it has no record
		if err := files.Remove(path); err != nil {
			return nil, fmt.Errorf("begin log: %w", err)
		}
		return createWAL(files, dir, v, number)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("continue log: %w", err)
	}
	if info.Size() > whole {
		if err := durable.Truncate(files, path, whole); err != nil {
			return nil, fmt.Errorf("cut log: %w", err)
		}
	}
	f, err := files.Open(path, os.O_APPEND)
	if err != nil {
		return nil, fmt.Errorf("continue log: %w", err)
	}
	return &wal{v, number, f, whole}, nil
}
