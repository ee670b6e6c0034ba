package billing

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"gorm.io/gorm"
)

// Differences compares stored usage with what should stand there. It returns, by request, what is missing or which columns differ;
// requests whose usage is as it should be are absent. It only reads.
func Differences(db *gorm.DB, want []Usage) (map[string]string, error) {
	requests := make([]string, len(want))
	for i, u := range want {
		requests[i] = u.Request
	}
	var rows []usageRow
	if err := db.Where("request IN ?", requests).Find(&rows).Error; err != nil {
		return nil, fmt.Errorf("read usage: %w", err)
	}
	stored := make(map[string]usageRow, len(rows))
	for _, r := range rows {
		stored[r.Request] = r
	}
	out := map[string]string{}
	for _, u := range want {
		should, err := u.row(time.Time{})
		if err != nil {
			return nil, fmt.Errorf("compare usage: %w", err)
		}
		have, ok := stored[u.Request]
		if !ok {
			out[u.Request] = "the usage of this record is not billed"
			continue
		}
		if columns := differenceQuery(have, should); len(columns) > 0 {
			out[u.Request] = "these columns of the billed usage differ from the record: " + strings.Join(columns, ", ")
		}
	}
	return out, nil
}

// differing names the columns that differ, but for the time of recording, and the organisation, which was looked up then: no record has it.
func differenceQuery(have, should usageRow) []string {
	should.RecordedAt, should.Organisation, should.once = have.RecordedAt, have.Organisation, have.once
	if have.Total == 0 && have.FirstToken == 0 { // recorded before the books had times
		should.FirstToken, should.Total = have.FirstToken, have.Total
	}
	var out []string
	h, s := reflect.ValueOf(have), reflect.ValueOf(should)
	for i := range h.NumField() {
		if !h.Field(i).Equal(s.Field(i)) {
			out = append(out, strings.TrimPrefix(h.Type().Field(i).Tag.Get("gorm"), "column:"))
		}
	}
	return out
}
