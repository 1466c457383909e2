package main

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/politenesstest"
)

// The whole crawl, to its end: an hour and some seconds of virtual time.
func TestCrawlParksNobody(t *testing.T) {
	var log bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		web, urls := newWeb()
		proof := evidence.JSONLines(&log)
		var recorder evidence.Recorder
		begin := time.Now()
		r, err := run(t.Context(), withCrawl, web, evidence.Multi(proof, &recorder), urls)
		if err != nil {
			t.Fatal(err)
		}
		if err := proof.Close(); err != nil {
			t.Fatal(err)
		}
		t.Logf("%v: %+v", time.Since(begin), r)

		// Everything was fetched, once, and politely.
		fetched := make(map[string]int)
		starts := make(map[string][]time.Time) // by host, in order
		for _, req := range web.Requests() {
			if req.Status == http.StatusOK {
				fetched[req.URL]++
			}
			host := strings.Split(req.URL, "/")[2]
			starts[host] = append(starts[host], req.Start)
		}
		for _, u := range urls {
			if fetched[u] != 1 {
				t.Errorf("%s was fetched %d times", u, fetched[u])
			}
		}
		web.Check(t, politenesstest.Rules{Delay: delay, Concurrency: 2})

		// Nothing waited inside of a request, for any host, but where robots.txt was fetched anew: the
		// page behind that waits for its delay.
		for _, d := range recorder.Decisions(evidence.Started) {
			renewed := d.Time.Sub(begin) >= time.Hour
			if wait := d.WaitSlot + d.WaitDelay + d.WaitBlock; wait > latency && !renewed || wait > 2*delay {
				t.Errorf("%s: a request waited for %v", d.URL, wait)
			}
		}

		// The others ran at their full rate: one start every delay.
		for host, s := range starts {
			if ofTheTwo("http://" + host) {
				continue
			}
			least := time.Duration(len(s)-1) * delay
			if took := s[len(s)-1].Sub(s[0]); len(s) != urlsEach+1 || took > least*103/100 {
				t.Errorf("%s: %d starts in %v, which could be done in %v", host, len(s), took, least)
			}
		}
		if least := urlsEach * delay; r.othersDone > least*105/100 {
			t.Errorf("the other hosts took %v, which could be done in %v", r.othersDone, least)
		}
	})
	report, err := audit.Check(&log)
	if err != nil {
		t.Fatal(err)
	}
	if !report.OK() {
		t.Error(report)
	}
}

// The plain pool on the same web, for ten times as long as the crawl needs for the other
// hosts: all its workers end up on the two, and the rest of the work lies idle.
func TestPoolIsParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		web, urls := newWeb()
		r, err := run(ctx, withPool, web, nil, urls)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v", r)
		if r.waiting != workers {
			t.Errorf("%d of %d workers are inside a request", r.waiting, workers)
		}
		if all := (hosts - 2) * urlsEach; r.others == all {
			t.Errorf("the pool fetched all %d pages in a minute: it does as well", all)
		}
		web.Check(t, politenesstest.Rules{Delay: delay, Concurrency: 2}) // polite it is
	})
}

// A redirect is queued for its own host, so that no worker waits for that one either.
func TestRedirectIsQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		web.Site("http://old.example").Handle("/", http.RedirectHandler(slowHost+"/page", http.StatusFound))
		web.Site(slowHost).Robots("User-agent: *\nCrawl-delay: 30\n").Page("/page", "here").Page("/other", "there")
		begin := time.Now()
		if _, err := run(t.Context(), withCrawl, web, nil, []string{slowHost + "/other", "http://old.example/"}); err != nil {
			t.Fatal(err)
		}
		requests := web.Requests()
		if last := requests[len(requests)-1]; last.URL != slowHost+"/page" || last.Status != http.StatusOK || last.Start.Sub(begin) < 2*crawlDelay {
			t.Errorf("last request %v after %v", last, last.Start.Sub(begin))
		}
		web.Check(t, politenesstest.Rules{Delay: delay})
	})
}

func TestShow(t *testing.T) {
	var out strings.Builder
	show(&out, result{others: (hosts - 2) * urlsEach, othersDone: 6300 * time.Millisecond}, result{others: 1, waiting: workers})
	for _, want := range []string{"6.3 s", "never", "9960", "32"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}
