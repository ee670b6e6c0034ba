package evidence

import (
	"bytes"
	"testing"

	"github.com/sluice-project/sluice/audit/checkpoint"
)

// FuzzVerifyBundle: no file, however made, ends the verifier, and none but a real bundle passes. The key inside is believed, so that what is
// signed is hostile too.
func FuzzVerifyBundle(f *testing.F) {
	l := newLog(f, 9)
	good := l.bundle(f, l.config(f))
	cfg := l.config(f)
	cfg.Tenant = "other"
	for _, b := range [][]byte{good, l.bundle(f, cfg), good[:len(good)/2], {}, []byte("PK\x05\x06" + "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00")} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		key, _ := BundleKey(bytes.NewReader(b), int64(len(b)))
		v, err := checkpoint.NewVerifier(key)
		if err != nil {
			v = l.signer.Verifier()
		}
		r, err := VerifyBundle(t.Context(), bytes.NewReader(b), int64(len(b)), v, checkpoint.Witnesses{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.OK != (len(r.Problems) == 0) || r.OK && r.Proven != r.Records || r.Complete && !r.OK {
			t.Fatalf("%+v", r)
		}
	})
}

// FuzzSignedBundle changes what the owner of the key signs: the entries of a zip that is otherwise in order.
func FuzzSignedBundle(f *testing.F) {
	l := newLog(f, 9)
	good := unzip(f, l.bundle(f, l.config(f)))
	f.Add(good.get(recordsName), good.get(csvName), good.get(treeName), good.get(checkpointName), int64(0))
	f.Add([]byte("{}\n"), []byte{}, bytes.Repeat([]byte{0}, hashBytes), good.get(checkpointName), int64(1)<<62)
	f.Fuzz(func(t *testing.T, records, table, tree, note []byte, size int64) {
		p := clone(good)
		for name, b := range map[string][]byte{recordsName: records, csvName: table, treeName: tree, checkpointName: note} {
			p.set(name, b)
		}
		if size != 0 { // a checkpoint that states what no log has
			text, err := l.signer.Sign(checkpoint.Tree{Size: size})
			if err != nil {
				t.Fatal(err)
			}
			p.set(checkpointName, []byte(text))
		}
		p.seal(t, l.signer, nil)
		r := l.verify(t, p.pack(t))
		if same := bytes.Equal(records, good.get(recordsName)) && size == 0; r.OK && !same {
			t.Fatalf("other records passed: %s", records)
		}
	})
}

// FuzzLine: what is read is what was written, byte for byte, and nothing else is read.
func FuzzLine(f *testing.F) {
	for _, s := range []string{
		"{\"index\":0,\"record\":{}}\n", "{\"index\":9223372036854775807,\"record\":{\"a\":\"}\"}}\n", "{\"index\":01,\"record\":{}}\n",
		"{\"index\":-1,\"record\":{}}\n", "{\"index\":1,\"record\":}\n", "{\"index\":1,\"record\":{}}", "", "\n", "{\"index\":1, \"record\":{}}\n",
		"{\"index\":1,\"record\":{\n}}\n", "{\"index\":9223372036854775808,\"record\":{}}\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := parseLine(line)
		if err != nil {
			return
		}
		if again := appendLine(nil, r); !bytes.Equal(again, line) || r.Index < 0 || len(line) > maxLine {
			t.Fatalf("%q is read as %d %q", line, r.Index, r.Payload)
		}
	})
}
