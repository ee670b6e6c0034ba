package eval

import "time"

// Format names the layout of a [Report]. Fields may be added under the same name.
const Format = "sluice.eval/1"

// Report is the evidence of a measurement: what was measured, with what, on what, and the figures.
type Report struct {
	Format   string   `json:"format"`
	Metric   string   `json:"metric"` // perplexity, kld, agreement or embeddings
	Model    Subject  `json:"model"`
	Baseline *Subject `json:"baseline,omitempty"`
	Engine   Engine   `json:"engine"`
	Data     Source   `json:"data"`

	Context int `json:"context,omitempty"` // tokens of a window
	Stride  int `json:"stride,omitempty"`  // tokens from one window to the next
	Tokens  int `json:"tokens,omitempty"`  // scored
	Texts   int `json:"texts,omitempty"`   // compared, of embeddings
	Skipped int `json:"skipped,omitempty"` // texts that are too long for the model

	Figures []Figure  `json:"figures"`
	Seed    uint64    `json:"seed"` // of the intervals
	Time    time.Time `json:"time"`
	Seconds float64   `json:"seconds"`
}

// Subject is a model under a precision plan.
type Subject struct {
	File      string `json:"file"` // name without folders
	Digest    string `json:"digest"`
	Plan      string `json:"plan"`
	Precision string `json:"precision"` // what the plan amounts to for this file
	Template  string `json:"template,omitempty"`
}

// Engine is the program that computed.
type Engine struct {
	Version string `json:"version"`
	ISA     string `json:"isa"`
	Threads int    `json:"threads"`
}

// Source is the text.
type Source struct {
	Name      string `json:"name"`
	Digest    string `json:"digest"`
	Documents int    `json:"documents"`
}
