package statement

import (
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"flag"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/billing/price"
	"github.com/sluice-project/sluice/internal/message"
)

var update = flag.Bool("update", false, "write the statements in testdata anew")

// rates prices generation at 1000, 100 and 4000 and embedding at 50, in book v2 alone.
func rates(book, _ string, embed bool) (price.Rate, bool) {
	if embed {
		return price.Rate{Prompt: 50, Cached: 50}, book == "v2"
	}
	return price.Rate{Prompt: 1000, Cached: 100, Completion: 4000}, book == "v2"
}

// october is a statement with a line of every kind, whose figures are worked out by hand beside them.
func october(t *testing.T) Statement {
	t.Helper()
	at := func(day, hour int) time.Time { return time.Date(2026, 10, day, hour, 0, 0, 0, time.UTC) }
	s := Statement{
		Number: "2026-10-acme", State: Closed, Tenant: "acme", Month: "2026-10", Zone: "Asia/Shanghai",
		From: at(0, 16), Until: at(31, 16), AsOf: at(32, 2), ClosedBy: "li.wei", Currency: "CNY",
		Books: []Book{{"v2", strings.Repeat("ab", 32), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}},
		Usage: []Usage{
			// 700 × 1000 + 300 × 100 + 200 × 4000 = 1,530,000
			{Action: "chat.completions", Model: "glm", Book: "v2", EnergyMethod: "declared", Requests: 3, Estimated: 1, Prompt: 1000, Cached: 300, Completion: 200, Cost: 1_530_000, Energy: 5_000_000},
			// 1,000,000 × 1000 = 1,000,000,000, in the same line as the 700 above
			{Action: "chat.completions", Model: "glm", Book: "v2", EnergyMethod: "measured", Requests: 1, Prompt: 1_000_000, Cost: 1_000_000_000, Energy: 1_500_000},
			{Action: "embeddings", Model: "e5", Book: "v2", Requests: 2, Prompt: 101, Cached: 1, Cost: 5050},
			{Action: "rerank", Model: "bge", Book: "v2", Requests: 1, Prompt: 10, Cost: 500},
			{Action: "rag.ingest", Model: "e5", Book: "v2", Requests: 1, Prompt: 1000, Cost: 50_000},
			{Action: "chat.completions", Model: "old", Book: "v1", Requests: 1, Prompt: 7, Completion: 3, Cost: 123}, // its book is gone
			{Month: "2026-09", Action: "chat.completions", Model: "glm", Book: "v2", Requests: 1, Completion: 1, Cost: 4000},
		},
		Corrections: []Correction{
			{ID: "c2", At: at(20, 8), Month: "2026-09", Amount: -500_000_000, Reason: "outage of 12 September", Actor: "li.wei"},
			{ID: "c1", At: at(19, 8), Request: "r-17", Model: "glm", Key: "k1", Amount: 1_000_000, Reason: "=1+1 的说明", Actor: "wang.fang"},
		},
	}
	if err := s.Complete(rates); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestLines(t *testing.T) {
	s := october(t)
	type line struct {
		month, kind, model     string
		quantity, unit, amount int64
	}
	var got []line
	for _, l := range append(slices.Clone(s.Lines), s.Late...) {
		unit := int64(-1)
		if l.UnitPrice != nil {
			unit = *l.UnitPrice
		}
		got = append(got, line{l.Month, l.Kind, l.Model, l.Quantity, unit, l.Amount})
	}
	want := []line{
		{"", Rerank, "bge", 10, 50, 500},
		{"", Embedding, "e5", 101, 50, 5050},
		{"", Ingestion, "e5", 1000, 50, 50_000},
		{"", Input, "glm", 1_000_700, 1000, 1_000_700_000},
		{"", CachedInput, "glm", 300, 100, 30_000},
		{"", Output, "glm", 200, 4000, 800_000},
		{"", Unpriced, "old", 10, -1, 123},
		{"2026-09", Output, "glm", 1, 4000, 4000},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	// 1,530,000 + 1,000,000,000 + 5,050 + 500 + 50,000 + 123 = 1,001,585,673
	// 1,001,585,673 + 4,000 + 1,000,000 − 500,000,000 = 502,589,673, which is 0.50 to two decimals
	if want := (Amounts{Usage: 1_001_585_673, Late: 4000, Corrections: -499_000_000, Total: 502_589_673, Payable: 500_000_000}); s.Amounts != want {
		t.Errorf("%+v", s.Amounts)
	}
	if want := []Energy{{"", 6, 0}, {"declared", 3, 5_000_000}, {"measured", 1, 1_500_000}}; !slices.Equal(s.Energy, want) || s.Requests != 10 || s.Estimated != 1 {
		t.Errorf("%+v, %d requests, %d estimated", s.Energy, s.Requests, s.Estimated)
	}
}

func TestHalfUp(t *testing.T) {
	for _, c := range []struct {
		nano     int64
		decimals int
		want     int64
	}{
		{0, 2, 0},
		{4_999_999, 2, 0},
		{5_000_000, 2, 10_000_000},
		{-4_999_999, 2, 0},
		{-5_000_000, 2, -10_000_000},
		{14_999_999, 2, 10_000_000},
		{499_999_999, 0, 0},
		{500_000_000, 0, 1_000_000_000},
		{7, 9, 7},
		{-7, 9, -7},
		{math.MinInt64 + 5, 9, math.MinInt64 + 5},
	} {
		if got, err := halfUp(c.nano, c.decimals); err != nil || got != c.want {
			t.Errorf("%d to %d decimals: %d, %v; want %d", c.nano, c.decimals, got, err, c.want)
		}
	}
	for _, n := range []int64{math.MaxInt64, math.MinInt64} {
		if got, err := halfUp(n, 0); err == nil {
			t.Errorf("%d became %d", n, got)
		}
	}
	for code, want := range map[string]int{"CNY": 2, "JPY": 0, "KWD": 3, "no": 2, "": 2} {
		if got := decimalsOf(code); got != want {
			t.Errorf("%s has %d decimals", code, got)
		}
	}
}

// TestPartsSumToTheTotal: whatever was billed at whatever price, and against the exact sums of big numbers.
func TestPartsSumToTheTotal(t *testing.T) {
	random := rand.New(rand.NewPCG(20, 10))
	for range 2000 {
		s := Statement{Currency: "CNY", Tenant: "acme"}
		exact := new(big.Int)
		for range random.IntN(12) {
			u := Usage{
				Month: []string{"", "2026-09"}[random.IntN(2)], Action: []string{"chat.completions", "embeddings", "rerank", "rag.ingest"}[random.IntN(4)],
				Model: []string{"a", "b"}[random.IntN(2)], Book: []string{"v1", "v2"}[random.IntN(2)], EnergyMethod: []string{"", "declared"}[random.IntN(2)],
				Requests: random.Int64N(9), Prompt: random.Int64N(1 << 40), Completion: random.Int64N(1 << 40), Cost: random.Int64N(1 << 50),
			}
			u.Cached = random.Int64N(u.Prompt + 1)
			if random.IntN(2) == 0 { // as the book has it
				r, _ := rates("v2", "", u.Action != "chat.completions")
				u.Cost = (u.Prompt-u.Cached)*r.Prompt + u.Cached*r.Cached + u.Completion*r.Completion
			}
			exact.Add(exact, big.NewInt(u.Cost))
			s.Usage = append(s.Usage, u)
		}
		for range random.IntN(3) {
			c := Correction{Amount: random.Int64N(1<<50) - 1<<49}
			exact.Add(exact, big.NewInt(c.Amount))
			s.Corrections = append(s.Corrections, c)
		}
		if err := s.Complete(rates); err != nil {
			t.Fatal(err)
		}
		sum := int64(0)
		for _, l := range append(slices.Clone(s.Lines), s.Late...) {
			sum += l.Amount
			if l.UnitPrice != nil && *l.UnitPrice*l.Quantity != l.Amount {
				t.Fatalf("%+v", l)
			}
		}
		for _, c := range s.Corrections {
			sum += c.Amount
		}
		if a := s.Amounts; sum != a.Total || exact.Cmp(big.NewInt(a.Total)) != 0 || a.Usage+a.Late+a.Corrections != a.Total || a.Payable%10_000_000 != 0 || 2*(a.Payable-a.Total) > 10_000_000 || 2*(a.Total-a.Payable) > 10_000_000 {
			t.Fatalf("lines and corrections are %d, exactly %s, amounts %+v", sum, exact, a)
		}
	}
	for _, s := range []Statement{
		{Usage: []Usage{{Model: "a", Cost: math.MaxInt64}, {Model: "b", Cost: 1}}},
		{Corrections: []Correction{{Amount: math.MinInt64}, {Amount: -1}}},
		{Usage: []Usage{{Cost: math.MaxInt64}}, Corrections: []Correction{{Amount: 1}}},
		{Usage: []Usage{{Requests: math.MaxInt64}, {Requests: 1}}},
	} {
		if err := s.Complete(rates); err == nil {
			t.Errorf("a sum wrapped around: %+v", s.Amounts)
		}
	}
}

// TestFormats holds the statement of October in every format that people and programs read as text.
func TestFormats(t *testing.T) {
	s := october(t)
	provisional := october(t)
	provisional.State, provisional.ClosedBy, provisional.Corrections, provisional.Usage = Provisional, "", nil, provisional.Usage[:1]
	if err := provisional.Complete(rates); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		s Statement
		f Format
		l message.Lang
	}{
		"october.en.md": {s, Markdown, message.English}, "october.zh.md": {s, Markdown, message.Chinese}, "october.csv": {s, CSV, message.Chinese},
		"october.json": {s, JSON, message.Chinese}, "provisional.en.md": {provisional, Markdown, message.English},
	} {
		var got bytes.Buffer
		if err := Write(&got, c.f, c.s, c.l, Names{Issuer: "sluice.example"}); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(file, got.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), want) {
			t.Errorf("the statement differs from %s; run with -update and read the difference:\n%s", file, &got)
		}
	}
	for _, l := range []message.Lang{message.English, message.Chinese} {
		for f, begins := range map[Format]string{PDF: "%PDF-1.7", DOCX: "PK"} {
			var once, again bytes.Buffer
			if err := Write(&once, f, s, l, Names{Issuer: "sluice.example"}); err != nil || !strings.HasPrefix(once.String(), begins) {
				t.Errorf("%s: %v, %.20q", f, err, once.String())
			}
			if err := Write(&again, f, s, l, Names{Issuer: "sluice.example"}); err != nil || !bytes.Equal(once.Bytes(), again.Bytes()) {
				t.Errorf("%s: the same statement gave other bytes", f)
			}
		}
	}
}

// TestCSVSums: a spreadsheet that adds up the rows gets the total, and takes no text for a formula.
func TestCSVSums(t *testing.T) {
	var file bytes.Buffer
	if err := Write(&file, CSV, october(t), message.English, Names{}); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(file.Bytes(), []byte("\ufeff")))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	at := func(row []string, column string) string { return row[slices.Index(rows[0], column)] }
	sum, total := new(big.Rat), new(big.Rat)
	for _, row := range rows[1:] {
		n, _ := new(big.Rat).SetString(at(row, "amount"))
		switch at(row, "section") {
		case "line", "late", "correction":
			sum.Add(sum, n)
		case "total":
			total = n
		}
		for _, cell := range row {
			if strings.HasPrefix(cell, "=") {
				t.Errorf("a formula: %s", cell)
			}
		}
	}
	if sum.Cmp(total) != 0 || total.Sign() == 0 {
		t.Errorf("the rows are %s, the total %s", sum.FloatString(9), total.FloatString(9))
	}
}

// TestDigest: it is that of the bytes of the JSON form, an altered content is found, and a statement that was read keeps its bytes.
func TestDigest(t *testing.T) {
	s := october(t)
	s.ClosedBy = "a<b>&c" // which the encoder would escape
	var file bytes.Buffer
	if err := Write(&file, JSON, s, message.English, Names{}); err != nil {
		t.Fatal(err)
	}
	var signed Signed
	if err := json.Unmarshal(file.Bytes(), &signed); err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(signed.Statement); hex.EncodeToString(sum[:]) != signed.Digest || !bytes.Contains(signed.Statement, []byte("a<b>&c")) {
		t.Errorf("the digest is not that of %s", signed.Statement)
	}
	newer := bytes.Replace(signed.Statement, []byte(`{"schema":1`), []byte(`{"later":7,"schema":1`), 1)
	sum := sha256.Sum256(newer)
	read, err := Parse(newer, hex.EncodeToString(sum[:]))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := read.Canonical(); err != nil || !bytes.Equal(again, newer) {
		t.Errorf("%s, %v", again, err)
	}
	if _, err := Parse(bytes.Replace(newer, []byte("acme"), []byte("acne"), 1), hex.EncodeToString(sum[:])); err == nil || !strings.Contains(err.Error(), "altered") {
		t.Errorf("an altered content: %v", err)
	}
}
