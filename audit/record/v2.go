package record

// eventV2 is the canonical encoding, version 2: JSON in this field order, absent when zero, integers only, no HTML escapes, map keys
// sorted. It never changes; the golden files hold it. Version 3 begins with it; a new field of Event needs an eventV4, and a decoder
// for all.
type eventV2 struct {
	Schema       int               `json:"schema"`
	ID           string            `json:"id"`
	Salt         string            `json:"salt,omitempty"`
	Request      string            `json:"request,omitempty"`
	Stage        string            `json:"stage"`
	Time         int64             `json:"time"`
	Tenant       string            `json:"tenant,omitempty"`
	Project      string            `json:"project,omitempty"`
	Region       string            `json:"region,omitempty"`
	Actor        actorV1           `json:"actor,omitzero"`
	Session      string            `json:"session,omitempty"`
	Source       string            `json:"source,omitempty"`
	Action       string            `json:"action,omitempty"`
	Resource     string            `json:"resource,omitempty"`
	Route        string            `json:"route,omitempty"`
	Dialect      string            `json:"dialect,omitempty"`
	Model        modelV2           `json:"model,omitzero"`
	Policy       string            `json:"policy,omitempty"`
	PolicyDigest string            `json:"policy_digest,omitempty"`
	PriceBook    string            `json:"price_book,omitempty"`
	Rollout      string            `json:"rollout,omitempty"`
	Arm          string            `json:"arm,omitempty"`
	Findings     []findingV2       `json:"findings,omitempty"`
	Safety       []ruleV2          `json:"safety,omitempty"`
	Decision     string            `json:"decision,omitempty"`
	Documents    []string          `json:"documents,omitempty"`
	Usage        usageV1           `json:"usage,omitzero"`
	Label        string            `json:"label,omitempty"`
	Watermark    string            `json:"watermark,omitempty"`
	PromptDigest string            `json:"prompt_digest,omitempty"`
	AnswerDigest string            `json:"answer_digest,omitempty"`
	Contents     []contentV2       `json:"contents,omitempty"`
	Outcome      string            `json:"outcome,omitempty"`
	ErrorKind    string            `json:"error_kind,omitempty"`
	ErrorCode    string            `json:"error_code,omitempty"`
	Status       int               `json:"status,omitempty"`
	Latency      latencyV1         `json:"latency,omitzero"`
	Detail       map[string]string `json:"detail,omitempty"`
}

type modelV2 struct {
	Asked     string `json:"asked,omitempty"`
	Routed    string `json:"routed,omitempty"`
	Reported  string `json:"reported,omitempty"`
	Version   string `json:"version,omitempty"`
	Digest    string `json:"digest,omitempty"`
	Precision string `json:"precision,omitempty"`
	Template  string `json:"template,omitempty"`
	Engine    string `json:"engine,omitempty"`
	Adapter   string `json:"adapter,omitempty"`
	Replay    string `json:"replay,omitempty"`
}

type findingV2 struct {
	Direction string `json:"direction,omitempty"`
	Class     string `json:"class,omitempty"`
	Detector  string `json:"detector,omitempty"`
	Action    string `json:"action,omitempty"`
	Count     int    `json:"count,omitempty"`
}

type ruleV2 struct {
	Direction string `json:"direction,omitempty"`
	ID        string `json:"id,omitempty"`
	Action    string `json:"action,omitempty"`
}

type contentV2 struct {
	Direction string `json:"direction,omitempty"`
	Form      string `json:"form,omitempty"`
	Key       string `json:"key,omitempty"`
	Digest    string `json:"digest,omitempty"`
	Bytes     int64  `json:"bytes,omitempty"`
}

// each converts a list; one that is empty becomes nil.
func each[From, To any](list []From, convert func(From) To) (out []To) {
	for _, x := range list {
		out = append(out, convert(x))
	}
	return out
}

func fromV2(v eventV2) Event {
	findings := each(v.Findings, func(x findingV2) Finding { return Finding(x) })
	rules := each(v.Safety, func(x ruleV2) Rule { return Rule(x) })
	contents := each(v.Contents, func(x contentV2) Content { return Content(x) })
	return Event{
		Schema: v.Schema, ID: v.ID, Salt: v.Salt, Request: v.Request, Stage: Stage(v.Stage), Time: v.Time,
		Tenant: v.Tenant, Project: v.Project, Region: v.Region, Actor: Actor(v.Actor), Session: v.Session, Source: v.Source,
		Action: v.Action, Resource: v.Resource, Route: v.Route, Dialect: v.Dialect,
		Model: Model(v.Model), Policy: v.Policy, PolicyDigest: v.PolicyDigest, PriceBook: v.PriceBook,
		Rollout: v.Rollout, Arm: v.Arm, Findings: findings, Safety: rules, Decision: v.Decision, Documents: v.Documents,
		Usage: Usage(v.Usage), Label: v.Label, Watermark: v.Watermark, PromptDigest: v.PromptDigest, AnswerDigest: v.AnswerDigest, Contents: contents,
		Outcome: v.Outcome, ErrorKind: v.ErrorKind, ErrorCode: v.ErrorCode, Status: v.Status,
		Latency: Latency(v.Latency), Detail: v.Detail,
	}
}
