package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/server/adminapi"
)

// TestComplianceMatrix: an installation answers for every control, by what it does now and not by what it could; the report has the same, and who looked is recorded.
func TestComplianceMatrix(t *testing.T) {
	t.Parallel()
	in := start(t, setup{})
	matrix := func() (adminapi.ComplianceMatrix, map[string]adminapi.ComplianceControl) {
		var m adminapi.ComplianceMatrix
		in.admin(http.MethodGet, "/compliance/matrix", nil, &m)
		by := map[string]adminapi.ComplianceControl{}
		for _, c := range m.Controls {
			by[c.Id] = c
		}
		return m, by
	}
	m, by := matrix()
	total := 0
	for _, n := range m.Counts {
		total += n
	}
	if m.Counts["unknown"]+m.Counts["broken"] > 0 || total < 60 || len(by) < 20 {
		t.Errorf("%+v", m.Counts)
	}
	for _, c := range m.Controls {
		if c.State == adminapi.ControlUnknown || (c.State == adminapi.ControlHolds || c.State == adminapi.ControlBuilt) != (c.Remedy == nil) || len(c.Tests) == 0 {
			t.Errorf("%+v", c)
		}
	}
	for id, want := range map[string]adminapi.ComplianceState{
		"audit-records": "holds", "audit-integrity": "holds", "audit-witnesses": "off", "audit-monitoring": "off", "duties": "off", "content-safety": "off",
		"refusal": "off", "access-rights": "built", "alarms": "off", "access-review": "off", "visible-labels": "off", "injection": "off", "masking": "holds",
	} {
		if by[id].State != want {
			t.Errorf("%s: %+v, want %s", id, by[id], want)
		}
	}
	in.publish("schema: 2\nname: open\nmodels: ['*']\ncollections: ['*']\nsignature: always\nwatermark: on\nsafety: {mode: enforce, libraries: [starter]}\nentities: {default: {request: observe, passage: token, answer: observe}}\n")
	_, after := matrix()
	if c := after["masking"]; c.State != "partly" || !strings.Contains(valueOf(c, 2), "cn_mobile") {
		t.Errorf("a policy that lets everything through: %+v", c)
	}
	if c := after["content-safety"]; c.State != "partly" { // the starter is none to rest on
		t.Errorf("%+v", c)
	}
	if c := after["injection"]; c.State != "partly" {
		t.Errorf("%+v", c)
	}
	if c := after["provenance"]; valueOf(c, 1) != "1 / 1" || valueOf(c, 2) != "1 / 1" {
		t.Errorf("%+v", c)
	}
	for format, begins := range map[string]string{"pdf": "%PDF-", "docx": "PK", "md": "# "} {
		r := in.send(http.MethodGet, "/api/v1/compliance/matrix?format="+format, in.token, "")
		if r.status != http.StatusOK || !strings.HasPrefix(string(r.body), begins) {
			t.Errorf("%s: %d %.40q", format, r.status, r.body)
		}
		if e := in.eventsOf(r.header.Get("X-Request-Id"), 2)[1]; e.Action != "admin.getComplianceMatrix" || e.Detail["format"] != format {
			t.Errorf("%+v", e)
		}
	}
	if r := in.send(http.MethodGet, "/api/v1/compliance/matrix?tenant=nobody", in.token, ""); r.status != http.StatusNotFound {
		t.Errorf("a tenant that there is not: %d %s", r.status, r.body)
	}
}

func valueOf(c adminapi.ComplianceControl, i int) string {
	if i >= len(c.Facts) {
		return ""
	}
	return c.Facts[i].Value
}
