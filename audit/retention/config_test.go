package retention

import (
	"testing"
	"time"

	"github.com/sluice-project/sluice/audit/record"
)

// TestRetention: nothing lowers the floors, and each class has its time.
func TestRetention(t *testing.T) {
	for _, r := range []Config{
		{RecordsDays: 189}, {RecordsDays: -1}, {SensitiveDays: 1095}, {RecordsDays: 1200, SensitiveDays: 1100}, {TenantDays: map[string]int{"a": 189}}, {RecordsDays: 1 << 40},
	} {
		if len(r.Validate()) == 0 {
			t.Errorf("%+v is taken", r)
		}
	}
	for _, r := range []Config{{}, {RecordsDays: 190}, {RecordsDays: 2000}, {SensitiveDays: 4000, TenantDays: map[string]int{"a": 190}}} {
		if errs := r.Validate(); len(errs) > 0 {
			t.Errorf("%+v: %v", r, errs)
		}
	}
	r := Config{TenantDays: map[string]int{"long": 2000, "short": 200}}.WithDefaults()
	remote := record.Event{Model: record.Model{Engine: "cloud"}, Findings: []record.Finding{{Action: "passed"}}}
	for name, c := range map[string]struct {
		e    record.Event
		days int
	}{
		"a request":        {record.Event{Action: "chat.completions"}, 190},
		"of a tenant":      {record.Event{Tenant: "long"}, 2000},
		"of another":       {record.Event{Tenant: "short", Action: "admin.publishPolicy"}, 1096},
		"handed on":        {remote, 1096},
		"observed":         {record.Event{Model: record.Model{Engine: "cloud"}, Findings: []record.Finding{{Action: "token"}, {Action: "observe"}}}, 1096},
		"token":            {record.Event{Model: record.Model{Engine: "cloud"}, Findings: []record.Finding{{Action: "token"}}}, 190},
		"masked":           {record.Event{Model: record.Model{Engine: "cloud"}, Findings: []record.Finding{{Action: "masked"}}}, 190},
		"our own engine":   {record.Event{Model: record.Model{Engine: "native"}, Findings: []record.Finding{{Action: "passed"}}}, 190},
		"with its version": {record.Event{Model: record.Model{Engine: "native/3"}, Findings: []record.Finding{{Action: "passed"}}}, 190},
		"a policy":         {record.Event{Action: "admin.publishPolicy"}, 1096},
		"an export":        {record.Event{Action: "admin.exportAudit"}, 1096},
		// Article 9 of the labelling measures: two years of an agreement at most, and six months.
		"an agreement":          {record.Event{Action: "admin.askLabelAgreement"}, 1096},
		"its second person":     {record.Event{Action: "admin.approveLabelAgreement"}, 1096},
		"its revocation":        {record.Event{Action: "admin.revokeLabelAgreement"}, 1096},
		"without visible label": {record.Event{Action: "chat.completions", Detail: map[string]string{record.LabelAgreement: "a"}}, 190},
	} {
		if until, _ := r.until(c.e); until != (time.Duration(c.days) * Day).Microseconds() {
			t.Errorf("%s: %v days", name, time.Duration(until)*time.Microsecond/Day)
		}
	}
	for _, action := range []string{ActionPrune, ActionErase, ActionErased} {
		if until, _ := r.until(record.Event{Action: action}); until != 1<<63-1 {
			t.Errorf("%s goes", action)
		}
	}
	if until, _ := r.until(record.Event{Time: 1<<63 - 5}); until != 1<<63-1 {
		t.Errorf("a record of the end of time stays until %d", until)
	}
}
