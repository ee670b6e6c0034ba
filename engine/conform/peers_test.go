package conform_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/capability"
	"github.com/sluice-project/sluice/engine/conform"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/engine/peer"
	"github.com/sluice-project/sluice/engine/profile"
	"github.com/sluice-project/sluice/engine/remote"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/testmodel"
	"github.com/sluice-project/sluice/internal/testpython"
)

// realPeer is a server of another project, at a pinned version, and the profile that it is held to.
type realPeer struct {
	profile string
	version string // as it tells it
	load    int    // requests at once of CP-11; 0: it is left out, since what stands behind computes with one thread
	start   func(*testing.T) running
}

// running is a peer that was started.
type running struct {
	url, key string
	said     *bytes.Buffer // until it has ended
	ended    <-chan struct{}
}

// realPeers are those that run on a machine without an accelerator, from package registries alone. docs/engines.md says why others do not.
func realPeers() []realPeer {
	return []realPeer{
		{"dynamo", "1.4.2", 16, startDynamo},
		{"litellm", "1.108.0", 0, startLiteLLM},
	}
}

// TestRealPeers runs every case against servers that others have written, each by its profile, and the remote engine before them. What a case comes to is
// recorded in testdata/peers; one that comes to something else, better or worse, fails, so that the record and the grade E3 stay true. With SLUICE_UPDATE=1
// the record is written anew. It installs what it needs, so it belongs to the long form.
func TestRealPeers(t *testing.T) {
	if os.Getenv("SLUICE_TEST_LONG") == "" {
		t.Skip("set SLUICE_TEST_LONG to run servers of other projects")
	}
	for _, p := range realPeers() {
		t.Run(p.profile, func(t *testing.T) {
			prof, err := profiles(t).Get(p.profile)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(prof.Ran, func(r profile.Run) bool { return r.Test == t.Name() && strings.HasPrefix(r.Version, p.version+" ") }) {
				t.Errorf("the profile does not say that %s %s ran in %s", p.profile, p.version, t.Name())
			}
			up := p.start(t)
			becomeReady(t, prof, up)
			t.Run("cases", func(t *testing.T) { holdToRecord(t, prof, p, up) })
			t.Run("engine", func(t *testing.T) { answersThroughEngine(t, prof, up) })
		})
	}
}

// launch starts a server that says what it does on its outputs. It ends with the test, and what it started with it.
func launch(t *testing.T, env []string, program string, args ...string) running {
	t.Helper()
	cmd := exec.Command(program, args...)
	said := &bytes.Buffer{}
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = append(os.Environ(), env...), t.TempDir(), said, said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-ended
		if t.Failed() {
			t.Logf("%s said:\n%s", filepath.Base(program), said.String()[max(0, said.Len()-6000):])
		}
	})
	return running{said: said, ended: ended}
}

// freePort returns a port of the loopback that was free just now.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
}

// becomeReady waits until the profile's own question says that the server takes requests.
func becomeReady(t *testing.T, prof *profile.Profile, up running) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	p, err := peer.New(peer.Config{Profile: prof, URL: up.url, Key: up.key})
	if err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		state, err := p.Health(ctx)
		if state == peer.Ready {
			return
		}
		select {
		case <-tick.C:
		case <-up.ended:
			t.Fatalf("the server ended before it was ready:\n%s", up.said.String()[max(0, up.said.Len()-6000):])
		case <-ctx.Done():
			t.Fatalf("the server is not ready: %s, %v", state, err)
		}
	}
}

// holdToRecord runs the cases and compares what they come to with the record.
func holdToRecord(t *testing.T, prof *profile.Profile, p realPeer, up running) {
	t.Helper()
	r, err := conform.Run(t.Context(), conform.Config{
		Peer: peer.Config{Profile: prof, URL: up.url, Key: up.key}, Timeout: 3 * time.Minute, FreeWithin: 20 * time.Second, MovesWithin: 20 * time.Second,
		Destructive: p.load > 0, Load: p.load, Software: "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.Grade != capability.E3 || r.Target.Simulated || r.Target.Version != p.version && prof.Version.Path != "" {
		t.Errorf("grade %s of %+v, want E3 of %s", r.Grade, r.Target, p.version)
	}
	var got strings.Builder
	fmt.Fprintf(&got, "# %s %s\n", p.profile, p.version)
	for _, o := range r.Cases {
		t.Logf("CP-%d: %s %s %q, %s", o.Case, o.Result, o.Reason.En, o.Evidence, o.Took)
		line := fmt.Sprintf("CP-%d %s", o.Case, o.Result)
		if o.Reason.En != "" {
			line += ": " + o.Reason.En
		}
		got.WriteString(line + "\n")
	}
	path := filepath.Join("testdata", "peers", p.profile+".txt")
	if os.Getenv("SLUICE_UPDATE") != "" {
		if err := os.WriteFile(path, []byte(got.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || got.String() != string(want) {
		t.Errorf("the record %s is no longer true (%v); it says\n%s\nand now it is\n%s", path, err, want, got.String())
	}
}

// answersThroughEngine asks the server through the remote engine, as the gateway does: in pieces, in one piece, and for a model that is not there.
func answersThroughEngine(t *testing.T, prof *profile.Profile, up running) {
	t.Helper()
	p, err := peer.New(peer.Config{Profile: prof, URL: up.url, Key: up.key})
	if err != nil {
		t.Fatal(err)
	}
	models, err := p.Models(t.Context())
	if err != nil || len(models) == 0 {
		t.Fatalf("models %v, %v", models, err)
	}
	e, err := remote.New(remote.Config{
		BaseURL: up.url + prof.Endpoints.Base, APIKey: keyring.Inline(up.key), AllowPrivate: []string{"127.0.0.0/8"},
		Models: []remote.ModelConfig{
			{ID: "chat", Upstream: models[0].ID, Dialect: prof.Name, ContextTokens: 1024},
			{ID: "gone", Upstream: "no-such-model-4711", Dialect: prof.Name, ContextTokens: 1024},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	ask := func(model engine.ModelID, whole bool) (string, *engine.Usage, error) {
		var text strings.Builder
		for ev, err := range enginetest.Ask(t.Context(), e, &engine.Request{
			Model: model, Messages: []engine.Message{{Role: "user", Content: "Say something about a river."}}, MaxTokens: 8, Logprobs: -1, NonStreaming: whole,
		}) {
			if err != nil {
				return text.String(), nil, err
			}
			text.WriteString(ev.Text)
			if ev.Usage != nil {
				return text.String(), ev.Usage, nil
			}
		}
		return text.String(), nil, errors.New("it ended without counts")
	}
	for _, whole := range []bool{false, true} {
		text, u, err := ask("chat", whole)
		if err != nil || text == "" || u.PromptTokens <= 0 || u.CompletionTokens <= 0 || u.CompletionTokens > 8 {
			t.Errorf("in one piece %t: %q, %+v, %v", whole, text, u, err)
		}
	}
	if _, _, err := ask("gone", false); prof.Errors.WrongModel != 0 && !fault.Is(err, fault.CodeModelNotFound) {
		t.Errorf("a model that is not there: %v", err)
	}
}

// startDynamo starts the frontend of NVIDIA Dynamo and its mock engine, which draws tokens of a real tokenizer and takes as long as an accelerator would.
// They find each other by files, so that neither etcd nor NATS is needed.
func startDynamo(t *testing.T) running {
	t.Helper()
	python := testpython.Python(t, "dynamo", "peers")
	model := filepath.Join(t.TempDir(), "river")
	writeTokenizer(t, testmodel.Path(t, testmodel.SmolLM2), model, 2048)
	env := []string{
		"DYN_DISCOVERY_BACKEND=file", "DYN_FILE_KV=" + t.TempDir(), "DYN_REQUEST_PLANE=tcp", "DYN_EVENT_PLANE=zmq", "DYN_TCP_RPC_HOST=127.0.0.1",
		"DYN_TCP_RESPONSE_STREAM_HOST=lo", "DYN_LOG=warn", "HF_HUB_OFFLINE=1", "HOME=" + t.TempDir(),
	}
	port := freePort(t)
	up := launch(t, env, python, "-m", "dynamo.frontend", "--http-host", "127.0.0.1", "--http-port", port)
	launch(t, env, python, "-m", "dynamo.mocker", "--model-path", model, "--max-model-len", "2048")
	up.url = "http://127.0.0.1:" + port
	return up
}

// startLiteLLM starts the proxy of LiteLLM before the server of llama.cpp. It asks for nothing outside.
func startLiteLLM(t *testing.T) running {
	t.Helper()
	python := testpython.Python(t, "litellm", "peers")
	behind := testpython.LlamaServer(t, testmodel.Path(t, testmodel.SmolLM2), "chat", filepath.Join("..", "chattemplate", "testdata", "templates", "qwen25.jinja"))
	secret := make([]byte, 24)
	_, _ = rand.Read(secret)
	key := "sk-" + hex.EncodeToString(secret)
	config := filepath.Join(t.TempDir(), "config.yaml")
	text := fmt.Sprintf(`
model_list:
  - {model_name: river, litellm_params: {model: openai/river, api_base: %q, api_key: none}}
litellm_settings: {telemetry: false}
general_settings: {master_key: %s}
`, behind.String()+"/v1", key)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	up := launch(t, []string{"LITELLM_LOCAL_MODEL_COST_MAP=True", "LITELLM_TELEMETRY=False", "NO_PROXY=*", "HOME=" + t.TempDir()},
		filepath.Join(filepath.Dir(python), "litellm"), "--config", config, "--host", "127.0.0.1", "--port", port, "--num_workers", "1")
	up.url, up.key = "http://127.0.0.1:"+port, key
	return up
}
