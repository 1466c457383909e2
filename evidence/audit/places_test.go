package audit_test

import (
	"bytes"
	"fmt"
	"io"
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

// TestPlacesOfAllHostsAreCounted: MaxInFlight is proved from starts and ends, and where more were in
// flight than the policy says that is found.
func TestPlacesOfAllHostsAreCounted(t *testing.T) {
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		log := evidence.JSONLines(&out)
		transport, err := politeness.New(politeness.Config{
			UserAgent: "ExampleBot/1.0 (+https://example.com/bot; bot@example.com)", Base: web, Evidence: log,
			Hosts: hostlimit.Config{Delay: hostlimit.Delay{Min: time.Second}, MaxInFlight: 3, LeaseTTL: 20 * time.Second},
		})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for i := range 6 {
			site := fmt.Sprintf("https://h%d.example", i)
			web.Site(site).Robots("").Handle("/", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				time.Sleep(time.Duration(200+100*i) * time.Millisecond) // virtual
				_, _ = io.WriteString(w, "page")
			}))
			wg.Go(func() {
				for n := range 40 {
					req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, site, http.NoBody)
					if err != nil {
						t.Error(err)
					}
					if resp, err := transport.RoundTrip(req); err == nil {
						if i == 5 && n == 3 {
							time.Sleep(time.Minute) // its slot is taken back, to be told of by another host's request
						}
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
	slots := func(log string) (*audit.Report, audit.Promise) {
		report, err := audit.Check(strings.NewReader(log))
		if err != nil {
			t.Fatal(err)
		}
		return report, report.Promises[slices.IndexFunc(report.Promises, func(p audit.Promise) bool { return p.Name == "slots kept" })]
	}
	honest := out.String()
	if report, p := slots(honest); !report.OK() || p.Open > 0 || p.Proved < 240 || !strings.Contains(honest, `"lease_expired"`) {
		t.Errorf("%v\n%+v", report, p)
	}
	told := strings.Replace(honest, `"maxInFlight":3`, `"maxInFlight":2`, 1)
	if report, _ := slots(told); told == honest || report.Broken[audit.BrokenConcurrency] == 0 {
		t.Errorf("three in flight, two promised: %v", report)
	}
}
