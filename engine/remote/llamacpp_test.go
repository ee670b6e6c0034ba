package remote_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
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

// The server of llama.cpp itself, C++ and all, comes prebuilt in the PyPI package xllamacpp, which starts it inside Python. It ends with
// its standard input. One thread, because those of OpenMP turn in circles when other tests want the processor.
const llamaScript = `
import sys, xllamacpp
p = xllamacpp.CommonParams()
p.model.path, task, template = sys.argv[1:4]
p.hostnames, p.port, p.ui, p.warmup = ["127.0.0.1"], 0, False, False
p.cpuparams.n_threads = p.cpuparams_batch.n_threads = 1
p.endpoint_metrics = p.endpoint_slots = p.endpoint_props = True
if task == "chat":
    p.n_ctx, p.n_parallel, p.use_jinja = 4096, 4, True
    p.chat_template = open(template).read()
else:
    p.embedding, p.n_parallel = True, 1
    if task == "rank":
        p.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_RANK
server = xllamacpp.Server(p)
print(server.listening_address, flush=True)
sys.stdin.read()
`

// llamaServer starts a server and returns its address.
func llamaServer(t *testing.T, model, task, template string) *url.URL {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), testpython.Python(t, "llamacpp", "llamacpp"), "-c", llamaScript, model, task, template)
	var said bytes.Buffer
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	cmd.WaitDelay = 10 * time.Second
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the server said:\n%s", said.String()[max(0, said.Len()-4000):])
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		_ = cmd.Wait()
		t.Fatalf("the server did not start: %v\n%s", err, said.String())
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	address, err := url.Parse(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	return address
}

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
	chat := llamaServer(t, testmodel.Path(t, testmodel.SmolLM2), "chat", filepath.Join("..", "chattemplate", "testdata", "templates", "qwen25.jinja"))
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
		address := llamaServer(t, path, task, "")
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
