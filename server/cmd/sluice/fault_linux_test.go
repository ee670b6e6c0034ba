package main

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/sluice-project/sluice/engine/openai"
)

// TestFullDisk: while the disk takes no more, requests are refused with a sentence that says so, before any engine is asked; the
// process lives, answers its probes, and serves again when there is room, without help; the log verifies.
func TestFullDisk(t *testing.T) {
	for name, disk := range map[string]func(t *testing.T, s *site) (fill, free func(p *process)){
		"file size limit":  sizeLimit,
		"full file system": fullFileSystem,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, nil, quiet)
			fill, free := disk(t, s)
			p := s.up()
			s.env = p.client()
			ask := `{"model":"scripted","messages":[{"role":"user","content":"planted 13800138000"}]}`
			s.run("chat", "before").wants(t, exitOK, "before")
			p.eventually("the records to be shipped", func() bool { return strings.Contains(s.run("audit", "verify").out, "waiting 0") })

			fill(p)
			// The last block of a segment may still have room for a record or two: an admitted one whose outcome then finds none
			// is what verification lists as unfinished.
			before := len(s.scripted.Requests())
			for until := time.Now().Add(10 * time.Second); p.get(t, "/readyz") == http.StatusOK; { // an answer is repeated for a second
				res := p.post(t, ask)
				_ = res.Body.Close()
				if time.Now().After(until) {
					t.Fatal("the disk is not full")
				}
			}
			asked := len(s.scripted.Requests())
			squeezed := asked - before // requests whose admitted records still found room
			if squeezed > 10 {
				t.Errorf("%d requests were admitted on a full disk", squeezed)
			}
			for range 3 {
				res := p.post(t, ask)
				raw, err := io.ReadAll(res.Body)
				_ = res.Body.Close()
				var body openai.ErrorBody
				if err != nil || json.Unmarshal(raw, &body) != nil || res.StatusCode != http.StatusServiceUnavailable ||
					body.Error.Code != "audit_unavailable" || body.Error.Type != "server_error" || res.Header.Get("Retry-After") == "" {
					t.Errorf("on a full disk: %d %s", res.StatusCode, raw)
				}
				if !strings.Contains(body.Error.Message, "check the disk of the audit log") || noise.Match(raw) {
					t.Errorf("the sentence %q", body.Error.Message)
				}
			}
			if n := len(s.scripted.Requests()); n != asked {
				t.Errorf("the engine was asked %d times without a record", n-asked)
			}
			if status := p.get(t, "/healthz"); status != http.StatusOK {
				t.Errorf("healthz: %d", status)
			}
			if status := p.get(t, "/readyz"); status != http.StatusServiceUnavailable {
				t.Errorf("readyz: %d", status)
			}
			if status := p.get(t, "/metrics"); status != http.StatusOK {
				t.Errorf("metrics: %d", status)
			}

			free(p)
			p.eventually("the server to be ready again", func() bool { return p.get(t, "/readyz") == http.StatusOK })
			s.run("chat", "after").wants(t, exitOK, "after")
			s.run("audit", "verify").wants(t, exitOK, "OK: nothing was altered")
			if err := p.stop(syscall.SIGTERM); err != nil {
				t.Errorf("end: %v", err)
			}
			r := s.run("audit", "verify")
			r.wants(t, exitOK, "OK: nothing was altered", "waiting 0")
			if n := strings.Count(r.out, "unfinished"); n > squeezed {
				t.Errorf("%d refused requests left half a record:\n%s", n, r.out)
			}
			if logs := p.errs.String(); !strings.Contains(logs, "cannot be made durable") || strings.Contains(logs, "planted") || strings.Contains(logs, "13800138000") {
				t.Errorf("the log must name the trouble and no prompt:\n%s", logs)
			}
		})
	}
}

func (p *process) get(t *testing.T, path string) int {
	t.Helper()
	res := p.operate(t, path)
	_ = res.Body.Close()
	return res.StatusCode
}

// sizeLimit lets no file of the process grow. It needs no rights.
func sizeLimit(t *testing.T, _ *site) (fill, free func(p *process)) {
	const fileSize = 1 // RLIMIT_FSIZE
	set := func(p *process, soft uint64) {
		var old syscall.Rlimit
		for _, step := range []struct{ put, get *syscall.Rlimit }{{nil, &old}, {&syscall.Rlimit{Cur: soft}, nil}} {
			if step.put != nil {
				step.put.Max = old.Max
				step.put.Cur = min(soft, old.Max)
			}
			_, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(p.cmd.Process.Pid), fileSize,
				uintptr(unsafe.Pointer(step.put)), uintptr(unsafe.Pointer(step.get)), 0, 0)
			if errno != 0 {
				t.Fatalf("prlimit: %v", errno)
			}
		}
	}
	return func(p *process) { set(p, 1) }, func(p *process) { set(p, ^uint64(0)) }
}

// fullFileSystem puts the data on a small file system of its own and fills it.
func fullFileSystem(t *testing.T, s *site) (fill, free func(p *process)) {
	if err := os.Mkdir(s.data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("none", s.data, "tmpfs", 0, "size=16m,mode=0700"); err != nil {
		t.Skipf("cannot mount a file system (%v); the other half of the test needs no rights", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(s.data, syscall.MNT_DETACH) })
	ballast := filepath.Join(s.data, "ballast")
	fill = func(*process) {
		f, err := os.Create(ballast)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = f.Close() }()
		for block := make([]byte, 4096); ; {
			if _, err := f.Write(block); errors.Is(err, syscall.ENOSPC) {
				return
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
	return fill, func(*process) {
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
	}
}
