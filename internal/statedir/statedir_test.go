package statedir

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

const key = "www.example.com"

// TestAbandonedFilesAreRemoved by the next file that is written to their directory
// an hour later; files on their way are left alone.
func TestAbandonedFilesAreRemoved(t *testing.T) {
	d := New(t.TempDir(), OS{})
	name := d.File(key)
	replace := func() {
		t.Helper()
		if err := d.Replace(name, []byte("data"), true); err != nil {
			t.Fatal(err)
		}
	}
	file := func(base string, age time.Duration) string {
		t.Helper()
		f := filepath.Join(filepath.Dir(name), base)
		at := time.Now().Add(-age)
		if err := errors.Join(os.MkdirAll(filepath.Dir(f), 0o700), os.WriteFile(f, nil, 0o600), os.Chtimes(f, at, at)); err != nil {
			t.Fatal(err)
		}
		return f
	}
	exists := func(name string) bool {
		_, err := os.Lstat(name)
		return err == nil
	}
	old, fresh := file("1.tmp", 2*time.Hour), file("2.tmp", 50*time.Minute)
	lock, other := file("lock", 9*time.Hour), file("3f00", 9*time.Hour)
	replace()
	if exists(old) || !exists(fresh) || !exists(lock) || !exists(other) || !exists(name) {
		t.Errorf("old: %v, fresh: %v, lock: %v, other: %v", exists(old), exists(fresh), exists(lock), exists(other))
	}

	old = file("1.tmp", 2*time.Hour)
	if replace(); !exists(old) {
		t.Error("looked for twice within an hour")
	}
	for i := range d.swept {
		d.swept[i].Add(-int64(abandoned / time.Second))
	}
	if replace(); exists(old) {
		t.Error("not looked for an hour later")
	}
}

// TestLockExcludes: one at a time, and whoever waits for it does so in virtual time.
func TestLockExcludes(t *testing.T) {
	path := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d := New(path, OS{})
		name := d.File(key)
		locked := func() error {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			unlock, err := New(path, OS{}).Lock(ctx, name)
			if err == nil {
				unlock()
			}
			return err
		}
		unlock, err := d.Lock(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if err := locked(); !errors.Is(err, ErrLocked) || !errors.Is(err, context.Canceled) {
			t.Errorf("while it is held: %v", err)
		}

		// The wait is bounded even if the context isn't.
		begin := time.Now()
		_, err = d.Lock(context.Background(), name)
		if waited := time.Since(begin); !errors.Is(err, ErrLocked) || waited < maxLockWait || waited > maxLockWait+2*poll {
			t.Errorf("after %v: %v", waited, err)
		}

		// It is had by the first try after it is free.
		time.AfterFunc(time.Second, unlock)
		begin = time.Now()
		unlock, err = d.Lock(t.Context(), name)
		if waited := time.Since(begin); err != nil || waited < time.Second || waited > time.Second+2*poll {
			t.Errorf("after %v: %v", waited, err)
		}
		unlock()
		if err := locked(); err != nil {
			t.Errorf("when it is free: %v", err)
		}
	})
}

// A vanishingFS removes the directory of a lock before the first try at it.
type vanishingFS struct {
	OS
	tries int
}

func (f *vanishingFS) TryLock(name string) (unlock func(), err error) {
	if f.tries++; f.tries == 1 {
		_ = os.RemoveAll(filepath.Dir(name))
	}
	return f.OS.TryLock(name)
}

func TestLockOfADirectoryThatVanished(t *testing.T) {
	d := New(t.TempDir(), OS{})
	name := d.File(key)
	if err := d.Replace(name, nil, false); err != nil {
		t.Fatal(err)
	}
	gone := New(d.path, &vanishingFS{})
	unlock, err := gone.Lock(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}

func FuzzSeal(f *testing.F) {
	f.Add([]byte("data\n"), []byte("a 1 \n"), 3)
	f.Fuzz(func(t *testing.T, data, noise []byte, at int) {
		if got, err := Unseal("a 1", noise); err == nil {
			t.Fatalf("noise holds %q", got)
		}
		sealed := Seal("a 1", data)
		if got, err := Unseal("a 1", sealed); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("%q became %q, %v", data, got, err)
		}
		if got, err := Unseal("a 2", sealed); err == nil {
			t.Fatalf("another version holds %q", got)
		}
		sealed[uint(at)%uint(len(sealed))] ^= 1
		if got, err := Unseal("a 1", sealed); err == nil {
			t.Fatalf("damaged, and not seen: %q", got)
		}
	})
}
