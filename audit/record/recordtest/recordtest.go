// Package recordtest has records for tests.
package recordtest

import (
	"fmt"

	"github.com/sluice-project/sluice/audit/record"
)

// Sample is a record of an answered request; n tells samples apart.
func Sample(n int) record.Event {
	return record.Event{
		Request: fmt.Sprintf("req-%d", n), Stage: record.StageOutcome, Time: 1_700_000_000_000_000 + int64(n),
		Tenant: "demo", Project: "p", Actor: record.Actor{Kind: "key", ID: "k1", Name: "app"}, Session: "s", Source: "10.0.0.1",
		Action: "chat.completions", Resource: "r", Route: "v1", Dialect: "openai",
		Model:  record.Model{Asked: "smollm2", Routed: "smollm2@1", Reported: "smollm2", Version: "1", Digest: "sha256:ab", Precision: "q4_1"},
		Policy: "3", PolicyDigest: "sha256:cd", PriceBook: "2", Rollout: "ro-1", Arm: "stable",
		Findings: []record.Finding{{Direction: "request", Class: "mobile", Action: "masked", Count: 2}}, Decision: "allow", Documents: []string{"c/d@1#0"},
		Usage: record.Usage{PromptTokens: 10, CompletionTokens: 20, Cost: 12345, Currency: "CNY", Energy: 99, EnergyMethod: "declared"},
		Label: "l", PromptDigest: "aa", AnswerDigest: "bb", Outcome: "ok", ErrorCode: "none", Status: 200,
		Latency: record.Latency{Admit: 100, FirstToken: 2000, Total: 9000}, Detail: map[string]string{"b": "2", "a": "1"},
	}
}
