package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

const answer = `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"scripted","choices":[{"index":0,"message":{"role":"assistant","content":"The quick brown fox jumps over the lazy dog near the river bank."},"finish_reason":"stop"}],"usage":{"prompt_tokens":20,"completion_tokens":16,"total_tokens":36}}`

const words = 32

// upstream serves an OpenAI-compatible engine that answers at once. It prints its address and runs until it is killed.
func upstream(out io.Writer) error {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // lives as long as the process
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"scripted","object":"model","created":1,"owned_by":"bench"}]}`)
	})
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if !strings.Contains(string(body), `"stream":true`) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, answer)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		flush := http.NewResponseController(w)
		for i := range words {
			role := ""
			if i == 0 {
				role = `"role":"assistant",`
			}
			_, _ = fmt.Fprintf(w, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"scripted","choices":[{"index":0,"delta":{%s"content":"word "},"finish_reason":null}]}`+"\n\n", role)
			_ = flush.Flush()
		}
		_, _ = io.WriteString(w, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"scripted","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\n"+
			`data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"scripted","choices":[],"usage":{"prompt_tokens":20,"completion_tokens":32,"total_tokens":52}}`+"\n\ndata: [DONE]\n\n")
	})
	fmt.Fprintf(out, "http://%s\n", l.Addr())
	return http.Serve(l, mux) //nolint:gosec // loopback, for the length of a benchmark
}
