package promises_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/statedir"
)

const heldStateEnv = "POLITENESS_TEST_HELD_STATE"

// TestStateIsHeld is the other process of TestASecondProcessIsNoticed: it uses the state until it is
// killed.
func TestStateIsHeld(t *testing.T) {
	dir := os.Getenv(heldStateEnv)
	if dir == "" {
		return // it is the test below that runs this one
	}
	mustNew(t, politeness.Config{UserAgent: agent}.WithState(dir))
	fmt.Println("ready")
	time.Sleep(time.Minute)
}

// TestASecondProcessIsNoticed at New, with who has the state and what to do. StateWait chooses
// between going on, an error, and waiting; a killed process holds nothing.
func TestASecondProcessIsNoticed(t *testing.T) {
	t.Parallel() // it waits in real time
	if !statedir.LocksEnd {
		t.Skip("other processes aren't noticed on this system")
	}
	dir := filepath.Join(t.TempDir(), "state")
	other := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestStateIsHeld$", "-test.count=1")
	other.Env = append(os.Environ(), heldStateEnv+"="+dir)
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Wait() }()
	defer func() { _ = other.Process.Kill() }()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	who := fmt.Sprintf("process %d (%s) on ", other.Process.Pid, filepath.Base(os.Args[0]))

	// The default goes on, and tells before any request.
	records := new(evidence.Recorder)
	cfg := politeness.Config{UserAgent: agent, Evidence: records}.WithState(dir)
	tr := mustNew(t, cfg)
	all := records.Decisions()
	if len(all) != 2 || all[1].Type != evidence.StateShared || !strings.HasPrefix(all[1].Reason, who) ||
		!strings.Contains(all[1].Reason, "Config.StateWait") || len(all[0].Policy.State) != 16 {
		t.Errorf("records: %+v", all)
	}
	if err := tr.EvidenceErr(); err == nil || !strings.Contains(err.Error(), who) {
		t.Errorf("EvidenceErr: %v", err)
	}

	// A store that was set by hand is noticed as well.
	own := politeness.Config{UserAgent: agent, StateWait: -1}
	own.Hosts.Store = hostlimit.Dir(filepath.Join(dir, "hosts"))
	if _, err := politeness.New(own); !errors.Is(err, politeness.ErrStateHeld) || !strings.Contains(err.Error(), who) {
		t.Errorf("a store of one's own: %v", err)
	}
	for _, wait := range []time.Duration{-1, 50 * time.Millisecond} {
		cfg.StateWait = wait
		if _, err := politeness.New(cfg); !errors.Is(err, politeness.ErrStateHeld) || !strings.Contains(err.Error(), who) {
			t.Errorf("StateWait %v: %v", wait, err)
		}
	}

	// The end of the other one ends the wait, and nothing is shared any more.
	kill := time.AfterFunc(100*time.Millisecond, func() { _ = other.Process.Kill() })
	defer kill.Stop()
	cfg.StateWait = time.Minute
	cfg.Evidence = new(evidence.Recorder)
	if tr, err := politeness.New(cfg); err != nil || tr.EvidenceErr() != nil {
		t.Errorf("after the end of the other process: %v", err)
	}
	for range 2 { // Transports of one process share the state
		records := new(evidence.Recorder)
		cfg.Evidence = records
		cfg.StateWait = -1
		if _, err := politeness.New(cfg); err != nil || len(records.Decisions()) != 0 {
			t.Errorf("a further Transport: %v, %+v", err, records.Decisions())
		}
	}
}
