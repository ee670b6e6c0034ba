package server_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// TestAuditSearch looks for a real request over HTTP: by class, by text, and by the person it was for, whose name is in no record; as the
// auditor of its tenant, who finds it, and as one of another tenant, who finds it in no way.
func TestAuditSearch(t *testing.T) {
	t.Parallel()
	in := start(t, setup{})
	const secret, person = "correct horse battery staple", "emp-2093117748 张三"
	in.admin(http.MethodPost, "/tenants", map[string]any{"id": "bank", "name": "Bank"}, new(any))
	session := func(tenant string) string {
		in.admin(http.MethodPost, "/users", map[string]any{"tenant": tenant, "name": "checker-" + tenant, "password": secret, "roles": []string{"auditor"}}, new(any))
		var s struct {
			AccessToken string `json:"access_token"`
		}
		in.send(http.MethodPost, "/api/v1/session", "", map[string]string{"user": "checker-" + tenant, "password": secret}).decode(t, &s)
		return s.AccessToken
	}
	own, foreign := session("demo"), session("bank")

	r := in.send(http.MethodPost, "/v1/chat/completions", in.started.Welcome.APIKey.Reveal(),
		map[string]any{"model": "scripted", "user": person, "messages": []map[string]string{{"role": "user", "content": "Write to anna@example.org or call 13800138000."}}})
	if r.status != http.StatusOK {
		t.Fatalf("chat: %d %s", r.status, r.body)
	}
	request := r.header.Get("X-Request-Id")

	lookUp := func(token string) (string, reply) {
		var d struct {
			Digest string `json:"digest"`
		}
		got := in.send(http.MethodPost, "/api/v1/audit/subjects", token, map[string]string{"subject": person})
		if got.status == http.StatusOK {
			got.decode(t, &d)
		}
		return d.Digest, got
	}
	digest, looked := lookUp(own)
	if len(digest) != 64 {
		t.Fatalf("look-up: %d %s", looked.status, looked.body)
	}
	if other, _ := lookUp(foreign); other == digest {
		t.Error("a person has the same digest in two tenants")
	}
	find := func(token string, filter url.Values) string {
		got := in.send(http.MethodGet, "/api/v1/audit/records?limit=200&"+filter.Encode(), token, nil)
		if got.status != http.StatusOK && got.status != http.StatusForbidden {
			t.Errorf("%v: %d %s", filter, got.status, got.body)
		}
		return string(got.body)
	}
	for name, filter := range map[string]url.Values{
		"class":  {"class": {"email"}, "request": {request}},
		"text":   {"text": {"SCRIPT"}, "class": {"cn_mobile"}},
		"person": {"on_behalf_of": {digest}},
		"id":     {"text": {request}},
	} {
		eventually(t, "the record found by "+name, func() bool { return strings.Contains(find(own, filter), request) })
		for _, tenant := range []string{"", "demo", "bank"} {
			ask := url.Values{}
			for k, v := range filter {
				ask[k] = v
			}
			if tenant != "" {
				ask.Set("tenant", tenant)
			}
			if got := find(foreign, ask); strings.Contains(got, request) {
				t.Errorf("the auditor of another tenant found it by %s as tenant %q: %s", name, tenant, got)
			}
		}
	}
	for _, nothing := range []url.Values{{"class": {"mail"}, "request": {request}}, {"text": {"no such text"}}, {"on_behalf_of": {strings.Repeat("0", 64)}}} {
		if got := find(own, nothing); !strings.Contains(got, `"items":[]`) {
			t.Errorf("%v: %s", nothing, got)
		}
	}
	if got := in.send(http.MethodGet, "/api/v1/audit/records?on_behalf_of="+url.QueryEscape(person), own, nil); got.status != http.StatusBadRequest {
		t.Errorf("a name instead of a digest: %d %s", got.status, got.body)
	}

	act := looked.header.Get("X-Request-Id")
	eventually(t, "the record of the look-up", func() bool {
		got := find(own, url.Values{"request": {act}})
		return strings.Contains(got, "admin.lookUpSubject") && strings.Contains(got, digest)
	})
	if all := find(own, url.Values{}); strings.Contains(all, person) || strings.Contains(in.logs.String(), "2093117748") {
		t.Error("the person's name is in a record or in the log")
	}
	refused := looked
	for range 40 {
		if _, refused = lookUp(own); refused.status != http.StatusOK {
			break
		}
	}
	if refused.status != http.StatusTooManyRequests || refused.header.Get("Retry-After") == "" {
		t.Errorf("look-ups have no end: %d %v", refused.status, refused.header)
	}
	if _, other := lookUp(foreign); other.status != http.StatusOK {
		t.Errorf("one caller's look-ups use up another's: %d", other.status)
	}
}
