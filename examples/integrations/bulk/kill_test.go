package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// The test binary is the program where BULK_PROGRAM is set.
func TestMain(m *testing.M) {
	if os.Getenv("BULK_PROGRAM") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// program starts the program.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Env = append(os.Environ(), "BULK_PROGRAM=1")
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	return cmd
}

// An answeringSite has pages at any path, and knows what it has answered and been asked.
type answeringSite struct {
	*recordingServer
	mu       sync.Mutex
	answered map[string]int
	tenth    chan struct{} // closed at the tenth answer
	once     sync.Once
}

func startAnswering(t *testing.T) *answeringSite {
	t.Helper()
	s := &answeringSite{answered: make(map[string]int), tenth: make(chan struct{})}
	s.recordingServer = count(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/plain")
		fmt.Fprint(w, r.URL.Path)
		_ = http.NewResponseController(w).Flush()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.answered[r.URL.Path]++; len(s.answered) == 10 {
			s.once.Do(func() { close(s.tenth) })
		}
	})
	return s
}

// halfWay starts a crawl of 40 pages, and returns it when ten of them are answered, with the
// arguments to start it again.
func (s *answeringSite) halfWay(t *testing.T, o options) (crawl *exec.Cmd, args []string) {
	t.Helper()
	args = append([]string{"-db", o.db, "-mode", "direct", "-delay", "20ms"}, s.urls(40)...)
	crawl = program(t, args...)
	if err := crawl.Start(); err != nil {
		t.Fatal(err)
	}
	<-s.tenth
	return crawl, args
}

func (s *answeringSite) urls(n int) (urls []string) {
	for i := range n {
		urls = append(urls, fmt.Sprintf("%s/%d", s.URL, i))
	}
	return urls
}

// Ctrl-C loses nothing that was answered, and the next run goes on: no page is asked for twice.
func TestInterruptLosesNothingThatWasAnswered(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Log("there are no signals")
		return
	}
	withEach(t, func(t *testing.T, settings func(...string) options) {
		s := startAnswering(t)
		o := settings()
		first, args := s.halfWay(t, o)
		if err := first.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		if err := first.Wait(); err == nil {
			t.Error("the status of a run that was interrupted is 0")
		}
		s.mu.Lock()
		answered := len(s.answered)
		s.mu.Unlock()
		if stored := rows(t, o); len(stored) != answered || answered >= 40 {
			t.Errorf("%d rows of %d answers, want all of them, and an interruption", len(stored), answered)
		}
		checkPrivate(t, filepath.Dir(o.db))

		if err := program(t, args...).Run(); err != nil {
			t.Error(err)
		}
		s.checkStored(t, rows(t, o), 40, 1)
	})
}

// A kill loses what was under way and not more: those pages are asked for again.
func TestKillLosesOneBatchAtMost(t *testing.T) {
	withEach(t, func(t *testing.T, settings func(...string) options) {
		s := startAnswering(t)
		o := settings()
		first, _ := s.halfWay(t, o)
		if err := first.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = first.Wait()
		before := len(rows(t, o))
		if err := program(t, "-db", o.db, "-mode", "direct", "-delay", "20ms", s.URL+"/0").Run(); err != nil { // the others are known
			t.Error(err)
		}
		s.checkStored(t, rows(t, o), 40, 2)
		twice := 0
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, n := range s.answered {
			twice += n - 1
		}
		t.Logf("%d rows after the kill, %d pages asked for twice", before, twice)
	})
}

// checkStored checks that there are n rows with what the site has answered, at most times each.
func (s *answeringSite) checkStored(t *testing.T, stored map[string]*page, n, times int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(stored) != n || len(s.answered) != n {
		t.Errorf("%d rows of %d pages answered, want %d", len(stored), len(s.answered), n)
	}
	for path, p := range stored {
		if string(p.Body) != path || p.Status != 200 {
			t.Errorf("row %+v, body %q", p, p.Body)
		}
	}
	for path, asked := range s.answered {
		if asked > times {
			t.Errorf("%s was asked for %d times", path, asked)
		}
	}
}

// checkPrivate checks that only the owner can read what is in a directory.
func checkPrivate(t *testing.T, dir string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is %v", path, info.Mode())
		}
		files++
		return err
	})
	if err != nil || files == 0 {
		t.Errorf("%d files, %v", files, err)
	}
}

// A person sees within two seconds why nothing happens.
func TestConsoleSaysWhyNothingHappens(t *testing.T) {
	t.Parallel()
	s := count(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	reader, writer := io.Pipe()
	defer reader.Close()
	ended := make(chan error)
	go func() {
		ended <- run(ctx, io.Discard, writer, settings(t, "crawl.sqlite", "-mode", "direct", s.URL+"/a"))
	}()
	said := false
	for lines := bufio.NewScanner(reader); !said && lines.Scan(); {
		said = strings.Contains(lines.Text(), "host blocked") && strings.Contains(lines.Text(), "429")
	}
	if !said {
		t.Error("the console says nothing of the block")
	}
	go func() { _, _ = io.Copy(io.Discard, reader) }()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
