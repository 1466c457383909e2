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
			Hosts: hostlimit.Config{Delay: delay, Concurrency: clients},
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

// TestDelaysByResponseTimesAreBelieved: how long they are the records say, and that the gaps are as long as
// that is proved.
func TestDelaysByResponseTimesAreBelieved(t *testing.T) {
	for _, delay := range []hostlimit.Delay{
		{Min: 100 * time.Millisecond, Max: 100 * time.Millisecond, Adaptive: hostlimit.Squared},
		{Min: 100 * time.Millisecond, Max: 200 * time.Millisecond, FromEnd: true, Adaptive: hostlimit.Throttle(0.5)},
		{Min: 200 * time.Millisecond, Max: 200 * time.Millisecond, Ceiling: time.Minute, Adaptive: hostlimit.Longest(hostlimit.Learned, hostlimit.Slower(1))},
		{Min: 50 * time.Millisecond, Max: time.Second, Ceiling: 2 * time.Second, Adaptive: hostlimit.Longest(hostlimit.Learned, hostlimit.Proportional(3))},
	} {
		clients := 3
		if delay.FromEnd {
			clients = 1
		}
		honest, err := audit.Check(strings.NewReader(crawlSlowly(t, delay, clients)))
		if err != nil || !honest.OK() {
			t.Errorf("%+v: %v, %v", delay, honest, err)
			continue
		}
		i := slices.IndexFunc(honest.Promises, func(p audit.Promise) bool { return p.Name == "delays kept" })
		if p := honest.Promises[i]; p.Open > 0 || p.Proved < 39 {
			t.Errorf("%+v: %+v", delay, p)
		}
	}
}
