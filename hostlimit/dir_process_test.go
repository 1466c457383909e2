package hostlimit

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-politeness/politeness/internal/statedir"

	"github.com/go-politeness/politeness/internal/soak"
)

// In the environment of a process that only counts: in which directory, and how far.
const (
	counterDirEnv  = "HOSTLIMIT_TEST_COUNTER_DIR"
	counterUpToEnv = "HOSTLIMIT_TEST_COUNTER_UP_TO"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(counterDirEnv); dir != "" {
		upTo, err := strconv.Atoi(os.Getenv(counterUpToEnv))
		if err == nil {
			err = count(dir, upTo)
		}
		if err != nil {
			panic(err)
		}
		return
	}
	os.Exit(m.Run())
}

// count adds upTo to the debtor's refusals, one by one, and writes what the
// counter became to standard output once it is kept.
func count(dir string, upTo int) error {
	s := dirAt(dir)
	for n := 0; n < upTo; {
		d, err := s.Update(context.Background(), debtor, func(d Debt) Debt { d.Refusals++; return d })
		if errors.Is(err, statedir.ErrLocked) { // a busy machine
			continue
		} else if err != nil {
			return err
		}
		n++
		if err := binary.Write(os.Stdout, binary.BigEndian, int64(d.Refusals)); err != nil {
			return err
		}
		// A pause, in which others come by the lock.
		time.Sleep(rand.N(500 * time.Microsecond))
	}
	return nil
}

// counter is a process that counts.
func counter(t *testing.T, dir string, upTo int) *exec.Cmd {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = append(os.Environ(), counterDirEnv+"="+dir, counterUpToEnv+"="+strconv.Itoa(upTo))
	cmd.Stderr = os.Stderr
	return cmd
}

// TestDirLosesNoUpdate of several processes, which use one key at once.
func TestDirLosesNoUpdate(t *testing.T) {
	const processes, updates = 3, 60
	dir := t.TempDir()
	var wg sync.WaitGroup
	for range processes {
		cmd := counter(t, dir, updates)
		wg.Go(func() {
			if err := cmd.Run(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if d := mustUpdate(t, dirAt(dir), debtor, unchanged); d.Refusals != processes*updates {
		t.Errorf("%d of %d updates", d.Refusals, processes*updates)
	}
}

// TestDirSurvivesKill: a process is killed at random instants and begun anew.
// What it was told is kept stays kept, at most the update under way is more, the
// file is never garbage, and the lock is free.
func TestDirSurvivesKill(t *testing.T) {
	dir := t.TempDir()
	kept, kills := 0, 0
	for seed := range soak.Seeds(t, 30, 30) {
		r := rand.New(rand.NewPCG(seed, 21))
		kills++
		cmd := counter(t, dir, 1<<30)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		told := int64(0)
		if err := binary.Read(out, binary.BigEndian, &told); err != nil { // it has begun
			t.Fatal(err)
		}
		time.AfterFunc(time.Duration(r.Int64N(int64(5*time.Millisecond))), func() { _ = cmd.Process.Kill() })
		for err == nil {
			if int(told) <= kept {
				t.Fatalf("kill %d: the counter went from %d to %d", kills, kept, told)
			}
			kept = int(told)
			err = binary.Read(out, binary.BigEndian, &told)
		}
		if !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err == nil {
			t.Fatal("it ended by itself")
		}
		// A lock that is still held would be an error.
		d, err := dirAt(dir).Update(t.Context(), debtor, func(d Debt) Debt { d.Refusals++; return d })
		if before := d.Refusals - 1; err != nil || before != kept && before != kept+1 {
			t.Fatalf("kill %d: told that %d is kept, and it was %d, %v", kills, kept, before, err)
		}
		kept = d.Refusals
	}
	left, err := filepath.Glob(filepath.Join(dir, "*", "*.tmp"))
	if err != nil || len(left) > kills {
		t.Errorf("%d files left by %d kills, %v", len(left), kills, err)
	}
	t.Logf("%d kills, %d updates, %d files left", kills, kept, len(left))
}
