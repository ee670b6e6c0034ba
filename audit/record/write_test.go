package record

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// generalWrite writes an event as package encoding/json does, which write has to agree with.
func generalWrite(t *testing.T, e Event) []byte {
	t.Helper()
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(toV3(e)); err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}

func toV2(e Event) eventV2 {
	var findings []findingV2
	for _, x := range e.Findings {
		findings = append(findings, findingV2(x))
	}
	var rules []ruleV2
	for _, x := range e.Safety {
		rules = append(rules, ruleV2(x))
	}
	var contents []contentV2
	for _, x := range e.Contents {
		contents = append(contents, contentV2(x))
	}
	return eventV2{
		Schema: schemaV2, ID: e.ID, Salt: e.Salt, Request: e.Request, Stage: string(e.Stage), Time: e.Time,
		Tenant: e.Tenant, Project: e.Project, Region: e.Region, Actor: actorV1(e.Actor), Session: e.Session, Source: e.Source,
		Action: e.Action, Resource: e.Resource, Route: e.Route, Dialect: e.Dialect,
		Model: modelV2(e.Model), Policy: e.Policy, PolicyDigest: e.PolicyDigest, PriceBook: e.PriceBook,
		Rollout: e.Rollout, Arm: e.Arm, Findings: findings, Safety: rules, Decision: e.Decision, Documents: e.Documents,
		Usage: usageV1(e.Usage), Label: e.Label, Watermark: e.Watermark, PromptDigest: e.PromptDigest, AnswerDigest: e.AnswerDigest, Contents: contents,
		Outcome: e.Outcome, ErrorKind: e.ErrorKind, ErrorCode: e.ErrorCode, Status: e.Status,
		Latency: latencyV1(e.Latency), Detail: e.Detail,
	}
}

func toV3(e Event) eventV3 {
	v := eventV3{eventV2: toV2(e), LabelKey: e.LabelKey, Steps: stepsV3(e.Steps)}
	v.Schema = schemaV3
	return v
}

// eachField calls check with each field of v set by itself, to each of these texts if it is one.
func eachField(v reflect.Value, texts []string, check func()) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			eachField(v.Field(i), texts, check)
		}
		return
	case reflect.String:
		for _, s := range texts {
			v.SetString(s)
			check()
		}
	case reflect.Int, reflect.Int64:
		for _, n := range []int64{7, -1, 1<<63 - 1, -1 << 63} {
			v.SetInt(n)
			check()
		}
	case reflect.Bool:
		v.SetBool(true)
		check()
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		check()
		v.Set(reflect.MakeSlice(v.Type(), 2, 2)) // elements without fields, too
		check()
		eachField(v.Index(1), texts, check)
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{}))
		check()
		m := map[string]string{}
		for _, s := range texts {
			m[s] = s
		}
		v.Set(reflect.ValueOf(m))
		check()
	}
	v.SetZero()
}

// TestWriteAgreesWithTheGeneralEncoder: what is signed and frozen is what package encoding/json makes of the versions' types. A field that is
// added and forgotten in write shows here.
func TestWriteAgreesWithTheGeneralEncoder(t *testing.T) {
	texts := []string{"x", "中文\U0001F600", "\"\\/<>&'", "a\xffb", "\xed\xa0\x80", "\u2028\u2029\u202a\ufffd", "\x7f\u0080", strings.Repeat("long \"", 500)}
	for c := range ' ' {
		texts = append(texts, "a"+string(c)+"b")
	}
	var e, all Event
	check := func() {
		if want, got := generalWrite(t, e), write(&e); !bytes.Equal(want, got) {
			t.Errorf("%s\nis written as\n%s", want, got)
		}
	}
	check()
	eachField(reflect.ValueOf(&e).Elem(), texts, check)
	filled(reflect.ValueOf(&all).Elem())
	e = all
	check()
}

func FuzzWrite(f *testing.F) {
	f.Add("a\xffb", "\xed\xa0\x80", int64(-1))
	f.Add("\u2028<", "\x00\x1f\x7f", int64(0))
	f.Fuzz(func(t *testing.T, s, k string, n int64) {
		e := Event{ID: s, Time: n, Actor: Actor{Name: k}, Documents: []string{k, s}, Findings: []Finding{{Class: s}, {Count: int(n)}}, Detail: map[string]string{k: s, s: k}}
		if want, got := generalWrite(t, e), write(&e); !bytes.Equal(want, got) {
			t.Errorf("%s\nis written as\n%s", want, got)
		}
	})
}
