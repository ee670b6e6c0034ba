package remote_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/capability"
	"github.com/sluice-project/sluice/engine/conform"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/engine/peer"
	"github.com/sluice-project/sluice/engine/profile"
	"github.com/sluice-project/sluice/engine/remote"
	"github.com/sluice-project/sluice/internal/testmodel"
	"github.com/sluice-project/sluice/internal/testpython"
)

// llamaConfig is what an administrator would write for such a server.
func llamaConfig(address *url.URL, m remote.ModelConfig) remote.Config {
	m.Dialect = "llama.cpp"
	return remote.Config{BaseURL: address.String() + "/v1", AllowPrivate: []string{"127.0.0.0/8"}, Models: []remote.ModelConfig{m}}
}

// TestConformanceOfLlamaServer runs the suite against the server of another project. What that server lacks stands in the package's
// documentation.
func TestConformanceOfLlamaServer(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute or two")
	}
	// A template that knows tools, since that of the file does not.
	chat := testpython.LlamaServer(t, testmodel.Path(t, testmodel.SmolLM2), "chat", filepath.Join("..", "chattemplate", "testdata", "templates", "qwen25.jinja"))
	encode := func(text string) []int32 {
		body, _ := json.Marshal(map[string]string{"content": text})
		reply, err := http.Post(chat.String()+"/tokenize", "application/json", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer reply.Body.Close()
		var out struct{ Tokens []int32 }
		if err := json.NewDecoder(reply.Body).Decode(&out); err != nil {
			t.Fatal(err)
		}
		return out.Tokens
	}
	t.Run("chat", func(t *testing.T) {
		enginetest.Run(t, func(t *testing.T) (engine.Engine, enginetest.Options) {
			c := llamaConfig(chat, remote.ModelConfig{ID: "chat", ContextTokens: 1024, Logprobs: true, Tools: true, Formats: true, Sampling: true})
			return open(t, c), enginetest.Options{
				Generate: "chat", Encode: encode, Unsupported: []string{"MinTokens", "Echo", "Regex"}, TruncatesTails: true, Limit: 4 * time.Minute,
			}
		})
	})
	t.Run("profile", func(t *testing.T) { conforms(t, chat.String()) })
	// Tiny encoders with random weights: what they say means nothing, how they say it does.
	dir := t.TempDir()
	for task, pooling := range map[string]uint32{"embed": 1, "rank": 4} {
		path := filepath.Join(dir, task+".gguf")
		file := testmodel.Encoder(rand.New(rand.NewPCG(1, 2)), pooling, func(int) (uint32, []byte) { return 0, nil })
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		address := testpython.LlamaServer(t, path, task, "")
		m := remote.ModelConfig{ID: task, ContextTokens: testmodel.EncoderContext, Rerank: task == "rank"}
		opt := enginetest.Options{Score: "rank"}
		if task == "embed" {
			m.EmbedDim, m.QueryPrefix, m.PassagePrefix = testmodel.EncoderDim, "q ", "p "
			opt = enginetest.Options{Embed: "embed", Roles: true}
		}
		t.Run(task, func(t *testing.T) {
			enginetest.Run(t, func(t *testing.T) (engine.Engine, enginetest.Options) { return open(t, llamaConfig(address, m)), opt })
		})
	}
}

// conforms runs the cases of package conform against a real server. Its profile's Ran names this test as what bears grade E3.
func conforms(t *testing.T, url string) {
	t.Helper()
	set, err := profile.New()
	if err != nil {
		t.Fatal(err)
	}
	p, err := set.Get("llama.cpp")
	if err != nil {
		t.Fatal(err)
	}
	r, err := conform.Run(t.Context(), conform.Config{
		Peer: peer.Config{Profile: p, URL: url}, Timeout: 3 * time.Minute, FreeWithin: 20 * time.Second, Software: "test",
		// CP-5 is left out: this small model says what it likes before it calls a tool, for as long as it may.
		Only: []conform.Case{
			conform.Health, conform.Models, conform.Answer, conform.Streaming, conform.Formats, conform.Sampling, conform.Errors, conform.Cancel, conform.Metrics, conform.Contract,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range r.Cases {
		t.Logf("CP-%d: %s %s %q, %s", o.Case, o.Result, o.Reason.En, o.Evidence, o.Took)
		if o.Result == conform.Failed {
			t.Errorf("CP-%d failed", o.Case)
		}
	}
	if r.Grade != capability.E3 || r.Target.Simulated || r.Target.Version == "" {
		t.Errorf("grade %s of %+v", r.Grade, r.Target)
	}
	for _, c := range []conform.Case{
		conform.Health, conform.Models, conform.Answer, conform.Streaming, conform.Formats, conform.Sampling, conform.Errors, conform.Metrics, conform.Contract,
	} {
		if !slices.ContainsFunc(r.Cases, func(o conform.Outcome) bool { return o.Case == c && o.Result == conform.Passed }) {
			t.Errorf("CP-%d did not pass", c)
		}
	}
}
