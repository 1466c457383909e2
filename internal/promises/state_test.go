package promises_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/memory"
	"github.com/go-politeness/politeness/politenesstest"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// A runner is a crawler that is started again and again: each run is a Transport of its own.
type runner struct {
	*testing.T
	web *politenesstest.Web
	cfg politeness.Config
	log bytes.Buffer // of all runs, one after the other
}

// fetch is one run, which fetches one page within 30 s.
func (r *runner) fetch(url string) (int, error) {
	r.Helper()
	sink := evidence.JSONLines(&r.log)
	cfg := r.cfg
	cfg.Base, cfg.Evidence = r.web, sink
	tr, err := politeness.New(cfg)
	if err != nil {
		r.Fatal(err)
	}
	defer func() {
		if err := sink.Close(); err != nil {
			r.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(r.Context(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		r.Fatal(err)
	}
	resp, err := (&http.Client{Transport: tr}).Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		r.Error(err)
	}
	return resp.StatusCode, nil
}

// records returns those of the log that are of a type.
func (r *runner) records(typ evidence.Type) (found []evidence.LogLine) {
	r.Helper()
	for line := range bytes.Lines(r.log.Bytes()) {
		var e evidence.LogLine
		if err := e.UnmarshalJSON(line); err != nil {
			r.Fatal(err)
		}
		if e.Type == typ {
			found = append(found, e)
		}
	}
	return found
}

// judge has the log of all runs judged.
func (r *runner) judge() *audit.Report {
	r.Helper()
	report, err := audit.Check(bytes.NewReader(r.log.Bytes()))
	if err != nil {
		r.Fatal(err)
	}
	return report
}

// TestRunsIntoABlockOfADay: a crawler that is started every hour sends two requests into an answer
// that asks to be left alone for a day, not 48, and the log of all runs proves it. Without
// state the log is found broken.
func TestRunsIntoABlockOfADay(t *testing.T) {
	for _, kept := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r := &runner{T: t, web: politenesstest.NewWeb(), cfg: conservative()}
			if kept {
				r.cfg = r.cfg.WithState(t.TempDir())
			}
			r.web.Site("https://example.com").Robots("User-agent: *\n").
				Handle("/page", politenesstest.Status(429, "Retry-After", "86400"))
			blocked := 0
			for range 24 {
				if _, err := r.fetch("https://example.com/page"); errors.Is(err, politeness.ErrBlocked) {
					blocked++
				} else if err != nil {
					t.Error(err)
				}
				time.Sleep(time.Hour)
			}
			sent := len(r.web.Requests())
			report := r.judge()
			if !kept {
				if sent != 48 || report.OK() || report.Broken[audit.BrokenBlock] == 0 {
					t.Errorf("without state: %d requests, %v", sent, report)
				}
				return
			}
			if sent != 2 || blocked != 23 || !report.OK() {
				t.Errorf("%d requests, %d runs were refused\n%v", sent, blocked, report)
			}
			restored := 0
			for _, d := range r.records(evidence.HostBlocked) {
				if ago, ok := strings.CutPrefix(d.Reason, "restored: status 429, "); ok {
					restored++
					if want := fmt.Sprintf("%d h ago", restored); restored > 1 && ago != want || d.Until.IsZero() || d.Refusals != 1 {
						t.Errorf("run %d: %+v, want %s", restored, d, want)
					}
				}
			}
			if restored != 23 {
				t.Errorf("%d of 23 runs tell of the block that they met", restored)
			}
		})
	}
}

// TestRunsUnderALongCrawlDelay: a run a minute for an hour fetches one page and its robots.txt, not
// 59 pages.
func TestRunsUnderALongCrawlDelay(t *testing.T) {
	for _, kept := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r := &runner{T: t, web: politenesstest.NewWeb(), cfg: politeness.Config{UserAgent: agent}}
			if kept {
				r.cfg = r.cfg.WithState(t.TempDir())
			} else {
				r.cfg.Robots.Store = robotscache.Dir(t.TempDir())
			}
			r.web.Site("https://example.com").Robots("User-agent: *\nCrawl-delay: 3600\n").Page("/page", "")
			pages := 0
			for range 60 {
				if _, err := r.fetch("https://example.com/page"); err == nil {
					pages++
				}
				time.Sleep(time.Minute)
			}
			sent := len(r.web.Requests())
			report := r.judge()
			if kept && (pages != 1 || sent != 2 || !report.OK()) {
				t.Errorf("%d requests, %d pages\n%v", sent, pages, report)
			}
			if !kept && (pages < 58 || report.OK()) {
				t.Errorf("without state: %d pages\n%v", pages, report)
			}
		})
	}
}

// TestRunsWithoutRobots: an origin whose robots.txt can't be had for a day is asked once in an hour of
// runs, not 60 times.
func TestRunsWithoutRobots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		r := &runner{T: t, web: politenesstest.NewWeb(), cfg: politeness.Config{UserAgent: agent}.WithState(dir)}
		r.web.Site("https://example.com").Handle("/robots.txt", politenesstest.Status(503, "Retry-After", "86400")).Page("/page", "")
		for range 60 {
			if _, err := r.fetch("https://example.com/page"); err == nil {
				t.Error("fetched without robots.txt")
			}
			time.Sleep(time.Minute)
		}
		if sent := len(r.web.Requests()); sent != 1 || !r.judge().OK() {
			t.Errorf("%d requests\n%v", sent, r.judge())
		}
		// robots.txt alone remembers it, too.
		if err := os.RemoveAll(filepath.Join(dir, "hosts")); err != nil {
			t.Fatal(err)
		}
		if _, err := r.fetch("https://example.com/page"); !errors.Is(err, politeness.ErrDisallowed) || len(r.web.Requests()) != 1 {
			t.Errorf("%v, %d requests", err, len(r.web.Requests()))
		}
	})
}

// TestRestoredBlockThatIsWaitedFor is on record as of the moment at which it was met, also where the
// connection comes late and the start is stamped anew.
func TestRestoredBlockThatIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &runner{T: t, web: politenesstest.NewWeb(), cfg: politeness.Config{UserAgent: agent}.WithState(t.TempDir())}
		r.web.Site("https://example.com").Robots("User-agent: *\n").Dial(450*time.Millisecond).
			Handle("/page", politenesstest.Status(429, "Retry-After", "80"))
		if _, err := r.fetch("https://example.com/page"); err != nil {
			t.Error(err)
		}
		time.Sleep(70 * time.Second)
		met := time.Now()
		r.web = politenesstest.NewWeb() // where no connection is open
		r.web.Site("https://example.com").Dial(450*time.Millisecond).Page("/page", "fine")
		if status, err := r.fetch("https://example.com/page"); err != nil || status != 200 {
			t.Errorf("%d, %v", status, err)
		}
		blocks := r.records(evidence.HostBlocked)
		if len(blocks) != 2 || blocks[1].Reason != "restored: status 429, 1 min ago" || !blocks[1].Time.Equal(met) || !blocks[1].Until.Equal(blocks[0].Until) {
			t.Errorf("%+v", blocks)
		}
		if cleared := r.records(evidence.HostCleared); len(cleared) != 1 || len(r.records(evidence.Started)) != 3 || !r.judge().OK() {
			t.Errorf("%+v\n%v", cleared, r.judge())
		}
	})
}

// TestStateIsPrivate, and laid out as WithState says.
func TestStateIsPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	synctest.Test(t, func(t *testing.T) {
		r := &runner{T: t, web: politenesstest.NewWeb(), cfg: politeness.Config{UserAgent: agent}.WithState(dir)}
		r.web.Site("https://example.com").Robots("User-agent: *\n").Handle("/page", politenesstest.Status(429))
		if _, err := r.fetch("https://example.com/page"); err != nil {
			t.Error(err)
		}
	})
	files := map[string]int{}
	if err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" {
			t.Errorf("%s is %v", name, info.Mode())
		}
		if rest, _ := filepath.Rel(dir, name); !d.IsDir() && d.Name() != "lock" {
			files[strings.Split(filepath.ToSlash(rest), "/")[0]]++
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(files) != 2 || files["hosts"] != 1 || files["robots"] != 1 {
		t.Errorf("%v", files)
	}
}

// TestStateThatReachesNothingIsAnError.
func TestStateThatReachesNothingIsAnError(t *testing.T) {
	hosts, err := memory.New(hostlimit.Config{})
	if err != nil {
		t.Fatal(err)
	}
	cfg := politeness.Config{UserAgent: agent, Limiter: hosts}.WithState(t.TempDir())
	if _, err := politeness.New(cfg); err == nil || !strings.Contains(err.Error(), "Config.Hosts.Store: ") ||
		!strings.Contains(err.Error(), "memory.New(cfg.Hosts)") {
		t.Errorf("%v", err)
	}
	if cfg.Limiter, err = memory.New(cfg.Hosts); err != nil {
		t.Fatal(err)
	}
	if _, err := politeness.New(cfg); err != nil {
		t.Errorf("a shared limiter that was made from the result: %v", err)
	}
	for name, change := range map[string]func(*politeness.Config){
		"Hosts":  func(cfg *politeness.Config) { cfg.Hosts = hostlimit.Config{MaxWait: time.Minute} },
		"Robots": func(cfg *politeness.Config) { cfg.Robots = robotscache.Config{TTL: time.Minute} },
	} {
		cfg := politeness.Config{UserAgent: agent}.WithState(t.TempDir())
		change(&cfg)
		if _, err := politeness.New(cfg); err == nil || !strings.Contains(err.Error(), "before WithState") {
			t.Errorf("%s set after WithState: %v", name, err)
		}
		cfg = politeness.Config{UserAgent: agent}
		change(&cfg)
		cfg = cfg.WithState(t.TempDir())
		if _, err := politeness.New(cfg); err != nil {
			t.Errorf("%s set before WithState: %v", name, err)
		}
	}
	plain := politeness.Config{UserAgent: agent}
	if none := plain.WithState(""); none.Hosts.Store != nil || none.Robots.Store != nil {
		t.Error("an empty dir keeps something")
	}
}

// TestStateThatFailsStopsNothing: whatever is wrong with the directory, every page is fetched, and each
// reason is on record once.
func TestStateThatFailsStopsNothing(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, dir string){
		"a file where the directory should be": func(t *testing.T, dir string) {
			if err := errors.Join(os.RemoveAll(dir), os.WriteFile(dir, []byte("not a directory"), 0o600)); err != nil {
				t.Fatal(err)
			}
		},
		"garbage in every file": func(t *testing.T, dir string) {
			if err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
				if err == nil && !d.IsDir() {
					err = os.WriteFile(name, []byte("garbage\n"), 0o600)
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "state")
				r := &runner{T: t, web: politenesstest.NewWeb(), cfg: politeness.Config{UserAgent: agent}.WithState(dir)}
				r.web.Site("https://example.com").Robots("User-agent: *\n").Page("/fine", "").
					Handle("/refused", politenesstest.Status(429, "Retry-After", "1"))
				if _, err := r.fetch("https://example.com/refused"); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Minute)
				sink := evidence.JSONLines(&r.log)
				cfg := r.cfg
				cfg.Base, cfg.Evidence = r.web, sink
				tr, err := politeness.New(cfg)
				if err != nil {
					t.Fatal(err)
				}
				spoil(t, dir)
				client := &http.Client{Transport: tr}
				for i := range 5 {
					for _, path := range []string{"/fine", "/refused"} {
						resp, err := client.Get("https://example.com" + path)
						if err != nil {
							t.Fatalf("%s, %d: %v", path, i, err)
						}
						resp.Body.Close()
					}
					time.Sleep(time.Minute)
				}
				if err := sink.Close(); err != nil {
					t.Error(err)
				}
				if err := tr.EvidenceErr(); err == nil || !strings.HasPrefix(err.Error(), "state: ") {
					t.Errorf("EvidenceErr: %v", err)
				}
				if lost := tr.Status(t.Context()).Lost; !strings.HasPrefix(lost, "state: ") {
					t.Errorf("status: %q", lost)
				}
				reasons := map[string]bool{}
				for _, d := range r.records(evidence.StateLost) {
					if !d.Allowed || d.Reason == "" || reasons[d.Reason] {
						t.Errorf("%+v", d)
					}
					reasons[d.Reason] = true
				}
				if len(reasons) == 0 || len(reasons) > 2 {
					t.Errorf("state_lost for %d reasons: %v", len(reasons), reasons)
				}
				if report := r.judge(); !report.OK() {
					t.Error(report)
				}
			})
		})
	}
}

// TestStateThatCantBeKeptFailsInNew, where it is known from the beginning.
func TestStateThatCantBeKeptFailsInNew(t *testing.T) {
	notADirectory := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(notADirectory, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, dir := range map[string]string{
		"a file":        notADirectory,
		"below a file":  filepath.Join(notADirectory, "state"),
		"a file system": "/proc/state",
	} {
		if name == "a file system" && runtime.GOOS != "linux" {
			continue
		}
		_, err := politeness.New(politeness.Config{UserAgent: agent}.WithState(dir))
		if err == nil || !strings.Contains(err.Error(), "Config.WithState: ") || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if os.Getuid() > 0 { // root may write everywhere
		dir := t.TempDir()
		if err := os.Chmod(dir, 0o500); err != nil {
			t.Fatal(err)
		}
		if _, err := politeness.New(politeness.Config{UserAgent: agent}.WithState(dir)); err == nil {
			t.Error("a directory that can't be written to: no error")
		}
	}
	dir := filepath.Join(t.TempDir(), "new", "state")
	for range 2 {
		if _, err := politeness.New(politeness.Config{UserAgent: agent}.WithState(dir)); err != nil {
			t.Error(err)
		}
	}
	// Nothing but the lock is left, which has the id of the state.
	files, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil || len(files) != 1 || files[0] != filepath.Join(dir, "hosts", "lock") {
		t.Errorf("New has left %v, %v", files, err)
	}
}

// TestStateThatOthersMayWriteIsWarnedOf: they could lift blocks, and change robots.txt.
func TestStateThatOthersMayWriteIsWarnedOf(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Log("the mode of a file says nothing here")
		return
	}
	expose := func(what func(d fs.DirEntry, name string) bool) func(string) error {
		return func(dir string) error {
			return filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
				if err == nil && what(d, name) {
					err = os.Chmod(name, 0o777)
				}
				return err
			})
		}
	}
	for name, test := range map[string]struct {
		expose func(dir string) error
		warned bool
	}{
		"nothing":       {func(string) error { return nil }, false},
		"the directory": {func(dir string) error { return os.Chmod(dir, 0o777) }, true},
		"a sticky one":  {func(dir string) error { return os.Chmod(dir, 0o777|fs.ModeSticky) }, false},
		"a part of it":  {func(dir string) error { return os.Chmod(filepath.Join(dir, "hosts"), 0o777) }, true},
		"the files of hosts": {expose(func(d fs.DirEntry, name string) bool {
			return !d.IsDir() && strings.Contains(name, "hosts")
		}), true},
		"the files of robots.txt": {expose(func(d fs.DirEntry, name string) bool {
			return !d.IsDir() && strings.Contains(name, "robots")
		}), true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			synctest.Test(t, func(t *testing.T) {
				r := &runner{T: t, web: politenesstest.NewWeb(), cfg: politeness.Config{UserAgent: agent}.WithState(dir)}
				r.web.Site("https://example.com").Robots("User-agent: *\n").Page("/fine", "").
					Handle("/refused", politenesstest.Status(429, "Retry-After", "30"))
				for _, path := range []string{"/fine", "/refused"} {
					if _, err := r.fetch("https://example.com" + path); err != nil {
						t.Error(err)
					}
				}
				if err := test.expose(dir); err != nil {
					t.Fatal(err)
				}
				var log evidence.Recorder
				cfg := politeness.Config{UserAgent: agent}.WithState(dir)
				cfg.Base, cfg.Evidence = r.web, &log
				tr := mustNew(t, cfg)
				begun := time.Now()
				if _, err := fetch(t.Context(), &http.Client{Transport: tr}, "https://example.com/fine"); err != nil {
					t.Error(err)
				}
				if waited := time.Since(begun); waited < 30*time.Second {
					t.Errorf("a block was over after %v", waited)
				}
				err := tr.EvidenceErr()
				if warned := err != nil && strings.Contains(err.Error(), "others may write to "); warned != test.warned {
					t.Errorf("EvidenceErr: %v", err)
				}
				if n := len(log.Decisions(evidence.StateLost)); (n > 0) != test.warned || n > 2 {
					t.Errorf("%d records", n)
				}
			})
		})
	}
}

// A storeInTrouble says what it was told to, with one error after the other.
type storeInTrouble struct {
	debt   hostlimit.Debt
	errors []error
}

func (s *storeInTrouble) Update(_ context.Context, _ string, change func(hostlimit.Debt) hostlimit.Debt) (hostlimit.Debt, error) {
	var err error
	if len(s.errors) > 0 {
		err, s.errors = s.errors[0], s.errors[1:]
	}
	return change(s.debt), err
}

// A hollowError and a hollowJoinError wrap nothing, in both ways of wrapping.
type (
	hollowError     string
	hollowJoinError string
)

func (e hollowError) Error() string       { return string(e) }
func (e hollowError) Unwrap() error       { return nil }
func (e hollowJoinError) Error() string   { return string(e) }
func (e hollowJoinError) Unwrap() []error { return nil }

// TestEachLossIsToldOnce, by what is at the bottom of it, and of a hundred at most.
func TestEachLossIsToldOnce(t *testing.T) {
	full := errors.New("no space left")
	store := &storeInTrouble{errors: []error{
		fmt.Errorf("for a.example: %w", full), fmt.Errorf("for b.example: %w", errors.Join(full, io.EOF)), errors.Join(full, errors.New("for c.example")), full,
		hollowError("hollow"), fmt.Errorf("for f.example: %w", hollowError("hollow")), hollowJoinError("hollow twice"),
	}}
	for i := range 200 {
		store.errors = append(store.errors, fmt.Errorf("loss %d", i))
	}
	virtually(t, politeness.Config{DangerouslyIgnoreRobots: true, Hosts: hostlimit.Config{Store: store}}, func(b *bubble) {
		for i := range 250 {
			host := fmt.Sprintf("https://%d.example", i)
			b.web.Site(host).Page("/", "page")
			b.mustGet(host+"/", 200)
		}
		told := map[string]int{}
		for _, d := range b.log.Decisions(evidence.StateLost) {
			told[d.Reason]++
		}
		if len(b.log.Decisions(evidence.StateLost)) != 100 || told["loss 96"] != 1 || told["hollow"] != 1 || told["hollow twice"] != 1 {
			b.Errorf("%d losses: %v", len(told), told)
		}
	})
}

// TestARestoredBlockTellsItsAge, where that is known.
func TestARestoredBlockTellsItsAge(t *testing.T) {
	for age, want := range map[time.Duration]string{
		-time.Second: "", 0: ", 0 s ago", time.Minute - 1: ", 59 s ago", time.Minute: ", 1 min ago", time.Hour - 1: ", 59 min ago", time.Hour: ", 1 h ago",
		48*time.Hour - 1: ", 47 h ago", 48 * time.Hour: ", 2 days ago", 1000 * time.Hour: "", // not known when
	} {
		store := &storeInTrouble{}
		cfg := politeness.Config{DangerouslyIgnoreRobots: true, Hosts: hostlimit.Config{Store: store, MaxWait: time.Minute}}
		virtually(t, cfg, func(b *bubble) {
			store.debt = hostlimit.Debt{BlockedUntil: time.Now().Add(time.Hour), Refusals: 1, Cause: "status 429", BlockedAt: time.Now().Add(-age)}
			if age == 1000*time.Hour {
				store.debt.BlockedAt = time.Time{}
			}
			_, err := b.get("https://example.com/")
			refused(b.T, err, politeness.StageTurn, politeness.ErrBlocked)
			if d := b.one(evidence.HostBlocked); d.Reason != "restored: status 429"+want || !d.Restored {
				b.Errorf("%v: %q", age, d.Reason)
			}
		})
	}
}

// TestLossAfterAnAnswerIsTold: a block that couldn't be kept would be forgotten by the next run.
func TestLossAfterAnAnswerIsTold(t *testing.T) {
	store := &storeInTrouble{errors: []error{nil, errors.New("no space left")}}
	virtually(t, politeness.Config{DangerouslyIgnoreRobots: true, Hosts: hostlimit.Config{Store: store}}, func(b *bubble) {
		b.site.Handle("/", politenesstest.Status(429))
		b.mustGet("https://example.com/", 429)
		if d := b.one(evidence.StateLost); d.Reason != "no space left" || !d.Allowed {
			b.Errorf("%+v", d)
		}
	})
}

// TestThePolicyNamesItsState: all runs that keep their state in one directory state the same id,
// and a run without state states none.
func TestThePolicyNamesItsState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &runner{T: t, web: politenesstest.NewWeb()}
		r.web.Site("https://example.com")
		dirs := []string{t.TempDir(), t.TempDir()}
		for _, dir := range []string{dirs[0], dirs[0], dirs[1], ""} {
			r.cfg = politeness.Config{UserAgent: agent}.WithState(dir)
			if _, err := r.fetch("https://example.com/"); err != nil {
				t.Fatal(err)
			}
		}
		var ids []string
		for _, d := range r.records(evidence.PolicyStated) {
			ids = append(ids, d.Policy.State)
		}
		if len(ids) != 4 || len(ids[0]) != 16 || ids[1] != ids[0] || len(ids[2]) != 16 || ids[2] == ids[0] || ids[3] != "" {
			t.Errorf("ids of four runs: %q", ids)
		}
	})
}
