package adminapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/internal/fault"
)

// TestFilesAtOnce: a file waits for a place, and no longer than its caller does.
func TestFilesAtOnce(t *testing.T) {
	s := &Server{files: make(chan struct{}, filesAtOnce)}
	ctx, cancel := context.WithCancel(t.Context())
	c, _ := gin.CreateTestContext(httptest.NewRecorder())
	c.Request = httptest.NewRequestWithContext(ctx, http.MethodPost, "/", http.NoBody)
	var leave func()
	for range filesAtOnce {
		var err error
		if leave, err = s.enterFiles(c); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	if _, err := s.enterFiles(c); !fault.Is(err, fault.CodeOverloaded) {
		t.Errorf("one more: %v", err)
	}
	leave()
	if len(s.files) != filesAtOnce-1 {
		t.Error("the place was not given back")
	}
}

// TestAttachment: a file keeps its name, whatever characters it has, and no name makes another header.
func TestAttachment(t *testing.T) {
	for name, want := range map[string]string{
		"macros.docm": "attachment; filename=macros.docm", `C:\x\a b.txt`: `attachment; filename="a b.txt"`, "../../树.md": "attachment; filename*=utf-8''%E6%A0%91.md",
		"a\"b.txt": `attachment; filename="a\"b.txt"`, "a\r\nX: y": "attachment", "\xff": "attachment",
	} {
		if got := attachment(name); got != want {
			t.Errorf("%q: %s", name, got)
		}
	}
}
