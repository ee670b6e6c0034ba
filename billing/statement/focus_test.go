package statement

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/text/currency"

	"github.com/sluice-project/sluice/internal/message"
)

// focusColumn is a column as the specification 1.2 defines it.
type focusColumn struct {
	mandatory, null bool
	kind            string // decimal, string, time, object
	allowed         []string
}

// focusSpec has the columns of the specification that are mandatory and those that are written here.
func focusSpec() map[string]focusColumn {
	out := map[string]focusColumn{}
	for _, name := range []string{"BilledCost", "ContractedCost", "EffectiveCost", "ListCost"} {
		out[name] = focusColumn{mandatory: true, kind: "decimal"}
	}
	for _, name := range []string{"BillingPeriodEnd", "BillingPeriodStart", "ChargePeriodEnd", "ChargePeriodStart"} {
		out[name] = focusColumn{mandatory: true, kind: "time"}
	}
	for _, name := range []string{"BillingAccountId", "BillingCurrency", "InvoiceIssuerName", "ProviderName", "PublisherName", "ServiceName"} {
		out[name] = focusColumn{mandatory: true, kind: "string"}
	}
	for _, name := range []string{"BillingAccountName", "ChargeDescription", "PricingUnit"} {
		out[name] = focusColumn{mandatory: true, null: true, kind: "string"}
	}
	for _, name := range []string{"ConsumedQuantity", "ContractedUnitPrice", "ListUnitPrice"} {
		out[name] = focusColumn{null: true, kind: "decimal"}
	}
	for _, name := range []string{"ConsumedUnit", "InvoiceId", "SkuId", "SkuMeter", "SkuPriceId"} {
		out[name] = focusColumn{null: true, kind: "string"}
	}
	out["PricingQuantity"] = focusColumn{mandatory: true, null: true, kind: "decimal"}
	out["SkuPriceDetails"] = focusColumn{null: true, kind: "object"}
	out["ChargeCategory"] = focusColumn{mandatory: true, kind: "string", allowed: []string{"Usage", "Purchase", "Tax", "Credit", "Adjustment"}}
	out["ChargeClass"] = focusColumn{mandatory: true, null: true, kind: "string", allowed: []string{"Correction"}}
	out["ChargeFrequency"] = focusColumn{kind: "string", allowed: []string{"One-Time", "Recurring", "Usage-Based"}}
	out["PricingCategory"] = focusColumn{null: true, kind: "string", allowed: []string{"Standard", "Dynamic", "Committed", "Other"}}
	out["ServiceSubcategory"] = focusColumn{kind: "string", allowed: []string{
		"AI Platforms", "Bots", "Generative AI", "Machine Learning", "Natural Language Processing", "Other (AI and Machine Learning)",
	}}
	out["ServiceCategory"] = focusColumn{mandatory: true, kind: "string", allowed: []string{
		"AI and Machine Learning", "Analytics", "Business Applications", "Compute", "Databases", "Developer Tools", "Multicloud", "Identity", "Integration", "Internet of Things",
		"Management and Governance", "Media", "Migration", "Mobile", "Networking", "Security", "Storage", "Web", "Other",
	}}
	return out
}

var (
	focusNumeric = regexp.MustCompile(`^-?\d+(\.\d+)?(E-?\d+)?$`)
	focusInstant = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$`)
	focusUnit    = regexp.MustCompile(`^(\d+ )?[A-Z][A-Za-z]*s$`) // of the units, those that count
)

// focusViolations holds a dataset against the requirements of the specification: columns, types, nulls, allowed values, and what columns say of
// each other. A decimal is a json.Number, a null nil.
func focusViolations(header []string, rows []map[string]any) []string {
	var out []string
	spec := focusSpec()
	bad := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	own := false
	for _, name := range header {
		_, known := spec[name]
		if own = own || strings.HasPrefix(name, "x_"); known == own {
			bad("%s: unknown, or behind own columns", name)
		}
	}
	for name, c := range spec {
		if c.mandatory && !slices.Contains(header, name) {
			bad("%s: absent", name)
		}
	}
	for i, row := range rows {
		for _, name := range header {
			if why := spec[name].violation(row[name], strings.HasPrefix(name, "x_")); why != "" {
				bad("row %d: %s: %s", i, name, why)
			}
		}
		for _, why := range focusRowViolations(row) {
			bad("row %d: %s", i, why)
		}
	}
	return out
}

func (c focusColumn) violation(value any, own bool) string {
	if value == nil {
		if !own && !c.null {
			return "null"
		}
		return ""
	}
	text, isText := value.(string)
	number, isNumber := value.(json.Number)
	switch {
	case isText && strings.TrimSpace(text) == "":
		return "empty instead of null"
	case own:
		return ""
	case c.kind == "decimal" && (!isNumber || !focusNumeric.MatchString(number.String())):
		return "no decimal"
	case c.kind == "time" && !focusInstant.MatchString(text):
		return "no time of the format"
	case c.kind == "string" && !isText:
		return "no string"
	case c.allowed != nil && !slices.Contains(c.allowed, text):
		return "not an allowed value: " + text
	case c.kind == "object":
		m, isObject := value.(map[string]any)
		for key := range m {
			if !strings.HasPrefix(key, "x_") {
				return "an own property without x_: " + key
			}
		}
		if !isObject {
			return "no object"
		}
	}
	return ""
}

func focusRowViolations(row map[string]any) []string {
	var out []string
	must := func(holds bool, format string, args ...any) {
		if !holds {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	rat := func(name string) *big.Rat {
		n, _ := row[name].(json.Number)
		r, ok := new(big.Rat).SetString(n.String())
		if !ok {
			return nil
		}
		return r
	}
	equal := func(a, b *big.Rat) bool { return a != nil && b != nil && a.Cmp(b) == 0 }
	category, correction := row["ChargeCategory"], row["ChargeClass"] == "Correction"
	sold := category == "Usage" || category == "Purchase"
	for _, name := range []string{"PricingQuantity", "ListUnitPrice", "ContractedUnitPrice", "SkuId", "SkuPriceId", "PricingCategory"} {
		must(row[name] == nil || category != "Tax", "%s must be null of a tax", name)
		must(row[name] != nil || !sold || correction, "%s must not be null", name)
	}
	must((row["PricingUnit"] == nil) == (row["PricingQuantity"] == nil), "PricingUnit and PricingQuantity")
	must((row["ConsumedUnit"] == nil) == (row["ConsumedQuantity"] == nil), "ConsumedUnit and ConsumedQuantity")
	must(row["ConsumedQuantity"] == nil || category == "Usage", "ConsumedQuantity of what is no usage")
	must(row["ConsumedQuantity"] != nil || category != "Usage" || correction, "ConsumedQuantity must not be null")
	must(row["SkuMeter"] == nil || row["SkuId"] != nil, "SkuMeter without SkuId")
	must(row["SkuPriceDetails"] == nil || row["SkuPriceId"] != nil, "SkuPriceDetails without SkuPriceId")
	must(category != "Purchase" || row["ChargeFrequency"] != "Usage-Based", "a purchase by usage")
	must(sold || equal(rat("EffectiveCost"), rat("BilledCost")), "EffectiveCost")
	for _, kind := range []string{"List", "Contracted"} {
		price, quantity, cost := rat(kind+"UnitPrice"), rat("PricingQuantity"), rat(kind+"Cost")
		switch {
		case price == nil:
			must(equal(cost, rat("BilledCost")), "%sCost without a unit price", kind)
		case quantity != nil && !correction:
			must(price.Sign() >= 0 && equal(cost, new(big.Rat).Mul(price, quantity)), "%sCost is not price times quantity", kind)
		}
	}
	for _, name := range []string{"PricingUnit", "ConsumedUnit"} {
		unit, _ := row[name].(string)
		must(unit == "" || focusUnit.MatchString(unit), "%s: %s", name, unit)
	}
	_, err := currency.ParseISO(fmt.Sprint(row["BillingCurrency"]))
	must(err == nil && row["BillingCurrency"] == strings.ToUpper(fmt.Sprint(row["BillingCurrency"])), "BillingCurrency")
	must(fmt.Sprint(row["ChargePeriodStart"]) < fmt.Sprint(row["ChargePeriodEnd"]), "ChargePeriod")
	must(fmt.Sprint(row["BillingPeriodStart"]) < fmt.Sprint(row["BillingPeriodEnd"]), "BillingPeriod")
	return out
}

// focusDataset reads what was written, in the form of the lines: the cells of the table get their types from the specification.
func focusDataset(t *testing.T, f Format, s Statement) (header []string, rows []map[string]any) {
	t.Helper()
	var file bytes.Buffer
	if err := Write(&file, f, s, message.Chinese, Names{Issuer: "sluice.example", Tenant: "Acme 公司"}); err != nil {
		t.Fatal(err)
	}
	if f == FOCUSLines {
		for line := range bytes.Lines(file.Bytes()) {
			row := map[string]any{}
			d := json.NewDecoder(bytes.NewReader(line))
			d.UseNumber()
			if err := d.Decode(&row); err != nil {
				t.Fatal(err)
			}
			rows = append(rows, row)
		}
		for line := range bytes.Lines(file.Bytes()) { // the order of the keys of an object
			d := json.NewDecoder(bytes.NewReader(line))
			for depth, key := 0, true; ; {
				token, err := d.Token()
				if err != nil {
					break
				}
				switch {
				case token == json.Delim('{'):
					depth, key = depth+1, true
				case token == json.Delim('}'):
					depth, key = depth-1, true
				default:
					if key && depth == 1 {
						header = append(header, token.(string))
					}
					key = !key
				}
			}
			break
		}
		return header, rows
	}
	all, err := csv.NewReader(&file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	spec := focusSpec()
	for _, cells := range all[1:] {
		row := map[string]any{}
		for i, cell := range cells {
			name := all[0][i]
			switch {
			case cell == "":
				row[name] = nil
			case spec[name].kind == "decimal":
				row[name] = json.Number(cell)
			case spec[name].kind == "object":
				m := map[string]any{}
				if err := json.Unmarshal([]byte(cell), &m); err != nil {
					t.Error(err)
				}
				row[name] = m
			default:
				row[name] = cell
			}
		}
		rows = append(rows, row)
	}
	return all[0], rows
}

func focusSum(rows []map[string]any) *big.Rat {
	sum := new(big.Rat)
	for _, row := range rows {
		n, _ := new(big.Rat).SetString(row["BilledCost"].(json.Number).String())
		sum.Add(sum, n)
	}
	return sum
}

// TestFOCUS: a statement with lines of every kind is valid FOCUS, sums to what is paid, and says what corrects an earlier month.
func TestFOCUS(t *testing.T) {
	s := october(t)
	s.Usage = append(s.Usage, Usage{Action: "chat.completions", Model: "glm", Book: "v2/batch", Requests: 1, Completion: 5, Cost: 10_000})
	s.Usage = append(s.Usage, Usage{Month: "<2026-08", Action: "chat.completions", Model: "glm", Book: "v2", Requests: 1, Completion: 1, Cost: 4000})
	s.Corrections = append(s.Corrections, Correction{
		ID: "c3", At: s.From, Request: "019a2c48-0000-7000-8000-000000000000", Amount: -1, Reason: "counted twice", Actor: "li.wei", // of 28 October 2025
	})
	s.Corrections = append(s.Corrections, Correction{
		ID: "c4", At: s.From, Request: "019a2c48-0000-7000-8000-000000000000.17", Amount: -1, Reason: "counted twice", Actor: "li.wei", // a line of a batch
	})
	s.canonical = nil
	if err := s.Complete(rates); err != nil {
		t.Fatal(err)
	}
	for _, f := range []Format{FOCUS, FOCUSLines} {
		header, rows := focusDataset(t, f, s)
		if wrong := focusViolations(header, rows); len(wrong) > 0 {
			t.Errorf("%s: %s", f, strings.Join(wrong, "\n"))
		}
		if sum := focusSum(rows); sum.Cmp(big.NewRat(s.Amounts.Payable, 1e9)) != 0 || s.Amounts.Payable == s.Amounts.Total {
			t.Errorf("%s: the rows sum to %s, %d is paid", f, sum.FloatString(9), s.Amounts.Payable)
		}
		kinds := map[string]int{}
		for _, row := range rows {
			kinds[fmt.Sprint(row["ChargeCategory"], " ", row["ChargeClass"], " ", row["ChargePeriodStart"])]++
		}
		want := map[string]int{
			"Usage <nil> 2026-09-30T16:00:00Z": 8, "Usage Correction 2026-08-31T16:00:00Z": 1, "Usage Correction 1970-01-01T00:00:00Z": 1, "Adjustment Correction 2026-08-31T16:00:00Z": 1,
			"Adjustment Correction 2025-09-30T16:00:00Z": 2, "Adjustment <nil> 2026-09-30T16:00:00Z": 2,
		}
		if !maps.Equal(kinds, want) {
			t.Errorf("%s: %v", f, kinds)
		}
	}
}

// TestFOCUSSums: whatever was billed and corrected, both forms are valid and sum to the payable amount to the smallest unit.
func TestFOCUSSums(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 11))
	for range 200 {
		s := Statement{
			Number: "2026-10-acme", Currency: []string{"CNY", "USD", "JPY", "KWD"}[random.IntN(4)], Tenant: "acme", Month: "2026-10", Zone: "Asia/Shanghai", State: Provisional,
			From: time.Date(2026, 9, 30, 16, 0, 0, 0, time.UTC), Until: time.Date(2026, 10, 31, 16, 0, 0, 0, time.UTC),
		}
		for range random.IntN(6) {
			u := Usage{
				Month: []string{"", "", "2026-09"}[random.IntN(3)], Action: []string{"chat.completions", "embeddings"}[random.IntN(2)], Model: []string{"glm", "=cmd", "e5"}[random.IntN(3)],
				Book: []string{"v1", "v2"}[random.IntN(2)], Requests: 1, Prompt: random.Int64N(1e12), Completion: random.Int64N(1e12),
			}
			r, _ := rates("v2", u.Model, u.Action == "embeddings")
			u.Cost = u.Prompt*r.Prompt + u.Completion*r.Completion
			s.Usage = append(s.Usage, u)
		}
		for i := range random.IntN(3) {
			s.Corrections = append(s.Corrections, Correction{ID: fmt.Sprint(i), Month: []string{"", "2026-10", "2026-09"}[random.IntN(3)], Amount: random.Int64N(1e12) - 5e11, Reason: "=1+1"})
		}
		if err := s.Complete(rates); err != nil {
			t.Fatal(err)
		}
		for _, f := range []Format{FOCUS, FOCUSLines} {
			header, rows := focusDataset(t, f, s)
			if len(rows) == 0 {
				continue
			}
			if wrong := focusViolations(header, rows); len(wrong) > 0 {
				t.Fatalf("%s: %s", f, strings.Join(wrong, "\n"))
			}
			if sum := focusSum(rows); sum.Cmp(big.NewRat(s.Amounts.Payable, 1e9)) != 0 {
				t.Fatalf("%s: the rows sum to %s, %d is paid", f, sum.FloatString(9), s.Amounts.Payable)
			}
		}
	}
}

// TestFOCUSValidator: the validator of these tests finds what is planted.
func TestFOCUSValidator(t *testing.T) {
	for column, value := range map[string]any{
		"BilledCost": nil, "ListCost": json.Number("+1"), "ContractedCost": json.Number("0.5"), "EffectiveCost": "1.0", "BillingAccountId": " ", "BillingCurrency": "Yuan",
		"BillingPeriodEnd": "2026-11-01", "ChargePeriodEnd": "2020-01-01T00:00:00Z", "ChargeCategory": "Tax", "ChargeClass": "None", "ChargeFrequency": nil, "ConsumedQuantity": nil,
		"ConsumedUnit": nil, "ListUnitPrice": nil, "PricingQuantity": json.Number("7"), "PricingUnit": "tokens", "PricingCategory": "Free", "ServiceCategory": "AI", "SkuId": nil,
		"SkuPriceId": nil, "SkuPriceDetails": map[string]any{"Model": "glm"}, "ProviderName": nil,
	} {
		header, rows := focusDataset(t, FOCUSLines, october(t))
		if wrong := focusViolations(header, rows); len(wrong) > 0 {
			t.Fatal(wrong)
		}
		rows[0][column] = value
		if len(focusViolations(header, rows)) == 0 {
			t.Errorf("%s may be %v", column, value)
		}
	}
	header, rows := focusDataset(t, FOCUS, october(t))
	if focusViolations(header[1:], rows) == nil || focusViolations(append([]string{"x_First"}, header...), rows) == nil {
		t.Error("columns may be absent, or behind own ones")
	}
}
