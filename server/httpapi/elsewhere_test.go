package httpapi

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/internal/fault"
)

// refusals are the shapes of errors, by dialect: what its clients read of a body.
var refusals = map[string]func(body string) (code, message string){
	dialectOpenAI: func(body string) (string, string) {
		var e struct {
			Error struct{ Code, Message, Type string }
		}
		if json.Unmarshal([]byte(body), &e) != nil || e.Error.Type == "" {
			return "", ""
		}
		return e.Error.Code, e.Error.Message
	},
	dialectAnthropic: func(body string) (string, string) {
		var e struct {
			Type  string
			Error struct{ Code, Message, Type string }
		}
		if json.Unmarshal([]byte(body), &e) != nil || e.Type != "error" || e.Error.Type == "" {
			return "", ""
		}
		return e.Error.Code, e.Error.Message
	},
	dialectOllama: plainShape, dialectOpenInference: plainShape,
	dialectCohere: func(body string) (string, string) {
		var e struct{ ID, Code, Message string }
		if json.Unmarshal([]byte(body), &e) != nil || e.ID == "" {
			return "", ""
		}
		return e.Code, e.Message
	},
}

func plainShape(body string) (string, string) {
	var e struct{ Error, Code string }
	if json.Unmarshal([]byte(body), &e) != nil {
		return "", ""
	}
	return e.Code, e.Error
}

// TestRefusalsOfPaths: in every dialect an unknown path, a method that a path does not take, a caller whom nobody knows and what is not offered are
// refused in the shape that its clients read, in the caller's language.
func TestRefusalsOfPaths(t *testing.T) {
	k := newKit(t, Config{}, nil)
	for _, c := range []struct {
		dialect, method, path string
		status                int
		code                  fault.Code
		allow                 string
	}{
		{dialectOpenAI, http.MethodGet, "/v1/nothing", 404, fault.CodeNotFound, ""},
		{dialectOpenAI, http.MethodGet, "/v1/chat/completions", 405, fault.CodeMethodNotAllowed, "POST"},
		{dialectOpenAI, http.MethodGet, "/v1/rerank", 405, fault.CodeMethodNotAllowed, "POST"},
		{dialectOpenAI, http.MethodPost, "/v1/audio/speech", 404, fault.CodeNotOffered, ""},
		{dialectAnthropic, http.MethodPost, "/v1/messages/nothing", 404, fault.CodeNotFound, ""},
		{dialectAnthropic, http.MethodGet, "/v1/messages", 405, fault.CodeMethodNotAllowed, "POST"},
		{dialectAnthropic, http.MethodPost, "/v1/complete", 404, fault.CodeNotOffered, ""},
		{dialectOllama, http.MethodPost, "/api/tags", 405, fault.CodeMethodNotAllowed, "GET"},
		{dialectOllama, http.MethodPut, "/api/chat", 405, fault.CodeMethodNotAllowed, "POST"},
		{dialectOllama, http.MethodPost, "/api/pull", 404, fault.CodeNotOffered, ""},
		{dialectOllama, http.MethodDelete, "/api/delete", 404, fault.CodeNotOffered, ""},
		{dialectOllama, http.MethodHead, "/api/blobs/sha256:00", 404, fault.CodeNotOffered, ""},
		{dialectCohere, http.MethodGet, "/v2/rerank", 405, fault.CodeMethodNotAllowed, "POST"},
		{dialectCohere, http.MethodPost, "/v2/chat", 404, fault.CodeNotOffered, ""},
		{dialectCohere, http.MethodPost, "/v1/chat", 404, fault.CodeNotOffered, ""},
		{dialectOpenInference, http.MethodGet, "/v2/nothing", 404, fault.CodeNotFound, ""},
		{dialectOpenInference, http.MethodPost, "/v2/health/live", 405, fault.CodeMethodNotAllowed, "GET"},
		{dialectOpenInference, http.MethodGet, "/v2/models/embed/infer", 405, fault.CodeMethodNotAllowed, "POST"},
		{dialectOpenInference, http.MethodPost, "/v2/models/embed/ready", 405, fault.CodeMethodNotAllowed, "GET"},
		{dialectOpenAI, http.MethodPost, "/v1/models", 405, fault.CodeMethodNotAllowed, "GET"},
		{dialectOpenAI, http.MethodPut, "/v1/files/file-1", 405, fault.CodeMethodNotAllowed, "GET, DELETE"},
		{dialectAnthropic, http.MethodDelete, "/v1/messages/count_tokens", 405, fault.CodeMethodNotAllowed, "POST"},
		{dialectOpenInference, http.MethodPost, "/v2/repository/index", 404, fault.CodeNotOffered, ""},
	} {
		sentence := ""
		for _, lang := range []string{"en", "zh-CN"} {
			resp, body := k.do(t, c.method, c.path, strings.NewReader("{}"), "Accept-Language", lang)
			if c.method == http.MethodHead {
				if resp.StatusCode != c.status {
					t.Errorf("%s %s: %d", c.method, c.path, resp.StatusCode)
				}
				continue
			}
			code, message := refusals[c.dialect](body)
			if resp.StatusCode != c.status || code != string(c.code) || !strings.Contains(message, c.path) || message == sentence || resp.Header.Get("Allow") != c.allow || resp.Header.Get("X-Request-Id") == "" {
				t.Errorf("%s %s in %s: %d %v %s", c.method, c.path, lang, resp.StatusCode, resp.Header, body)
			}
			sentence = message
		}
		if c.code != fault.CodeNotOffered || c.method == http.MethodHead {
			continue
		}
		resp, body := k.do(t, c.method, c.path, nil, "Authorization", "Bearer wrong")
		if code, _ := refusals[c.dialect](body); resp.StatusCode != 401 || code != string(fault.CodeInvalidKey) {
			t.Errorf("%s %s by a stranger: %d %s", c.method, c.path, resp.StatusCode, body)
		}
	}
}

// TestNotOffered asks for everything that is not offered: nobody learns so without a key, clients do not try again, and nothing of it is served.
func TestNotOffered(t *testing.T) {
	k := newKit(t, Config{}, nil)
	var seen []string
	for _, e := range notOffered() {
		if slices.Contains(seen, e.path) {
			t.Errorf("%s is there twice", e.path)
		}
		seen = append(seen, e.path)
		paths := []string{e.path}
		if e.below {
			paths = append(paths, e.path+"/some/thing")
		}
		for _, path := range paths {
			for _, r := range Routes() {
				if served, _, _ := strings.Cut(r.Path, "*"); served == path || strings.HasPrefix(served, path+"/") && e.below {
					t.Errorf("%s is served: %s", path, r.Path)
				}
			}
			for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPatch} {
				resp, body := k.do(t, method, path, nil)
				if resp.StatusCode != 404 || !strings.Contains(body, `"code":"not_offered"`) || !strings.Contains(body, e.instead.In(fault.English)) {
					t.Errorf("%s %s: %d %s", method, path, resp.StatusCode, body)
				}
				if resp, body := k.do(t, method, path, nil, "Authorization", ""); resp.StatusCode != 401 {
					t.Errorf("%s %s as nobody: %d %s", method, path, resp.StatusCode, body)
				}
			}
		}
	}
}
