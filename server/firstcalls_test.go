package server_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/internal/testnode"
	"github.com/sluice-project/sluice/internal/testpython"
	"github.com/sluice-project/sluice/migrations/dbtest"
	"github.com/sluice-project/sluice/server/adminapi"
)

// TestFirstCalls runs the programs that come with a new key, each as whoever copied it would, and holds those of the guides to them: the same in both
// languages, but for the address and the models. The model answers nothing but the question, so an answer shows that it was asked.
func TestFirstCalls(t *testing.T) {
	in := start(t, setup{remote: "[{id: scripted}, {id: scripted-embed, embed_dim: 32}, {id: scripted-rerank, rerank: true}]"})
	var created adminapi.CreatedKey
	in.admin(http.MethodPost, "/keys", map[string]any{"name": "first"}, &created)
	root := strings.TrimSuffix(in.started.BaseURL, "/v1")
	var kinds []string
	for _, call := range created.FirstCalls {
		kinds = append(kinds, call.Dialect+"."+call.Language)
		if strings.Contains(call.Text, created.Secret) {
			t.Errorf("%s.%s holds the secret", call.Dialect, call.Language)
		}
		for _, guide := range []string{"first-calls.md", "first-calls.zh-CN.md"} {
			raw, err := os.ReadFile("../docs/guides/" + guide)
			if err != nil {
				t.Fatal(err)
			}
			there := strings.NewReplacer(root, "https://sluice.example", "scripted-embed", "multilingual-e5-small", "scripted-rerank", "bge-reranker", "scripted", "smollm2-135m-instruct").Replace(call.Text)
			if block := "```" + call.Language + "\n" + there + "```"; !strings.Contains(string(raw), block) {
				t.Errorf("%s does not have\n%s", guide, block)
			}
		}
		t.Run(call.Dialect+"."+call.Language, func(t *testing.T) {
			t.Parallel()
			cmd := firstCall(t, call)
			cmd.Env = append(os.Environ(), "SLUICE_API_KEY="+created.Secret, "no_proxy=127.0.0.1", "GOFLAGS=", "GOWORK=off")
			out, err := cmd.CombinedOutput()
			want := map[string]string{"cohere": `"results":[{"index":1`, "open_inference": `"embedding"`}[call.Dialect]
			if want == "" {
				want = "Hello"
			}
			if err != nil || !strings.Contains(string(out), want) {
				t.Errorf("%v\n%s\n%s", err, call.Text, out)
			}
		})
	}
	wanted := []string{"anthropic.go", "anthropic.java", "anthropic.py", "anthropic.sh", "anthropic.ts", "cohere.sh", "ollama.sh", "open_inference.sh", "openai.go", "openai.java", "openai.py", "openai.sh", "openai.ts"}
	if slices.Sort(kinds); !slices.Equal(kinds, wanted) {
		t.Errorf("a new key comes with %v", kinds)
	}
	var second adminapi.CreatedKey
	in.admin(http.MethodPost, "/keys/"+created.Key.Id+"/rotate", map[string]any{}, &second)
	if len(second.FirstCalls) != len(wanted) {
		t.Errorf("a new secret comes with %d programs", len(second.FirstCalls))
	}
}

// firstCall is what runs a program of those languages, where the machine has it.
func firstCall(t *testing.T, call adminapi.FirstCall) *exec.Cmd {
	t.Helper()
	// Node 20 runs no TypeScript; what has no types is JavaScript, too.
	file := filepath.Join(t.TempDir(), map[string]string{"sh": "call.sh", "py": "call.py", "go": "main.go", "ts": "call.mjs", "java": "FirstCall.java"}[call.Language])
	if err := os.WriteFile(file, []byte(call.Text), 0o600); err != nil {
		t.Fatal(err)
	}
	switch call.Language {
	case "py":
		python := testpython.Python(t, map[string]string{"openai": "openai-3", "anthropic": "anthropic-2"}[call.Dialect], "python")
		return exec.CommandContext(t.Context(), python, file)
	case "ts":
		node, script := testnode.Script(t, map[string]string{"openai": "openai-7", "anthropic": "anthropic-1"}[call.Dialect], "node", file)
		return exec.CommandContext(t.Context(), node, script)
	case "go":
		dbtest.Programs(t, "go")
		cmd := exec.CommandContext(t.Context(), "go", "run", file)
		cmd.Dir = filepath.Dir(file)
		return cmd
	case "java":
		dbtest.Programs(t, "javac") // of a JDK: java alone does not compile
		return exec.CommandContext(t.Context(), "java", file)
	default:
		dbtest.Programs(t, "sh", "curl")
		return exec.CommandContext(t.Context(), "sh", file)
	}
}
