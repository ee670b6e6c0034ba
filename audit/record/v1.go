package record

// eventV1 is version 1, which is only read.
type eventV1 struct {
	Schema       int               `json:"schema"`
	ID           string            `json:"id"`
	Request      string            `json:"request,omitempty"`
	Stage        string            `json:"stage"`
	Time         int64             `json:"time"`
	Tenant       string            `json:"tenant,omitempty"`
	Project      string            `json:"project,omitempty"`
	Actor        actorV1           `json:"actor,omitzero"`
	Session      string            `json:"session,omitempty"`
	Source       string            `json:"source,omitempty"`
	Action       string            `json:"action,omitempty"`
	Resource     string            `json:"resource,omitempty"`
	Route        string            `json:"route,omitempty"`
	Dialect      string            `json:"dialect,omitempty"`
	Model        modelV1           `json:"model,omitzero"`
	Policy       string            `json:"policy,omitempty"`
	PolicyDigest string            `json:"policy_digest,omitempty"`
	PriceBook    string            `json:"price_book,omitempty"`
	Rollout      string            `json:"rollout,omitempty"`
	Arm          string            `json:"arm,omitempty"`
	Findings     []findingV1       `json:"findings,omitempty"`
	Decision     string            `json:"decision,omitempty"`
	Documents    []string          `json:"documents,omitempty"`
	Usage        usageV1           `json:"usage,omitzero"`
	Label        string            `json:"label,omitempty"`
	PromptDigest string            `json:"prompt_digest,omitempty"`
	AnswerDigest string            `json:"answer_digest,omitempty"`
	Outcome      string            `json:"outcome,omitempty"`
	ErrorKind    string            `json:"error_kind,omitempty"`
	ErrorCode    string            `json:"error_code,omitempty"`
	Status       int               `json:"status,omitempty"`
	Latency      latencyV1         `json:"latency,omitzero"`
	Detail       map[string]string `json:"detail,omitempty"`
}

type actorV1 struct {
	Kind       string `json:"kind,omitempty"`
	ID         string `json:"id,omitempty"`
	Name       string `json:"name,omitempty"`
	OnBehalfOf string `json:"on_behalf_of,omitempty"`
}

type modelV1 struct {
	Asked     string `json:"asked,omitempty"`
	Routed    string `json:"routed,omitempty"`
	Reported  string `json:"reported,omitempty"`
	Version   string `json:"version,omitempty"`
	Digest    string `json:"digest,omitempty"`
	Precision string `json:"precision,omitempty"`
	Template  string `json:"template,omitempty"`
	Engine    string `json:"engine,omitempty"`
}

type findingV1 struct {
	Direction string `json:"direction,omitempty"`
	Class     string `json:"class,omitempty"`
	Action    string `json:"action,omitempty"`
	Count     int    `json:"count,omitempty"`
}

type usageV1 struct {
	PromptTokens     int64  `json:"prompt_tokens,omitempty"`
	CachedTokens     int64  `json:"cached_tokens,omitempty"`
	CompletionTokens int64  `json:"completion_tokens,omitempty"`
	Estimated        bool   `json:"estimated,omitempty"`
	Cost             int64  `json:"cost,omitempty"`
	Currency         string `json:"currency,omitempty"`
	Energy           int64  `json:"energy,omitempty"`
	EnergyMethod     string `json:"energy_method,omitempty"`
}

type latencyV1 struct {
	Admit      int64 `json:"admit,omitempty"`
	Queue      int64 `json:"queue,omitempty"`
	FirstToken int64 `json:"first_token,omitempty"`
	Total      int64 `json:"total,omitempty"`
}

func fromV1(v eventV1) Event {
	var findings []Finding
	for _, f := range v.Findings {
		findings = append(findings, Finding{Direction: f.Direction, Class: f.Class, Action: f.Action, Count: f.Count})
	}
	return Event{
		Schema: v.Schema, ID: v.ID, Request: v.Request, Stage: Stage(v.Stage), Time: v.Time,
		Tenant: v.Tenant, Project: v.Project, Actor: Actor(v.Actor), Session: v.Session, Source: v.Source,
		Action: v.Action, Resource: v.Resource, Route: v.Route, Dialect: v.Dialect,
		Model: v.Model.model(), Policy: v.Policy, PolicyDigest: v.PolicyDigest, PriceBook: v.PriceBook,
		Rollout: v.Rollout, Arm: v.Arm, Findings: findings, Decision: v.Decision, Documents: v.Documents,
		Usage: Usage(v.Usage), Label: v.Label, PromptDigest: v.PromptDigest, AnswerDigest: v.AnswerDigest,
		Outcome: v.Outcome, ErrorKind: v.ErrorKind, ErrorCode: v.ErrorCode, Status: v.Status,
		Latency: Latency(v.Latency), Detail: v.Detail,
	}
}

func (m modelV1) model() Model {
	return Model{
		Asked: m.Asked, Routed: m.Routed, Reported: m.Reported, Version: m.Version, Digest: m.Digest, Precision: m.Precision,
		Template: m.Template, Engine: m.Engine,
	}
}
