package labelfile

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/governance/label"
	"github.com/sluice-project/sluice/governance/label/c2pa"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
)

// authority is that of an installation with a master key of one byte, repeated.
func authority(t testing.TB, master byte, year, generation int) *c2pa.Authority {
	t.Helper()
	a, err := c2pa.NewAuthority(c2pa.Config{
		Keys: keyring.FromBytes(bytes.Repeat([]byte{master}, 32)), Producer: ours(t).ContentProducer, Generation: generation,
		Now: func() time.Time { return time.Date(year, 7, 1, 0, 0, 0, 0, time.UTC) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// signing writes labels and content credentials.
func signing(t testing.TB) Writer {
	t.Helper()
	return Writer{Authority: authority(t, 9, 2026, 1)}
}

// credentialled are the kinds with content credentials, by the names of samples.
func credentialled() []string {
	return []string{"picture.png", "picture.jpg", "report.pdf", "stream.pdf"}
}

// checked checks the content credentials of a file.
func checked(t testing.TB, name string, data []byte, a *c2pa.Authority) (c2pa.Report, *c2pa.Carried, error) {
	t.Helper()
	k, err := Detect(name, data)
	if err != nil {
		return c2pa.Report{}, nil, err
	}
	carried, err := FindCredentials(k, data)
	if err != nil || carried == nil {
		return c2pa.Report{}, nil, err
	}
	return c2pa.Check(data, *carried, a.Anchors()), carried, nil
}

func signedSample(t testing.TB, name string) (Kind, []byte) {
	t.Helper()
	data := samples(t)[name]
	k, err := Detect(name, data)
	if err != nil {
		t.Fatal(err)
	}
	got, err := signing(t).Write(k, data, ours(t), "")
	if err != nil || got.Credentials != CredentialsWritten {
		t.Fatalf("%s: %q %v", name, got.Credentials, err)
	}
	return k, got.Data
}

// TestContentCredentials: what is labelled has credentials that this installation proves, whichever of its signers made them, and no other installation; they say what the label says, and
// nothing of the tenant.
func TestContentCredentials(t *testing.T) {
	t.Parallel()
	for _, name := range credentialled() {
		_, data := signedSample(t, name)
		for _, c := range []struct {
			by   *c2pa.Authority
			want c2pa.State
		}{
			{authority(t, 9, 2026, 1), c2pa.Trusted}, {authority(t, 9, 2026, 2), c2pa.Trusted}, {authority(t, 9, 2044, 1), c2pa.Trusted}, {authority(t, 8, 2026, 1), c2pa.UnknownSigner},
		} {
			got, carried, err := checked(t, name, data, c.by)
			if err != nil || got.State != c.want || got.Label == nil || *got.Label != ours(t) || got.Earlier != 0 || got.Signer != ours(t).ContentProducer {
				t.Errorf("%s: %+v %v", name, got, err)
			}
			if carried == nil || bytes.Contains(carried.Store, []byte("acme")) {
				t.Errorf("%s: the credentials name the tenant", name)
			}
		}
	}
}

// TestEveryByteIsBound: whatever byte of a file with credentials changes, they no longer hold, or say exactly what they said, as they do where the byte is one of their wrapping.
func TestEveryByteIsBound(t *testing.T) {
	t.Parallel()
	for _, name := range credentialled() {
		_, data := signedSample(t, name)
		everyByteIsBound(t, name, data, c2pa.Range{To: len(data)})
		_, _, data = withEarlier(t, name, []byte("earlier"))
		_, carried, _ := checked(t, name, data, authority(t, 9, 2026, 1))
		everyByteIsBound(t, name, data, carried.At) // the others are bound as they were
	}
}

func everyByteIsBound(t *testing.T, name string, data []byte, in c2pa.Range) {
	t.Helper()
	a := authority(t, 9, 2026, 1)
	whole, carried, err := checked(t, name, data, a)
	if err != nil || whole.State != c2pa.Trusted {
		t.Fatal(whole, err)
	}
	inert := 0
	for i := in.From; i < in.To; i++ {
		b := bytes.Clone(data)
		b[i] ^= 1
		got, _, err := checked(t, name, b, a)
		if err != nil || got.State != c2pa.Trusted && got.State != c2pa.UnknownSigner {
			continue
		}
		if inert++; i < carried.At.From || i >= carried.At.To || !reflect.DeepEqual(got, whole) {
			t.Errorf("%s: byte %d: %+v", name, i, got)
		}
	}
	if inert > 64 {
		t.Errorf("%s: %d bytes can be changed", name, inert)
	}
}

// repaint changes a byte of what people see, and keeps the file readable.
func repaint(t testing.TB, name string, data []byte) []byte {
	t.Helper()
	b := bytes.Clone(data)
	switch k, _ := Detect(name, data); k {
	case PNG:
		all, err := chunks(b)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range all {
			if c.kind == "IDAT" {
				c.data[len(c.data)/2] ^= 1
				binary.BigEndian.PutUint32(b[c.to-4:], crc32.ChecksumIEEE(b[c.from+4:c.to-4]))
			}
		}
	case JPEG:
		b[len(b)-4] ^= 1
	default:
		at := bytes.Index(b, []byte("MediaBox"))
		b[at+bytes.IndexAny(b[at:], "0123456789")] ^= 1
	}
	return b
}

// TestChangedPicture: a file whose content was changed says so in the words of the standard.
func TestChangedPicture(t *testing.T) {
	t.Parallel()
	for _, name := range credentialled() {
		_, data := signedSample(t, name)
		if got, _, err := checked(t, name, repaint(t, name, data), authority(t, 9, 2026, 1)); err != nil || got.State != c2pa.Broken || got.Code != c2pa.CodeFileChanged {
			t.Errorf("%s: %+v %v", name, got, err)
		}
	}
}

// TestEarlierCredentialsAreKept: what is passed on keeps the credentials that it had, as the parent of new ones; without an authority it is refused, since a label would break them.
func TestEarlierCredentialsAreKept(t *testing.T) {
	t.Parallel()
	l := labeler(t)
	pass := func(x label.Label) label.Label { return l.Propagate(x, "p-1", "acme") }
	for _, name := range credentialled() {
		k, data := signedSample(t, name)
		_, before, err := checked(t, name, data, authority(t, 9, 2026, 1))
		if err != nil {
			t.Fatal(err)
		}
		old := before.Store[8+len("xxxxjumd")+17+len("c2pa")+1:] // the manifest in the store
		if _, err := unsigned().Propagate(k, data, pass); !refused(err, "labelfile.credentials") {
			t.Errorf("%s without an authority: %v", name, err)
		}
		got, err := signing(t).Propagate(k, data, pass)
		if err != nil || got.Credentials != CredentialsWritten {
			t.Fatalf("%s: %+v %v", name, got.Credentials, err)
		}
		report, carried, err := checked(t, name, got.Data, authority(t, 9, 2026, 1))
		if err != nil || report.State != c2pa.Trusted || report.Earlier != 1 || *report.Label != pass(ours(t)) || !bytes.Contains(carried.Store, old) {
			t.Errorf("%s: %+v %v", name, report, err)
		}
		broken, err := signing(t).Propagate(k, repaint(t, name, data), pass) // it says of its parent that it was broken
		if err != nil {
			t.Fatal(err)
		}
		report, carried, err = checked(t, name, broken.Data, authority(t, 9, 2026, 1))
		if err != nil || report.State != c2pa.Trusted || !bytes.Contains(carried.Store, []byte(c2pa.CodeFileChanged)) {
			t.Errorf("%s, changed before: %+v %v", name, report, err)
		}
	}
}

// TestWhyThereAreNoCredentials: a file without content credentials says why.
func TestWhyThereAreNoCredentials(t *testing.T) {
	t.Parallel()
	signedPDF := append(streamed(t), "% /ByteRange\n"...)
	for name, c := range map[string]struct {
		w    Writer
		k    Kind
		data []byte
		want Credentials
	}{
		"off":    {Writer{}, PNG, picture(t, PNG), CredentialsOff},
		"suite":  {Writer{Left: CredentialsSuite}, PNG, picture(t, PNG), CredentialsSuite},
		"text":   {signing(t), Text, []byte("text"), CredentialsNoPlace},
		"signed": {signing(t), PDF, signedPDF, CredentialsSigned},
	} {
		got, err := c.w.Write(c.k, c.data, ours(t), "")
		if err != nil || got.Credentials != c.want {
			t.Errorf("%s: %q %v", name, got.Credentials, err)
		}
		if carried, err := FindCredentials(c.k, got.Data); err != nil || carried != nil {
			t.Errorf("%s: %v %v", name, carried, err)
		}
	}
}

// TestCredentialsThatCannotBeProved are not given out: here those of a clock behind the end of the authority.
func TestCredentialsThatCannotBeProved(t *testing.T) {
	t.Parallel()
	w := Writer{Authority: authority(t, 9, 2090, 1)}
	if got, err := w.Write(PNG, picture(t, PNG), ours(t), ""); !errors.Is(err, c2pa.ErrClock) || got.Data != nil {
		t.Errorf("%v", err)
	} else if told := fault.Public(err); told.Code() != fault.CodeSigningUnavailable || !strings.Contains(told.Message(fault.English), "Set the clock") || !strings.Contains(told.Message(fault.Chinese), "时钟") {
		t.Errorf("a person is told %q", told.Message(fault.English))
	}
}

// TestForeignStores: what cannot be kept is refused and stays as it is, and a file with two stores, too.
func TestForeignStores(t *testing.T) {
	t.Parallel()
	one := func(chunks ...string) []byte {
		data := picture(t, PNG)
		var all strings.Builder
		for _, c := range chunks {
			_, _ = all.Write(newChunk(pngStore, []byte(c)))
		}
		return splice(data, 33, 33, all.String())
	}
	for name, c := range map[string]struct {
		data []byte
		why  string
	}{
		"damaged": {one("no boxes"), "labelfile.credentials_kept"},
		"two":     {one("x", "y"), "labelfile.several_credentials"},
	} {
		_, err := signing(t).Write(PNG, c.data, ours(t), "")
		if !refused(err, c.why) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// attachedTo is a PDF with a file and more in its catalog.
func attachedTo(catalog string) []byte {
	out, rows := "%PDF-1.7\n", ""
	for i, body := range []string{
		"<< /Type /Catalog /Pages 2 0 R " + catalog + " >>", "<< /Type /Pages /Kids [3 0 R] /Count 1 >>", "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 100 100] >>",
		"<< /Type /Filespec /F (a.txt) /AFRelationship /Data >>",
	} {
		rows += fmt.Sprintf("%010d 00000 n \n", len(out))
		out += fmt.Sprintf("%d 0 obj\n%s\nendobj\n", i+1, body)
	}
	return []byte(out + fmt.Sprintf("xref\n0 5\n0000000000 65535 f \n%strailer\n<< /Size 5 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n", rows, len(out)))
}

// TestAttachmentsStay: a PDF keeps the files that it has, also those in its list of names, in the order that viewers search.
func TestAttachmentsStay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ catalog, want string }{
		"none":   {"", "/Names << /EmbeddedFiles << /Names [(content_credential.c2pa) 6 0 R] >> >>"},
		"before": {"/AF [4 0 R] /Names << /Dests 9 0 R /EmbeddedFiles << /Names [(a.txt) 4 0 R] >> >>", "/EmbeddedFiles << /Names [(a.txt) 4 0 R (content_credential.c2pa) 6 0 R] >>"},
		"after":  {"/Names << /EmbeddedFiles << /Names [(z.txt) 4 0 R] >> >>", "[(content_credential.c2pa) 6 0 R (z.txt) 4 0 R]"},
		"tree":   {"/Names << /EmbeddedFiles << /Kids [4 0 R] >> >>", "/Kids [4 0 R]"},
	} {
		data := attachedTo(c.catalog)
		got, err := signing(t).Write(PDF, data, ours(t), "")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if rest := string(got.Data[len(data):]); !strings.Contains(rest, c.want) || strings.Contains(c.catalog, "/AF") && !strings.Contains(rest, "/AF [4 0 R 6 0 R]") {
			t.Errorf("%s:\n%s", name, rest)
		}
	}
}

// FuzzCredentials reads and labels whatever is there: nothing ends the process, and what was labelled can be proved.
func FuzzCredentials(f *testing.F) {
	for _, name := range credentialled() {
		k, data := signedSample(f, name)
		f.Add(string(k), data)
		f.Add(string(k), samples(f)[name])
	}
	f.Fuzz(func(t *testing.T, kind string, data []byte) {
		a := authority(t, 9, 2026, 1)
		carried, err := FindCredentials(Kind(kind), data)
		if err == nil && carried != nil {
			if r := c2pa.Check(data, *carried, a.Anchors()); r.State == "" {
				t.Error("no state")
			}
		}
		w := Writer{Authority: a}
		got, err := w.Write(Kind(kind), data, ours(t), "")
		var known *fault.Error
		if err != nil && !errors.As(err, &known) {
			t.Errorf("%v", err)
		}
		if err != nil || got.Credentials != CredentialsWritten {
			return
		}
		if again, err := FindCredentials(Kind(kind), got.Data); err != nil || c2pa.Check(got.Data, *again, a.Anchors()).State != c2pa.Trusted {
			t.Errorf("it cannot be proved: %v", err)
		}
	})
}

// The boxes of manifest stores, as others write them.
func storeBox(name string, parts ...[]byte) []byte {
	n := 8
	for _, p := range parts {
		n += len(p)
	}
	out := append(binary.BigEndian.AppendUint32(nil, uint32(n)), name...)
	return append(out, bytes.Join(parts, nil)...)
}

func superBox(kind, label string, parts ...[]byte) []byte {
	description := append([]byte(kind+"\x00\x11\x00\x10\x80\x00\x00\xaa\x00\x38\x9b\x71\x03"+label), 0)
	return storeBox("jumb", append([][]byte{storeBox("jumd", description)}, parts...)...)
}

// twoEarlier is a store of somebody with two manifests, neither of which names the other.
func twoEarlier(content []byte) []byte {
	return superBox("c2pa", "c2pa", superBox("c2ma", "urn:junk", storeBox("free", content)),
		superBox("c2ma", "urn:parent", superBox("c2cs", "c2pa.signature", storeBox("cbor", []byte{0xf6}))))
}

// withEarlier is a labelled file that had two manifests.
func withEarlier(t testing.TB, name string, content []byte) (k Kind, foreign, signed []byte) {
	t.Helper()
	data := samples(t)[name]
	k, err := Detect(name, data)
	if err != nil {
		t.Fatal(err)
	}
	how, _ := credentialsOf(k)
	if foreign, _, err = how.place(data, twoEarlier(content)); err != nil {
		t.Fatal(err)
	}
	got, err := signing(t).Write(k, foreign, ours(t), "")
	if err != nil || got.Credentials != CredentialsWritten {
		t.Fatalf("%s: %q %v", name, got.Credentials, err)
	}
	return k, foreign, got.Data
}

// TestEarlierManifestsAreBound: what a file had before lies where the hash of the file does not reach; none of it can be changed or taken away unseen.
func TestEarlierManifestsAreBound(t *testing.T) {
	t.Parallel()
	for _, name := range credentialled() {
		_, _, data := withEarlier(t, name, []byte("PAY 100 EUR"))
		a := authority(t, 9, 2026, 1)
		if got, _, err := checked(t, name, data, a); err != nil || got.State != c2pa.Trusted || got.Earlier != 2 {
			t.Fatalf("%s: %+v %v", name, got, err)
		}
		changed := bytes.Clone(data)
		copy(changed[bytes.LastIndex(changed, []byte("PAY 100 EUR")):], "PAY 999 EUR")
		if name == "picture.png" {
			all, err := chunks(data) // they stand at the same places
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range all {
				binary.BigEndian.PutUint32(changed[c.to-4:], crc32.ChecksumIEEE(changed[c.from+4:c.to-4]))
			}
		}
		if got, _, err := checked(t, name, changed, a); err != nil || got.State != c2pa.Broken || got.Code != c2pa.CodeIngredientChanged {
			t.Errorf("%s: %+v %v", name, got, err)
		}
	}
}

// TestPagesInTheStore: no object of a PDF may stand in its content credentials, where a reader would see it and the hash of the file does not.
func TestPagesInTheStore(t *testing.T) {
	t.Parallel()
	page := "4 0 obj\n<< /Length 44 >>\nstream\nBT /F1 24 Tf 10 50 Td (PAY 100 EUR  ) Tj ET     \nendstream\nendobj\n"
	pointed := func(data []byte, to int) []byte {
		out := bytes.Clone(data)
		copy(out[bytes.Index(out, []byte("xref\n0 5\n"))+len("xref\n0 5\n")+4*20:], fmt.Sprintf("%010d", to))
		return out
	}
	pdf := attachedTo("")
	foreign, _, err := placeInPDF(pdf, twoEarlier([]byte(page)))
	if err != nil {
		t.Fatal(err)
	}
	got, err := signing(t).Write(PDF, foreign, ours(t), "")
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.LastIndex(got.Data, []byte("4 0 obj"))
	if _, err := signing(t).Write(PDF, pointed(foreign, at), ours(t), ""); !refused(err, "labelfile.pdf") {
		t.Errorf("a file that refers to what is written later: %v", err)
	}
	carried, err := FindCredentials(PDF, pointed(got.Data, at))
	if err != nil || !carried.Entered || c2pa.Check(pointed(got.Data, at), *carried, c2pa.Anchors{}).Code != c2pa.CodeMalformed {
		t.Errorf("a file whose page lies in the store is not refused: %v", err)
	}
}

// TestNothingIsClaimedThatIsNotKnown: whoever has a file labelled chose what is in it, and who it says has made it. The manifest says of that only that the label was there.
func TestNothingIsClaimedThatIsNotKnown(t *testing.T) {
	t.Parallel()
	press := label.Label{ContentProducer: "X Corp", ProduceID: "x-1"}
	pass := func(x label.Label) label.Label { return labeler(t).Propagate(x, "p-1", "acme") }
	for _, name := range credentialled() {
		data := samples(t)[name]
		k, err := Detect(name, data)
		if err != nil {
			t.Fatal(err)
		}
		type way struct {
			foreign bool
			write   func() (Result, error)
		}
		ways := map[string]way{
			"write": {false, func() (Result, error) { return signing(t).Write(k, data, ours(t), "") }},
			"shown": {false, func() (Result, error) { return signing(t).WriteShown(k, data, ours(t), "") }},
		}
		for _, level := range []string{"1", "2", "3"} {
			press.Label = level
			labelled, err := unsigned().Write(k, data, press, "")
			if err != nil {
				t.Fatal(err)
			}
			ways["propagate "+level] = way{true, func() (Result, error) { return signing(t).Propagate(k, labelled.Data, pass) }}
		}
		for path, w := range ways {
			got, err := w.write()
			if err != nil || got.Credentials != CredentialsWritten {
				t.Fatalf("%s, %s: %q %v", name, path, got.Credentials, err)
			}
			_, carried, err := checked(t, name, got.Data, authority(t, 9, 2026, 1))
			if err != nil {
				t.Fatal(err)
			}
			for _, claim := range []string{"trainedAlgorithmicMedia", "digitalSourceType", "c2pa.created"} {
				if bytes.Contains(carried.Store, []byte(claim)) {
					t.Errorf("%s, %s: it says %s", name, path, claim)
				}
			}
			if agent := "softwareAgent\xa1dname"; !bytes.Contains(carried.Store, []byte(agent)) || bytes.Contains(carried.Store, []byte(agent+"fX Corp")) {
				t.Errorf("%s, %s: the agent is not this installation", name, path)
			}
			if bytes.Contains(carried.Store, []byte("gathered_assertions")) != w.foreign {
				t.Errorf("%s, %s: the signer answers for the label of somebody, or not for his own", name, path)
			}
		}
	}
}

// TestTwoStoresAreToldOf: whoever adds a second store hides nothing else that is in a file.
func TestTwoStoresAreToldOf(t *testing.T) {
	t.Parallel()
	_, data := signedSample(t, "picture.png")
	two := splice(data, 33, 33, string(newChunk(pngStore, []byte("x"))))
	found, err := Read(PNG, two)
	if err != nil || len(found.Marks) != 1 {
		t.Fatalf("%+v %v", found, err)
	}
	if r := CheckCredentials(PNG, two, authority(t, 9, 2026, 1).Anchors()); r == nil || r.State != c2pa.Unjudged || r.Code != c2pa.CodeUnread {
		t.Errorf("%+v", r)
	}
	if r := CheckCredentials(PNG, picture(t, PNG), c2pa.Anchors{}); r != nil {
		t.Errorf("%+v", r)
	}
}

// manyAttached is a PDF with so many files, whose descriptions are in one stream of objects of a megabyte.
func manyAttached(t testing.TB, count int) []byte {
	t.Helper()
	out, at := "%PDF-1.7\n", map[int]int{}
	put := func(n int, body string) {
		at[n] = len(out)
		out += fmt.Sprintf("%d 0 obj\n%s\nendobj\n", n, body)
	}
	const first = 5
	var heads, inside, files strings.Builder
	for i := range count {
		_, _ = fmt.Fprintf(&heads, "%d %d ", first+i, inside.Len())
		_, _ = inside.WriteString("<< /Type /Filespec /F (a.txt) /AFRelationship /Data >>\n")
		_, _ = fmt.Fprintf(&files, "%d 0 R ", first+i)
	}
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	_, _ = z.Write([]byte(heads.String() + inside.String() + strings.Repeat(" ", 1<<20)))
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	put(1, "<< /Type /Catalog /Pages 2 0 R /AF [ "+files.String()+"] >>")
	put(2, "<< /Type /Pages /Kids [3 0 R] /Count 1 >>")
	put(3, "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 100 100] >>")
	put(4, fmt.Sprintf("<< /Type /ObjStm /N %d /First %d /Filter /FlateDecode /Length %d >>\nstream\n%s\nendstream", count, heads.Len(), packed.Len(), packed.String()))
	rows := []byte{0, 0, 0, 0, 0, 0, 255, 255}
	for n := 1; n < first; n++ {
		rows = append(rows, row(at[n], 0)...)
	}
	for i := range count {
		rows = append(rows, 2, 0, 0, 0, 0, 4)
		rows = binary.BigEndian.AppendUint16(rows, uint16(i))
	}
	start, own := len(out), first+count
	rows = append(rows, row(start, 0)...)
	return []byte(out + fmt.Sprintf("%d 0 obj\n<< /Type /XRef /Size %d /W [1 5 2] /Root 1 0 R /Length %d >>\nstream\n%s\nendstream\nendobj\nstartxref\n%d\n%%%%EOF\n", own, own+1, len(rows), rows, start))
}

// TestOrdinaryAttachments: a PDF is labelled that has many files, or names one that is not there, or something else among them.
func TestOrdinaryAttachments(t *testing.T) {
	t.Parallel()
	for name, data := range map[string][]byte{
		"many": manyAttached(t, 200), "missing": attachedTo("/AF [9 0 R 4 0 R]"), "free": attachedTo("/AF [0 0 R 4 0 R]"), "no dictionary": attachedTo("/AF [(a) null 4 0 R]"), "null": attachedTo("/AF null"),
	} {
		got, err := signing(t).Write(PDF, data, ours(t), "")
		if err != nil || got.Credentials != CredentialsWritten {
			t.Errorf("%s: %q %v", name, got.Credentials, err)
			continue
		}
		if r, _, err := checked(t, "a.pdf", got.Data, authority(t, 9, 2026, 1)); err != nil || r.State != c2pa.Trusted {
			t.Errorf("%s: %+v %v", name, r, err)
		}
	}
}

// TestForeignFormsOfCredentials: what others write in another way is found, and not broken by a label.
func TestForeignFormsOfCredentials(t *testing.T) {
	t.Parallel()
	for name, k := range map[string]Kind{"report.docx": DOCX, "book.xlsx": XLSX} {
		data := edited(t, samples(t)[name], map[string]func(string) string{"META-INF/content_credential.c2pa": whole("x")})
		if _, err := signing(t).Write(k, data, ours(t), ""); !refused(err, "labelfile.credentials") {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, data := signedSample(t, "picture.jpg")
	all, err := segments(data)
	if err != nil {
		t.Fatal(err)
	}
	zero := bytes.Clone(data) // the same, with parts that are counted from 0
	for _, s := range all {
		if _, part, ok := s.jumbf(); ok {
			binary.BigEndian.PutUint32(zero[s.to-len(s.data)+4:], part-1)
		}
	}
	if carried, err := FindCredentials(JPEG, zero); err != nil || carried == nil || bytes.Equal(zero, data) {
		t.Errorf("%v %v", carried, err)
	}
	compressed := superBox("c2pa", "c2pa", superBox("c2ma", "urn:a", storeBox("free", nil)), superBox("c2cm", "urn:b", storeBox("brob", []byte("x"))))
	foreign, _, err := placeInPNG(picture(t, PNG), compressed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := signing(t).Write(PNG, foreign, ours(t), ""); !refused(err, "labelfile.credentials_kept") {
		t.Errorf("a compressed manifest: %v", err)
	}
	if r := CheckCredentials(PNG, foreign, c2pa.Anchors{}); r.State != c2pa.Unjudged {
		t.Errorf("%+v", r)
	}
}
