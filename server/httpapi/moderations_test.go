package httpapi

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/governance"
)

// moderated is what clients read of a moderation.
type moderated struct {
	ID, Model string
	Results   []struct {
		Flagged    bool
		Categories map[string]*bool
		Scores     map[string]*float64 `json:"category_scores"`
		Applied    map[string][]string `json:"category_applied_input_types"`
		Sluice     struct {
			Findings []struct {
				Class, Action string
				Count         int
			}
		}
	}
	Sluice struct {
		Receipt, Policy string
		Examined        []string
		Left            []string `json:"not_examined"`
	}
}

// TestModerations: each text has a result of its own by the policy, no category of OpenAI's is said to be examined, no engine is asked, and the record says
// what was found and nothing of the texts.
func TestModerations(t *testing.T) {
	k := newKit(t, Config{}, nil)
	resp, body := k.post(t, "/v1/moderations", `{"input":["hello","call SECRET1 or SECRET1","seen it"]}`)
	got := decode[moderated](t, body)
	if resp.StatusCode != 200 || len(got.Results) != 3 || got.Model != moderationVersion() || !strings.HasPrefix(got.ID, "modr-") || got.Sluice.Receipt == "" || got.Sluice.Policy != "policy-7" {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
	for i, want := range []struct {
		flagged bool
		actions []string
		count   int
	}{{}, {true, []string{"token"}, 2}, {false, []string{"observe"}, 1}} {
		r := got.Results[i]
		var actions []string
		for _, f := range r.Sluice.Findings {
			actions = append(actions, f.Action)
		}
		if r.Flagged != want.flagged || !slices.Equal(actions, want.actions) || len(actions) > 0 && r.Sluice.Findings[0].Count != want.count {
			t.Errorf("text %d: %+v", i, r)
		}
		for _, category := range moderationCategories() {
			value, told := r.Categories[category]
			score, scored := r.Scores[category]
			if !told || value != nil || !scored || score != nil || r.Applied[category] == nil || len(r.Applied[category]) != 0 {
				t.Errorf("text %d: %s", i, category)
			}
		}
	}
	if !slices.Equal(got.Sluice.Left, moderationCategories()) || !slices.Equal(got.Sluice.Examined, []string{"noted", "secret"}) || strings.Contains(body, "SECRET") {
		t.Errorf("%s", body)
	}
	if e := k.last(); len(k.engine.Requests()) != 0 || e.Action != "moderations" || e.Outcome != "ok" || e.Usage.Cost != 0 || e.Label != "" || len(e.Findings) != 1 || resp.Header.Get("X-Sluice-Ai-Label") != "" {
		t.Errorf("%+v", e)
	}
}

// TestModerationBodies: one text has one result, in parts, too; pictures, models of others and what is no text are refused by name.
func TestModerationBodies(t *testing.T) {
	k := newKit(t, Config{}, nil)
	for _, body := range []string{
		`{"input":"SECRET1"}`, `{"input":["SECRET1"],"model":"sluice-detectors"}`, `{"input":"SECRET1","model":"` + moderationVersion() + `"}`,
		`{"input":[{"type":"text","text":"a"},{"type":"text","text":"SECRET1"}],"model":null}`,
	} {
		if resp, got := k.post(t, "/v1/moderations", body); resp.StatusCode != 200 || len(decode[moderated](t, got).Results) != 1 || !decode[moderated](t, got).Results[0].Flagged {
			t.Errorf("%s: %d %s", body, resp.StatusCode, got)
		}
	}
	for body, want := range map[string]string{
		`{}`: `"param":"input"`, `{"input":[]}`: `"param":"input"`, `{"input":["a",""]}`: `"param":"input[1]"`, `{"input":[1]}`: `"param":"input"`, `{"input":{}}`: `"param":"input"`,
		`{"input":[{"type":"image_url","image_url":{"url":"https://x.example/a.png"}}]}`: `"param":"input[0].type"`, `{"input":[{"type":"text"}]}`: `"param":"input[0].text"`,
		`{"input":["a",{"type":"text","text":"b"}]}`: `"param":"input[0]"`, `{"input":"a","model":"omni-moderation-latest"}`: `"param":"model"`, `{"input":"a","model":1}`: `"param":"model"`,
		`{"input":"a","sluice":{"x":1}}`: `"param":"sluice"`,
	} {
		if resp, got := k.post(t, "/v1/moderations", body); resp.StatusCode != 400 || !strings.Contains(got, want) {
			t.Errorf("%s: %d %s", body, resp.StatusCode, got)
		}
	}
	if resp, got := k.post(t, "/v1/moderations", `{"input":"a"}`, "X-Sluice-Sign", "jws"); resp.StatusCode != 400 || !strings.Contains(got, `"param":"X-Sluice-Sign"`) {
		t.Errorf("signed: %d %s", resp.StatusCode, got)
	}
}

// TestModerationByPolicy asks the real detectors: what the policy blocks is a result and no refusal, what it replaces is flagged, what it only counts or does
// not look for is not, and exceptions for chats hold.
func TestModerationByPolicy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		action, channel string
		flagged         bool
		findings        int
	}{{"block", "", true, 1}, {"token", "", true, 1}, {"redact", "", true, 1}, {"observe", "", false, 1}, {"allow", "", false, 0}, {"allow", "token", true, 1}} {
		m := newMasked(t, "observe")
		policy := truthPolicy(c.action, "allow", "allow")
		if c.channel != "" {
			policy += "channels: {chat: {cn_mobile: {request: " + c.channel + "}}}\n"
		}
		if _, err := m.guard.Publish(t.Context(), governance.EveryTenant, []byte(policy), "test"); err != nil {
			t.Fatal(err)
		}
		resp, body := m.post(t, "/v1/moderations", `{"input":["手机\\u0031`+askedValue[1:]+`","hello"]}`)
		got := decode[moderated](t, body)
		if resp.StatusCode != 200 || len(got.Results) != 2 || got.Results[0].Flagged != c.flagged || len(got.Results[0].Sluice.Findings) != c.findings || got.Results[1].Flagged ||
			slices.Contains(got.Sluice.Examined, "cn_mobile") != (c.findings > 0) || strings.Contains(body, askedValue) || len(m.upstream.bodies) > 0 {
			t.Errorf("%s %s: %d %s", c.action, c.channel, resp.StatusCode, body)
		}
	}
}
