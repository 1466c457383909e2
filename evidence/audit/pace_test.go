package audit_test

import (
	"bytes"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/politenesstest"
)

// crawlSlowly crawls a site that takes up to three seconds to answer, at most, and returns the log.
func crawlSlowly(t *testing.T, delay hostlimit.Delay, clients int) string {
	t.Helper()
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(1, 2))
		var mu sync.Mutex
		web := politenesstest.NewWeb()
		web.Site("https://a.example").Robots("").Handle("/", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			mu.Lock()
			wait, status := time.Duration(rnd.IntN(3000))*time.Millisecond, []int{200, 200, 200, 404}[rnd.IntN(4)]
			mu.Unlock()
			time.Sleep(wait) // virtual
			w.WriteHeader(status)
		}))
		log := evidence.JSONLines(&out)
		transport, err := politeness.New(politeness.Config{
			UserAgent: "ExampleBot/1.0 (+https://example.com/bot; bot@example.com)", Base: web, Evidence: log,
			Limits: hostlimit.Config{Delay: delay, Concurrency: clients},
		})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range clients {
			wg.Go(func() {
				for range 40 {
					req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://a.example/", http.NoBody)
					if err != nil {
						t.Error(err)
					}
					if resp, err := transport.RoundTrip(req); err == nil {
						resp.Body.Close()
					}
				}
			})
		}
		wg.Wait()
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	})
	return out.String()
}

// TestDelaysByResponseTimesAreDerived: an honest one is proved, and one that its limiter only
// promises is found, though the log of its starts is honest, and says what delay they were given.
func TestDelaysByResponseTimesAreDerived(t *testing.T) {
	for _, promised := range []hostlimit.Adaptive{
		hostlimit.Squared, hostlimit.Proportional(2), hostlimit.Throttle(0.5), hostlimit.Longest(hostlimit.Learned, hostlimit.Proportional(3)),
		hostlimit.Longest(hostlimit.Squared, hostlimit.Longest(hostlimit.Throttle(1), hostlimit.Proportional(1))),
	} {
		for _, delay := range []hostlimit.Delay{
			{Min: 100 * time.Millisecond, Max: 100 * time.Millisecond},
			{Min: 100 * time.Millisecond, Max: 200 * time.Millisecond, FromEnd: true},
			{Min: 50 * time.Millisecond, Max: time.Second, Ceiling: 2 * time.Second},
		} {
			clients := 3
			if delay.FromEnd {
				clients = 1
			}
			delay.Adaptive = promised
			honest, err := audit.Check(strings.NewReader(crawlSlowly(t, delay, clients)))
			if err != nil || !honest.OK() {
				t.Errorf("%+v: %v, %v", delay, honest, err)
				continue
			}
			i := slices.IndexFunc(honest.Promises, func(p audit.Promise) bool { return p.Name == "delays kept" })
			// Two answers at about one time leave a gap open; which are so is chance.
			if p := honest.Promises[i]; p.Open > 3 || p.Proved < 36 {
				t.Errorf("%+v: %+v", delay, p)
			}
			for _, other := range []hostlimit.Adaptive{hostlimit.Fixed, hostlimit.Proportional(0.2)} {
				delay.Adaptive = other
				kept := crawlSlowly(t, delay, clients)
				told := strings.Replace(kept, `"adaptive":"`+other.String(), `"adaptive":"`+promised.String(), 1)
				if told == kept {
					t.Fatal(kept)
				}
				if rude, err := audit.Check(strings.NewReader(told)); err != nil || rude.Broken[audit.BrokenGap] == 0 || len(rude.Broken) != 1 {
					t.Errorf("%v promised, %v kept: %v, %v", promised, delay, rude, err)
				}
			}
		}
	}
}
