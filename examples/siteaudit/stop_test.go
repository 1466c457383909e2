//go:build unix

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestMain runs the program itself where a test asks for it.
func TestMain(m *testing.M) {
	if os.Getenv("SITEAUDIT_TEST_PROGRAM") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// Ctrl-C, and the end that a container is given, leave nothing lent: the next worker needn't wait.
func TestAWorkerThatIsStoppedGivesBackWhatItWasLent(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			clearEnv(t)
			asked := make(chan string, 100)
			var site *httptest.Server
			site = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/robots.txt":
					fmt.Fprintf(w, "Sitemap: %s/sitemap.xml\n", site.URL)
				case "/sitemap.xml":
					for i := range 30 {
						fmt.Fprintf(w, "%s/page/%d\n", site.URL, i)
					}
				default:
					asked <- r.URL.Path
				}
			}))
			defer site.Close()
			db := filepath.Join(t.TempDir(), "audit.db")
			command(t, "discovery", "-db", db, site.URL)
			worker := exec.CommandContext(t.Context(), os.Args[0], "worker", "-db", db)
			worker.Env = append(os.Environ(), "SITEAUDIT_TEST_PROGRAM=1")
			var errs strings.Builder
			worker.Stderr = &errs
			if err := worker.Start(); err != nil {
				t.Fatal(err)
			}
			<-asked
			if err := worker.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			if err := worker.Wait(); err == nil {
				t.Error("status 0, though URLs are left")
			}
			if shown := command(t, "show", "-db", db); strings.Contains(shown, "lent") || !strings.Contains(shown, "waiting") {
				t.Errorf("left:\n%s", shown)
			}
			if !strings.Contains(errs.String(), "the next worker goes on") {
				t.Errorf("told:\n%s", errs.String())
			}
		})
	}
}
