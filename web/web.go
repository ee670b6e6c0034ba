// Package web serves the console, a single-page application that talks to the management API. It is a leaf: it knows no other part.
//
// The build tag `console` embeds web/dist (npm run build writes it). Without the tag the binary needs no Node to build, and a page
// says that the console was left out.
package web

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
)

// policy keeps the browser on our origin: a page of the console that tries to load or send anything elsewhere fails. Styles may be
// inline because the component kit writes them at run time; scripts may not.
const policy = "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self'; " +
	"connect-src 'self'; object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"

// Included reports whether this binary carries the console.
func Included() bool { return included }

// Handler serves the console under prefix, for example "/console". Paths that name no file answer with the application, which routes
// them itself; nothing outside the prefix is answered. It fails on a build that lacks its index page.
func Handler(prefix string) (http.Handler, error) {
	if !included {
		return notBuilt(), nil
	}
	return newSite(content(), prefix)
}

// site holds the files with everything a reply needs, computed once.
type site struct {
	prefix string // "/console/"
	files  map[string]file
	index  file
}

type file struct {
	body, gzipped []byte
	kind, etag    string
	immutable     bool
}

func newSite(content fs.FS, prefix string) (*site, error) {
	s := &site{prefix: path.Clean("/"+prefix) + "/", files: map[string]file{}}
	if s.prefix == "//" {
		s.prefix = "/"
	}
	err := fs.WalkDir(content, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(name, ".gz") {
			return err
		}
		f, err := load(content, name)
		if err != nil {
			return err
		}
		s.files[name] = f
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read console: %w", err)
	}
	index, ok := s.files["index.html"]
	if !ok {
		return nil, fmt.Errorf("read console: index.html is missing; run `npm run build` in web/")
	}
	// The build does not know where it will be mounted; relative addresses resolve against this element.
	base := []byte(`<base href="/" />`)
	if !bytes.Contains(index.body, base) {
		return nil, fmt.Errorf("read console: index.html has no base element")
	}
	s.index = newFile("index.html", bytes.Replace(index.body, base, []byte(`<base href="`+s.prefix+`" />`), 1))
	delete(s.files, "index.html")
	return s, nil
}

func load(content fs.FS, name string) (file, error) {
	body, err := fs.ReadFile(content, name)
	if err != nil {
		return file{}, err
	}
	f := newFile(name, body)
	f.immutable = strings.HasPrefix(name, "assets/") // the build puts a content hash into these names
	if zipped, err := fs.ReadFile(content, name+".gz"); err == nil && len(zipped) < len(body) {
		f.gzipped = zipped
	}
	return f, nil
}

func newFile(name string, body []byte) file {
	sum := sha256.Sum256(body)
	kind := mime.TypeByExtension(path.Ext(name))
	if kind == "" {
		kind = "application/octet-stream"
	}
	return file{body: body, kind: kind, etag: hex.EncodeToString(sum[:16])}
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	if r.URL.Path+"/" == s.prefix {
		http.Redirect(w, r, s.prefix, http.StatusPermanentRedirect)
		return
	}
	name, under := strings.CutPrefix(r.URL.Path, s.prefix)
	f, found := s.files[name]
	switch {
	case !under, !found && strings.HasPrefix(name, "assets/"):
		http.NotFound(w, r) // a missing asset is an error, not the application
	case found:
		f.serve(w, r)
	default:
		s.index.serve(w, r)
	}
}

func (f file) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	secure(h)
	h.Set("Content-Type", f.kind)
	h.Set("Vary", "Accept-Encoding")
	h.Set("Cache-Control", "no-cache")
	if f.immutable {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	body, etag := f.body, `"`+f.etag+`"`
	if f.gzipped != nil && acceptsGzip(r.Header.Get("Accept-Encoding")) {
		h.Set("Content-Encoding", "gzip")
		body, etag = f.gzipped, `"`+f.etag+`-gzip"`
	}
	h.Set("ETag", etag)
	if matches(r.Header.Get("If-None-Match"), etag) {
		h.Del("Content-Encoding")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method == http.MethodGet {
		_, _ = w.Write(body) // the browser went away
	}
}

func secure(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
}

func acceptsGzip(accept string) bool {
	for part := range strings.SplitSeq(accept, ",") {
		coding, params, _ := strings.Cut(part, ";")
		if strings.TrimSpace(coding) == "gzip" {
			q := strings.ReplaceAll(params, " ", "")
			return q != "q=0" && q != "q=0.0"
		}
	}
	return false
}

func matches(ifNoneMatch, etag string) bool {
	for part := range strings.SplitSeq(ifNoneMatch, ",") {
		if tag := strings.TrimPrefix(strings.TrimSpace(part), "W/"); tag == etag || tag == "*" {
			return true
		}
	}
	return false
}

const notBuiltPage = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" content="light dark"><title>Sluice</title>
<style>body{font:16px/1.6 system-ui,sans-serif;max-width:40rem;margin:15vh auto;padding:0 1rem}</style></head><body>
<h1>Sluice</h1>
<p>This binary was built without the web console. The APIs work. To include it, install Node 20 with npm and run <code>make build</code>.</p>
<p lang="zh-CN">此程序构建时未包含网页控制台，接口可正常使用。如需控制台，请安装 Node 20 与 npm 后运行 <code>make build</code>。</p>
</body></html>
`

func notBuilt() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secure(w.Header())
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Cache-Control", "no-cache")
		w.WriteHeader(http.StatusNotFound)
		if r.Method != http.MethodHead {
			_, _ = w.Write([]byte(notBuiltPage)) // the browser went away
		}
	})
}
