package docs

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/rules"
	"github.com/go-politeness/politeness/politenesstest"
)

// TestCheckerReadsStatusesAlike holds package politenesstest, which has the rules of 429.md a second
// time, against those of the limiter: for each status, with and without Retry-After, and by the method.
func TestCheckerReadsStatusesAlike(t *testing.T) {
	table, err := rules.New(hostlimit.Config{})
	if err != nil {
		t.Fatal(err)
	}
	// The checker lets a crawler that compares pages take these for a ban, and asks nobody to.
	lenient := []int{400, 405, 406, 409}
	for status := 200; status <= 999; status++ {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			meaning := table.Meaning(&hostlimit.Outcome{Status: status, Method: method})
			var wrong string
			synctest.Test(t, func(t *testing.T) {
				wantRest := meaning == rules.Unsure
				if rests := startsIntoARest(t, method, 1, status); rests != wantRest {
					wrong = fmt.Sprintf("a start half a second later is wrong: %v", rests)
				}
				wantBan := meaning == rules.Forbidden && !slices.Contains(lenient, status)
				if bans := startsIntoARest(t, method, 6, status); bans != (wantBan || wantRest) {
					wrong = fmt.Sprintf("a start after six in a row is wrong: %v", bans)
				}
				wantAfter := status >= 400
				if after := startsIntoARest(t, method, 1, status, "Retry-After", "60"); after != wantAfter && !wantRest {
					wrong = fmt.Sprintf("a start into its Retry-After is wrong: %v", after)
				}
			})
			if wrong != "" {
				t.Errorf("%s answered %d, which means %v: %s", method, status, meaning, wrong)
			}
		}
	}
}

// startsIntoARest reports whether the checker finds fault with a start half a second after some
// answers with that status, to requests that went one by one, five minutes apart.
func startsIntoARest(t *testing.T, method string, answers, status int, header ...string) bool {
	t.Helper()
	web := politenesstest.NewWeb()
	site := web.Site("https://a.example").Handle("/", politenesstest.Status(status, header...))
	site.Page("/last", "page")
	for n := range answers + 1 {
		url := "https://a.example/" + strconv.Itoa(n)
		if n == answers {
			url = "https://a.example/last"
		}
		req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := web.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		pause := 5 * time.Minute
		if n == answers-1 {
			pause = time.Second / 2
		}
		time.Sleep(pause)
	}
	return len(web.Violations(politenesstest.Rules{IgnoreRobots: true})) > 0
}
