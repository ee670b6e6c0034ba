package httpapi

import (
	"cmp"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/internal/fault"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// sample returns an error of a code with an argument of the right type for each verb of its sentence.
func sample(code fault.Code) *fault.Error {
	var args []any
	for _, verb := range regexp.MustCompile(`%(\w)`).FindAllStringSubmatch(fault.New(code).Message(fault.English), -1) {
		if verb[1] == "d" {
			args = append(args, 42+len(args))
		} else {
			args = append(args, fmt.Sprintf("x%d", len(args)))
		}
	}
	return fault.New(code, args...)
}

// TestErrorTable pins what every code looks like to a caller: status, body in both languages, headers.
func TestErrorTable(t *testing.T) {
	k := newKit(t, Config{}, nil)
	codes := fault.Codes()
	slices.SortFunc(codes, func(a, b fault.Code) int {
		return cmp.Or(cmp.Compare(fault.New(a).Kind(), fault.New(b).Kind()), cmp.Compare(a, b))
	})
	var out strings.Builder
	for _, code := range codes {
		e := sample(code)
		if kind := e.Kind(); kind == fault.Invalid {
			e = e.WithParam("field")
		} else if kind == fault.RateLimited {
			e = e.WithRetryAfter(1234567 * time.Microsecond)
		}
		for _, lang := range []string{"en", "zh-CN,zh;q=0.9,en;q=0.5"} {
			rec := httptest.NewRecorder()
			c, _ := gin.CreateTestContext(rec)
			c.Request = httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/x", nil)
			c.Request.Header.Set("Accept-Language", lang)
			k.api.WriteError(c, fmt.Errorf("private: password hunter2: %w", e))
			body := rec.Body.String()
			if strings.Contains(body, "hunter2") || strings.Contains(body, "%!") {
				t.Errorf("%s: %s", code, body)
			}
			fmt.Fprintf(&out, "%d %s", rec.Code, body)
			for _, h := range []string{"Retry-After", "Retry-After-Ms", "X-Should-Retry", "WWW-Authenticate"} {
				if v := rec.Header().Get(h); v != "" {
					fmt.Fprintf(&out, " | %s: %s", h, v)
				}
			}
			out.WriteString("\n")
		}
	}
	const golden = "testdata/errors.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(out.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("the error table has changed; if that is meant, run go test ./server/httpapi -run ErrorTable -update and review the diff.\ngot:\n%s", out.String())
	}
}

func TestErrorWithoutCodeSaysNothing(t *testing.T) {
	k := newKit(t, Config{}, nil)
	k.fail["admit"] = fmt.Errorf("dial 10.0.0.3: password hunter2")
	resp, body := k.post(t, "/v1/chat/completions", `{"model":"chat","messages":[{"role":"user","content":"x"}]}`)
	if resp.StatusCode != 500 || strings.Contains(body, "hunter2") || strings.Contains(body, "10.0.0.3") || !strings.Contains(body, "internal_error") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if !strings.Contains(k.logs.String(), "hunter2") {
		t.Error("the private text must reach the log")
	}
}

func TestAcceptLanguage(t *testing.T) {
	for header, want := range map[string]fault.Lang{
		"": fault.English, "zh": fault.Chinese, "zh-TW": fault.Chinese, "en;q=0.9, zh;q=0.1": fault.English, "fr, zh;q=0.5": fault.Chinese,
		"zh;q=x": fault.English, strings.Repeat("zh,", 200): fault.English, "de": fault.English,
	} {
		if got := acceptLanguage(header); got != want {
			t.Errorf("%q: %v", header, got)
		}
	}
}
