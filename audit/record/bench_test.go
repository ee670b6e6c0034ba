package record_test

import (
	"testing"

	"github.com/sluice-project/sluice/audit/record"
	"github.com/sluice-project/sluice/audit/record/recordtest"
)

// BenchmarkDecode is most of what a verification does.
func BenchmarkDecode(b *testing.B) {
	payload, err := record.Encode(recordtest.Sample(1))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(payload)))
	for b.Loop() {
		if _, err := record.Decode(payload); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEncode is done twice for each request.
func BenchmarkEncode(b *testing.B) {
	e := recordtest.Sample(1)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := record.Encode(e); err != nil {
			b.Fatal(err)
		}
	}
}
