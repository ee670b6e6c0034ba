package server_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/config"
	"github.com/sluice-project/sluice/server/httpapi"
)

// claims are the papers for users by path, and what the project has of what they name.
type claims struct {
	papers map[string]string
	source string // of the program, without its tests
	routes []claimedRoute
}

type claimedRoute struct {
	method string
	path   *regexp.Regexp
}

func readClaims(t *testing.T) claims {
	t.Helper()
	c := claims{papers: map[string]string{}}
	for _, pattern := range []string{"../README*.md", "../docs/guides/*.md", "../deploy/README*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			c.papers[path] = string(b)
		}
	}
	if len(c.papers) < 14 {
		t.Fatalf("only %d papers", len(c.papers))
	}
	var source strings.Builder
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == ".git" || d.Name() == "testdata"):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		b, err := os.ReadFile(path)
		source.Write(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	c.source = source.String()
	admin, err := adminapi.Routes()
	if err != nil {
		t.Fatal(err)
	}
	add := func(method, path string) {
		pattern := regexp.MustCompile(`[:*][a-z]+`).ReplaceAllString(path, `[^/]+`)
		c.routes = append(c.routes, claimedRoute{method, regexp.MustCompile("^" + pattern + "$")})
	}
	for _, r := range admin {
		add(r.Method, r.Path)
	}
	for _, r := range httpapi.Routes() {
		add(r.Method, r.Path)
	}
	return c
}

func (c claims) hasRoute(method, path string) bool {
	return slices.ContainsFunc(c.routes, func(r claimedRoute) bool { return (method == "" || method == r.method) && r.path.MatchString(path) })
}

var (
	claimFence = regexp.MustCompile("(?s)```.*?```")
	claimSpan  = regexp.MustCompile("`([^`\n]+)`")
)

// spans are the inline pieces of code of a paper.
func spans(text string) (out []string) {
	for _, m := range claimSpan.FindAllStringSubmatch(claimFence.ReplaceAllString(text, ""), -1) {
		out = append(out, m[1])
	}
	return out
}

// TestPapersNameRoutesThatExist: every route that a paper names, in the text or in a command, is one of the server.
func TestPapersNameRoutesThatExist(t *testing.T) {
	t.Parallel()
	c := readClaims(t)
	named := regexp.MustCompile(`^(?:(GET|POST|PUT|PATCH|DELETE) )?((?:/api)?/v1/[^ ?]*|/rerank)(?:\?\S*)?$`)
	called := regexp.MustCompile(`\$SLUICE(?:_URL/api/v1)?(/[^ "?]*)`)
	n := 0
	for paper, text := range c.papers {
		for _, span := range spans(text) {
			if m := named.FindStringSubmatch(span); m != nil {
				n++
				if !c.hasRoute(m[1], m[2]) {
					t.Errorf("%s: there is no %s", paper, span)
				}
			}
		}
		for _, block := range claimFence.FindAllString(text, -1) {
			for line := range strings.Lines(strings.ReplaceAll(block, "\\\n", " ")) {
				m := called.FindStringSubmatch(line)
				if m == nil {
					continue
				}
				n++
				method := "GET"
				if x := regexp.MustCompile(`-X ([A-Z]+)`).FindStringSubmatch(line); x != nil {
					method = x[1]
				} else if strings.Contains(line, " -d ") {
					method = "POST"
				}
				if !c.hasRoute(method, "/api/v1"+m[1]) {
					t.Errorf("%s: there is no %s %s: %s", paper, method, m[1], line)
				}
			}
		}
	}
	if n < 120 {
		t.Errorf("only %d routes were found", n)
	}
}

// TestPapersNameMetricsThatExist: every metric that a paper names is one of the server.
func TestPapersNameMetricsThatExist(t *testing.T) {
	t.Parallel()
	c := readClaims(t)
	has := map[string]bool{"sluice_engine_refused_requests_total": strings.Contains(c.source, `"refused_requests_total"`)}              // it appears with its first refusal
	for _, name := range []string{"sluice_governance_safety_hits_total", "sluice_governance_safety_library_issued_timestamp_seconds"} { // with the first match or library
		has[name] = strings.Contains(c.source, `"`+name+`"`)
	}
	for _, file := range []string{"testdata/metrics.golden", "testdata/metrics-engine.golden"} {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			name, _, _ := strings.Cut(line, " ")
			has[name] = true
		}
	}
	whole := regexp.MustCompile(`sluice_[a-z0-9_]+[a-z0-9]`)
	n := 0
	for paper, text := range c.papers {
		names := map[string]bool{}
		for _, span := range spans(text) {
			if m := whole.FindString(span); m != "" && !strings.Contains(span, "…") {
				names[m] = true
			}
		}
		if _, table, ok := strings.Cut(text, "`sluice_engine_…`"); ok { // a table of the metrics that begin so
			table, _, _ = strings.Cut(table[strings.Index(table, "\n|"):], "\n\n")
			for line := range strings.Lines(table) {
				first, _, _ := strings.Cut(strings.TrimPrefix(line, "|"), "|")
				for _, name := range spans(first) {
					names["sluice_engine_"+name] = true
				}
			}
		}
		for name := range names {
			n++
			metered := strings.HasPrefix(name, "sluice_energy_") && strings.Contains(c.source, `"`+name+`"`) // they are there with meters alone
			if !has[name] && !metered {
				t.Errorf("%s: the server has no metric %s", paper, name)
			}
		}
	}
	if n < 60 {
		t.Errorf("only %d metrics were found", n)
	}
}

// TestPapersNameKeysAndCodesThatExist: what a paper names with a dot is a key of the configuration, a permission, an alert or an act; what it names
// behind a status is an error code; what it calls a header, the program knows.
func TestPapersNameKeysAndCodesThatExist(t *testing.T) {
	t.Parallel()
	c := readClaims(t)
	keys := config.Keys()
	var first []string // words before the dot
	for _, k := range keys {
		word, _, _ := strings.Cut(k, ".")
		first = append(first, word)
	}
	for _, p := range access.Permissions() {
		word, _, _ := strings.Cut(string(p), ".")
		first = append(first, word)
	}
	var codes []string
	for _, code := range fault.Codes() {
		codes = append(codes, string(code))
	}
	operations := map[string]bool{"issueToken": true, "federatedSignIn": true, "federatedLogout": true} // of endpoints that are no part of the document
	admin, err := adminapi.Routes()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range admin {
		operations[r.Operation] = true
	}
	isKey := func(name string) bool {
		return slices.ContainsFunc(keys, func(k string) bool {
			return k == name || strings.HasPrefix(k, name+".") || strings.HasPrefix(name, k+".")
		})
	}
	dotted := regexp.MustCompile(`^([a-z]+)(?:\.[a-z0-9_]+)+`)
	header := regexp.MustCompile(`^[Xx]-[A-Za-z-]+[a-z]$`)
	behind := regexp.MustCompile("[1-5][0-9][0-9] `([a-z_]+)`")
	row := regexp.MustCompile(`(?m)^\| [1-5][0-9][0-9] \| [a-z_]+ \| ([^|]+) \|`)
	n := 0
	for paper, text := range c.papers {
		for _, span := range spans(text) {
			if m := dotted.FindStringSubmatch(span); m != nil && slices.Contains(first, m[1]) {
				n++
				if name := m[0]; !isKey(name) && !strings.Contains(c.source, `"`+name+`"`) {
					t.Errorf("%s: nothing is called %s", paper, name)
				}
			}
			if act, ok := strings.CutPrefix(span, "admin."); ok && !operations[act] {
				t.Errorf("%s: there is no act %s", paper, span)
			}
			if header.MatchString(span) {
				n++
				if !strings.Contains(strings.ToLower(c.source), `"`+strings.ToLower(span)) {
					t.Errorf("%s: the program knows no header %s", paper, span)
				}
			}
		}
		for _, m := range behind.FindAllStringSubmatch(text, -1) {
			n++
			if !slices.Contains(codes, m[1]) {
				t.Errorf("%s: there is no error %s", paper, m[0])
			}
		}
		for _, m := range row.FindAllStringSubmatch(text, -1) {
			for _, code := range regexp.MustCompile(`[a-z_]+`).FindAllString(m[1], -1) {
				n++
				if !slices.Contains(codes, code) {
					t.Errorf("%s: there is no error %s", paper, code)
				}
			}
		}
	}
	if n < 350 {
		t.Errorf("only %d names were found", n)
	}
}

// TestAdministratorsReadOfEveryAlert: the table of alerts in the guide, in both languages, is that of the program.
func TestAdministratorsReadOfEveryAlert(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("alerts/checks.go")
	if err != nil {
		t.Fatal(err)
	}
	alerts := regexp.MustCompile(`Code: "([a-z_.]+)"`).FindAllStringSubmatch(string(source), -1)
	if len(alerts) < 12 {
		t.Fatalf("only %d alerts", len(alerts))
	}
	for _, name := range []string{"administration.md", "administration.zh-CN.md"} {
		b, err := os.ReadFile("../docs/guides/" + name)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range alerts {
			if !strings.Contains(string(b), "`"+a[1]+"`") {
				t.Errorf("%s does not say what %s is", name, a[1])
			}
		}
	}
}

// TestGraveActsAreListed: the guide says as many acts that need a second person as the document marks, and openapi.yaml is where they are marked.
func TestGraveActsAreListed(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("adminapi/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	said := map[string][2]string{ // by operation, in English and in Chinese
		"createUser": {"creating an account", "创建账号"}, "changeUser": {"changing its roles", "更改角色"}, "enableUser": {"enabling it", "启用账号"},
		"resetPassword": {"resetting a password", "重置密码"}, "resetSecondFactor": {"removing a lost second factor", "移除丢失的第二因素"}, "publishPolicy": {"publishing a policy", "发布策略"}, "startRollout": {"starting and promoting a rollout", "开始与晋级灰度发布"},
		"approveRollout": {"starting and promoting a rollout", "开始与晋级灰度发布"}, "closeMonth": {"closing a month", "结账"}, "correctUsage": {"correcting usage", "更正用量"},
		"releaseHold": {"releasing a legal hold", "解除法律保全"}, "resumeTenant": {"resuming a tenant", "恢复租户"},
		"resumeOrganisation": {"resuming an organisation", "恢复组织"}, "moveTenant": {"moving a tenant into another organisation", "将租户移入另一组织"},
		"startAccessReview": {"starting and cancelling a review of access", "发起与取消权限复核"}, "cancelAccessReview": {"starting and cancelling a review of access", "发起与取消权限复核"},
		"rotateKeyring": {"rotating the wrapping keys", "轮换封装密钥"}, "revokeSigningKey": {"revoking a signing key", "吊销签名密钥"}, "revokeWatermarkKey": {"revoking a watermark key", "吊销水印密钥"}, "inviteUser": {"inviting a person", "邀请人员"},
		"createServiceAccount": {"creating, changing and enabling a service account", "创建、更改与启用服务账号"}, "changeServiceAccount": {"creating, changing and enabling a service account", "创建、更改与启用服务账号"},
		"enableServiceAccount": {"creating, changing and enabling a service account", "创建、更改与启用服务账号"},
		"rotateServiceSecret":  {"giving it a secret or keys", "为其更换密钥或添加公钥"}, "addServiceKeys": {"giving it a secret or keys", "为其更换密钥或添加公钥"},
		"exportTenant": {"exporting and erasing a tenant that leaves", "导出与擦除退出的租户"}, "eraseTenant": {"exporting and erasing a tenant that leaves", "导出与擦除退出的租户"},
		"sealBreakGlass": {"sealing emergency credentials", "封存紧急凭据"},
	}
	operation, seen := "", 0
	for line := range strings.Lines(string(document)) {
		line = strings.TrimSpace(line)
		if id, ok := strings.CutPrefix(line, "operationId: "); ok {
			operation = id
		}
		if line != "x-second-person: true" {
			continue
		}
		seen++
		words, ok := said[operation]
		if !ok {
			t.Errorf("%s needs a second person, and the guide does not say so", operation)
			continue
		}
		for i, name := range []string{"administration.md", "administration.zh-CN.md"} {
			b, err := os.ReadFile("../docs/guides/" + name)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(strings.Join(strings.Fields(string(b)), " "), words[i]) {
				t.Errorf("%s does not say %q", name, words[i])
			}
		}
	}
	if seen != len(said) {
		t.Errorf("%d acts need a second person, the guide says %d", seen, len(said))
	}
}
