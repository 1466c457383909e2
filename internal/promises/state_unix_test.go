//go:build unix

package promises_test

import (
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
)

// TestPipesInTheStateDirectoryHangNothing: what isn't a regular file is refused unopened, and each
// page is fetched all the same.
func TestPipesInTheStateDirectoryHangNothing(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/refused" {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer site.Close()
	dir := filepath.Join(t.TempDir(), "state")
	cfg := politeness.Config{UserAgent: agent, Base: new(http.Transport)}.WithState(dir)
	client := &http.Client{Transport: mustNew(t, cfg)}
	if _, err := fetch(t.Context(), client, site.URL+"/refused"); err != nil {
		t.Fatal(err)
	}
	pipes := 0
	if err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		pipes++
		if err := os.Remove(name); err != nil {
			return err
		}
		return syscall.Mkfifo(name, 0o600)
	}); err != nil {
		t.Fatal(err)
	}
	if pipes < 3 {
		t.Fatalf("%d files", pipes)
	}
	tr := mustNew(t, cfg)
	ended := make(chan error, 1)
	go func() {
		_, err := fetch(t.Context(), &http.Client{Transport: tr}, site.URL+"/")
		ended <- err
	}()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the fetch hangs")
	}
	if err := tr.EvidenceErr(); err == nil || !strings.Contains(err.Error(), "isn't a regular file") {
		t.Errorf("EvidenceErr: %v", err)
	}
}

const stateSite = "POLITENESS_TEST_STATE_SITE"

// TestStateOfManyProcesses fetches one page, as one of the processes of
// TestProcessesOnAnEmptyDirectoryFetchRobotsOnce.
func TestStateOfManyProcesses(t *testing.T) {
	site, dir, ok := strings.Cut(os.Getenv(stateSite), " ")
	if !ok {
		return // it is the test below that runs this one
	}
	client := &http.Client{Transport: mustNew(t, politeness.Config{UserAgent: agent, Base: new(http.Transport)}.WithState(dir))}
	if _, err := fetch(t.Context(), client, site+"/page"); err != nil {
		t.Fatal(err)
	}
}

// TestProcessesOnAnEmptyDirectoryFetchRobotsOnce: those that are started at once share the fetch of
// the first.
func TestProcessesOnAnEmptyDirectoryFetchRobotsOnce(t *testing.T) {
	t.Parallel() // it waits in real time
	var robots, pages atomic.Int32
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			robots.Add(1)
			time.Sleep(2 * time.Second) // all the others come meanwhile
			fmt.Fprint(w, "User-agent: *\nAllow: /\n")
			return
		}
		pages.Add(1)
	}))
	defer site.Close()
	dir := filepath.Join(t.TempDir(), "state")
	var processes sync.WaitGroup
	for range 8 {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestStateOfManyProcesses$", "-test.count=1")
		cmd.Env = append(os.Environ(), stateSite+"="+site.URL+" "+dir)
		processes.Go(func() {
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	processes.Wait()
	if robots.Load() != 1 || pages.Load() != 8 {
		t.Errorf("%d fetches of robots.txt and %d pages, want 1 and 8", robots.Load(), pages.Load())
	}
	if err := filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(name, ".tmp") {
			t.Errorf("%s is left", name)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}
