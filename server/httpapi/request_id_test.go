package httpapi

import (
	"strings"
	"testing"
)

// TestRequestIDs: a request's id is ours whatever a client sends; a client's own is kept beside it if it is short and plain, and dropped else.
func TestRequestIDs(t *testing.T) {
	k := newKit(t, Config{}, nil)
	first, _ := k.post(t, "/v1/chat/completions", hello+"}")
	ours := first.Header.Get("X-Request-Id")
	for name, tc := range map[string]struct{ header, value, kept string }{
		"of an earlier request": {"X-Request-Id", ours, ours}, "ours by the other header": {"X-Client-Request-Id", ours, ours},
		"the longest": {"X-Client-Request-Id", strings.Repeat("a", 64), strings.Repeat("a", 64)}, "too long": {"X-Client-Request-Id", strings.Repeat("a", 65), ""},
		"huge": {"X-Request-Id", strings.Repeat("a", 8000), ""}, "not plain": {"X-Request-Id", "a b", ""}, "of a log line": {"X-Request-Id", `a","level":"ERROR`, ""},
		"not ASCII": {"X-Client-Request-Id", "编号", ""}, "empty": {"X-Client-Request-Id", "", ""},
	} {
		resp, body := k.post(t, "/v1/chat/completions", hello+"}", tc.header, tc.value)
		if resp.StatusCode != 200 {
			t.Fatal(name, body)
		}
		id, e := resp.Header.Get("X-Request-Id"), k.last()
		if id == tc.value || id == ours || e.Request != id || len(id) != len(ours) || e.Detail["client_request"] != tc.kept {
			t.Errorf("%s: the reply has %s, the record %s and %q", name, id, e.Request, e.Detail["client_request"])
		}
	}
}
