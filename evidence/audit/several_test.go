package audit_test

import (
	"bytes"
	"math/rand/v2"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/politenesstest"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// TestSeveralTransportsOnOneLimiter: what one of them is told holds for all, and their starts count
// together.
func TestSeveralTransportsOnOneLimiter(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for name, limits := range map[string]hostlimit.Config{
		"a delay that was learned is unlearned by the starts of all": {Delay: hostlimit.Delay{Min: 300 * time.Millisecond}},
		"limits that change between the starts of one": {Override: func(string) (hostlimit.Limits, bool) {
			return hostlimit.Limits{Delay: hostlimit.Delay{Min: time.Duration(1+rnd.IntN(5)) * time.Second}}, rnd.IntN(3) > 0
		}},
	} {
		var out bytes.Buffer
		synctest.Test(t, func(t *testing.T) {
			web := politenesstest.NewWeb()
			web.Site("https://a.example").Robots("").
				Handle("/", politenesstest.InTurn(politenesstest.Text("x"), politenesstest.Status(429), politenesstest.Text("x")))
			memory, err := hostlimit.New(limits)
			if err != nil {
				t.Fatal(err)
			}
			log := evidence.JSONLines(&out, evidence.Chained())
			var transports []*politeness.Transport
			for range 3 {
				transport, err := politeness.New(politeness.Config{
					UserAgent: "ExampleBot/1.0 (bot@example.com)", Base: web, Evidence: log, Hosts: memory, Robots: robotscache.Config{RecordText: true},
				})
				if err != nil {
					t.Fatal(err)
				}
				transports = append(transports, transport)
			}
			for range 200 {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://a.example/", http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				resp, err := transports[rnd.IntN(3)].RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
			}
			if err := log.Close(); err != nil {
				t.Fatal(err)
			}
		})
		if r := check(t, out.Bytes()); !r.OK() {
			t.Errorf("%s: %v", name, r.Violations)
		}
	}
}
