package httpapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/sluice-project/sluice/governance/signature"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/server/httpapi/inferencepb"
)

// endpoint is an endpoint of a dialect.
type endpoint struct {
	name, path string
	body       string // without its end
	stop       string // the field that ends an answer, added to body; "" for none
	tools      string // the field that offers a tool, added to body; "" for none
	streams    bool
	dialect    *dialect
	answer     string // what the upstream says where it is no text
	shown      string // how the page calls it; "" for the method and the path
}

// rpcSurface is the path by which tests ask over gRPC.
const rpcSurface = "gRPC"

func endpoints() []endpoint {
	const function = `,"tools":[{"type":"function","function":{"name":"dial","parameters":{"type":"object"}}}]`
	const turns = `{"model":"chat","messages":[{"role":"user","content":"hello"}]`
	const ranked = `{"results":[{"index":0,"relevance_score":0.5}],"usage":{"prompt_tokens":2311,"total_tokens":2311}}`
	const vectors = `{"data":[{"index":0,"embedding":[1,2]}],"usage":{"prompt_tokens":2311,"total_tokens":2311}}`
	d := newDialects(Config{})
	return []endpoint{
		{"OpenAI chat", "/v1/chat/completions", turns + ``, `,"stop":["zzz"]`, function, true, d.openAI, "", ""},
		{"OpenAI chat over a WebSocket", socketSurface, turns, `,"stop":["zzz"]`, function, true, d.socket, "", "GET /v1/chat/completions, Upgrade: websocket"},
		{"OpenAI completions", "/v1/completions", `{"model":"chat","prompt":"hello"`, `,"stop":["zzz"]`, "", true, d.openAI, "", ""},
		{"OpenAI responses", "/v1/responses", `{"model":"chat","input":"hello"`, "", `,"tools":[{"type":"function","name":"dial","parameters":{"type":"object"}}]`, true, d.openAI, "", ""},
		{"Anthropic messages", "/v1/messages", `{"max_tokens":1000,"model":"chat","messages":[{"role":"user","content":"hello"}]`, `,"stop_sequences":["zzz"]`, `,"tools":[{"name":"dial","input_schema":{"type":"object"}}]`, true, d.anthropic, "", ""},
		{"Ollama chat", "/api/chat", turns, `,"options":{"stop":["zzz"]}`, function, true, d.ollama, "", ""},
		{"Ollama generate", "/api/generate", `{"model":"chat","prompt":"hello"`, `,"options":{"stop":["zzz"]}`, "", true, d.ollama, "", ""},
		{"Rerank (Jina, vLLM, Cohere 1)", "/v1/rerank", `{"model":"rank","query":"q","documents":["a"]`, "", "", false, d.openAI, ranked, ""},
		{"Rerank (Cohere 2)", "/v2/rerank", `{"model":"rank","query":"q","documents":["a"]`, "", "", false, d.cohere, ranked, ""},
		{
			"Open Inference Protocol", "/v2/models/embed/infer", `{"inputs":[{"name":"input","datatype":"BYTES","shape":[1],"data":["hello"]}]`, "", "", false, d.inference,
			vectors, "",
		},
		{"Open Inference Protocol over gRPC", rpcSurface, "", "", "", false, d.rpc, vectors, "inference.GRPCInferenceService/ModelInfer"},
		{"OpenAI embeddings", "/v1/embeddings", `{"model":"embed","input":"hello"`, "", "", false, d.openAI, vectors, ""},
		{"OpenAI moderations", "/v1/moderations", `{"input":"hello"`, "", "", false, d.openAI, "", ""},
	}
}

// What upstreams say, each with something that stands nowhere else.
const (
	saidText   = `{"choices":[{"index":0,"delta":{"content":"Plain words."}}]}`
	saidEnd    = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	saidUsage  = `{"choices":[],"usage":{"prompt_tokens":2311,"completion_tokens":1507,"total_tokens":3818,"prompt_tokens_details":{"cached_tokens":1013}}}`
	saidPlain  = `{"choices":[{"index":0,"text":"Plain words."}]}`
	saidCall   = `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"dial","arguments":"{\"note\":\"dialled words\"}"}}]}}]}`
	calledEnd  = `{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`
	lengthEnd  = `{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}`
	stopEnd    = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop","stop_reason":"zzz"}]}`
	saidRefuse = `{"choices":[{"index":0,"delta":{"refusal":"Refused words."}}]}`
	saidThink  = `{"choices":[{"index":0,"delta":{"reasoning_content":"Thought words."}}]}`
)

// answered is one answer of ours: its headers, and the values in it, in order.
type answered struct {
	header http.Header
	leaves []leaf
	record map[string]string // what headers say, by the record of the call: not every answer has headers
}

// leaf is a value in a body. Its path has the name of its event in front, and no places in lists.
type leaf struct{ path, value string }

// headers are those whose name and value are wanted, as cells show them.
func (a answered) headers(wanted func(name, value string) bool) []string {
	var out []string
	for name, values := range a.header {
		if name = strings.ToLower(name); wanted(name, values[0]) {
			out = append(out, name+":")
		}
	}
	slices.Sort(out)
	return out
}

// where are the paths at which what stands there, put together where a stream has it in pieces, is wanted.
func (a answered) where(wanted func(path, value string) bool) []string {
	whole := map[string]string{}
	var paths []string
	for _, l := range a.leaves {
		if _, seen := whole[l.path]; !seen {
			paths = append(paths, l.path)
		}
		whole[l.path] += l.value
	}
	return slices.DeleteFunc(paths, func(path string) bool { return !wanted(path, whole[path]) })
}

// trait is something that an answer may carry.
type trait struct {
	en, zh string
	says   []string                // of the upstream; nil: what plain answers are
	field  func(*endpoint) *string // that the request needs; nil for none
	find   func(with, plain answered) []string
	header string // that asks for it, "Name: value"; "" for none. Whoever cannot do it refuses
}

func stopField(s *endpoint) *string { return &s.stop }
func toolField(s *endpoint) *string { return &s.tools }

// text finds where a text stands that is not in a plain answer.
func text(words string) func(answered, answered) []string {
	return func(with, plain answered) []string {
		before := plain.where(func(_, value string) bool { return strings.Contains(value, words) })
		return with.where(func(path, value string) bool { return strings.Contains(value, words) && !slices.Contains(before, path) })
	}
}

// value finds where exactly that stands.
func value(wanted string) func(answered, answered) []string {
	return func(with, _ answered) []string {
		return with.where(func(path, v string) bool { return v == wanted && !strings.Contains(path, "sluice.") })
	}
}

// whyItEnds finds the words that say why an answer ends, where they differ from those of a plain one.
func whyItEnds(with, plain answered) []string {
	says := regexp.MustCompile(`(reason|status|stop_sequence)$`)
	var out []string
	for _, l := range with.leaves {
		if cell := l.path + " = " + l.value; l.value != "" && says.MatchString(l.path) && !slices.Contains(plain.leaves, l) && !slices.Contains(out, cell) {
			out = append(out, cell)
		}
	}
	return out
}

// same finds what equals a header, in headers and in the body.
func same(header string) func(answered, answered) []string {
	return func(with, _ answered) []string {
		equal := func(_, v string) bool { return v == with.record[header] }
		return append(with.headers(equal), with.where(equal)...)
	}
}

// labels finds the seven fields of the label, and the headers about it.
func labels(with, _ answered) []string {
	out := with.headers(func(name, _ string) bool { return strings.Contains(name, "label") })
	for _, l := range with.leaves {
		if before, _, ok := strings.Cut(l.path, ".AIGC."); ok && !slices.Contains(out, before+".AIGC") {
			out = append(out, before+".AIGC")
		}
	}
	return out
}

// signatures finds what has the form of a JWS.
func signatures(with, _ answered) []string {
	return with.where(func(path, value string) bool {
		return strings.HasSuffix(path, "signature") && strings.Count(value, ".") == 2
	})
}

func limits(with, _ answered) []string {
	return with.headers(func(name, _ string) bool {
		return strings.Contains(name, "ratelimit") && strings.Contains(name, "remaining")
	})
}

func traits() []trait {
	return []trait{
		{"text", "文本", nil, nil, func(with, _ answered) []string { return text("Plain words.")(with, answered{}) }, ""},
		{"reasoning", "推理过程", []string{saidThink, saidText, saidEnd}, nil, text("Thought words."), ""},
		{"name of a call", "工具调用的名称", []string{saidCall, calledEnd}, toolField, value("dial"), ""},
		{"arguments of a call", "工具调用的参数", []string{saidCall, calledEnd}, toolField, text("dialled words"), ""},
		{"end by a call", "因工具调用结束", []string{saidCall, calledEnd}, toolField, whyItEnds, ""},
		{"refusal", "拒答", []string{saidRefuse, saidEnd}, nil, text("Refused words."), ""},
		{"end by a refusal", "因拒答结束", []string{saidRefuse, saidEnd}, nil, whyItEnds, ""},
		{"end at the limit of tokens", "因 token 上限结束", []string{saidText, lengthEnd}, nil, whyItEnds, ""},
		{"end by a stop sequence", "因停止序列结束", []string{saidText, stopEnd}, stopField, whyItEnds, ""},
		{"tokens of the prompt", "提示的 token 数", nil, nil, value("2311"), ""},
		{"prompt without cached tokens", "不含缓存的提示 token 数", nil, nil, value("1298"), ""},
		{"tokens of the answer", "回答的 token 数", nil, nil, value("1507"), ""},
		{"cached tokens", "缓存命中的 token 数", nil, nil, value("1013"), ""},
		{"label of AI content", "AI 生成内容标识", nil, nil, labels, ""},
		{"signature", "签名", nil, nil, signatures, signature.Header + ": " + string(signature.JWS)},
		{"receipt", "回执", nil, nil, same("X-Sluice-Receipt"), ""},
		{"request id", "请求 ID", nil, nil, same("X-Request-Id"), ""},
		{"rate limits", "限流余量", nil, nil, limits, ""},
	}
}

// end is the end of a body.
func (s endpoint) end(streamed bool) string {
	switch {
	case !s.streams:
		return "}"
	case s.path == socketSurface: // which has streams and nothing else
		return `,"stream_options":{"include_usage":true}}`
	case streamed && (s.path == "/v1/chat/completions" || s.path == "/v1/completions"):
		return `,"stream":true,"stream_options":{"include_usage":true}}`
	}
	return fmt.Sprintf(`,"stream":%v}`, streamed)
}

// ask sends the request while the upstream says that, and reads the answer. ok: it was not refused for the header, "" for none.
func (s endpoint) ask(m *masked, field, header string, streamed bool, says []string) (a answered, ok bool) {
	m.t.Helper()
	if s.path == "/v1/completions" {
		says = slices.Clone(says)
		for i, c := range says {
			says[i] = strings.NewReplacer(saidText, saidPlain).Replace(c)
		}
	}
	m.upstream.says(func(string) string {
		if s.answer != "" {
			return s.answer
		}
		return stream(says...)
	})
	var headers []string
	if name, value, ok := strings.Cut(header, ": "); ok {
		headers = []string{name, value}
	}
	if s.path == rpcSurface {
		a, ok = m.askRPC(headers...)
		a.record = m.recorded()
		return a, ok
	}
	resp, body := m.post(m.t, s.path, s.body+field+s.end(streamed), headers...)
	if header != "" && resp.StatusCode == http.StatusBadRequest {
		return answered{}, false
	}
	if resp.StatusCode != http.StatusOK {
		m.t.Fatalf("%s: %d %s", s.name, resp.StatusCode, body)
	}
	return answered{resp.Header, leavesOf(m.t, body), m.recorded()}, true
}

// recorded is what headers of the last answer say, by its records: the receipt is the id of the one before the last.
func (m *masked) recorded() map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return map[string]string{"X-Sluice-Receipt": fmt.Sprintf("receipt-%d", len(m.events)-1), "X-Request-Id": m.events[len(m.events)-1].Request}
}

// askRPC asks for a vector over gRPC. What it reads of the answer is its JSON form. ok: it was not refused.
func (m *masked) askRPC(headers ...string) (a answered, ok bool) {
	m.t.Helper()
	var out inferencepb.ModelInferResponse
	got := m.rpc.call(m.t, "ModelInfer", rpcInput("hello"), &out, headers...)
	text, err := protojson.Marshal(&out)
	if err != nil {
		m.t.Fatal(err)
	}
	return answered{header: got.header, leaves: leavesOf(m.t, string(text))}, got.status == 0
}

// leavesOf reads JSON, lines of JSON, or events.
func leavesOf(t testing.TB, body string) (out []leaf) {
	t.Helper()
	name := ""
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		if event, ok := strings.CutPrefix(line, "event: "); ok {
			name = event + ": "
			continue
		}
		data := strings.TrimPrefix(line, "data: ")
		if data == "" || data == "[DONE]" || strings.HasPrefix(data, ":") {
			continue
		}
		d := json.NewDecoder(strings.NewReader(data))
		d.UseNumber()
		var v any
		if err := d.Decode(&v); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		out = append(out, below(name, v)...)
	}
	return out
}

// below are the values in v, in the order of their names.
func below(path string, v any) (out []leaf) {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			at := path + "." + name
			if path == "" || strings.HasSuffix(path, ": ") {
				at = path + name
			}
			out = append(out, below(at, v[name])...)
		}
	case []any:
		for _, e := range v {
			out = append(out, below(path+"[]", e)...)
		}
	case nil:
	default:
		out = append(out, leaf{path, fmt.Sprint(v)})
	}
	return out
}

// cells are where an endpoint carries a trait, in one piece and in a stream; nil where it does not.
func (s endpoint) cells(m *masked, tr trait) (out [2][]string) {
	field := ""
	if tr.field != nil {
		if field = *tr.field(&s); field == "" {
			return out
		}
	}
	plainly := []string{saidText, saidEnd, saidUsage}
	says := tr.says
	if says == nil {
		says = plainly
	} else {
		says = append(slices.Clone(says), saidUsage)
	}
	for i := range out {
		if i == 1 && !s.streams {
			break
		}
		if i == 0 && s.path == socketSurface {
			continue
		}
		with, ok := s.ask(m, field, tr.header, i == 1, says)
		if !ok {
			continue
		}
		plain, _ := s.ask(m, field, "", i == 1, plainly)
		out[i] = tr.find(with, plain)
		if i == 1 { // events repeat what was said; where it comes first is what readers wait for
			body := slices.IndexFunc(out[i], func(c string) bool { return !strings.HasSuffix(c, ":") })
			if body >= 0 {
				out[i] = out[i][:body+1]
			}
		}
	}
	return out
}

// refused is what a stranger gets.
func (s endpoint) refused(m *masked) answered {
	m.t.Helper()
	stranger := []string{"Authorization", "Bearer nobody's"}
	switch s.path {
	case rpcSurface:
		a, _ := m.askRPC(stranger...)
		return a
	case socketSurface:
		_, resp, _ := m.tryDial(m.t, stranger...)
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			m.t.Fatal(err)
		}
		return answered{header: resp.Header, leaves: leavesOf(m.t, string(body))}
	}
	resp, body := m.post(m.t, s.path, s.body+s.end(false), stranger...)
	return answered{header: resp.Header, leaves: leavesOf(m.t, body)}
}

// failures are where an endpoint carries the code of an error, in one piece and in a stream that has begun, and what keeps a silent stream open.
func (s endpoint) failures(m *masked) (out [2][]string, alive string) {
	code := string(fault.CodeInvalidKey)
	isCode := func(_, v string) bool { return v == code }
	refused := s.refused(m)
	out[0] = append(refused.headers(isCode), refused.where(isCode)...)
	if !s.streams {
		return out, ""
	}
	m.upstream.says(func(string) string {
		said := strings.Repeat("data: "+saidText+"\n\ndata: "+saidPlain+"\n\n", 3)
		return said + `data: {"error":{"message":"broken"}}` + "\n\n"
	})
	resp, body := m.post(m.t, s.path, s.body+s.end(true))
	if resp.StatusCode != http.StatusOK && s.path != socketSurface {
		m.t.Fatalf("%s: %d %s", s.name, resp.StatusCode, body)
	}
	code = m.last().ErrorCode
	out[1] = answered{header: resp.Header, leaves: leavesOf(m.t, body)}.where(isCode)
	alive, _, _ = strings.Cut(string(s.dialect.stream.keepAlive), "\n")
	return out, alive
}

// TestWhatDialectsCarry asks every endpoint that answers for everything that an answer may carry, and holds docs/dialects.md, in both languages, to where it
// was found: a dialect that loses something, or puts it elsewhere, changes the page. Rewrite it with -update and read the difference.
func TestWhatDialectsCarry(t *testing.T) {
	m := newMasked(t, "redact")
	m.rpc = overHTTP2(t, m.kit)
	all := endpoints()
	rows, found := make([][2]string, 0, 20), [][][2][]string{}
	for _, tr := range traits() {
		var row [][2][]string
		for _, s := range all {
			row = append(row, s.cells(m, tr))
		}
		rows, found = append(rows, [2]string{tr.en, tr.zh}), append(found, row)
	}
	errorsOf, aliveOf := make([][2][]string, len(all)), make([][2][]string, len(all))
	for i, s := range all {
		var alive string
		if errorsOf[i], alive = s.failures(m); alive != "" {
			aliveOf[i][1] = []string{alive}
		}
	}
	rows, found = append(rows, [2]string{"code of an error", "错误代码"}, [2]string{"sent while a model is silent", "模型沉默时发送"}), append(found, errorsOf, aliveOf)
	for lang, name := range []string{"dialects.md", "dialects.zh-CN.md"} {
		got, path := carriedPage(lang, all, rows, found), filepath.Join("..", "..", "docs", name)
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(path); err != nil || string(want) != got {
			t.Errorf("%s is not what the dialects do (%v): go test ./server/httpapi -run TestWhatDialectsCarry -update. Now:\n%s", name, err, got)
		}
	}
}

// carriedPage writes the page in a language: what is carried at all, then where.
func carriedPage(lang int, all []endpoint, rows [][2]string, found [][][2][]string) string {
	say := func(en, zh string) string { return []string{en, zh}[lang] }
	var b strings.Builder
	b.WriteString(say("# What the dialects carry\n\n[中文](dialects.zh-CN.md)\n\nWritten by `go test ./server/httpapi -run TestWhatDialectsCarry -update` from answers of the server, and held to them. ● in one piece and in a stream, ◐ in one piece only, ◑ in a stream only, – not.\n\n",
		"# 各方言承载的内容\n\n[English](dialects.md)\n\n由 `go test ./server/httpapi -run TestWhatDialectsCarry -update` 根据服务器的实际回答生成并校验。● 一次性回答与流都有，◐ 仅一次性回答，◑ 仅流，– 没有。\n\n"))
	b.WriteString("| |")
	for _, s := range all {
		b.WriteString(" " + s.name + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(all)) + "\n")
	for i, row := range rows {
		b.WriteString("| " + row[lang] + " |")
		for j := range all {
			mark := map[[2]bool]string{{true, true}: "●", {true, false}: "◐", {false, true}: "◑", {}: "–"}
			b.WriteString(" " + mark[[2]bool{len(found[i][j][0]) > 0, len(found[i][j][1]) > 0}] + " |")
		}
		b.WriteString("\n")
	}
	for j, s := range all {
		fmt.Fprintf(&b, "\n## %s\n\n`%s`\n\n| | %s | %s |\n|---|---|---|\n", s.name, cmp.Or(s.shown, "POST "+s.path), say("in one piece", "一次性回答"), say("in a stream, where it comes first", "流中首次出现处"))
		for i, row := range rows {
			if len(found[i][j][0])+len(found[i][j][1]) > 0 {
				fmt.Fprintf(&b, "| %s | %s | %s |\n", row[lang], cellOf(found[i][j][0]), cellOf(found[i][j][1]))
			}
		}
	}
	return b.String()
}

func cellOf(found []string) string {
	if len(found) == 0 {
		return "–"
	}
	return "`" + strings.Join(found, "`, `") + "`"
}
