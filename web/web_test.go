package web

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

func zipped(t *testing.T, s string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, s); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

const indexHTML = `<!doctype html><base href="/" /><script type="module" src="./assets/app-abc.js"></script>`

func testSite(t *testing.T) *site {
	t.Helper()
	script := strings.Repeat("console.log(1);", 100)
	s, err := newSite(fstest.MapFS{
		"index.html":           {Data: []byte(indexHTML)},
		"favicon.svg":          {Data: []byte("<svg/>")},
		"assets/app-abc.js":    {Data: []byte(script)},
		"assets/app-abc.js.gz": {Data: zipped(t, script)},
		"assets/tiny-1.js":     {Data: []byte("1")},
		"assets/tiny-1.js.gz":  {Data: zipped(t, "1")},
	}, "/console")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func get(h http.Handler, method, target string, header ...string) *http.Response {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func TestSite(t *testing.T) {
	s := testSite(t)
	tests := []struct {
		name, method, target string
		header               []string
		status               int
		cache, encoding      string
	}{
		{"index", "GET", "/console/", nil, 200, "no-cache", ""},
		{"application route", "GET", "/console/audit/0198c0de-1.2", nil, 200, "no-cache", ""},
		{"asset", "GET", "/console/assets/app-abc.js", nil, 200, "public, max-age=31536000, immutable", ""},
		{"asset, gzip", "GET", "/console/assets/app-abc.js", []string{"Accept-Encoding", "br, gzip;q=0.8"}, 200, "public, max-age=31536000, immutable", "gzip"},
		{"asset, gzip refused", "GET", "/console/assets/app-abc.js", []string{"Accept-Encoding", "gzip;q=0"}, 200, "public, max-age=31536000, immutable", ""},
		{"gzip that saves nothing", "GET", "/console/assets/tiny-1.js", []string{"Accept-Encoding", "gzip"}, 200, "public, max-age=31536000, immutable", ""},
		{"plain file", "GET", "/console/favicon.svg", nil, 200, "no-cache", ""},
		{"missing asset", "GET", "/console/assets/gone-123.js", nil, 404, "", ""},
		{"compressed twin is no file", "GET", "/console/assets/app-abc.js.gz", nil, 404, "", ""},
		{"outside the mount", "GET", "/v1/models", nil, 404, "", ""},
		{"sibling of the mount", "GET", "/consoles/", nil, 404, "", ""},
		{"mount without slash", "GET", "/console", nil, 308, "", ""},
		{"head", "HEAD", "/console/assets/app-abc.js", nil, 200, "public, max-age=31536000, immutable", ""},
		{"write", "POST", "/console/", nil, 405, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := get(s, tt.method, tt.target, tt.header...)
			if r.StatusCode != tt.status || r.Header.Get("Cache-Control") != tt.cache || r.Header.Get("Content-Encoding") != tt.encoding {
				t.Errorf("got %d, cache %q, encoding %q", r.StatusCode, r.Header.Get("Cache-Control"), r.Header.Get("Content-Encoding"))
			}
			if tt.status == 200 && (r.Header.Get("ETag") == "" || !strings.Contains(r.Header.Get("Content-Security-Policy"), "default-src 'self'")) {
				t.Error("the reply lacks its ETag or its content security policy")
			}
		})
	}
}

func TestIndexKnowsItsMount(t *testing.T) {
	body, err := io.ReadAll(get(testSite(t), "GET", "/console/keys").Body)
	if err != nil || !strings.Contains(string(body), `<base href="/console/" />`) {
		t.Errorf("got %q, %v", body, err)
	}
}

func TestNotModified(t *testing.T) {
	s := testSite(t)
	for _, encoding := range []string{"", "gzip"} {
		first := get(s, "GET", "/console/assets/app-abc.js", "Accept-Encoding", encoding)
		tag := first.Header.Get("ETag")
		if r := get(s, "GET", "/console/assets/app-abc.js", "Accept-Encoding", encoding, "If-None-Match", `"other", W/`+tag); r.StatusCode != 304 {
			t.Errorf("encoding %q: got %d", encoding, r.StatusCode)
		}
	}
	plain, gz := get(s, "GET", "/console/assets/app-abc.js"), get(s, "GET", "/console/assets/app-abc.js", "Accept-Encoding", "gzip")
	if plain.Header.Get("ETag") == gz.Header.Get("ETag") {
		t.Error("two encodings share an ETag")
	}
}

func TestBrokenBuild(t *testing.T) {
	for name, content := range map[string]fstest.MapFS{
		"no index": {"favicon.svg": {}},
		"no base":  {"index.html": {Data: []byte("<html></html>")}},
	} {
		if _, err := newSite(content, "/console"); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestVariant holds what this build carries: run it with and without -tags console.
func TestVariant(t *testing.T) {
	h, err := Handler("/console")
	if err != nil {
		t.Fatal(err)
	}
	r := get(h, "GET", "/console/keys")
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	if !Included() {
		if r.StatusCode != 404 || !strings.Contains(string(body), "without the web console") || !strings.Contains(string(body), "未包含网页控制台") {
			t.Errorf("got %d %q", r.StatusCode, body)
		}
		return
	}
	if r.StatusCode != 200 || !strings.Contains(string(body), `<base href="/console/" />`) {
		t.Fatalf("got %d %q", r.StatusCode, body)
	}
	assets := regexp.MustCompile(`(?:src|href)="\./([^"]+)"`).FindAllStringSubmatch(string(body), -1)
	if len(assets) < 2 {
		t.Fatalf("the index page names %d files", len(assets))
	}
	for _, m := range assets {
		if r := get(h, "GET", "/console/"+m[1]); r.StatusCode != 200 {
			t.Errorf("%s: got %d", m[1], r.StatusCode)
		}
	}
	if regexp.MustCompile(`(?:src|href)="(?:https?:)?//`).Match(body) {
		t.Error("the index page names a foreign address")
	}
}
