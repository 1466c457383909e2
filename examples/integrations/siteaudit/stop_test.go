//go:build unix

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
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
			if !strings.Contains(errs.String(), "the next worker continues") {
				t.Errorf("told:\n%s", errs.String())
			}
		})
	}
}

// MAX_PAGES holds over kill -9: of three workers on one database one is killed after each third
// page, and another takes its place. By the site's own count no page is fetched past the budget, and
// a kill costs at most the two pages that a worker may have in flight.
func TestMAX_PAGESHoldsOverKills(t *testing.T) {
	const most, kills = 14, 3
	clearEnv(t)
	asked := make(chan string, 1000)
	list := ""
	for i := range 300 { // more than the workers that are killed have lent
		list += fmt.Sprintf("%%s/page/%d\n", i)
	}
	origin, _ := serve(t, "Sitemap: %s/sitemap.xml\n", list, func(_ http.ResponseWriter, r *http.Request) { asked <- r.URL.Path })
	db := filepath.Join(t.TempDir(), "audit.db")
	command(t, "discovery", "-db", db, origin)
	t.Setenv("MAX_PAGES", strconv.Itoa(most))
	for len(asked) > 0 {
		<-asked // by discovery
	}
	ended := make(chan error, 3+kills)
	start := func() *exec.Cmd {
		worker := exec.CommandContext(t.Context(), os.Args[0], "worker", "-db", db)
		worker.Env = append(os.Environ(), "SITEAUDIT_TEST_PROGRAM=1")
		worker.Stdout, worker.Stderr = t.Output(), t.Output()
		if err := worker.Start(); err != nil {
			t.Fatal(err)
		}
		go func() { ended <- worker.Wait() }()
		return worker
	}
	workers := []*exec.Cmd{start(), start(), start()}
	var fetched []string
	for kill := range kills {
		for range 3 {
			fetched = append(fetched, <-asked)
		}
		if err := workers[kill].Process.Kill(); err != nil {
			t.Fatal(err)
		}
		workers = append(workers, start())
	}
	for range workers {
		if err := <-ended; err == nil {
			t.Error("a worker ended with status 0, though URLs are left")
		}
	}
	for len(asked) > 0 {
		fetched = append(fetched, <-asked)
	}
	t.Logf("%d pages were fetched of %d, with %d kills", len(fetched), most, kills)
	if n := len(fetched); n > most || n < most-2*kills {
		t.Errorf("%d pages were fetched, want %d, or %d less for each of %d kills", n, most, 2, kills)
	}
}
