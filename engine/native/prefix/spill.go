package prefix

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
)

// spill is a file of equal slots, each for one page. Its methods may be called by one goroutine at a time.
type spill struct {
	file    *os.File
	mapped  []byte
	slots   int
	stride  int // bytes of a slot, in whole pages of the system
	sealed  int // bytes of it that are used
	unused  []int32
	writes  uint64
	aead    cipher.AEAD
	scratch []byte
}

// slot is a place in the file and the number of the write that filled it.
type slot struct {
	at    int32
	write uint64
}

func noSlot() slot { return slot{at: -1} }

var (
	errDamaged    = errors.New("the slot does not hold what was written")
	errUnreadable = errors.New("the file cannot be read: an input or output error, or somebody cut it off")
)

// openSpill makes a file in dir, with as many slots for pages of a size as fit in bytes.
func openSpill(dir string, bytes, page int) (*spill, error) {
	sealed := page + sealOverhead
	stride := (sealed + os.Getpagesize() - 1) &^ (os.Getpagesize() - 1)
	slots := min(bytes/stride, 1<<31-1)
	if slots < 1 {
		return nil, fmt.Errorf("a spill file of %d bytes does not hold one page of %d; raise spill_bytes", bytes, stride)
	}
	aead, err := newSeal()
	if err != nil {
		return nil, err
	}
	file, mapped, err := openUnlinked(dir, slots*stride)
	if err != nil {
		return nil, fmt.Errorf("no spill file in %s: %w; the prefix cache works in memory only", dir, err)
	}
	s := &spill{file: file, mapped: mapped, slots: slots, stride: stride, sealed: sealed, aead: aead, scratch: make([]byte, 0, sealed)}
	for i := range slots {
		s.unused = append(s.unused, int32(slots-1-i)) // the first ones are used first
	}
	return s, nil
}

// sealOverhead is by how much a sealed page is longer: nonce and tag.
const sealOverhead = 12 + 16

// newSeal returns authenticated encryption under a key that nobody else has.
func newSeal() (cipher.AEAD, error) {
	key := make([]byte, 32)
	rand.Read(key) // never fails: it ends the program where there is no randomness
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// bind ties what is sealed to its write, so that nothing else from the file passes for it, be it older or another slot's.
func (at slot) bind() []byte { return binary.LittleEndian.AppendUint64(nil, at.write) }

// write puts a page into a slot; there is one that is not used.
func (s *spill) write(page []byte) (slot, error) {
	at := slot{s.unused[len(s.unused)-1], s.writes}
	s.writes++
	s.scratch = s.aead.Seal(s.scratch[:0], nil, page, at.bind()) //nolint:gosec // it makes its own nonce and wants none
	if _, err := s.file.WriteAt(s.scratch, int64(at.at)*int64(s.stride)); err != nil {
		return noSlot(), err
	}
	s.unused = s.unused[:len(s.unused)-1]
	return at, nil
}

// read gets a page back. The error is errDamaged if the slot is at fault, another one if the file is.
func (s *spill) read(at slot, page []byte) error {
	s.scratch = s.scratch[:s.sealed]
	if err := copyMapped(s.scratch, s.place(at)); err != nil {
		return err
	}
	opened, err := s.aead.Open(page[:0], nil, s.scratch, at.bind())
	if err != nil || len(opened) != len(page) {
		return errDamaged
	}
	return nil
}

func (s *spill) place(at slot) []byte { return s.mapped[int(at.at)*s.stride:][:s.sealed] }

// copyMapped copies from a map of a file. Where the file cannot be read the system sends a signal, which becomes an error here.
func copyMapped(to, from []byte) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() != nil {
			err = errUnreadable
		}
	}()
	copy(to, from)
	return nil
}

// announce lets the system read a slot ahead.
func (s *spill) announce(at slot) { readAhead(s.mapped[int(at.at)*s.stride:][:s.stride]) }

// free gives a slot back.
func (s *spill) free(at slot) { s.unused = append(s.unused, at.at) }

func (s *spill) close() error {
	return errors.Join(unmap(s.mapped), s.file.Close())
}
