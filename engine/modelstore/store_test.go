package modelstore

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-project/sluice/internal/fault"
)

func content(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * i >> 3)
	}
	return b
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// one is an artefact of one file.
func one(body []byte, sources ...string) Entry {
	return Entry{
		Name: "one", Kind: "llama", Licence: "MIT", Path: "models/one.bin",
		Files:   []File{{Path: "models/one.bin", Remote: "sub/One.bin", Size: int64(len(body)), SHA256: digest(body)}},
		Sources: sources,
	}
}

func testStore(t *testing.T, e Entry) *Store {
	t.Helper()
	if err := e.validate(); err != nil {
		t.Fatal(err)
	}
	s := Open(t.TempDir())
	s.entries = []Entry{e}
	s.python = "no-such-python"
	return s
}

// serve answers with h and counts the requests.
func serve(t *testing.T, h http.HandlerFunc) (url string, requests *atomic.Int64) {
	t.Helper()
	var n atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.Add(1)
		h(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, &n
}

func file(body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
	}
}

// leftovers returns what lies in the store besides finished files and locks.
func leftovers(t *testing.T, s *Store) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(s.dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.Contains(path, partialDir) && !strings.HasSuffix(path, ".lock") {
			out = append(out, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func checkFile(t *testing.T, s *Store, want []byte) {
	t.Helper()
	path, err := s.Path("one")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	if err := s.Verify(t.Context(), "one"); err != nil {
		t.Error(err)
	}
	if left := leftovers(t, s); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

func TestPullTakesTheFirstSourceThatAnswers(t *testing.T) {
	body := content(300_000)
	var asked []string
	good, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		file(body)(w, r)
	})
	missing, _ := serve(t, http.NotFound)
	down, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	page, _ := serve(t, file([]byte("<html>please log in</html>")))
	s := testStore(t, one(body, "hf:a/b", "modelscope:a/b@v2", "pypi:x==1#{file}", page+"/x", "http://127.0.0.1:1/closed", good+"/direct"))
	s.hf, s.modelscope = missing, down
	var last Progress
	if err := s.Pull(t.Context(), "one", func(p Progress) { last = p }); err != nil {
		t.Fatal(err)
	}
	checkFile(t, s, body)
	if !last.Finished || last.Done != int64(len(body)) || last.Source != good+"/direct" || last.File != "one.bin" || last.Artefact != "one" {
		t.Errorf("last progress %+v", last)
	}
	s = testStore(t, one(body, "hf:a/b@rev"))
	s.hf = good
	if err := s.Pull(t.Context(), "one", nil); err != nil {
		t.Fatal(err)
	}
	s = testStore(t, one(body, "modelscope:a/b"))
	s.modelscope = good
	if err := s.Pull(t.Context(), "one", nil); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(asked, " "); got != "/direct /a/b/resolve/rev/sub/One.bin /models/a/b/resolve/master/sub/One.bin" {
		t.Errorf("asked %s", got)
	}
}

func TestPullKeepsWhatIsRightAndReplacesWhatIsNot(t *testing.T) {
	body := content(5000)
	url, requests := serve(t, file(body))
	s := testStore(t, one(body, url))
	for range 2 {
		if err := s.Pull(t.Context(), "one", nil); err != nil {
			t.Fatal(err)
		}
	}
	if n := requests.Load(); n != 1 {
		t.Errorf("%d requests", n)
	}
	path, _ := s.Path("one")
	damaged := bytes.Clone(body)
	damaged[77] ^= 1
	if err := os.WriteFile(path, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	var wrong *DigestError
	if err := s.Verify(t.Context(), "one"); !errors.As(err, &wrong) || wrong.Got != digest(damaged) {
		t.Errorf("verify: %v", err)
	}
	if err := s.Pull(t.Context(), "one", nil); err != nil {
		t.Fatal(err)
	}
	checkFile(t, s, body)
}

func TestPullResumes(t *testing.T) {
	body := content(200_000)
	for name, c := range map[string]struct {
		partial []byte
		handler http.HandlerFunc
	}{
		"goes on":                      {body[:150_000], file(body)},
		"complete already":             {body, file(body)},
		"too long":                     {content(250_000), file(body)},
		"server without ranges":        {body[:150_000], func(w http.ResponseWriter, _ *http.Request) { w.Write(body) }},
		"beginning of another file":    {bytes.Repeat([]byte("x"), 100_000), file(body)},
		"server with the wrong range":  {body[:150_000], wrongRange(body)},
		"range that cannot be served":  {body[:150_000], notSatisfiable(body)},
		"connection that breaks twice": {nil, breaks(body, 2)},
	} {
		t.Run(name, func(t *testing.T) {
			url, _ := serve(t, c.handler)
			s := testStore(t, one(body, url))
			partial := filepath.Join(s.dir, partialDir, digest(body))
			if err := os.MkdirAll(filepath.Dir(partial), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(partial, c.partial, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := s.Pull(t.Context(), "one", nil); err != nil {
				t.Fatal(err)
			}
			checkFile(t, s, body)
		})
	}
}

func wrongRange(body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Range") != "" {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes 5-%d/%d", len(body)-1, len(body)))
			w.WriteHeader(http.StatusPartialContent)
			return
		}
		w.Write(body)
	}
}

func notSatisfiable(body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Range") != "" {
			w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
			return
		}
		w.Write(body)
	}
}

// breaks closes the connection after a part of the file, so many times.
func breaks(body []byte, times int64) http.HandlerFunc {
	var n atomic.Int64
	return func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) > times {
			file(body)(w, r)
			return
		}
		var from int
		fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from)
		if from > 0 {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(body)-1, len(body)))
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(body)-from))
		if from > 0 {
			w.WriteHeader(http.StatusPartialContent)
		}
		w.Write(body[from : from+50_000])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
}

func TestAnInterruptedDownloadGoesOnInTheNextPull(t *testing.T) {
	body := content(200_000)
	url, _ := serve(t, breaks(body, 1000))
	s := testStore(t, one(body, url))
	if err := s.Pull(t.Context(), "one", nil); err == nil {
		t.Fatal("a server that always breaks off gave a file")
	}
	if _, err := s.Path("one"); err == nil {
		t.Fatal("an incomplete file has its final name")
	}
	var asked string
	url, _ = serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.Header.Get("Range")
		file(body)(w, r)
	})
	if err := s.PullFrom(t.Context(), "one", url, nil); err != nil {
		t.Fatal(err)
	}
	if asked != "bytes=150000-" {
		t.Errorf("asked for %q", asked)
	}
	checkFile(t, s, body)
}

func TestWrongDigestLeavesNothing(t *testing.T) {
	body := content(9000)
	evil := bytes.Clone(body)
	evil[0] ^= 1
	url, _ := serve(t, file(evil))
	s := testStore(t, one(body, url))
	err := s.Pull(t.Context(), "one", nil)
	var wrong *DigestError
	if !errors.As(err, &wrong) || wrong.Want != digest(body) || wrong.Got != digest(evil) || wrong.Artefact != "one" {
		t.Fatalf("error %v", err)
	}
	for _, want := range []string{"one.bin", digest(body), digest(evil), "sluice pull one", "--from"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
	if zh := wrong.Message(fault.Chinese); !strings.Contains(zh, "校验失败") {
		t.Errorf("Chinese: %s", zh)
	}
	if left := leftovers(t, s); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
	var missing *MissingError
	if _, err := s.Path("one"); !errors.As(err, &missing) || !strings.Contains(err.Error(), "sluice pull one") {
		t.Errorf("path: %v", err)
	}
	if err := s.Verify(t.Context(), "one"); !errors.As(err, &missing) || !strings.Contains(missing.Message(fault.Chinese), "sluice pull one") {
		t.Errorf("verify: %v", err)
	}
}

func TestTooManyBytesAreNotRead(t *testing.T) {
	body := content(1000)
	url, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil { // endless, without a length
			if _, err := w.Write(body); err != nil {
				return
			}
		}
	})
	s := testStore(t, one(body, url))
	if err := s.Pull(t.Context(), "one", nil); err == nil || !strings.Contains(err.Error(), "more than the expected 1000 bytes") {
		t.Errorf("error %v", err)
	}
}

func TestOfflineNamesEverySource(t *testing.T) {
	body := content(10)
	s := testStore(t, one(body, "hf:a/b", "modelscope:c/d", "pypi:e==1#{file}", "https://127.0.0.1:1/f.tar.gz#g", "file:/no/such/file"))
	s.hf, s.modelscope = "http://127.0.0.1:1", "http://127.0.0.1:1"
	err := s.Pull(t.Context(), "one", nil)
	var failed *PullError
	if !errors.As(err, &failed) || len(failed.Attempts) != 5 {
		t.Fatalf("error %v", err)
	}
	for _, want := range []string{"hf:a/b: ", "modelscope:c/d: ", "pypi:e==1", "no-such-python is not installed", "https://127.0.0.1:1/f.tar.gz#g", "connection refused", "no such file", "sluice pull one --from file:/path", "HF_ENDPOINT"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q:\n%v", want, err)
		}
	}
	if zh := failed.Message(fault.Chinese); !strings.Contains(zh, "已依次尝试") {
		t.Errorf("Chinese: %s", zh)
	}
}

func TestCancellation(t *testing.T) {
	body := content(100_000)
	started := make(chan struct{})
	url, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		w.Write(body[:50_000])
		w.(http.Flusher).Flush()
		close(started)
		<-r.Context().Done()
	})
	s := testStore(t, one(body, url, "file:/no/such/file"))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-started
		cancel()
	}()
	if err := s.Pull(ctx, "one", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if err := s.Pull(ctx, "one", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("already cancelled: %v", err)
	}
}

func TestAStalledServerIsGivenUp(t *testing.T) {
	body := content(100_000)
	stalled, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		w.Write(body[:50_000])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	good, _ := serve(t, file(body))
	s := testStore(t, one(body, stalled, good))
	s.stall = 50 * time.Millisecond
	if err := s.Pull(t.Context(), "one", nil); err != nil {
		t.Fatal(err)
	}
	checkFile(t, s, body)
}

// slowBody gives one piece after each pause; its pauses end early when the request is given up.
type slowBody struct {
	ctx    context.Context
	pause  time.Duration
	pieces [][]byte
}

func (b *slowBody) Read(p []byte) (int, error) {
	if len(b.pieces) == 0 {
		return 0, io.EOF
	}
	select {
	case <-time.After(b.pause):
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	}
	n := copy(p, b.pieces[0])
	b.pieces = b.pieces[1:]
	return n, nil
}

func (b *slowBody) Close() error { return nil }

type answer func(*http.Request) *http.Response

func (a answer) RoundTrip(r *http.Request) (*http.Response, error) { return a(r), nil }

// A slow server is not a dead one: only the time without a byte counts.
func TestASlowServerIsWaitedFor(t *testing.T) {
	body := content(1000)
	for pause, alive := range map[time.Duration]bool{stallTimeout - time.Second: true, stallTimeout + time.Second: false} {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			s := testStore(t, one(body, "https://slow.test/x"))
			s.dir = dir
			s.client = &http.Client{Transport: answer(func(r *http.Request) *http.Response {
				pieces := [][]byte{body[:300], body[300:600], body[600:]}
				return &http.Response{StatusCode: 200, Request: r, ContentLength: 1000, Body: &slowBody{r.Context(), pause, pieces}}
			})}
			if err := s.Pull(t.Context(), "one", nil); (err == nil) != alive || (!alive && !strings.Contains(err.Error(), "stopped sending")) {
				t.Errorf("pauses of %s: %v", pause, err)
			}
		})
	}
}

func TestTwoPullsAtOnceFetchOnce(t *testing.T) {
	body := content(100_000)
	url, requests := serve(t, file(body))
	s := testStore(t, one(body, url))
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			if err := s.Pull(t.Context(), "one", nil); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n := requests.Load(); runtime.GOOS == "linux" && n != 1 {
		t.Errorf("%d requests", n)
	}
	checkFile(t, s, body)
}

func TestAFolderThatCannotBeWritten(t *testing.T) {
	body := content(10)
	s := testStore(t, one(body, "hf:a/b"))
	blocked := filepath.Join(s.dir, "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.dir = blocked
	if err := s.Pull(t.Context(), "one", nil); err == nil || !strings.Contains(err.Error(), "folder you may write to") {
		t.Errorf("error %v", err)
	}
}

// The archive of a source: a wheel-like zip with a zip inside, and traps beside the members.
func zipOf(t *testing.T, members map[string][]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for name, body := range members {
		w, err := z.Create(name)
		if err == nil {
			_, err = w.Write(body)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func tarOf(t *testing.T, members map[string][]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	g := gzip.NewWriter(&out)
	w := tar.NewWriter(g)
	for name, body := range members {
		err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(body))})
		if err == nil {
			_, err = w.Write(body)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.WriteHeader(&tar.Header{Name: "sub/link", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}), w.Close(), g.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func two(bodies [2][]byte, sources ...string) Entry {
	return Entry{
		Name: "two", Kind: "bert", Licence: "MIT", Path: "models/two",
		Files: []File{
			{Path: "models/two/a.json", Remote: "a.json", Size: int64(len(bodies[0])), SHA256: digest(bodies[0])},
			{Path: "models/two/run", Remote: "sub/run", Size: int64(len(bodies[1])), SHA256: digest(bodies[1]), Executable: true},
		},
		Sources: sources,
	}
}

func TestArchives(t *testing.T) {
	bodies := [2][]byte{content(100), content(70_000)}
	traps := map[string][]byte{"a.json": bodies[0], "sub/run": bodies[1], "../../escaped": []byte("x"), "/absolute": []byte("x"), "./sub/../b": []byte("x")}
	zipped, tarred := zipOf(t, traps), tarOf(t, traps)
	nested := zipOf(t, map[string][]byte{"pkg/model.zip": zipped, "../evil": []byte("x")})
	files := map[string][]byte{"/z.zip": zipped, "/t.tar.gz": tarred, "/n.whl": nested, "/plain": []byte("no archive")}
	url, requests := serve(t, func(w http.ResponseWriter, r *http.Request) { file(files[r.URL.Path])(w, r) })
	for source, want := range map[string]string{
		"/z.zip#{file}":                 "",
		"/t.tar.gz#{file}":              "",
		"/n.whl#pkg/model.zip!{file}":   "",
		"/z.zip#other/{file}":           "holds no other/a.json",
		"/t.tar.gz#other/{file}":        "holds no other/a.json",
		"/n.whl#pkg/other.zip!{file}":   "holds no pkg/other.zip",
		"/plain#{file}":                 "neither a zip",
		"/t.tar.gz#sub/link":            "holds no sub/link",
		"/n.whl#pkg/model.zip!x/{file}": "holds no x/a.json",
	} {
		requests.Store(0)
		s := testStore(t, two(bodies, url+source))
		err := s.Pull(t.Context(), "two", nil)
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v, want %q", source, err, want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		checkTwo(t, s, source)
		if n := requests.Load(); n != 1 {
			t.Errorf("%s: %d requests for one archive", source, n)
		}
	}
}

func TestABrokenArchiveIsNotLeftBehind(t *testing.T) {
	bodies := [2][]byte{content(100), content(300_000)}
	broken, _ := serve(t, breaks(tarOf(t, map[string][]byte{"a.json": content(1), "x": []byte(strings.Repeat("no end ", 100))}), 0))
	cut, _ := serve(t, breaks(content(300_000), 1000))
	good, _ := serve(t, file(zipOf(t, map[string][]byte{"a.json": bodies[0], "sub/run": bodies[1]})))
	s := testStore(t, two(bodies, broken+"/b#{file}", cut+"/a.zip#{file}", good+"#{file}"))
	if err := s.Pull(t.Context(), "two", nil); err != nil {
		t.Fatal(err)
	}
	checkTwo(t, s, "zip")
}

func checkTwo(t *testing.T, s *Store, source string) {
	t.Helper()
	dir, err := s.Path("two")
	if err == nil {
		err = s.Verify(t.Context(), "two")
	}
	if err != nil {
		t.Errorf("%s: %v", source, err)
		return
	}
	if info, err := os.Stat(filepath.Join(dir, "run")); err != nil || info.Mode().Perm()&0o111 == 0 {
		t.Errorf("%s: run is not executable: %v", source, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "a.json")); err != nil || info.Mode().Perm()&0o111 != 0 {
		t.Errorf("%s: a.json is executable: %v", source, err)
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil || len(entries) != 2 || len(leftovers(t, s)) > 0 {
		t.Errorf("%s: the store holds %v, %v", source, entries, leftovers(t, s))
	}
	if outside, _ := filepath.Glob(filepath.Join(s.dir, "..", "escaped*")); len(outside) > 0 {
		t.Errorf("%s: a member escaped", source)
	}
}

func TestPullFromThisMachine(t *testing.T) {
	bodies := [2][]byte{content(100), content(7000)}
	dir := t.TempDir()
	write := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, b, 0o600)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("remote/a.json", bodies[0])
	write("remote/sub/run", bodies[1])
	write("flat/a.json", bodies[0])
	write("flat/run", bodies[1])
	wheel := write("x.whl", zipOf(t, map[string][]byte{"pkg/m.zip": zipOf(t, map[string][]byte{"a.json": bodies[0], "sub/run": bodies[1]})}))
	archive := write("x.tgz", tarOf(t, map[string][]byte{"./a.json": bodies[0], "sub/run": bodies[1]}))
	for _, from := range []string{filepath.Join(dir, "remote"), filepath.Join(dir, "flat"), wheel, archive} {
		s := testStore(t, two(bodies, "pypi:x==1#pkg/m.zip!{file}"))
		if err := s.PullFrom(t.Context(), "two", "file:"+from, nil); err != nil {
			t.Errorf("%s: %v", from, err)
			continue
		}
		checkTwo(t, s, from)
	}
	s := testStore(t, one(bodies[0], "hf:a/b"))
	if err := s.PullFrom(t.Context(), "one", "file:"+filepath.Join(dir, "remote/a.json"), nil); err != nil {
		t.Error(err)
	}
	for from, want := range map[string]string{
		"file:" + filepath.Join(dir, "remote/a.json"): "name the folder",
		"file:" + filepath.Join(dir, "nothing"):       "no such file",
		"file:" + dir:                                 "holds no a.json",
		"oci:registry/x":                              "unknown scheme",
		"file:":                                       "names no file",
		"ftp":                                         "no scheme",
		"pypi:--index-url==x#y":                       "pypi:package==version#member",
		"hf:justone":                                  "owner/repository",
		"https:/broken":                               "not an address",
		"file:" + filepath.Join(dir, ""):              "holds no a.json",
	} {
		s := testStore(t, two(bodies, "pypi:x==1#{file}"))
		if err := s.PullFrom(t.Context(), "two", from, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", from, err, want)
		}
	}
}

// pip is replaced by a script that does what pip does, or fails as pip does.
func TestPip(t *testing.T) {
	bodies := [2][]byte{content(100), content(7000)}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "w.whl"), zipOf(t, map[string][]byte{"pkg/a.json": bodies[0], "pkg/sub/run": bodies[1]}), 0o600); err != nil {
		t.Fatal(err)
	}
	script := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	source := "pypi:some-package==1.2#pkg/{file}"
	s := testStore(t, two(bodies, source))
	s.python = script("good", `echo run >> `+dir+`/runs; [ "$1 $2 $3" = "-m pip download" ] || exit 9
while [ "$1" != --dest ]; do shift; done; [ "$3" = some-package==1.2 ] || exit 8; cp `+dir+`/w.whl "$2/some_package-1.2-py3-none-any.whl"`)
	if err := s.Pull(t.Context(), "two", nil); err != nil {
		t.Fatal(err)
	}
	checkTwo(t, s, source)
	if runs, _ := os.ReadFile(filepath.Join(dir, "runs")); string(runs) != "run\n" {
		t.Errorf("pip ran %q", runs)
	}
	for want, text := range map[string]string{
		"Could not find a version":  `echo "ERROR: Could not find a version that satisfies some-package" >&2; exit 1`,
		"No module named pip":       `echo "/usr/bin/python3: No module named pip" >&2; exit 1`,
		"https://***@mirror.test/x": `echo "ERROR: no answer from https://user:hunter2@mirror.test/x" >&2; exit 1`,
		"brought 0 wheels":          `exit 0`,
	} {
		s := testStore(t, two(bodies, source))
		s.python = script("bad", text)
		err := s.Pull(t.Context(), "two", nil)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("error %v, want %q", err, want)
		}
		if left := leftovers(t, s); len(left) > 0 {
			t.Errorf("left over: %v", left)
		}
	}
	s = testStore(t, two(bodies, source))
	s.python = script("slow", `exec sleep 60`)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := s.Pull(ctx, "two", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("slow pip: %v", err)
	}
}

func TestProgramsOfAnotherPlatformAreRefused(t *testing.T) {
	e := one(content(10), "hf:a/b")
	e.Platform = "plan9/mips"
	if err := testStore(t, e).Pull(t.Context(), "one", nil); err == nil || !strings.Contains(err.Error(), "plan9/mips") {
		t.Errorf("error %v", err)
	}
	s := testStore(t, one(content(10), "hf:a/b"))
	for _, err := range []error{s.Pull(t.Context(), "x", nil), s.PullFrom(t.Context(), "x", "file:/x", nil), s.Verify(t.Context(), "x")} {
		if err == nil || !strings.Contains(err.Error(), "known are one") {
			t.Errorf("error %v", err)
		}
	}
}

func TestHFEndpoint(t *testing.T) {
	t.Setenv("HF_ENDPOINT", "https://mirror.test/")
	if s := Open("x"); s.hf != "https://mirror.test" {
		t.Errorf("got %s", s.hf)
	}
}
