package httpapi

import (
	"context"
	"slices"
	"strconv"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/governance/classify"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/rawjson"
)

// moderationModel is what examines texts here: the detectors of the platform. A caller may name it with their version or without, or not at all.
const moderationModel = "sluice-detectors"

func moderationVersion() string { return moderationModel + "@" + classify.Version() }

// moderationCategories are the categories of OpenAI's moderation, in its order. Nobody here examines any of them.
func moderationCategories() []string {
	return []string{
		"harassment", "harassment/threatening", "hate", "hate/threatening", "illicit", "illicit/violent", "self-harm", "self-harm/instructions",
		"self-harm/intent", "sexual", "sexual/minors", "violence", "violence/graphic",
	}
}

// moderation is an answer in OpenAI's form. Categories and their scores are null: false would say that somebody has looked.
type moderation struct {
	ID      string             `json:"id"`
	Model   string             `json:"model"`
	Results []moderationResult `json:"results"`
	Sluice  moderationInfo     `json:"sluice"`
}

type moderationResult struct {
	Flagged    bool                `json:"flagged"`
	Categories map[string]*bool    `json:"categories"`
	Scores     map[string]*float64 `json:"category_scores"`
	Applied    map[string][]string `json:"category_applied_input_types"`
	Sluice     struct {
		Findings []gateway.Finding `json:"findings"`
	} `json:"sluice"`
}

// moderationInfo is our extension, with what was looked for and what was not.
type moderationInfo struct {
	*extension

	Examined    []string `json:"examined"`
	NotExamined []string `json:"not_examined"`
}

// moderate answers POST /v1/moderations: what the policy would do to texts if a chat sent them.
func (a *API) moderate(c *gin.Context, who identity.Principal, call *gateway.Call) error {
	decode := func(f *fields) error { return moderationCall(f, call) }
	return a.inOnePiece(c, who, call, decode, func(ctx context.Context) (gateway.Head, any, error) {
		reply, err := a.pipeline.Moderate(ctx, call)
		if err != nil {
			return gateway.Head{}, nil, err
		}
		return reply.Head, moderationOf(reply), nil
	})
}

func moderationOf(r *gateway.ModerateReply) moderation {
	out := moderation{
		ID: answerID("modr", r.Request), Model: moderationVersion(), Results: make([]moderationResult, len(r.Texts)),
		Sluice: moderationInfo{extend(r.Head, r.Summary), append([]string{}, r.Classes...), moderationCategories()},
	}
	for i, text := range r.Texts {
		out.Results[i] = moderationResult{
			Flagged: text.Flagged, Categories: map[string]*bool{}, Scores: map[string]*float64{}, Applied: map[string][]string{},
		}
		for _, category := range moderationCategories() {
			out.Results[i].Categories[category], out.Results[i].Scores[category], out.Results[i].Applied[category] = nil, nil, []string{}
		}
		out.Results[i].Sluice.Findings = append([]gateway.Finding{}, text.Findings...)
	}
	return out
}

// moderationCall decodes POST /v1/moderations: a text, several, or the text parts of one.
func moderationCall(f *fields, c *gateway.Call) error {
	if m, ok := f.text("model"); ok && m != moderationModel && m != moderationVersion() {
		f.invalid("model", fault.Say("httpapi.moderation_model", moderationModel))
	}
	raw, _ := f.raw("input")
	if items, _ := rawjson.Items(raw); slices.ContainsFunc(items, func(item string) bool { return item[0] == '{' }) {
		c.Input = []string{joinTexts(f, "input", fault.Say("httpapi.text_parts_only"), textPart)}
	} else {
		c.Input = f.strings("input", fault.Say("type.strings_or_parts"), maxInputs)
	}
	if len(c.Input) == 0 {
		f.fail(fault.CodeMissing, "input")
	}
	for i, s := range c.Input {
		if s == "" {
			f.invalid("input["+strconv.Itoa(i)+"]", fault.Say("value.empty"))
		}
	}
	sluiceOptions(f, c)
	onBehalfOf(f, c)
	return f.err
}

// textPart reads a part that is a text.
func textPart(p *fields, kind string) (string, bool) {
	if kind != "text" {
		return "", false
	}
	return blockText(p), true
}
