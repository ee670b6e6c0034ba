package siem

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluice-project/sluice/audit/record"
	"github.com/sluice-project/sluice/audit/record/recordtest"
)

var update = flag.Bool("update", false, "rewrite the golden messages")

func of(format string) sender {
	return sender{format: format, host: "gw-1", version: "1.2.3", limit: defaultBytes}
}

func published() record.Event {
	return record.Event{
		ID: "0199aaaa-0000-7000-8000-000000000001", Salt: "salt-is-secret", Stage: record.StageAction, Time: 1_700_000_000_123_456, Tenant: "acme",
		Actor: record.Actor{Kind: "user", ID: "u1", Name: "wang.fang|=\\"}, Source: "2001:db8::1", Action: "admin.publishPolicy", Resource: "policy/demo@3",
		Decision: "refuse", Outcome: "refused", ErrorCode: "not_allowed", Status: 403, Detail: map[string]string{"note": "two\nlines", "from": "2"},
	}
}

// TestMessages pins what receivers parse: a change breaks their rules.
func TestMessages(t *testing.T) {
	answered := recordtest.Sample(7)
	answered.ID = "0199aaaa-0000-7000-8000-000000000007"
	for name, e := range map[string]record.Event{"answered": answered, "published": published()} {
		for _, format := range []string{formatOCSF, formatCEF} {
			got := string(of(format).message(sealed{41, e})) + "\n"
			path := filepath.Join("testdata", name+"."+format)
			if *update {
				must(t, os.WriteFile(path, []byte(got), 0o600))
			}
			want, err := os.ReadFile(path)
			must(t, err)
			if got != string(want) {
				t.Errorf("%s has changed:\n%s\nwas\n%s", path, got, want)
			}
		}
	}
}

// TestNoTexts: of all that a record has, digests of texts, salts, and where texts are kept stay inside.
func TestNoTexts(t *testing.T) {
	var e record.Event
	stays := map[string]bool{}
	var plant func(v reflect.Value, path string)
	plant = func(v reflect.Value, path string) {
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				plant(v.Field(i), path+"."+v.Type().Field(i).Name)
			}
		case reflect.String:
			v.SetString("canary" + path)
			stays["canary"+path] = true
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			plant(v.Index(0), path)
		case reflect.Map:
			v.Set(reflect.ValueOf(map[string]string{"k": "canary" + path}))
		}
	}
	plant(reflect.ValueOf(&e).Elem(), "")
	e.Stage = record.StageOutcome
	for _, format := range []string{formatOCSF, formatCEF} {
		got := string(of(format).message(sealed{1, e}))
		for _, inside := range []string{".Salt", ".PromptDigest", ".AnswerDigest", ".Contents.", ".Documents", ".PolicyDigest", ".Watermark"} {
			if strings.Contains(got, "canary"+inside) {
				t.Errorf("%s has %s: %s", format, inside, got)
			}
		}
		for _, outside := range []string{".ID", ".Actor.ID", ".Actor.Name", ".Action", ".Tenant", ".Model.Asked", ".Detail", ".Findings.Class", ".ErrorCode"} {
			if !strings.Contains(got, "canary"+outside) {
				t.Errorf("%s lacks %s: %s", format, outside, got)
			}
		}
	}
}

// TestBounds: however long what a record says is, a message fits, is well-formed, and still says which record it is.
func TestBounds(t *testing.T) {
	e := published()
	e.Stage = record.StageOutcome
	for i := range 200 {
		e.Findings = append(e.Findings, record.Finding{Direction: "request", Class: strings.Repeat("类", 100), Action: "token", Count: i})
		e.Detail[strings.Repeat("n", 50)+string(rune(i+1000))] = strings.Repeat("\x01", 300)
	}
	for _, s := range []*string{&e.Actor.Name, &e.Actor.ID, &e.Resource, &e.Tenant, &e.Model.Asked, &e.Action, &e.Request, &e.Session, &e.ErrorCode, &e.Policy, &e.Project} {
		*s = strings.Repeat("\u0085\x00\\", 4000)
	}
	for _, format := range []string{formatOCSF, formatCEF} {
		for _, limit := range []int{leastBytes, 4000, defaultBytes, mostBytes} {
			s := of(format)
			s.limit = limit
			got := s.message(sealed{41, e})
			if len(got) > limit || !utf8.Valid(got) {
				t.Errorf("%s: %d bytes of %d, text %v", format, len(got), limit, utf8.Valid(got))
			}
			if !strings.Contains(string(got), e.ID) {
				t.Errorf("%s within %d lacks the id: %s", format, limit, got)
			}
		}
	}
}

// cefFields reads a CEF message as the format's description has it.
func cefFields(t *testing.T, text string) (head []string, ext map[string]string) {
	t.Helper()
	var field strings.Builder
	i := 0
	for ; i < len(text) && len(head) < 7; i++ {
		switch {
		case text[i] == '\\' && i+1 < len(text):
			i++
			field.WriteByte(text[i])
		case text[i] == '|':
			head = append(head, field.String())
			field.Reset()
		default:
			field.WriteByte(text[i])
		}
	}
	ext = map[string]string{}
	for rest := text[i:]; rest != ""; {
		key, value, ok := strings.Cut(rest, "=")
		if !ok || strings.ContainsAny(key, " \\|") {
			t.Fatalf("no key where one should be: %q", rest)
		}
		var out strings.Builder
		end := -1
		for k := 0; k < len(value); k++ {
			if value[k] == '\\' && k+1 < len(value) {
				k++
				out.WriteByte(map[byte]byte{'n': '\n', '\\': '\\', '=': '='}[value[k]])
				continue
			}
			if value[k] == '=' { // a key stands before it, behind the last space
				end = strings.LastIndexByte(value[:k], ' ')
				break
			}
			out.WriteByte(value[k])
		}
		v := out.String()
		if end >= 0 {
			v = v[:strings.LastIndexByte(v, ' ')]
			rest = value[end+1:]
		} else {
			rest = ""
		}
		if _, twice := ext[key]; twice {
			t.Fatalf("%s stands twice in %q", key, text)
		}
		ext[key] = v
	}
	return head, ext
}

// FuzzMessages: nothing that callers choose makes a second message, a second field or another value of what they did not choose.
func FuzzMessages(f *testing.F) {
	f.Add("wang.fang", "chat.completions", "smollm2", "10.0.0.1", "note", int64(5))
	f.Add("a|b\\ suid=root", "x\n<13>1 - - - - - - injected", "m]\" [x y=\"z\"]", "::1", "\r\nCEF:0|", int64(1<<40))
	f.Add("\x00\u2028\u0085", "a=b c=d", `"},"actor":{"user":{"uid":"root"}},"x":{"`, "not an ip", "\xff\xfe", int64(-1))
	f.Fuzz(func(t *testing.T, name, action, model, source, detail string, at int64) {
		e := recordtest.Sample(1)
		e.ID, e.Actor.ID, e.Actor.Name, e.Action, e.Model.Asked, e.Source, e.Time = "id-1", "uid-1", name, action, model, source, at%(1<<52)
		e.Detail = map[string]string{"d": detail, detail: "v"}
		for _, format := range []string{formatOCSF, formatCEF} {
			got := string(of(format).message(sealed{9, e}))
			if strings.ContainsAny(got, "\n\r\x00") || !utf8.ValidString(got) || len(got) > defaultBytes {
				t.Fatalf("%s: %q", format, got)
			}
			head := sequence.FindString(got)
			if head == "" {
				t.Fatalf("no header of RFC 5424: %q", got)
			}
			text := got[len(head):]
			if format == formatCEF {
				fields, ext := cefFields(t, text)
				if len(fields) != 7 || fields[0] != "CEF:0" || fields[3] != "1.2.3" || ext["suid"] != "uid-1" || ext["externalId"] != "id-1" || ext["cn1"] != "9" || ext["outcome"] != "ok" || ext["cs1"] != "demo" {
					t.Fatalf("%q is read as %q %q", text, fields, ext)
				}
				continue
			}
			var o struct {
				Metadata struct {
					UID      string
					Sequence int64
				}
				Actor struct{ User struct{ UID, Name string } }
				API   struct{ Operation string }
			}
			if err := json.Unmarshal([]byte(text), &o); err != nil || o.Actor.User.UID != "uid-1" || o.Metadata.UID != "id-1" || o.Metadata.Sequence != 9 {
				t.Fatalf("%q is read as %+v, %v", text, o, err)
			}
			if utf8.ValidString(name) && len(name) < 100 && o.Actor.User.Name != name {
				t.Fatalf("the name %q is read as %q", name, o.Actor.User.Name)
			}
		}
	})
}
