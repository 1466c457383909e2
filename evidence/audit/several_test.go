package audit_test

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/memory"
	"github.com/go-politeness/politeness/internal/logtest"
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
			memory, err := memory.New(limits)
			if err != nil {
				t.Fatal(err)
			}
			log := logtest.New(t, &out, evidence.LogConfig{Chained: true})
			var transports []*politeness.Transport
			for range 3 {
				transport, err := politeness.New(politeness.Config{
					UserAgent: "ExampleBot/1.0 (bot@example.com)", Base: web, Evidence: log, Limiter: memory, Robots: robotscache.Config{RecordText: true},
				})
				if err != nil {
					t.Fatal(err)
				}
				transports = append(transports, transport)
			}
			for range 200 {
				getPage(t, transports[rnd.IntN(3)])
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

// TestAPersonBesideAnAnswer: what a person does to a host while a request is under way is told by the next
// one, and excuses what the answer did then.
func TestAPersonBesideAnAnswer(t *testing.T) {
	for name, act := range map[string]func(c hostlimit.Controller) error{
		"blocks": func(c hostlimit.Controller) error {
			return c.Block(context.Background(), "a.example", time.Now().Add(20*time.Second), "lunch")
		},
		"clears": func(c hostlimit.Controller) error { return c.Clear(context.Background(), "a.example") },
	} {
		var out bytes.Buffer
		synctest.Test(t, func(t *testing.T) {
			busy := politenesstest.Status(429, "Retry-After", "2")
			web := politenesstest.NewWeb()
			web.Site("https://a.example").Robots("").Latency(time.Second).Handle("/", politenesstest.InTurn(busy, busy, politenesstest.Text("x")))
			memory, err := memory.New(hostlimit.Config{})
			if err != nil {
				t.Fatal(err)
			}
			log := logtest.New(t, &out, evidence.LogConfig{Chained: true})
			transport, err := politeness.New(politeness.Config{
				UserAgent: "ExampleBot/1.0 (bot@example.com)", Base: web, Evidence: log, Limiter: memory, Robots: robotscache.Config{RecordText: true},
			})
			if err != nil {
				t.Fatal(err)
			}
			for i := range 3 {
				var done sync.WaitGroup
				if i == 1 {
					done.Go(func() {
						time.Sleep(2500 * time.Millisecond) // virtual: the block before is over, and the answer on its way
						if err := act(memory); err != nil {
							t.Error(err)
						}
					})
				}
				getPage(t, transport)
				done.Wait()
				if i == 1 {
					time.Sleep(time.Minute) // virtual: whoever asks in a block by hand is refused
				}
			}
			if err := log.Close(); err != nil {
				t.Fatal(err)
			}
		})
		if r := check(t, out.Bytes()); !r.OK() || !strings.Contains(openFor(r, "blocks kept"), "an operator") {
			t.Errorf("%s: %v", name, r)
		}
	}
}

type roundTrip func(r *http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestSeveralLogsOfOneLimiter, by the real clock: one start is named in both by the same time.
func TestSeveralLogsOfOneLimiter(t *testing.T) {
	memory, err := memory.New(hostlimit.Config{Concurrency: 1, Delay: hostlimit.Delay{Min: 2 * time.Millisecond, Max: 2 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	site := roundTrip(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Request: r, Body: http.NoBody}, nil
	})
	var files [4]bytes.Buffer
	var logs []*evidence.Log
	var transports []*politeness.Transport
	for i := range files {
		log := logtest.New(t, &files[i], evidence.LogConfig{Chained: true})
		transport, err := politeness.New(politeness.Config{
			UserAgent: "ExampleBot/1.0 (bot@example.com)", Base: site, Evidence: log, Limiter: memory, Robots: robotscache.Config{RecordText: true},
		})
		if err != nil {
			t.Fatal(err)
		}
		logs, transports = append(logs, log), append(transports, transport)
	}
	for range 20 {
		for _, transport := range transports {
			getPage(t, transport)
		}
	}
	var readers []io.Reader
	for i, log := range logs {
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
		readers = append(readers, &files[i])
	}
	if r, err := audit.Check(readers...); err != nil || !r.OK() {
		t.Errorf("%v, %v", r, err)
	}
}
