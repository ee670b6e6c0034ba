package openai

import "encoding/json"

// RerankRequest is the body of POST /v1/rerank as this project sends it to an upstream; Jina, Cohere, vLLM and llama.cpp's server
// read it.
type RerankRequest struct {
	Model     string   `json:"model"`
	Query     string   `json:"query"`
	Documents []string `json:"documents"`
}

// Rerank answers POST /v1/rerank, best first.
type Rerank struct {
	ID      string         `json:"id"`
	Model   string         `json:"model"`
	Usage   EmbeddingUsage `json:"usage"`
	Results []Ranked       `json:"results"`
	Sluice  any            `json:"sluice,omitempty"`
}

// Ranked is one document with its score. Index points into the documents that were sent; Document is as it was sent.
type Ranked struct {
	Index    int             `json:"index"`
	Score    float64         `json:"relevance_score"`
	Document json.RawMessage `json:"document,omitempty"`
}

// ScoreList answers POST /v1/score.
type ScoreList struct {
	ID      string         `json:"id"`
	Object  string         `json:"object"`
	Created int64          `json:"created"`
	Model   string         `json:"model"`
	Data    []Score        `json:"data"`
	Usage   EmbeddingUsage `json:"usage"`
	Sluice  any            `json:"sluice,omitempty"`
}

// Score is the score of one pair of texts.
type Score struct {
	Index  int     `json:"index"`
	Object string  `json:"object"`
	Score  float64 `json:"score"`
}
