package crawl_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/memory"
	"github.com/go-politeness/politeness/politenesstest"
)

// numbered returns n URLs of a host.
func numbered(host string, n int) (urls []string) {
	for i := range n {
		urls = append(urls, fmt.Sprintf("https://%s/%d", host, i))
	}
	return urls
}

// TestBlockIsLiftedDuringACrawl: a person who knows that a host is well again needn't wait for the
// hour that it has asked for, nor for a block of their own.
func TestBlockIsLiftedDuringACrawl(t *testing.T) {
	for name, byHand := range map[string]bool{"answered 429": false, "by hand": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				var well atomic.Bool
				well.Store(byHand)
				r.Site("https://example.com").Handle("/", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					if !well.Load() {
						w.Header().Set("Retry-After", "3600")
						w.WriteHeader(http.StatusTooManyRequests)
					}
				}))
				hosts, err := memory.New(r.politeness.Hosts)
				if err != nil {
					t.Fatal(err)
				}
				r.politeness.Hosts, r.politeness.Limiter = hostlimit.Config{}, hosts
				if byHand {
					if err := hosts.Block(t.Context(), "example.com", time.Now().Add(time.Hour), "the owner has called"); err != nil {
						t.Fatal(err)
					}
				}
				go func() {
					time.Sleep(time.Minute)
					well.Store(true)
					if err := hosts.Clear(t.Context(), "example.com"); err != nil {
						t.Error(err)
					}
				}()
				summary := r.run(t.Context(), t, "https://example.com/")
				wantOutcomes(t, summary, map[crawl.Outcome]int{crawl.Visited: 1})
				if summary.Elapsed > 70*time.Second {
					t.Errorf("the block was lifted after a minute, the crawl went on after %v", summary.Elapsed)
				}
			})
		})
	}
}

// TestLimitsChangeDuringACrawl: what Override says of a host holds from then on.
func TestLimitsChangeDuringACrawl(t *testing.T) {
	pause := func(d time.Duration) hostlimit.Limits {
		return hostlimit.Limits{Concurrency: 1, Delay: hostlimit.Delay{Min: d, Max: d}}
	}
	for name, limits := range map[string][2]hostlimit.Limits{
		"delay": {pause(time.Minute), pause(100 * time.Millisecond)},
		"slots": {pause(time.Millisecond), {Concurrency: 20, Delay: hostlimit.Delay{Min: time.Millisecond, Max: time.Millisecond}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				site := r.Site("https://example.com")
				urls := numbered("example.com", 100)
				slow := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(2 * time.Second) })
				for i := range urls {
					site.Handle(fmt.Sprintf("/%d", i), slow)
				}
				began := time.Now()
				r.politeness.Hosts.Override = func(string) (hostlimit.Limits, bool) {
					if time.Since(began) < 10*time.Second {
						return limits[0], true
					}
					return limits[1], true
				}
				summary := r.run(t.Context(), t, urls...)
				wantOutcomes(t, summary, map[crawl.Outcome]int{crawl.Visited: 100})
				if atMost := map[string]time.Duration{"delay": 5 * time.Minute, "slots": 30 * time.Second}[name]; summary.Elapsed > atMost {
					t.Errorf("the crawl took %v, though the limits have been higher after 10s", summary.Elapsed)
				}
			})
		})
	}
}

// TestFunctionsThatEndTheirGoroutine: as t.Fatal does, which somebody calls in one of them.
func TestFunctionsThatEndTheirGoroutine(t *testing.T) {
	for name, set := range map[string]func(*crawl.Config){
		"Prepare": func(c *crawl.Config) {
			c.Prepare = func(crawl.Request, *http.Request) error { runtime.Goexit(); return nil }
		},
		"Known": func(c *crawl.Config) {
			c.Known = func(context.Context, string) (crawl.Validators, error) {
				runtime.Goexit()
				return crawl.Validators{}, nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				r.Site("https://example.com").Handle("/", page("home"))
				set(&r.crawl)
				wantOutcomes(t, r.run(t.Context(), t, "https://example.com/"), map[crawl.Outcome]int{crawl.Failed: 1})
			})
		})
	}
}

// TestTimeEndsWhileAHostWaits: nobody waits for a turn that would come after the budget's end.
func TestTimeEndsWhileAHostWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.Site("https://example.com").Handle("/0", page("page")).Handle("/1", page("page")).Handle("/2", page("page"))
		r.politeness.Hosts.Delay.Min = time.Minute
		r.politeness.Spend.Duration = 90 * time.Second // from the first page, a minute after robots.txt
		summary := r.run(t.Context(), t, numbered("example.com", 3)...)
		wantOutcomes(t, summary, map[crawl.Outcome]int{crawl.Visited: 2, crawl.Left: 1})
		if summary.Elapsed > 130*time.Second {
			t.Errorf("ended after %v", summary.Elapsed)
		}
	})
}

// TestStoppedSaysByWhat: by whom a context was ended.
func TestStoppedSaysByWhat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("enough for today"))
		r.crawl.Progress = func(p crawl.Progress) {
			if p.Rate != 0 || !p.Done {
				t.Errorf("progress of a crawl that ends at once: %+v", p)
			}
		}
		summary := r.run(ctx, t, "https://example.com/")
		if !errors.Is(summary.Stopped, context.Canceled) || !strings.Contains(summary.String(), "enough for today") {
			t.Errorf("stopped: %v", summary.Stopped)
		}
	})
}

// TestDrainLosesNothing: what a person has drained is left for the next run.
func TestDrainLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		site := r.Site("https://example.com")
		for i := range 20 {
			site.Handle(fmt.Sprintf("/%d", i), page("page"))
		}
		hosts, err := memory.New(r.politeness.Hosts)
		if err != nil {
			t.Fatal(err)
		}
		r.politeness.Hosts, r.politeness.Limiter = hostlimit.Config{}, hosts
		q := newStore()
		r.crawl.Queue = q
		go func() {
			time.Sleep(time.Second + time.Millisecond)
			if err := hosts.Drain(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		summary := r.run(t.Context(), t, numbered("example.com", 20)...)
		if !errors.Is(summary.Stopped, hostlimit.ErrDraining) || summary.Visited() == 0 || summary.Outcomes[crawl.Failed] > 0 {
			t.Errorf("summary: %v", summary)
		}
		left := 0
		for _, s := range q.states {
			if s == waiting {
				left++
			}
		}
		if left != 20-summary.Visited() {
			t.Errorf("%d URLs wait for the next run, %d were visited of 20", left, summary.Visited())
		}
	})
}

// TestABlockIsTold: Progress names the cause of a block, whoever has set it, also where it is set
// while the host waits already, and also through a wrapper of the limiter. While a limiter doesn't
// answer for too long, Progress says that the wait may be for a block.
func TestABlockIsTold(t *testing.T) {
	const byHand = ": blocked by hand: the owner has called\n"
	hand := func(ctx context.Context, r *rig) error {
		return r.politeness.Limiter.(hostlimit.Controller).Block(ctx, "example.com", time.Now().Add(time.Minute), "the owner has called")
	}
	for name, tt := range map[string]struct {
		block func(ctx context.Context, r *rig) error
		wrap  func(hostlimit.Limiter) hostlimit.Limiter
		want  string
	}{
		"by hand": {hand, plain, byHand},
		"by hand, while it waits": {func(ctx context.Context, r *rig) error {
			time.AfterFunc(5*time.Second, func() { _ = hand(ctx, r) })
			return nil
		}, plain, byHand},
		"by another user of the Transport": {func(ctx context.Context, r *rig) error {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://example.com/busy", http.NoBody)
			if err != nil {
				return err
			}
			resp, err := r.crawl.Transport.RoundTrip(req)
			if err != nil {
				return err
			}
			return resp.Body.Close()
		}, plain, ": blocked (status 429)"},
		"of a limiter that is wrapped": {hand, func(l hostlimit.Limiter) hostlimit.Limiter { return wrapper{l} }, byHand},
		"of a limiter that doesn't answer": {
			hand,
			func(l hostlimit.Limiter) hostlimit.Limiter { return silent{l} },
			": its delay between requests, or a block\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				r.Site("https://example.com").Handle("/0", page("page")).Handle("/1", page("page")).
					Handle("/busy", politenesstest.Status(http.StatusTooManyRequests, "Retry-After", "60"))
				r.politeness.Hosts.Delay.Min = 30 * time.Second
				hosts, err := memory.New(r.politeness.Hosts)
				if err != nil {
					t.Fatal(err)
				}
				r.politeness.Hosts, r.politeness.Limiter = hostlimit.Config{}, tt.wrap(hosts)
				r.crawl.Visit = func(ctx context.Context, p *crawl.Page) error {
					if p.URL != "https://example.com/0" {
						return nil
					}
					return tt.block(ctx, r)
				}
				var out strings.Builder
				r.crawl.Progress = crawl.ProgressLine(&out)
				wantOutcomes(t, r.run(t.Context(), t, numbered("example.com", 2)...), map[crawl.Outcome]int{crawl.Visited: 2})
				if !strings.Contains(out.String(), tt.want) {
					t.Errorf("told:\n%swant %q", out.String(), tt.want)
				}
			})
		})
	}
}

// plain returns l.
func plain(l hostlimit.Limiter) hostlimit.Limiter { return l }

// A wrapper is a limiter of somebody else's around one of ours.
type wrapper struct{ hostlimit.Limiter }

// silent is a limiter whose server doesn't answer when it is asked for the state of a host.
type silent struct{ hostlimit.Limiter }

func (silent) State(ctx context.Context, _ string) (hostlimit.HostState, error) {
	<-ctx.Done()
	return hostlimit.HostState{}, ctx.Err()
}

// TestWhatIsDoneByHandIsOnRecord when it is done, once, with who and why, although the crawl sends nothing
// to a blocked host.
func TestWhatIsDoneByHandIsOnRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		pages(r.Site("https://blocked.example"), 30)
		pages(r.Site("https://example.com"), 300)
		var log evidence.Recorder
		r.politeness.Evidence = &log
		hosts, err := memory.New(r.politeness.Hosts)
		if err != nil {
			t.Fatal(err)
		}
		r.politeness.Hosts, r.politeness.Limiter = hostlimit.Config{}, hosts
		began := time.Now()
		time.AfterFunc(time.Second, func() {
			_ = hosts.Block(context.Background(), "blocked.example", began.Add(time.Hour), "the owner has called")
		})
		time.AfterFunc(10*time.Second, func() { _ = hosts.Clear(context.Background(), "blocked.example") })
		time.AfterFunc(25*time.Second, func() { _ = hosts.Drain(context.Background()) })
		s := r.run(t.Context(), t, append(numbered("blocked.example", 30), numbered("example.com", 300)...)...)
		var got []string
		for _, d := range log.Decisions() {
			if d.Hand {
				got = append(got, fmt.Sprintf("%v %s %s: %s", d.Time.Sub(began).Round(time.Second), d.Type, d.Host, d.Reason))
			}
		}
		want := []string{
			"1s host_blocked blocked.example: by hand: the owner has called",
			"10s host_cleared blocked.example: by hand",
			"25s drained : by hand: no request starts any more",
		}
		if !slices.Equal(got, want) {
			t.Errorf("on record:\n%s\nwant:\n%s\n%v", strings.Join(got, "\n"), strings.Join(want, "\n"), s)
		}
	})
}
