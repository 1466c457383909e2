package promises_test

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/statedir"
	"github.com/go-politeness/politeness/politenesstest"
)

const heldStateEnv = "POLITENESS_TEST_HELD_STATE"

// othersStateEnv is the directory of the state that TestStateIsAnothers looks at.
const othersStateEnv = "POLITENESS_TEST_OTHERS_STATE"

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

// TestStateIsAnothers is the third process of TestAStateIsTakenOver: it prints who has the state.
func TestStateIsAnothers(t *testing.T) {
	dir := os.Getenv(othersStateEnv)
	if dir == "" {
		return // it is the test below that runs this one
	}
	_, err := politeness.New(politeness.Config{UserAgent: agent, StateWait: -1}.WithState(dir))
	fmt.Println(err)
}

// holdState starts a process that holds the state in dir until it is killed, and returns it once it
// does.
func holdState(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	other := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestStateIsHeld$", "-test.count=1")
	other.Env = append(os.Environ(), heldStateEnv+"="+dir)
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = other.Process.Kill()
		_ = other.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	return other
}

// TestAStateIsTakenOver: a process that went on beside another takes the state when that has ended,
// so a third process is told of it. If the third has come first, the second tells of the third.
func TestAStateIsTakenOver(t *testing.T) {
	t.Parallel() // it waits in real time
	if !statedir.LocksEnd {
		t.Skip("other processes aren't noticed on this system")
	}
	web := politenesstest.NewWeb()
	web.Site("https://example.com").Handle("/", politenesstest.Text("hello"))
	dir := filepath.Join(t.TempDir(), "state")
	first := holdState(t, dir)
	records := new(evidence.Recorder)
	cfg := politeness.Config{UserAgent: agent, Base: web, Evidence: records}.WithState(dir)
	cfg.Hosts.Delay.Min = time.Millisecond
	client := &http.Client{Transport: mustNew(t, cfg)}
	// until makes requests until isSo.
	until := func(what string, isSo func() bool) {
		t.Helper()
		for begin := time.Now(); !isSo(); time.Sleep(20 * time.Millisecond) {
			if time.Since(begin) > time.Minute {
				t.Fatalf("a minute without %s", what)
			}
			if _, err := fetch(t.Context(), client, "https://example.com/"); err != nil {
				t.Fatal(err)
			}
		}
	}
	shared := func(by *exec.Cmd) bool {
		who := fmt.Sprintf("process %d ", by.Process.Pid)
		return slices.ContainsFunc(records.Decisions(), func(d evidence.Decision) bool {
			return d.Type == evidence.StateShared && strings.HasPrefix(d.Reason, who)
		})
	}
	if !shared(first) {
		t.Fatalf("records: %+v", records.Decisions())
	}

	_ = first.Process.Kill()
	_ = first.Wait()
	second := holdState(t, dir) // it comes before the next request of this process
	until("a record of the further process", func() bool { return shared(second) })

	_ = second.Process.Kill()
	_ = second.Wait()
	own := fmt.Sprintf("process %d ", os.Getpid())
	until("the lock", func() bool {
		lock, err := os.ReadFile(filepath.Join(dir, "hosts", "lock"))
		return err == nil && strings.Contains(string(lock), own)
	})
	third := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestStateIsAnothers$", "-test.count=1")
	third.Env = append(os.Environ(), othersStateEnv+"="+dir)
	out, err := third.Output()
	if err != nil || !strings.Contains(string(out), own) {
		t.Errorf("a third process: %q, %v; want %q", out, err, own)
	}
}

// TestASecondProcessIsNoticed at New, with who has the state and what to do. StateWait chooses
// between going on, an error, and waiting; a killed process holds nothing.
func TestASecondProcessIsNoticed(t *testing.T) {
	t.Parallel() // it waits in real time
	if !statedir.LocksEnd {
		t.Skip("other processes aren't noticed on this system")
	}
	dir := filepath.Join(t.TempDir(), "state")
	other := holdState(t, dir)
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
