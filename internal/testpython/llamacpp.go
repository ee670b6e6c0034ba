package testpython

import (
	"bufio"
	"bytes"
	"io"
	"net/url"
	"os/exec"
	"strings"
	"testing"
	"time"
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

// LlamaServer starts the server of llama.cpp with a model, a GGUF file, and returns its root. The task is chat, embed or rank; template is the file of
// the template of chats. It ends with the test. Where the server cannot be had, the test is skipped, or fails as Python says.
func LlamaServer(t testing.TB, model, task, template string) *url.URL {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), Python(t, "llamacpp", "llamacpp"), "-c", llamaScript, model, task, template)
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
