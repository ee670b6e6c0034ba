package server_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/server/adminapi"
)

// A compliance officer holds records and releases them; an auditor sees the holds of the own tenant and changes none. Each act names its reason.
func TestHoldsOverTheAPI(t *testing.T) {
	t.Parallel()
	in := start(t, setup{})
	officer, auditor := in.signIn("compliance"), in.signIn("auditor")
	const path = "/api/v1/audit/holds"
	body := map[string]any{"reason": "case 17", "from": "2026-01-01T00:00:00Z"}
	if reply := in.send(http.MethodPost, path, auditor, body); reply.status != http.StatusForbidden {
		t.Errorf("an auditor holds records: %d %s", reply.status, reply.body)
	}
	made := in.send(http.MethodPost, path, officer, body)
	var h adminapi.Hold
	if err := json.Unmarshal(made.body, &h); err != nil || made.status != http.StatusCreated || h.Tenant != "demo" || h.ReleasedAt != nil || h.CreatedBy == "" {
		t.Fatalf("%d %s, %v", made.status, made.body, err)
	}
	for _, bad := range []map[string]any{{"reason": ""}, {"reason": "x", "unknown": 1}, {"reason": "x", "from": "2026-01-02T00:00:00Z", "to": "2026-01-01T00:00:00Z"}, {"actor": "k"}} {
		if reply := in.send(http.MethodPost, path, officer, bad); reply.status != http.StatusBadRequest {
			t.Errorf("%v: %d %s", bad, reply.status, reply.body)
		}
	}
	if reply := in.send(http.MethodGet, path, auditor, nil); reply.status != http.StatusOK || !strings.Contains(string(reply.body), h.Id) {
		t.Errorf("%d %s", reply.status, reply.body)
	}
	if reply := in.send(http.MethodGet, path+"?tenant=other", auditor, nil); reply.status != http.StatusForbidden {
		t.Errorf("holds of another tenant: %d %s", reply.status, reply.body)
	}
	for _, bad := range []any{nil, map[string]any{"reason": ""}, map[string]any{"reason": " "}, map[string]any{"why": "x"}, "{"} {
		if reply := in.send(http.MethodPost, path+"/"+h.Id+"/release", officer, bad); reply.status != http.StatusBadRequest {
			t.Errorf("released for %v: %d %s", bad, reply.status, reply.body)
		}
	}
	why := map[string]any{"reason": "case 17 is closed"}
	for _, want := range []int{http.StatusOK, http.StatusConflict} {
		if reply := in.send(http.MethodPost, path+"/"+h.Id+"/release", officer, why); reply.status != want {
			t.Errorf("release: %d %s, want %d", reply.status, reply.body, want)
		}
	}
	// One over all tenants is the platform administrator's: listed and released as it was placed, and not by who acts in one tenant.
	if reply := in.send(http.MethodPost, path, officer, map[string]any{"tenant": "*", "reason": "all", "actor": "k"}); reply.status != http.StatusForbidden {
		t.Errorf("an officer of one tenant holds the records of all: %d %s", reply.status, reply.body)
	}
	var all adminapi.Hold
	in.admin(http.MethodPost, "/audit/holds", map[string]any{"tenant": "*", "reason": "all", "actor": "k"}, &all)
	if list := in.admin(http.MethodGet, "/audit/holds?tenant=*", nil, nil); all.Id == "" || all.Tenant != "" || !strings.Contains(string(list.body), all.Id) {
		t.Errorf("%+v, %s", all, list.body)
	}
	if reply := in.send(http.MethodPost, path+"/"+all.Id+"/release", officer, why); reply.status != http.StatusNotFound {
		t.Errorf("released by who acts in one tenant: %d %s", reply.status, reply.body)
	}
	if reply := in.admin(http.MethodPost, "/audit/holds/"+all.Id+"/release?tenant=*", why, nil); reply.status != http.StatusOK {
		t.Errorf("%d %s", reply.status, reply.body)
	}
	for action, reason := range map[string]string{"admin.createHold": "case 17", "admin.releaseHold": "case 17 is closed"} {
		eventually(t, "the record of "+action, func() bool {
			reply := in.send(http.MethodGet, "/api/v1/audit/records?action="+action, auditor, nil)
			return strings.Contains(string(reply.body), reason) && strings.Contains(string(reply.body), h.Id)
		})
	}
	if reply := in.send(http.MethodPost, path+"/none/release", officer, why); reply.status != http.StatusNotFound {
		t.Errorf("%d %s", reply.status, reply.body)
	}
}
