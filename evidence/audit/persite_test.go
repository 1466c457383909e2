package audit_test

import (
	"bytes"
	"fmt"
	"io"
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
	"github.com/go-politeness/politeness/hostlimit/sitekey"
	"github.com/go-politeness/politeness/politenesstest"
)

// The ports of one name are one site by every public suffix list. So are those of an address.
func TestVerdictsOnPortsOfAName(t *testing.T) {
	checkRows(t, "policy perSite=2\nsite \"\"\nsite \"\" host=a.example:81 at=-59\nsite \"\" host=a.example:82 at=-58", []row{
		{"two on all ports", `
			1   allow 1
			1   start 1
			1.5 allow 2 host=a.example:81
			1.5 start 2 host=a.example:81
			2   end 1
			2   page 3 host=a.example:82
			3   end 2
		`, ``},
		{"three", `
			1   allow 1
			1   start 1
			1.5 allow 2 host=a.example:81
			1.5 start 2 host=a.example:81
			2   page 3 host=a.example:82
			2.000000001   end 1
			3   end 2
		`, `lines 14 and 16: site: 3 in flight on all ports and names of a site, 2 at most`},
	})
}

// What the list decides is open for a judge that doesn't know it, unless it makes no difference.
func TestVerdictsOnNamesWithoutTheList(t *testing.T) {
	const sites = "\nsite \"\"\nsite \"\" host=b.a.example at=-59\nsite \"\" host=c.a.example at=-58\n"
	const three = `
		1   allow 1
		1   start 1
		1.5 allow 2 host=b.a.example
		1.5 start 2 host=b.a.example
		2   page 3 host=c.a.example
		2.5 end 1
		3   end 2
	`
	const open = "open, sites kept: names that may be one site, which the crawler's public suffix list decides (Trust.Site, Trust.SiteList)"
	checkRows(t, "policy perSite=2 siteList=abc"+sites, []row{{"more than the site may have, if it is one", three, open}})
	checkRows(t, "policy perSite=3 siteList=abc"+sites, []row{{"as many as one site may have", three, ""}})
	checkRows(t, "policy perSite=0"+sites, []row{{"nothing promised", three, ""}})
}

// Each process of a fleet counts by itself. What its two clocks leave unsure is open.
func TestVerdictsOnSitesOfAFleet(t *testing.T) {
	const (
		one    = "policy perSite=1 process=p1 limiter=L clock=0 delayMin=0 delayMax=0\n"
		two    = "policy perSite=1 process=p2 limiter=L by=U clock=0 delayMin=0 delayMax=0\n"
		places = "places of two processes"
	)
	log := one + `
		site "" at=-59
		1   allow 1
		1   start 1
		9   end 1
		9999 closed
		file
	` + two + `
		site "" host=a.example:81 at=-58
		2   allow 2 host=a.example:81
		2   start 2 host=a.example:81
		9   end 2
		9999 closed
	`
	r := judge(t, log)
	if p := r.Promise("sites kept"); p.Broken > 0 || p.Open > 0 || p.Proved == 0 {
		t.Errorf("%s: %+v\n%v", places, p, r)
	}
	alone := strings.NewReplacer("process=p2", "process=p1").Replace(log)
	if p := judge(t, alone).Promise("sites kept"); p.Broken == 0 {
		t.Errorf("two of one process: %+v", p)
	}
}

// crawlOfOneSite returns the log of a crawl of many names and ports of a site, with three in flight.
func crawlOfOneSite(t *testing.T) string {
	t.Helper()
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		log := evidence.JSONLines(&out)
		transport, err := politeness.New(politeness.Config{
			UserAgent: "ExampleBot/1.0 (+https://example.com/bot; bot@example.com)", Base: web, Evidence: log,
			Hosts: hostlimit.Config{Delay: hostlimit.Delay{Min: time.Second}, Concurrency: 1, PerSite: 3},
		})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for i := range 8 {
			site := fmt.Sprintf("https://n%d.victim.co.uk:%d", i%4, 8000+i)
			web.Site(site).Robots("").Handle("/", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				time.Sleep(time.Duration(2000+100*i) * time.Millisecond) // virtual
				_, _ = io.WriteString(w, "page")
			}))
			wg.Go(func() {
				for range 10 {
					req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, site, http.NoBody)
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

// TestSitesAreJudged: PerSite is proved from starts and ends, and a log with more in flight than its
// policy says is found, if the judge has the crawler's list.
func TestSitesAreJudged(t *testing.T) {
	honest := crawlOfOneSite(t)
	promise := func(trust audit.Trust, log string) (*audit.Report, audit.Promise) {
		report, err := trust.Check(strings.NewReader(log))
		if err != nil {
			t.Fatal(err)
		}
		return report, report.Promise("sites kept")
	}
	known := audit.Trust{Site: sitekey.Of, SiteList: sitekey.List()}
	if report, p := promise(known, honest); !report.OK() || p.Open > 0 || p.Proved < 80 {
		t.Errorf("%v\n%+v", report, p)
	}
	if report, p := promise(audit.Trust{}, honest); !report.OK() || p.Open > 0 || p.Proved < 80 {
		t.Errorf("without a list, which makes no difference: %v\n%+v", report, p)
	}
	forged := strings.Replace(honest, `"perSite":3`, `"perSite":2`, 1)
	if report, p := promise(known, forged); forged == honest || p.Broken == 0 || report.Broken[audit.BrokenSite] == 0 {
		t.Errorf("three in flight, two promised: %v", report)
	}
	// Another list doesn't accuse, and proves less.
	other := strings.Replace(forged, sitekey.List(), "0123456789ab", 1)
	if report, p := promise(known, other); !report.OK() || p.Open == 0 {
		t.Errorf("by another list: %v\n%+v", report, p)
	}
}
