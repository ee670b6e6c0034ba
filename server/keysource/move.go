package keysource

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluice-project/sluice/audit/durable"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/seal"
)

// Handover gives people the shares of a key, before anything depends on them. An error ends what was begun.
type Handover func(shares []string) error

// target returns what seals under the configured source from now on, and the keys to keep in its file once nothing depends on others; nil where
// there are none to take out. A file gets a new key in front unless somebody put one there: current is the id of the one in use, "" if none is.
func (c *Custodian) target(ctx context.Context, current string) (source, *keys, error) {
	switch c.cfg.Kind {
	case KindFile:
		return c.fileTarget(current)
	case KindEnv:
		// What opened the master key has read the variable, which is there no more.
		k, ok := c.from.(*keys)
		if !ok || k.place != c.cfg.Env {
			src, err := c.source(ctx, KindEnv, Sealed{})
			if err != nil {
				return nil, nil, err
			}
			k = src.(*keys)
		}
		if idOf(k.list[0]) == current {
			return nil, nil, failed("keysource.same_key", c.cfg.Env)
		}
		return k, nil, nil
	case "", KindShares:
		return nil, nil, failed("keysource.no_target")
	}
	src, err := c.source(ctx, c.cfg.Kind, Sealed{})
	return src, nil, err
}

func (c *Custodian) fileTarget(current string) (source, *keys, error) {
	if _, err := os.Stat(c.cfg.File); c.cfg.File != "" && errors.Is(err, fs.ErrNotExist) {
		k, err := c.writeKeys(&keys{list: [][]byte{seal.Random(keySize)}, place: c.cfg.File, suite: c.cfg.Suite})
		return k, nil, err
	}
	text, err := readSecretFile(c.cfg.File)
	if err != nil {
		return nil, nil, err
	}
	k, err := newKeys(text, c.cfg.File, c.cfg.Suite)
	if err != nil {
		return nil, nil, err
	}
	if idOf(k.list[0]) == current {
		// The old key stays behind the new one until the sealed file no longer needs it.
		k.list = [][]byte{seal.Random(keySize), k.list[0]}
		if k, err = c.writeKeys(k); err != nil {
			return nil, nil, err
		}
	}
	rest := slices.DeleteFunc(slices.Clone(k.list), func(key []byte) bool { return idOf(key) == current })
	if len(rest) == len(k.list) {
		return k, nil, nil
	}
	return k, &keys{list: rest, place: k.place, suite: k.suite}, nil
}

// writeKeys replaces the key file, whole or not at all, and returns what a start will read of it: a medium that lets others read it is found out
// before anything depends on it.
func (c *Custodian) writeKeys(k *keys) (*keys, error) {
	if err := durable.Replace(c.disk, c.cfg.File, k.text()); err != nil {
		return nil, failed("keysource.key_file_unwritten", c.cfg.File, err)
	}
	text, err := readSecretFile(c.cfg.File)
	if err != nil {
		return nil, err
	}
	return newKeys(text, c.cfg.File, c.cfg.Suite)
}

// seal wraps root and makes the content of the sealed file. as is zero but for shares.
func (c *Custodian) seal(ctx context.Context, src source, root []byte, as Split) (s Sealed, err error) {
	s = c.blank(src, root, as)
	s.Wrapped, s.KeyID, err = src.wrap(ctx, root, s.label)
	return s, err
}

// blank is a sealed file without what is wrapped.
func (c *Custodian) blank(src source, root []byte, as Split) Sealed {
	s := Sealed{Format: sealedFormat, Kind: c.cfg.Kind, SealedAt: c.now().UTC().Truncate(time.Second), Check: check(root), Shares: as.Shares, Threshold: as.Threshold}
	if k, ok := src.(*keys); ok {
		s.Suite = k.suite
	}
	return s
}

// split makes a sealing key that only its shares give back.
func (c *Custodian) split(as Split, hand Handover) (source, error) {
	key := seal.Random(keySize)
	shares, err := split(key, ofSealingKey, as)
	if err != nil {
		return nil, err
	}
	if err := hand(shares); err != nil {
		return nil, fmt.Errorf("hand the shares out: %w", err)
	}
	// What was handed out is put together again, as a start will.
	var read []share
	for _, text := range shares[len(shares)-as.Threshold:] {
		sh, err := parseShare(text)
		if err != nil {
			return nil, err
		}
		read = append(read, sh)
	}
	again, err := joined(read, ofSealingKey)
	if err != nil {
		return nil, err
	}
	return &keys{[][]byte{again}, KindShares, c.cfg.Suite}, nil
}

// put wraps root under the configured source and makes that the sealed file: written, on the disk, read back and opened before it takes the place
// of what is there. current is the id of the key in use there, "" if there is none.
func (c *Custodian) put(ctx context.Context, root []byte, as Split, hand Handover, current string, again func(src source) (wrapped, keyID string, err error)) error {
	var src source
	var keep *keys
	var s Sealed
	var err error
	if c.cfg.Kind == KindShares {
		src, err = c.split(as, hand)
	} else {
		as = Split{}
		src, keep, err = c.target(ctx, current)
	}
	if err != nil {
		return err
	}
	if again == nil {
		s, err = c.seal(ctx, src, root, as)
	} else {
		s = c.blank(src, root, as)
		s.Wrapped, s.KeyID, err = again(src)
	}
	if err != nil {
		return err
	}
	fresh := c.cfg.SealedFile + ".new"
	if err := os.MkdirAll(filepath.Dir(fresh), 0o700); err != nil {
		return fmt.Errorf("write the sealed file: %w", err)
	}
	if err := c.write(fresh, s.encode()); err != nil {
		return fmt.Errorf("write the sealed file: %w", err)
	}
	written, err := readSealed(fresh)
	if err != nil {
		return err
	}
	opened, err := unwrapped(ctx, src, written)
	if err != nil {
		return err
	}
	if subtle.ConstantTimeCompare(opened, root) != 1 {
		return failed("keysource.other_key", s.Kind)
	}
	if err := c.disk.Rename(fresh, c.cfg.SealedFile); err != nil {
		return fmt.Errorf("write the sealed file: %w", err)
	}
	if err := c.disk.SyncDir(filepath.Dir(fresh)); err != nil {
		return fmt.Errorf("write the sealed file: %w", err)
	}
	c.root, c.from, c.sealed = root, src, s
	if keep != nil {
		if err := durable.Replace(c.disk, c.cfg.File, keep.text()); err != nil {
			return failed("keysource.old_key_stays", c.cfg.File, err)
		}
	}
	return nil
}

// write writes a file anew, in place.
func (c *Custodian) write(path string, b []byte) error {
	f, err := c.disk.Open(path, os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	return errors.Join(durable.WriteSync(f, b), f.Close())
}

// Seal stores the plain master key sealed under the configured source. The plain file stays: [Custodian.Shred] ends it. It can be repeated.
func (c *Custodian) Seal(ctx context.Context, as Split, hand Handover) error {
	root, err := keyring.ReadMaster(c.cfg.PlainFile)
	if errors.Is(err, fs.ErrNotExist) {
		if st, serr := c.Status(); serr == nil && st.Leftover {
			return c.open(ctx) // and only the shredding was interrupted
		} else if serr == nil {
			return failed("keysource.sealed_already", c.cfg.SealedFile)
		}
	}
	if err != nil {
		return err
	}
	before, err := readSealed(c.cfg.SealedFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case before.Check != check(root):
		return failed("keysource.two_keys", c.cfg.PlainFile, c.cfg.SealedFile)
	}
	return c.put(ctx, root, as, hand, "", nil)
}

// Reseal seals the master key anew, under a new key of the configured source. from has the configuration by which it opens until then.
func (c *Custodian) Reseal(ctx context.Context, from *Custodian, as Split, hand Handover) error {
	before, err := readSealed(c.cfg.SealedFile)
	if errors.Is(err, fs.ErrNotExist) {
		return failed("keysource.not_sealed", c.cfg.SealedFile)
	}
	if err != nil {
		return err
	}
	if err := from.open(ctx); err != nil {
		return err
	}
	if check(from.root) != before.Check {
		return failed("keysource.two_keys", from.cfg.SealedFile, c.cfg.SealedFile)
	}
	current := ""
	if before.Kind == c.cfg.Kind {
		current = before.KeyID
	}
	c.from = from.from
	var again func(source) (string, string, error)
	if old, ok := from.from.(*transit); ok && c.cfg.Kind == KindTransit && old.cfg.Address == c.cfg.Transit.Address && old.cfg.Namespace == c.cfg.Transit.Namespace && old.name() == (&transit{cfg: c.cfg.Transit}).name() {
		again = func(src source) (wrapped, keyID string, err error) {
			wrapped, keyID, err = src.(*transit).rewrap(ctx, before.Wrapped)
			if err == nil && keyID == before.KeyID {
				err = failed("keysource.transit_not_rotated", keyID)
			}
			return wrapped, keyID, err
		}
	}
	return c.put(ctx, from.root, as, hand, current, again)
}

// Shred overwrites the plain file and deletes it, after the sealed one has been opened. It gets another name before, so that half a key never lies
// where a key is looked for. Copies that a disk or a file system keeps of it are out of reach.
func (c *Custodian) Shred(ctx context.Context) error {
	s, err := readSealed(c.cfg.SealedFile)
	if err != nil {
		return err
	}
	if c.from == nil {
		return failed("keysource.not_sealed", c.cfg.SealedFile)
	}
	opened, err := unwrapped(ctx, c.from, s)
	if err != nil {
		return err
	}
	root, err := keyring.ReadMaster(c.cfg.PlainFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case subtle.ConstantTimeCompare(root, opened) != 1:
		return failed("keysource.two_keys", c.cfg.PlainFile, c.cfg.SealedFile)
	default:
		if err := c.disk.Rename(c.cfg.PlainFile, c.cfg.doomed()); err != nil {
			return fmt.Errorf("shred the plain master key: %w", err)
		}
		if err := c.disk.SyncDir(filepath.Dir(c.cfg.PlainFile)); err != nil { // before the overwriting, or that may come first
			return fmt.Errorf("shred the plain master key: %w", err)
		}
	}
	if err := c.wipe(c.cfg.doomed()); err != nil {
		return fmt.Errorf("shred the plain master key: %w", err)
	}
	return nil
}

// doomed is what the plain file is called while it is overwritten.
func (c Config) doomed() string { return c.PlainFile + ".shredding" }

// wipe overwrites a file and deletes it, if it is there.
func (c *Custodian) wipe(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c.disk.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		return err
	}
	f, err := c.disk.Open(path, 0)
	if err != nil {
		return err
	}
	if err := errors.Join(durable.WriteSync(f, bytes.Repeat([]byte{'0'}, int(info.Size()))), f.Close()); err != nil {
		return err
	}
	if err := c.disk.Remove(path); err != nil {
		return err
	}
	return c.disk.SyncDir(filepath.Dir(path))
}

// Export returns a recovery copy of the master key: one text that is the content of a plain file, or shares.
func (c *Custodian) Export(ctx context.Context, as Split) ([]string, error) {
	if err := c.open(ctx); err != nil {
		return nil, err
	}
	if as == (Split{}) {
		return []string{hex.EncodeToString(c.root)}, nil
	}
	return split(c.root, ofMasterKey, as)
}

// Recover makes the plain file out of a recovery copy, and puts a sealed one that is there out of use, which is not opened: its source may be lost.
// It returns where that is now, "" if there was none. What it changes is noted first, see [Custodian.Recovery].
func (c *Custodian) Recover(texts []string) (replaced string, err error) {
	root, err := recovered(texts)
	if err != nil {
		return "", err
	}
	s, err := readSealed(c.cfg.SealedFile)
	there, damaged := err == nil, (*Error)(nil)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		if !errors.As(err, &damaged) { // one that is damaged is put out of use; there is nothing to compare it by
			return "", err
		}
	}
	if there && s.Check != check(root) {
		return "", failed("keysource.recovery_of_other", c.cfg.SealedFile)
	}
	before, err := keyring.ReadMaster(c.cfg.PlainFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := os.MkdirAll(filepath.Dir(c.cfg.PlainFile), 0o700); err != nil {
			return "", err
		}
		if err := c.note(); err != nil {
			return "", err
		}
		if err := durable.Replace(c.disk, c.cfg.PlainFile, []byte(hex.EncodeToString(root)+"\n")); err != nil {
			return "", fmt.Errorf("write the plain master key: %w", err)
		}
	case err != nil:
		return "", err
	case subtle.ConstantTimeCompare(before, root) != 1:
		return "", failed("keysource.recovery_of_other", c.cfg.PlainFile)
	}
	if !there && damaged == nil {
		return "", nil
	}
	if err := c.note(); err != nil {
		return "", err
	}
	replaced = c.cfg.SealedFile + ".replaced"
	if err := c.disk.Rename(c.cfg.SealedFile, replaced); err != nil {
		return "", err
	}
	return replaced, c.disk.SyncDir(filepath.Dir(replaced))
}

// recovered reads a recovery copy.
func recovered(texts []string) ([]byte, error) {
	if len(texts) == 1 {
		if root, err := hex.DecodeString(strings.TrimSpace(texts[0])); err == nil && len(root) == keyring.MasterSize {
			return root, nil
		}
	}
	var shares []share
	for _, text := range texts {
		s, err := parseShare(text)
		if err != nil {
			return nil, err
		}
		shares = append(shares, s)
	}
	return joined(shares, ofMasterKey)
}
