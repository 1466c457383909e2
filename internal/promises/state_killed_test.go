package promises_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/soak"
)

// In the environment of a crawler that is killed: where it keeps its state, and what it crawls.
const (
	killedStateEnv = "POLITENESS_TEST_STATE_DIR"
	killedPageEnv  = "POLITENESS_TEST_PAGE"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(killedStateEnv); dir != "" {
		crawlUntilKilled(dir, os.Getenv(killedPageEnv))
		return
	}
	os.Exit(m.Run())
}

// killedLog is the file in the directory of the crawler that is killed which it logs to.
const killedLog = "crawl.jsonl"

// killedBlock is how long a refusal blocks the site of the crawler that is killed.
const killedBlock = 80 * time.Millisecond

// crawlUntilKilled asks for the page again and again, and writes the number of each answer to standard
// output once it is handed over.
func crawlUntilKilled(dir, page string) {
	cfg := politeness.Config{
		UserAgent: agent,
		Hosts: hostlimit.Config{
			Concurrency: 1,
			Delay:       hostlimit.Delay{DangerouslyNone: true, Adaptive: hostlimit.Fixed},
			Backoff:     backoff.Doubling{Start: killedBlock, Cap: killedBlock},
		},
		DangerouslyIgnoreRobots: true,
	}
	log, err := evidence.OpenFile(filepath.Join(dir, killedLog), evidence.LogConfig{Chained: true})
	if err != nil {
		panic(err)
	}
	cfg.Evidence = evidence.Multi(log, evidence.Func(func(context.Context, evidence.Decision) { _ = log.Flush() })) // a kill takes no more than half a record
	tr, err := politeness.New(cfg.WithState(dir))
	if err != nil {
		panic(err)
	}
	client := &http.Client{Transport: tr}
	for {
		resp, err := client.Get(page)
		if err != nil {
			panic(err)
		}
		fmt.Println(resp.Header.Get("X-Number"))
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}

// A countingSite refuses two requests of three, and counts those that come into a block. The path is the
// number of the run that asks: on a busy machine the last request of one that was killed comes late.
type countingSite struct {
	mu        sync.Mutex
	requests  int
	refused   int    // number of the last request that was refused
	refusedOf string // the run that was told so
	until     time.Time
	handed    map[int]bool   // answers that were handed over
	told      int            // requests into a block whose answer had been handed over, or by the process that was told
	untold    map[string]int // others, by run
	asked     chan struct{}
}

func (s *countingSite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	if time.Now().Before(s.until) {
		if s.handed[s.refused] || s.refusedOf == r.URL.Path {
			s.told++
		} else {
			s.untold[r.URL.Path]++
		}
	}
	select {
	case s.asked <- struct{}{}:
	default:
	}
	w.Header().Set("X-Number", strconv.Itoa(s.requests))
	s.until = time.Time{} // whoever is served isn't blocked any more
	if rand.IntN(3) > 0 {
		s.refused, s.refusedOf, s.until = s.requests, r.URL.Path, time.Now().Add(killedBlock)
		w.WriteHeader(http.StatusTooManyRequests)
	}
}

// TestKilledAtAnyInstant: a crawler that is killed at random instants and begins anew on the same
// directory sends nothing into a block that it was told of; at most one request of each run goes into
// a block whose answer was on its way when the run before was killed. No judge calls that broken.
func TestKilledAtAnyInstant(t *testing.T) {
	site := &countingSite{handed: map[int]bool{}, untold: map[string]int{}, asked: make(chan struct{}, 1)}
	server := httptest.NewServer(site)
	defer server.Close()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	kills := 0
	for seed := range soak.Seeds(t, 30, 30) {
		kills++
		select {
		case <-site.asked:
		default:
		}
		cmd := exec.CommandContext(t.Context(), program)
		cmd.Env = append(os.Environ(), killedStateEnv+"="+dir, killedPageEnv+"="+server.URL+"/"+strconv.Itoa(kills))
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		<-site.asked
		time.Sleep(time.Duration(rand.New(rand.NewPCG(seed, 21)).Int64N(int64(6 * time.Millisecond)))) //nolint:gosec // a test that can be repeated
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			n, err := strconv.Atoi(lines.Text())
			if err != nil {
				t.Fatal(err)
			}
			site.mu.Lock()
			site.handed[n] = true
			site.mu.Unlock()
		}
		_ = cmd.Wait() // it was killed
	}
	server.Close()
	if site.told > 0 {
		t.Errorf("%d requests into a block that had been told of", site.told)
	}
	into := 0
	for run, n := range site.untold {
		if into += n; n > 1 {
			t.Errorf("run %s sent %d requests into a block", run, n)
		}
	}
	file, err := os.Open(filepath.Join(dir, killedLog))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	report, err := audit.Check(file)
	if err != nil || !report.OK() || report.Complete() || report.Logs == 0 {
		t.Errorf("%v, %v", report, err)
	}
	t.Logf("%d kills, %d requests, %d answers handed over, %d requests into a block whose answer was on its way", kills, site.requests, len(site.handed), into)
}
