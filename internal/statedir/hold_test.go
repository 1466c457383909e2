package statedir

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// holdEnv makes the test binary a process that holds the directory of that name until it is killed.
const holdEnv = "POLITENESS_TEST_HOLD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(holdEnv); dir != "" {
		held, err := New(dir, OS{}).Hold(context.Background())
		fmt.Printf("%+v %v\n", held, err)
		time.Sleep(time.Minute) // until it is killed
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// other starts a process that holds dir, and returns it once it does.
func other(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holdEnv+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasSuffix(line, "By:} <nil>\n") {
		t.Fatalf("the other process: %q, %v", line, err)
	}
	return cmd
}

// now returns a context that allows no wait.
func now() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// TestAllRunsFindOneID: goroutines at once agree, and so does a later run.
func TestAllRunsFindOneID(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "hosts")
	ids := make([]string, 8)
	var group sync.WaitGroup
	for i := range ids {
		group.Go(func() {
			held, err := New(dir, OS{}).Hold(now())
			if err != nil || held.By != "" {
				t.Errorf("%+v, %v", held, err)
			}
			ids[i] = held.ID
		})
	}
	group.Wait()
	for _, id := range ids {
		if len(id) != 16 || id != ids[0] {
			t.Fatalf("ids %q", ids)
		}
	}
	another, err := New(filepath.Join(t.TempDir(), "hosts"), OS{}).Hold(now())
	if err != nil || another.ID == ids[0] {
		t.Errorf("another directory: %+v, %v", another, err)
	}
}

// TestADirectoryOfTheSameNameIsAnother: the lock of a directory that was removed holds nothing.
func TestADirectoryOfTheSameNameIsAnother(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "hosts")
	first, err := New(dir, OS{}).Hold(now())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	second, err := New(dir, OS{}).Hold(now())
	if err != nil || second.ID == first.ID || second.By != "" {
		t.Errorf("%+v, %v; before %+v", second, err, first)
	}
}

// TestGarbageInTheLockIsANewID, and a directory in its place is an error.
func TestGarbageInTheLockIsANewID(t *testing.T) {
	for _, text := range []string{"", "\n", "state 1 short\n", "state 1 0123456789abcdef", strings.Repeat("x", 9000)} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "lock"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		held, err := New(dir, OS{}).Hold(now())
		again, againErr := New(dir, OS{}).Hold(now())
		if err != nil || againErr != nil || len(held.ID) != 16 || again != held {
			t.Errorf("%.20q: %+v, %v; %+v, %v", text, held, err, again, againErr)
		}
	}
	later := t.TempDir()
	if err := os.WriteFile(filepath.Join(later, "lock"), []byte("state 2 0123456789abcdef\nwho\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if held, err := New(later, OS{}).Hold(now()); err != nil || held.ID != "0123456789abcdef" {
		t.Errorf("of a later version: %+v, %v", held, err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "lock"), 0o700); err != nil {
		t.Fatal(err)
	}
	if held, err := New(dir, OS{}).Hold(now()); err == nil {
		t.Errorf("a directory in place of the lock: %+v", held)
	}
}

// TestAKilledProcessHoldsNothing: while it runs, others learn who it is and the same id. As soon as
// it is killed, the next one has the lock, also one that waits.
func TestAKilledProcessHoldsNothing(t *testing.T) {
	if !LocksEnd {
		t.Skip("no lock that ends with its process on " + runtime.GOOS)
	}
	dir := filepath.Join(t.TempDir(), "hosts")
	cmd := other(t, dir)
	held, err := New(dir, OS{}).Hold(now())
	want := fmt.Sprintf("process %d (%s) on ", cmd.Process.Pid, filepath.Base(os.Args[0]))
	if err != nil || len(held.ID) != 16 || !strings.HasPrefix(held.By, want) {
		t.Fatalf("beside a process: %+v, %v; want %q", held, err, want)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	killed := time.AfterFunc(100*time.Millisecond, func() { _ = cmd.Process.Kill() })
	defer killed.Stop()
	after, err := New(dir, OS{}).Hold(ctx)
	if err != nil || after.By != "" || after.ID != held.ID {
		t.Errorf("after its end: %+v, %v", after, err)
	}
}
