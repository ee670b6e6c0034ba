package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

const (
	schemaV1 = 1
	// maxPayload is the largest entry the C2SP tlog-tiles format can export.
	maxPayload = 1<<16 - 1
)

// eventV1 is the canonical encoding, version 1: JSON in this field order, absent when zero, integers only, no HTML escapes, map
// keys sorted. It never changes; the golden files hold it. A new field of Event needs an eventV2 beside it, and a decoder for both.
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

// encode returns the canonical payload of e. It is a fixed point: decoding and encoding again gives the same bytes.
func encode(e Event) ([]byte, error) {
	b, err := marshal(toV1(e))
	if err != nil {
		return nil, err
	}
	// The encoder writes ill-formed UTF-8 as an escape but the decoded replacement character as itself; a second round settles it.
	if bytes.Contains(b, []byte(`\ufffd`)) {
		again, err := decode(b)
		if err != nil {
			return nil, err
		}
		if b, err = marshal(toV1(again)); err != nil {
			return nil, err
		}
	}
	if len(b) > maxPayload {
		return nil, fmt.Errorf("encode audit event: %d bytes, at most %d fit one record", len(b), maxPayload)
	}
	return b, nil
}

func marshal(v eventV1) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode audit event: %w", err)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// decode reads a payload of any known schema version.
func decode(payload []byte) (Event, error) {
	var head struct {
		Schema int `json:"schema"`
	}
	if err := json.Unmarshal(payload, &head); err != nil {
		return Event{}, fmt.Errorf("decode audit event: %w", err)
	}
	if head.Schema != schemaV1 {
		return Event{}, fmt.Errorf("decode audit event: schema %d is unknown to this release", head.Schema)
	}
	var v eventV1
	dec := json.NewDecoder(bytes.NewReader(payload))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&v); err != nil {
		return Event{}, fmt.Errorf("decode audit event: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Event{}, errors.New("decode audit event: bytes follow the record")
	}
	return fromV1(v), nil
}

func toV1(e Event) eventV1 {
	var findings []findingV1
	for _, f := range e.Findings {
		findings = append(findings, findingV1(f))
	}
	return eventV1{
		Schema: schemaV1, ID: e.ID, Request: e.Request, Stage: string(e.Stage), Time: e.Time,
		Tenant: e.Tenant, Project: e.Project, Actor: actorV1(e.Actor), Session: e.Session, Source: e.Source,
		Action: e.Action, Resource: e.Resource, Route: e.Route, Dialect: e.Dialect,
		Model: modelV1(e.Model), Policy: e.Policy, PolicyDigest: e.PolicyDigest, PriceBook: e.PriceBook,
		Rollout: e.Rollout, Arm: e.Arm, Findings: findings, Decision: e.Decision, Documents: e.Documents,
		Usage: usageV1(e.Usage), Label: e.Label, PromptDigest: e.PromptDigest, AnswerDigest: e.AnswerDigest,
		Outcome: e.Outcome, ErrorKind: e.ErrorKind, ErrorCode: e.ErrorCode, Status: e.Status,
		Latency: latencyV1(e.Latency), Detail: e.Detail,
	}
}

func fromV1(v eventV1) Event {
	var findings []Finding
	for _, f := range v.Findings {
		findings = append(findings, Finding(f))
	}
	return Event{
		Schema: v.Schema, ID: v.ID, Request: v.Request, Stage: Stage(v.Stage), Time: v.Time,
		Tenant: v.Tenant, Project: v.Project, Actor: Actor(v.Actor), Session: v.Session, Source: v.Source,
		Action: v.Action, Resource: v.Resource, Route: v.Route, Dialect: v.Dialect,
		Model: Model(v.Model), Policy: v.Policy, PolicyDigest: v.PolicyDigest, PriceBook: v.PriceBook,
		Rollout: v.Rollout, Arm: v.Arm, Findings: findings, Decision: v.Decision, Documents: v.Documents,
		Usage: Usage(v.Usage), Label: v.Label, PromptDigest: v.PromptDigest, AnswerDigest: v.AnswerDigest,
		Outcome: v.Outcome, ErrorKind: v.ErrorKind, ErrorCode: v.ErrorCode, Status: v.Status,
		Latency: Latency(v.Latency), Detail: v.Detail,
	}
}
