package httpapi

import (
	"reflect"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine/openai"
	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/internal/fault"
)

type cohereRanked struct {
	ID      string
	Results []openai.Ranked
	Meta    cohereMeta
	Sluice  extension
}

// TestCohereRerank: both versions of Cohere's reply say the same, and the engine is told nothing that is masked.
func TestCohereRerank(t *testing.T) {
	k := newKit(t, Config{}, nil)
	const body = `{"model":"rank","query":"abcdef","documents":["xyz","abc","abcdef SECRET1"],"top_n":2`
	resp, got := k.post(t, "/v2/rerank", body+`,"max_tokens_per_doc":4096,"priority":3,"relevant_spans":null}`)
	r := decode[cohereRanked](t, got)
	if resp.StatusCode != 200 || len(r.Results) != 2 || r.Results[0].Index != 2 || r.Results[0].Score != 1 || r.Results[1].Index != 1 || r.ID == "" || r.ID != resp.Header.Get("X-Request-Id") ||
		r.Meta.APIVersion.Version != "2" || r.Meta.BilledUnits.SearchUnits != 1 || r.Meta.Tokens.InputTokens == 0 || r.Sluice.Receipt == "" || len(r.Sluice.Findings) != 1 || strings.Contains(got, "document") {
		t.Errorf("%d %s", resp.StatusCode, got)
	}
	if e := k.last(); e.Action != "rerank" || e.Outcome != "ok" || e.Dialect != "cohere" {
		t.Errorf("%+v", e)
	}
	_, got = k.post(t, "/v1/rerank", body+`,"return_documents":true,"rank_fields":["text"]}`)
	first := decode[cohereRanked](t, got)
	if first.Meta.APIVersion.Version != "1" || first.Meta.BilledUnits != r.Meta.BilledUnits || len(first.Results) != 2 || string(first.Results[0].Document) != `{"text":"abcdef SECRET1"}` {
		t.Error(got)
	}
	for _, q := range k.engine.Scores() {
		if strings.Contains(strings.Join(q.Documents, ""), "SECRET") {
			t.Errorf("%+v", q)
		}
	}
	for documents, want := range map[int]int{1: 1, 100: 1, 101: 2, 201: 3} {
		if got := cohereMetaOf("2", documents, &gateway.ScoreReply{}).BilledUnits.SearchUnits; got != want {
			t.Errorf("%d documents are %d units, want %d", documents, got, want)
		}
	}
}

func TestCohereDecode(t *testing.T) {
	f, err := parse(`{"model":"rank","query":"q","documents":["a",{"text":"b"}],"top_n":1,"priority":7}`, 64)
	if err != nil {
		t.Fatal(err)
	}
	got := &gateway.Call{}
	want := &gateway.Call{Model: "rank", Query: "q", Documents: []string{"a", "b"}, TopN: 1, Priority: -7}
	if err := cohereRerankCall(f, got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\n got %+v\nwant %+v", err, got, want)
	}
}

// TestCohereRefusals are in Cohere's shape, in both languages. What waiting does not mend is none that its clients try again.
func TestCohereRefusals(t *testing.T) {
	k := newKit(t, Config{}, nil)
	for name, c := range map[string]struct {
		path, body  string
		status      int
		code, param string
	}{
		"no query":       {"/v2/rerank", `{"model":"rank","documents":["a"]}`, 400, "missing_required_parameter", "query"},
		"no documents":   {"/v2/rerank", `{"model":"rank","query":"q"}`, 400, "missing_required_parameter", "documents"},
		"none":           {"/v2/rerank", `{"model":"rank","query":"q","documents":[]}`, 400, "invalid_value", "documents"},
		"number":         {"/v2/rerank", `{"model":"rank","query":"q","documents":[5]}`, 400, "invalid_type", "documents[0]"},
		"top_n":          {"/v2/rerank", `{"model":"rank","query":"q","documents":["a"],"top_n":0}`, 400, "invalid_value", "top_n"},
		"max_tokens":     {"/v2/rerank", `{"model":"rank","query":"q","documents":["a"],"max_tokens_per_doc":0}`, 400, "invalid_value", "max_tokens_per_doc"},
		"priority":       {"/v2/rerank", `{"model":"rank","query":"q","documents":["a"],"priority":-1}`, 400, "invalid_value", "priority"},
		"relevant_spans": {"/v2/rerank", `{"model":"rank","query":"q","documents":["a"],"relevant_spans":{}}`, 400, "unsupported_parameter", "relevant_spans"},
		"unknown model":  {"/v2/rerank", `{"model":"nope","query":"q","documents":["a"]}`, 404, "model_not_found", "model"},
		"cut JSON":       {"/v2/rerank", `{`, 400, "invalid_json", ""},
	} {
		resp, body := k.post(t, c.path, c.body)
		got := decode[cohereError](t, body)
		if resp.StatusCode != c.status || string(got.Code) != c.code || got.Param != c.param || got.Message == "" || got.ID != resp.Header.Get("X-Request-Id") {
			t.Errorf("%s: %d %s", name, resp.StatusCode, body)
		}
		_, chinese := k.post(t, c.path, c.body, "Accept-Language", "zh-CN")
		if m := decode[cohereError](t, chinese).Message; m == got.Message || englishPhrase.MatchString(m) {
			t.Errorf("%s in Chinese: %s", name, m)
		}
	}
	if resp, body := k.post(t, "/v1/rerank", `{"model":"rank","query":"q","documents":["a"],"rank_fields":["title"]}`); resp.StatusCode != 400 || !strings.Contains(body, `"param":"rank_fields"`) {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if n := len(k.engine.Scores()); n != 0 {
		t.Errorf("the engine was asked %d times", n)
	}
	k.fail["reserve"] = fault.New(fault.CodeTenantBudget)
	if resp, body := k.post(t, "/v2/rerank", `{"model":"rank","query":"q","documents":["a"]}`); resp.StatusCode != 402 || decode[cohereError](t, body).Code != fault.CodeTenantBudget {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}
