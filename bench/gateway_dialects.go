package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// dialect is a form of requests that the gateway takes.
type dialect struct {
	name, path string
	fields     func(text string) map[string]any // of a request, but for its model and whether it is streamed
}

// chat is the dialect of the upstream and of peers.
func chat() dialect {
	return dialect{"chat", "/v1/chat/completions", func(text string) map[string]any {
		return map[string]any{"messages": messages(text), "max_tokens": 64}
	}}
}

func messages(text string) []map[string]string {
	return []map[string]string{{"role": "user", "content": text}}
}

// dialects are all forms of one conversation. The answers of responses are not kept; those of responses-kept are, which is what the API does unless told otherwise.
func dialects() []dialect {
	return []dialect{
		chat(),
		{"messages", "/v1/messages", func(text string) map[string]any {
			return map[string]any{"messages": messages(text), "max_tokens": 64}
		}},
		{"responses", "/v1/responses", func(text string) map[string]any {
			return map[string]any{"input": text, "max_output_tokens": 64, "store": false}
		}},
		{"responses-kept", "/v1/responses", func(text string) map[string]any {
			return map[string]any{"input": text, "max_output_tokens": 64}
		}},
		{"ollama", "/api/chat", func(text string) map[string]any {
			return map[string]any{"messages": messages(text), "options": map[string]int{"num_predict": 64}}
		}},
	}
}

// dialectsOf reads a list of names.
func dialectsOf(list string) ([]dialect, error) {
	all := dialects()
	var out []dialect
	for name := range strings.SplitSeq(list, ",") {
		at := slices.IndexFunc(all, func(d dialect) bool { return d.name == name })
		if at < 0 {
			return nil, fmt.Errorf("-dialects: there is no %q", name)
		}
		out = append(out, all[at])
	}
	return out, nil
}

// body is a request for an answer to a text.
func (d dialect) body(text string, stream bool) []byte {
	fields := d.fields(text)
	fields["model"], fields["stream"] = "scripted", stream
	raw, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return raw
}
