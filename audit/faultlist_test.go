package audit

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// faultList is every fault that the audit log must survive, or show, and the tests that hold it to that: directory, test and, behind a
// slash, the case. A fault that touches the database is tested on both, any other on SQLite alone.
var faultList = []struct {
	fault string
	tests []string
}{
	{"kill -9 at random points under load, during rotation, shipping, sealing, pinning, with a slow database, with a spool", []string{
		"audit TestKillAtRandomMoments", "server TestKillDuringStreams", "audit TestDiesBeforeTheHeader", "audit/wal TestTornTail",
	}},
	{"the disk is full", []string{
		"audit TestDiskFullThenSpace", "audit TestEveryWriteFailure", "audit TestEveryCacheFailure", "audit TestEveryRecoveryFailure",
		"server/cmd/sluice TestFullDisk", "audit TestBudget",
	}},
	{"the disk fails (EIO), with the bytes not persisted or persisted, at every operation of appending and rotating", []string{
		"audit TestEveryWriteFailure", "audit TestFailedRecordIsNotShipped", "audit TestModes/nothing persisted", "audit TestModes/persisted",
	}},
	{"the same at every operation of pinning and retiring", []string{"audit TestEveryCacheFailure"}},
	{"the same at every operation of a start over a wreck, and of recovery", []string{"audit TestEveryRecoveryFailure"}},
	{"fsync is slow", []string{"audit/wal TestSlowDisk"}},
	{"a device hangs", []string{"audit TestHungDevice", "audit TestHungDeviceSpools"}},
	{"every statement of shipping and sealing fails, before or after it was carried out", []string{"audit TestEveryDatabaseFailure"}},
	{"the database is down for a minute under load: locked, refused or silent", []string{
		"audit TestDatabaseDownUnderLoad", "audit TestSilentDatabase", "audit TestDatabaseAway",
	}},
	{"a record is delivered twice", []string{"audit TestDuplicateDelivery", "audit TestEveryDatabaseFailure"}},
	{"two replicas, and one sealer paused in its transaction while the other takes over", []string{
		"audit TestPausedSealer", "audit TestPausedShipper", "audit TestTwoReplicas", "audit TestLeaseKeepsOneSealer",
	}},
	{"a replica never comes back", []string{"audit TestRecover", "audit TestRecoverOverAnother", "audit TestSpoolSurvivesTheProcess"}},
	{"the clock jumps back", []string{"audit TestClockJumpsBack"}},
	{"the database is restored from yesterday's copy: the witness objects", []string{
		"server TestWitnessObjectsToYesterdaysCopy", "server TestWitnessObjectsToYesterdaysDatabase", "audit/witness TestObjections/an older copy",
	}},
	{"the tail is cut", []string{"audit TestRewrites/truncate the end", "audit TestRewrites/delete the last unsealed record", "audit/witness TestObjections/the newest record gone"}},
	{"a record in the middle is altered in the database", []string{
		"audit TestEveryColumnIsCovered", "audit TestRewrites/change a record and all its hashes", "server TestTamper", "server TestFlippedBytes",
	}},
	{"a record in the middle is altered in the write-ahead log, also with its checksum", []string{
		"audit TestDamageInTheMiddle", "audit TestFilesAreCovered", "audit TestLastShippedWALRecordIsNamed", "audit TestAlteredInTheLog",
	}},
	{"a record in the middle is altered in the tree", []string{"audit TestTreeTablesAreCovered", "audit TestRewrites/change a record and all its hashes"}},
	{"a record is removed or slipped in", []string{
		"audit TestRewrites/delete a record", "audit TestRewrites/delete a record and its position", "audit TestRewrites/insert a record among sealed ones",
	}},
	{"records are swapped", []string{"audit TestRewrites/swap two records", "audit TestRewrites/swap two positions with their hashes"}},
	{"the checkpoint key is replaced", []string{
		"audit TestRewrites/replace the checkpoint by one of another key", "audit TestEveryCheckpointSignedAnew", "audit/witness TestObjections/another key",
	}},
	{"two readers are shown a fork", []string{"audit TestForkShownToTwoReaders", "audit TestForkIsRefused", "audit/witness TestTwoWitnesses"}},
}

// TestFaultListIsHonest: every test that the list names exists, with its case.
func TestFaultListIsHonest(t *testing.T) {
	bodies := map[string]string{} // of the tests, by directory and name
	for _, line := range faultList {
		if len(line.tests) == 0 {
			t.Errorf("nothing tests: %s", line.fault)
		}
		for _, test := range line.tests {
			dir, name, _ := strings.Cut(test, " ")
			name, part, _ := strings.Cut(name, "/")
			if bodies[dir] == "" {
				readTests(t, dir, bodies)
			}
			body, ok := bodies[dir+" "+name]
			if !ok {
				t.Errorf("%s: there is no test %s in %s", line.fault, name, dir)
			}
			if part != "" && !strings.Contains(body, strconv.Quote(part)) {
				t.Errorf("%s: %s has no case %q", line.fault, name, part)
			}
		}
	}
}

// readTests adds the text of every test in a directory of the repository.
func readTests(t *testing.T, dir string, bodies map[string]string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(dir), "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests in %s: %v", dir, err)
	}
	bodies[dir] = "read"
	for _, path := range files {
		text, err := os.ReadFile(path)
		must(t, err)
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, text, 0)
		must(t, err)
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				bodies[dir+" "+f.Name.Name] = string(text[set.Position(f.Pos()).Offset:set.Position(f.End()).Offset])
			}
		}
	}
}
