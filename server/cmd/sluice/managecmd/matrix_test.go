package managecmd

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

// TestMatrixIsPrinted: a cell shows its grade where the feature may be used, says where a condition decides, and shows no grade where it may not.
func TestMatrixIsPrinted(t *testing.T) {
	t.Parallel()
	engine, version, vendor := "vllm", "0.11.0", "huawei"
	rows := []adminapi.EngineMatrixRow{
		{Pool: "chat", Instance: "gpu-1", Model: "qwen", State: "ready", Engine: &engine, Version: &version, Device: &adminapi.EngineDevice{Vendor: &vendor}, Cells: []adminapi.EngineMatrixCell{
			{Feature: "chat", Status: "validated", Grade: "E3", Usable: "yes"},
			{Feature: "tools", Status: "claimed", Grade: "E1", Usable: "depends"},
			{Feature: "echo", Status: "claimed", Grade: "E2", Usable: "no"},
		}},
		{Pool: "chat", Instance: "old", Model: "qwen", State: "sick", Cells: []adminapi.EngineMatrixCell{{Feature: "chat", Status: "listed", Grade: "E0", Usable: "yes"}}},
	}
	var out bytes.Buffer
	if err := (&app{&cli.App{Stdout: &out}}).printMatrix(rows, []string{"chat", "tools", "echo"}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"POOL INSTANCE MODEL ENGINE DEVICE STATE CHAT TOOLS ECHO", "chat gpu-1 qwen vllm 0.11.0 huawei ready E3 E1? –", "chat old qwen sick listed – –",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s", out.String())
	}
}

// TestMatrixColumns: a feature that the server does not know is refused with those that it knows; "all" is every one.
func TestMatrixColumns(t *testing.T) {
	t.Parallel()
	known := []string{"chat", "tools", "echo"}
	if got, err := matrixColumns([]string{"all"}, known); err != nil || len(got) != 3 {
		t.Errorf("%v %v", got, err)
	}
	if got, err := matrixColumns([]string{"echo", "chat"}, known); err != nil || strings.Join(got, " ") != "echo chat" {
		t.Errorf("%v %v", got, err)
	}
	if _, err := matrixColumns([]string{"chat", "tool"}, known); err == nil || !strings.Contains(err.Error(), "tools") {
		t.Errorf("%v", err)
	}
}

// TestEnginesArePrinted: what an engine does not report is a dash and no zero.
func TestEnginesArePrinted(t *testing.T) {
	t.Parallel()
	slots, page := 64, 1<<20
	load := adminapi.EngineInstanceLoad{Model: "chat", RunningSequences: 3, WaitingSequences: 1, KvPages: 1000, KvPagesInUse: 250}
	full := load
	full.KvPageBytes = &page
	var out bytes.Buffer
	(&app{&cli.App{Stdout: &out}}).printEngines([]adminapi.EngineInstance{
		{Name: "native", Kind: "native", State: "ready", ConcurrencyLimit: &slots, Models: []adminapi.EngineInstanceLoad{full}},
		{Name: "apart", Kind: "worker", State: "ready", Models: []adminapi.EngineInstanceLoad{load}},
	})
	want := "native (native, ready): 64 slots\n  chat: 3 running, 1 waiting, 250 of 1000 pages in use (1000 MiB in all)\n" +
		"apart (worker, ready): – slots\n  chat: 3 running, 1 waiting, 250 of 1000 pages in use (– MiB in all)\n"
	if out.String() != want {
		t.Errorf("%s", out.String())
	}
}
