package sample

import (
	"maps"
	"slices"
)

// History counts the tokens of one sequence, for the penalties. Keep one only where [Rules.Counts] says so.
type History struct {
	counts []tokenCount // in the order of first appearance
	where  map[int32]int32
}

type tokenCount struct {
	token int32
	count int32 // in the completion; those of the prompt alone have 0
}

// NewHistory counts a prompt and what of the completion there is.
func NewHistory(prompt, completion []int32) *History {
	h := &History{where: make(map[int32]int32, len(prompt)/2+len(completion)/2)}
	for _, t := range prompt {
		h.entry(t)
	}
	for _, t := range completion {
		h.Add(t)
	}
	return h
}

// Add counts a token of the completion.
func (h *History) Add(token int32) { h.entry(token).count++ }

// Fork returns an independent copy, for another choice of the same prompt.
func (h *History) Fork() *History {
	return &History{counts: slices.Clone(h.counts), where: maps.Clone(h.where)}
}

func (h *History) entry(token int32) *tokenCount {
	i, ok := h.where[token]
	if !ok {
		i = int32(len(h.counts))
		h.where[token] = i
		h.counts = append(h.counts, tokenCount{token: token})
	}
	return &h.counts[i]
}
