package evidence

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/record"
	"github.com/sluice-project/sluice/internal/strictjson"
)

// The entries of a bundle: these and no others. The manifest lists the first five, and the signature covers the manifest.
const (
	recordsName    = "records.jsonl"
	csvName        = "records.csv"
	treeName       = "tree.bin"
	checkpointName = "checkpoint"
	readmeName     = "README.txt"
	manifestName   = "manifest.json"
	signatureName  = "manifest.sig"
)

func listedNames() []string {
	return []string{recordsName, csvName, treeName, checkpointName, readmeName}
}

const (
	// format is the version of everything in the zip: a change of any file, the columns of the CSV included, needs another.
	format = "sluice-evidence/1"
	// maxSmall bounds the entries that are read into memory whole.
	maxSmall = 64 << 10
)

// Manifest says what a bundle holds. The log signs it.
type Manifest struct {
	Format  string    `json:"format"`
	Origin  string    `json:"origin"` // the name of the log
	Key     string    `json:"key"`    // its public keys; a claim only, as the bundle makes it itself
	Tenant  string    `json:"tenant"` // "" is all
	From    int64     `json:"from"`   // unix microseconds
	To      int64     `json:"to"`     // exclusive, 0 is open
	Created time.Time `json:"created"`
	By      string    `json:"by"`
	Records int64     `json:"records"`
	First   int64     `json:"first_index"` // -1 without records
	Last    int64     `json:"last_index"`
	Size    int64     `json:"tree_size"`
	Root    string    `json:"root"`        // hex
	Hash    string    `json:"hash"`        // that the tree is made with; "" in a bundle of before, which is sha256
	Least   int64     `json:"least_index"` // records below were pruned from the log, but for those that are kept longer
	Until   int64     `json:"until_index"` // the index behind the bundle; 0: it goes to the end of the checkpoint
	Files   []File    `json:"files"`
}

// File is an entry of a bundle as the manifest lists it.
type File struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // hex
}

// filtered says that the bundle is a selection, so that it cannot show by itself that nothing is left out.
func (m Manifest) filtered() bool { return m.Tenant != "" || m.From > 0 || m.To != 0 }

// stop is the index behind the last record that the bundle can have.
func (m Manifest) stop() int64 {
	if m.Until != 0 {
		return m.Until
	}
	return m.Size
}

// whole says that the bundle has every record that the log still had, up to the end of the checkpoint.
func (m Manifest) whole() bool { return !m.filtered() && m.stop() == m.Size }

// checkRange says what is wrong with the claimed range of a tree of size.
func (m Manifest) checkRange(size int64) error {
	if m.Least < 0 || m.Least > size || m.Until != 0 && (m.Until < m.Least || m.Until > size) {
		return fmt.Errorf("the range of indexes from %d to %d does not lie in a tree of %d records", m.Least, m.stop(), size)
	}
	return nil
}

func (m Manifest) file(name string) File {
	i := slices.IndexFunc(m.Files, func(f File) bool { return f.Name == name })
	return m.Files[i]
}

// parseManifest reads a manifest whose signature was checked.
func parseManifest(b []byte) (Manifest, error) {
	m, err := strictjson.Decode[Manifest](b)
	if err != nil {
		return Manifest{}, fmt.Errorf("the manifest is unreadable: %w", err)
	}
	if m.Format != format {
		return Manifest{}, fmt.Errorf("the format is %q, this release reads %q; use the release that the format belongs to", m.Format, format)
	}
	if m.Hash != "" && m.Hash != checkpoint.TreeHash {
		return Manifest{}, fmt.Errorf("the tree is hashed with %q, this release reads %s only", m.Hash, checkpoint.TreeHash)
	}
	names := []string{}
	for _, f := range m.Files {
		if f.Bytes < 0 {
			return Manifest{}, fmt.Errorf("the manifest gives %s a negative size", f.Name)
		}
		names = append(names, f.Name)
	}
	if !slices.Equal(names, listedNames()) {
		return Manifest{}, fmt.Errorf("the manifest lists the files %q, want %q", names, listedNames())
	}
	return m, nil
}

// statement is what the log signs about a manifest.
func statement(origin, sum string) string { return fmt.Sprintf("%s/evidence\n%s\n", origin, sum) }

// scope is what the records of a bundle have to be: in ascending order, in the tree, of the tenant and the time that were asked for,
// and, unless they were selected, without a gap. The writer and the verifier share it.
type scope struct {
	Manifest
	last int64 // index of the record before, -1 at the beginning
}

// wrong is a demand that a record or a file does not meet.
type wrong struct{ kind, cause string }

func newScope(m Manifest) *scope {
	last := int64(-1)
	if !m.filtered() {
		last = m.Least - 1
	}
	return &scope{m, last}
}

// add takes the next record and says what is wrong with it.
func (s *scope) add(index int64, e record.Event) (out []wrong) {
	say := func(kind, cause string, args ...any) { out = append(out, wrong{kind, fmt.Sprintf(cause, args...)}) }
	switch {
	case index < s.Least && !s.filtered():
		say("order", "the index is below %d, the least that the log still has", s.Least)
	case index <= s.last:
		say("order", "the index does not follow that of the record before it, %d", s.last)
	case index >= s.stop():
		say("scope", "the index is behind the range of the bundle, which ends at %d", s.stop())
	case !s.filtered() && index != s.last+1:
		say("gap", "%d records before it are missing, from index %d", index-s.last-1, s.last+1)
	}
	s.last = max(s.last, index)
	if s.Tenant != "" && e.Tenant != s.Tenant {
		say("scope", "the record belongs to tenant %q, the bundle is about %q", e.Tenant, s.Tenant)
	}
	if e.Time < s.From || s.To != 0 && e.Time >= s.To {
		say("scope", "the record is outside the time of the bundle")
	}
	return out
}

// end says what is wrong after the last record.
func (s *scope) end() []wrong {
	if !s.filtered() && s.last < s.stop()-1 {
		return []wrong{{"gap", fmt.Sprintf("the bundle ends before its range: %d records are missing, from index %d", s.stop()-1-s.last, s.last+1)}}
	}
	return nil
}

// BundleConfig says what a bundle is about.
type BundleConfig struct {
	Tenant     string // "" is all
	From, To   int64  // unix microseconds; To is exclusive, 0 is open
	By         string // who exports it
	Created    time.Time
	Signer     checkpoint.Signer
	Checkpoint string // the signed note that states Tree; may carry cosignatures
	Tree       checkpoint.Tree
	Key        string // the public keys of the log
	Least      int64  // records below this index were pruned; a bundle without tenant and time begins here
	Until      int64  // the index behind the bundle; 0 is the end of Tree
}

// manifest is what can be said before the records are known.
func (cfg BundleConfig) manifest(hashes tlog.HashReader) (Manifest, error) {
	v, err := checkpoint.NewVerifier(cfg.Key)
	if err != nil {
		return Manifest{}, err
	}
	t, err := v.Open(cfg.Checkpoint)
	if err != nil {
		return Manifest{}, err
	}
	if t != cfg.Tree {
		return Manifest{}, fmt.Errorf("the checkpoint states %d records, the tree has %d", t.Size, cfg.Tree.Size)
	}
	root, err := tlog.TreeHash(t.Size, hashes)
	if err != nil {
		return Manifest{}, fmt.Errorf("read tree: %w", err)
	}
	if root != t.Root {
		return Manifest{}, errors.New("the stored tree hashes do not give the root of the checkpoint; run `sluice audit verify`")
	}
	m := Manifest{
		Format: format, Origin: v.Origin(), Key: cfg.Key, Tenant: cfg.Tenant, From: cfg.From, To: cfg.To,
		Created: cfg.Created.UTC().Truncate(time.Second), By: cfg.By, First: -1, Last: -1,
		Size: t.Size, Root: fmt.Sprintf("%x", t.Root[:]), Hash: checkpoint.TreeHash, Least: cfg.Least, Until: cfg.Until,
	}
	return m, m.checkRange(t.Size)
}
