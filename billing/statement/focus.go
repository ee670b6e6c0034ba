package statement

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-project/sluice/internal/csvcell"
)

// focusRow is a row of the FinOps Open Cost and Usage Specification, version 1.2. Its fields are the columns, in their order: those of the
// specification first, own ones last. nil is null. The specification's words say what a column means; these say what stands in it here.
type focusRow struct {
	Billed              json.Number        `json:"BilledCost"`
	Account             string             `json:"BillingAccountId"` // the tenant
	AccountName         string             `json:"BillingAccountName"`
	Currency            string             `json:"BillingCurrency"`
	BillingEnd          string             `json:"BillingPeriodEnd"`
	BillingStart        string             `json:"BillingPeriodStart"`
	Category            string             `json:"ChargeCategory"`
	Class               *string            `json:"ChargeClass"` // Correction: about a month that was invoiced before this one
	Description         string             `json:"ChargeDescription"`
	Frequency           string             `json:"ChargeFrequency"`
	End                 string             `json:"ChargePeriodEnd"`
	Start               string             `json:"ChargePeriodStart"`
	ConsumedQuantity    *json.Number       `json:"ConsumedQuantity"`
	ConsumedUnit        *string            `json:"ConsumedUnit"`
	Contracted          json.Number        `json:"ContractedCost"`
	ContractedUnitPrice *json.Number       `json:"ContractedUnitPrice"`
	Effective           json.Number        `json:"EffectiveCost"`
	Invoice             string             `json:"InvoiceId"` // number of the statement
	Issuer              string             `json:"InvoiceIssuerName"`
	List                json.Number        `json:"ListCost"`
	ListUnitPrice       *json.Number       `json:"ListUnitPrice"`
	PricingCategory     *string            `json:"PricingCategory"`
	PricingQuantity     *json.Number       `json:"PricingQuantity"`
	PricingUnit         *string            `json:"PricingUnit"`
	Provider            string             `json:"ProviderName"`
	Publisher           string             `json:"PublisherName"`
	ServiceCategory     string             `json:"ServiceCategory"`
	ServiceName         string             `json:"ServiceName"`
	ServiceSubcategory  string             `json:"ServiceSubcategory"`
	Sku                 *string            `json:"SkuId"`
	SkuMeter            *string            `json:"SkuMeter"`
	SkuPriceDetails     *map[string]string `json:"SkuPriceDetails"`
	SkuPrice            *string            `json:"SkuPriceId"`
	Correction          *string            `json:"x_CorrectionId"`
	Model               *string            `json:"x_ModelId"`
	PriceBook           *string            `json:"x_PriceBookVersion"`
	Request             *string            `json:"x_RequestId"`
	Digest              string             `json:"x_StatementDigest"`
	State               string             `json:"x_StatementState"`
	TokenClass          *string            `json:"x_TokenClass"`
}

// focusRows returns a row for each line, each correction and the rounding. Their BilledCost sums to the payable amount, exactly.
func (s Statement) focusRows(of Names) ([]focusRow, error) {
	digest, err := s.Digest()
	if err != nil {
		return nil, err
	}
	issuer := cmp.Or(of.Issuer, "Sluice")
	base := focusRow{
		Account: s.Tenant, AccountName: cmp.Or(of.Tenant, s.Tenant), Currency: s.Currency, BillingStart: focusTime(s.From), BillingEnd: focusTime(s.Until),
		Start: focusTime(s.From), End: focusTime(s.Until), Invoice: s.Number, Issuer: issuer, Provider: issuer, Publisher: issuer,
		ServiceCategory: "AI and Machine Learning", ServiceName: "Model inference", ServiceSubcategory: "Generative AI", Digest: digest, State: string(s.State),
	}
	var rows []focusRow
	for _, l := range s.Lines {
		rows = append(rows, l.focus(base))
	}
	for _, l := range s.Late {
		rows = append(rows, l.focus(s.about(base, l.Month)))
	}
	for _, c := range s.Corrections {
		rows = append(rows, c.focus(s.about(base, cmp.Or(c.Month, s.monthOf(c.Request)))))
	}
	if rest := s.Amounts.Payable - s.Amounts.Total; rest != 0 {
		rows = append(rows, base.adjusted(rest, fmt.Sprintf("Rounding of the total to %d decimals", s.Rounding.Decimals)))
	}
	return rows, nil
}

// focus adds usage to a row of the period it is of. Usage whose price is not known any more is one unit at the billed amount.
func (l Line) focus(r focusRow) focusRow {
	amount, quantity := focusNumber(l.Amount), json.Number(strconv.FormatInt(l.Quantity, 10)+".0")
	r.Category, r.Frequency = "Usage", "Usage-Based"
	r.Billed, r.Contracted, r.Effective, r.List = amount, amount, amount, amount
	r.ConsumedQuantity, r.ConsumedUnit, r.PricingCategory = &quantity, ptr("Tokens"), ptr("Standard")
	meter := strings.ReplaceAll(l.Kind, "_", " ") + " tokens"
	if l.UnitPrice == nil {
		one := json.Number("1.0")
		r.PricingQuantity, r.PricingUnit, r.ListUnitPrice = &one, ptr("Units"), &amount
		r.Description = fmt.Sprintf("Tokens of %s, at the amount that was billed", l.Model)
	} else {
		price := focusNumber(*l.UnitPrice)
		r.PricingQuantity, r.PricingUnit, r.ListUnitPrice = &quantity, ptr("Tokens"), &price
		r.Description = fmt.Sprintf("%s of %s, at %s %s a token", meter, l.Model, decimal(*l.UnitPrice), r.Currency)
	}
	r.ContractedUnitPrice = r.ListUnitPrice
	version, queue, batch := strings.Cut(l.Book, "/")
	sku := l.Model + "/" + l.Kind
	r.Sku, r.SkuPrice, r.SkuMeter = &sku, ptr(sku), &meter
	details := map[string]string{"x_Model": l.Model, "x_TokenClass": l.Kind}
	if batch {
		r.SkuPrice, details["x_QueueClass"] = ptr(sku+"/"+queue), queue
	}
	r.SkuPriceDetails, r.Model, r.TokenClass, r.PriceBook = &details, &l.Model, &l.Kind, optional(version)
	return r
}

// focus adds a correction to a row of the period it is about.
func (c Correction) focus(r focusRow) focusRow {
	r = r.adjusted(c.Amount, "Correction: "+c.Reason)
	r.Correction, r.Request, r.Model = &c.ID, optional(c.Request), optional(c.Model)
	return r
}

func (r focusRow) adjusted(nano int64, why string) focusRow {
	amount := focusNumber(nano)
	r.Category, r.Frequency, r.Description = "Adjustment", "One-Time", why
	r.Billed, r.Contracted, r.Effective, r.List = amount, amount, amount, amount
	return r
}

// about returns a row about a month, "" for that of the statement. An earlier one was invoiced before: months are closed in order. "<2026-09"
// is all the time before that month.
func (s Statement) about(r focusRow, month string) focusRow {
	text, before := strings.CutPrefix(month, "<")
	begin, err := time.ParseInLocation("2006-01", text, s.in(s.From).Location())
	if err != nil || !before && text == s.Month {
		return r
	}
	r.Start, r.End = focusTime(begin), focusTime(begin.AddDate(0, 1, 0))
	if before {
		r.Start, r.End = focusTime(time.Unix(0, 0)), focusTime(begin)
	}
	if before || text < s.Month {
		r.Class = ptr("Correction")
	}
	return r
}

// monthOf returns the month that a request is of by its id, which begins with its time, or with that of its batch or of the request that it belongs to; ""
// where it has none. It is for corrections of before they had the month of the request.
func (s Statement) monthOf(request string) string {
	of, _, _ := strings.Cut(request, ".")
	id, err := uuid.Parse(of)
	if err != nil || id.Version() != 7 {
		return ""
	}
	sec, nano := id.Time().UnixTime()
	return s.in(time.Unix(sec, nano)).Format("2006-01")
}

// focusNumber writes 10⁻⁹ units exactly, with a point: programs that guess the type of a column take it for a decimal.
func focusNumber(nano int64) json.Number {
	text := decimal(nano)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return json.Number(text)
}

func focusTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

func ptr(s string) *string { return &s }

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// writeFOCUSLines writes a JSON object for each row.
func writeFOCUSLines(w io.Writer, rows []focusRow) error {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	for _, r := range rows {
		if err := out.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

// writeFOCUSTable writes the rows as CSV, nulls as empty cells. A text that a spreadsheet takes for a formula gets an apostrophe in front.
func writeFOCUSTable(w io.Writer, rows []focusRow) error {
	out := csv.NewWriter(w)
	kind := reflect.TypeFor[focusRow]()
	var header []string
	for i := range kind.NumField() {
		header = append(header, kind.Field(i).Tag.Get("json"))
	}
	_ = out.Write(header) // the writer keeps its first error
	for _, r := range rows {
		v := reflect.ValueOf(r)
		cells := make([]string, 0, len(header))
		for i := range v.NumField() {
			cell, err := focusCell(v.Field(i).Interface())
			if err != nil {
				return err
			}
			cells = append(cells, cell)
		}
		_ = out.Write(cells)
	}
	out.Flush()
	return out.Error()
}

func focusCell(value any) (string, error) {
	switch x := value.(type) {
	case json.Number:
		return x.String(), nil
	case *json.Number:
		if x != nil {
			return x.String(), nil
		}
	case string:
		return csvcell.Plain(x), nil
	case *string:
		if x != nil {
			return csvcell.Plain(*x), nil
		}
	case *map[string]string:
		if x != nil {
			b, err := json.Marshal(*x)
			return string(b), err
		}
	}
	return "", nil
}
