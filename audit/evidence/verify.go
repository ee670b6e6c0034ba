package evidence

import (
	"archive/zip"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/record"
)

// BundleReport is the result of [VerifyBundle]. OK means that no problem was found: that the log stated each record of the bundle, and
// in this order. Complete means, beyond that, that they are all records of the log, from the least it still has to the end of the
// checkpoint; a bundle that is a selection, by tenant or time, cannot show by itself that nothing was left out of it. A bundle of a range of
// indexes, such as the archive of what was pruned, is neither: it shows by itself that it has every record of its range.
type BundleReport struct {
	OK           bool          `json:"ok"`
	Complete     bool          `json:"complete"`
	Filtered     bool          `json:"filtered"`
	Manifest     Manifest      `json:"manifest"` // empty unless its signature holds
	Records      int64         `json:"records"`  // read
	Proven       int64         `json:"proven"`   // whose inclusion under the root was shown
	Size         int64         `json:"checkpoint_size"`
	Root         string        `json:"root"` // hex
	Cosignatures []Cosignature `json:"cosignatures"`
	Problems     []Problem     `json:"problems"`
	// More is set if the list was cut.
	More bool `json:"more"`
}

// Cosignature is one of a known witness on the checkpoint of a bundle.
type Cosignature struct {
	Witness string    `json:"witness"`
	Time    time.Time `json:"time"`
}

// Problem names one thing that is wrong. Record is the id of the record, "" if it has none; Index its position in the tree, -1 if it has
// none.
//
// Problems: zip (the file itself), signature (of the manifest), manifest, file (one that the manifest does not list so), checkpoint,
// cosignature, tree (the hashes), line (unreadable), record (not one), order, gap, scope (of another tenant or time), inclusion (not what
// the log stated), table (the CSV says something else than the records), count.
type Problem struct {
	Kind   string `json:"kind"`
	Record string `json:"record"`
	Index  int64  `json:"index"`
	Cause  string `json:"cause"`
}

const (
	maxProblems = 100
	reportEvery = 256 // records
)

// VerifyBundle checks a bundle of size bytes with the public keys of the log and, if there are any, of witnesses, all of whom have to have
// cosigned. It trusts nothing in the bundle, and memory does not grow with it. An error means that it could not finish; what is wrong with
// the bundle is in the report. progress may be nil; it counts records.
func VerifyBundle(ctx context.Context, r io.ReaderAt, size int64, keys checkpoint.Verifier, witnesses checkpoint.Witnesses, progress func(done, total int64)) (BundleReport, error) {
	if progress == nil {
		progress = func(int64, int64) {}
	}
	src := &source{r: r}
	v := &verification{
		src: src, keys: keys, witnesses: witnesses, progress: progress,
		report: BundleReport{Cosignatures: []Cosignature{}, Problems: []Problem{}},
	}
	v.bundle(ctx, size)
	if err := errors.Join(src.err, ctx.Err()); err != nil {
		return BundleReport{}, fmt.Errorf("verify evidence: %w", err)
	}
	v.report.OK = len(v.report.Problems) == 0
	v.report.Complete = v.report.OK && v.report.Manifest.Format != "" && v.report.Manifest.whole()
	return v.report, nil
}

// BundleKey returns the public keys that a bundle itself names. Whoever made the bundle chose them, so they show that it is consistent and
// not whose it is.
func BundleKey(r io.ReaderAt, size int64) (string, error) {
	src := &source{r: r}
	key, err := bundleKey(src, size)
	if err := errors.Join(src.err, err); err != nil {
		return "", fmt.Errorf("read evidence: %w", err)
	}
	return key, nil
}

func bundleKey(src io.ReaderAt, size int64) (string, error) {
	files, err := unpack(src, size)
	if err != nil {
		return "", err
	}
	b, err := small(files[manifestName])
	if err != nil {
		return "", err
	}
	m, err := parseManifest(b)
	return m.Key, err
}

type verification struct {
	src       *source
	keys      checkpoint.Verifier
	witnesses checkpoint.Witnesses
	progress  func(done, total int64)
	report    BundleReport
	m         Manifest
	files     map[string]*zip.File
}

func (v *verification) problem(kind, id string, index int64, cause string) {
	if len(v.report.Problems) == maxProblems {
		v.report.More = true
		return
	}
	v.report.Problems = append(v.report.Problems, Problem{kind, id, index, cause})
}

// bad notes err as a problem of the whole bundle and says whether there is one.
func (v *verification) bad(kind string, err error) bool {
	if err != nil {
		v.problem(kind, "", -1, err.Error())
	}
	return err != nil
}

func (v *verification) bundle(ctx context.Context, size int64) {
	var err error
	if v.files, err = unpack(v.src, size); v.bad("zip", err) || !v.manifest() {
		return
	}
	tree, ok := v.checkpoint()
	if !ok {
		return
	}
	v.file(readmeName)
	hashes, ok := v.hashes(tree)
	if !ok {
		return
	}
	v.records(ctx, tree, hashes)
}

// manifest is false when there is none that the log signed: then no size is to be believed.
func (v *verification) manifest() bool {
	manifest, err := small(v.files[manifestName])
	if v.bad("zip", err) {
		return false
	}
	signed, err := small(v.files[signatureName])
	if v.bad("zip", err) {
		return false
	}
	text, err := v.keys.OpenText(string(signed))
	if err == nil && text != statement(v.keys.Origin(), hexSum(manifest)) {
		err = errors.New("the log signed another manifest")
	}
	if v.bad("signature", err) {
		return false
	}
	if v.m, err = parseManifest(manifest); v.bad("manifest", err) {
		return false
	}
	v.report.Manifest, v.report.Filtered = v.m, v.m.filtered()
	if v.m.Origin != v.keys.Origin() {
		v.bad("manifest", fmt.Errorf("it is about the log %q, the key is that of %q", v.m.Origin, v.keys.Origin()))
	}
	return true
}

// checkpoint is false when there is no tree to check records against.
func (v *verification) checkpoint() (checkpoint.Tree, bool) {
	text := v.file(checkpointName)
	t, cosigned, err := v.keys.OpenCosigned(string(text), v.witnesses)
	all := !v.bad("checkpoint", err)
	if !all {
		if t, err = v.keys.Open(string(text)); err != nil { // a bad cosignature spoils nothing else
			return checkpoint.Tree{}, false
		}
	}
	v.cosigned(cosigned, all)
	v.report.Size, v.report.Root = t.Size, fmt.Sprintf("%x", t.Root[:])
	if t.Size != v.m.Size || v.report.Root != v.m.Root {
		v.bad("checkpoint", fmt.Errorf("it states %d records with the root %s, the manifest %d with %s", t.Size, v.report.Root, v.m.Size, v.m.Root))
	}
	v.bad("checkpoint", v.m.checkRange(t.Size))
	return t, true
}

// cosigned wants a cosignature of each witness; where one does not hold, that is the problem and nothing is known of the others.
func (v *verification) cosigned(by []checkpoint.Cosignature, all bool) {
	missing := v.witnesses.Names() // a witness that changes its key has two, and signs with one of them
	for _, c := range by {
		v.report.Cosignatures = append(v.report.Cosignatures, Cosignature(c))
		missing = slices.DeleteFunc(missing, func(name string) bool { return name == c.Witness })
	}
	if all && len(missing) > 0 {
		v.bad("cosignature", fmt.Errorf("these witnesses did not cosign the checkpoint: %s", strings.Join(missing, ", ")))
	}
}

// file checks a listed entry that is read whole. It returns it even if it is not the one that was signed.
func (v *verification) file(name string) []byte {
	b, err := small(v.files[name])
	if err == nil {
		if want := v.m.file(name); int64(len(b)) != want.Bytes || hexSum(b) != want.SHA256 {
			err = fmt.Errorf("%s is not the file that was signed", name)
		}
	}
	v.bad("file", err)
	return b
}

func (v *verification) hashes(tree checkpoint.Tree) (*hashFile, bool) {
	f, want := v.files[treeName], v.m.file(treeName)
	c, err := open(f, want)
	if v.bad("file", err) {
		return nil, false
	}
	if f.Method != zip.Store {
		v.bad("file", errors.New(treeName+" is compressed, so the bundle was packed anew: use the file as it was exported"))
		return nil, false
	}
	at, err := f.DataOffset()
	if v.bad("zip", err) {
		return nil, false
	}
	h, err := openHashes(c, io.NewSectionReader(v.src, at, want.Bytes), want.Bytes, tree.Size)
	v.bad("file", c.close())
	return h, !v.bad("tree", err)
}

// records reads the records and beside them the table, which has to say the same.
func (v *verification) records(ctx context.Context, tree checkpoint.Tree, hashes tlog.HashReader) {
	c, err := open(v.files[recordsName], v.m.file(recordsName))
	if v.bad("file", err) {
		return
	}
	tc, err := open(v.files[csvName], v.m.file(csvName))
	if v.bad("file", err) {
		return
	}
	s, t := newScope(v.m), &tableCheck{in: bufio.NewReader(tc)}
	if !t.compare(t.table.header()) {
		v.bad("table", errors.New("the first line of "+csvName+" is not that of the format"))
	}
	lines, first := bufio.NewReaderSize(c, maxLine), int64(-1)
	for ctx.Err() == nil {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			break
		}
		if err != nil {
			v.problem("line", "", s.last, fmt.Sprintf("the line after this record is cut off or over %d bytes", maxLine))
			t.off = true
			break
		}
		if index := v.record(line, s, t, tree, hashes); v.report.Records == 0 {
			first = index
		}
		if v.report.Records++; v.report.Records%reportEvery == 0 {
			v.progress(v.report.Records, v.m.Records)
		}
	}
	v.progress(v.report.Records, v.m.Records)
	v.ends(s, t, first)
	v.bad("file", c.close())
	v.bad("file", tc.close())
}

// record checks one line and returns the index, -1 if there is none.
func (v *verification) record(line []byte, s *scope, t *tableCheck, tree checkpoint.Tree, hashes tlog.HashReader) int64 {
	r, err := parseLine(line)
	if err != nil {
		v.problem("line", "", s.last, "the line after this record: "+err.Error())
		t.off = true
		return -1
	}
	e, err := record.Decode(r.Payload)
	if err != nil {
		v.problem("record", "", r.Index, err.Error())
		t.off = true
	}
	if err := included(tree, hashes, r); err != nil {
		v.problem("inclusion", e.ID, r.Index, err.Error())
	} else {
		v.report.Proven++
	}
	if err != nil {
		s.last = max(s.last, r.Index)
		return r.Index
	}
	for _, w := range s.add(r.Index, e) {
		v.problem(w.kind, e.ID, r.Index, w.cause)
	}
	if !t.compare(t.table.row(r.Index, e)) {
		v.problem("table", e.ID, r.Index, "the row of "+csvName+" is not what the record says")
	}
	return r.Index
}

// included says whether r is in the tree, by the hashes of the bundle.
func included(tree checkpoint.Tree, hashes tlog.HashReader, r Sealed) error {
	if r.Index >= tree.Size {
		return fmt.Errorf("the checkpoint covers %d records only", tree.Size)
	}
	path, err := tlog.ProveRecord(tree.Size, r.Index, hashes)
	if err != nil {
		return err
	}
	if tlog.CheckRecord(path, tree.Size, tree.Root, r.Index, tlog.RecordHash(r.Payload)) != nil {
		return errors.New("the record and its proof do not lead to the root of the checkpoint: it is not what the log sealed")
	}
	return nil
}

// ends compares what only the whole shows.
func (v *verification) ends(s *scope, t *tableCheck, first int64) {
	for _, w := range s.end() {
		v.problem(w.kind, "", s.last+1, w.cause)
	}
	if !t.atEnd() {
		v.bad("table", errors.New(csvName+" has rows that no record stands behind"))
	}
	last := s.last
	if v.report.Records == 0 {
		last = -1
	}
	if v.report.Records != v.m.Records || first != v.m.First || last != v.m.Last {
		v.bad("count", fmt.Errorf("%d records from index %d to %d, the manifest says %d from %d to %d",
			v.report.Records, first, last, v.m.Records, v.m.First, v.m.Last))
	}
}

// tableCheck compares a table with what it should be, up to the first difference.
type tableCheck struct {
	in    *bufio.Reader
	table csvTable
	buf   []byte
	off   bool // there was a difference, or a record that no row can be made of
}

// compare is false for the first row that differs.
func (t *tableCheck) compare(row []byte) bool {
	if t.off {
		return true
	}
	t.buf = append(t.buf[:0], row...)
	_, err := io.ReadFull(t.in, t.buf)
	t.off = err != nil || !bytes.Equal(t.buf, row)
	return !t.off
}

func (t *tableCheck) atEnd() bool {
	if t.off {
		return true
	}
	_, err := t.in.ReadByte()
	return errors.Is(err, io.EOF)
}
