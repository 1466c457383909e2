package limiters_test

import (
	"testing"
	"time"

	"github.com/go-politeness/politeness/lab/limiters"
	"github.com/go-politeness/politeness/lab/servers"
)

// TestWhatIsWrongWithACell holds what counts as inside and as lost, and what fails, against cells
// written by hand.
func TestWhatIsWrongWithACell(t *testing.T) {
	stated := &limiters.Limiter{Server: &servers.Server{Name: "npm", Kind: servers.Window}, From: "npm"}
	told := &limiters.Limiter{Server: &servers.Server{Name: "told", Kind: servers.Window}, From: "Go", Told: true}
	silent := &limiters.Limiter{Server: &servers.Server{Name: "debian", Kind: servers.Window}, From: "Debian"}
	asking := &limiters.Limiter{Server: &servers.Server{Name: "asks", Kind: servers.Window, RetryAfter: true}, From: "Debian"}
	for name, c := range map[string]struct {
		limiter  *limiters.Limiter
		cell     servers.Cell
		givenUp  int
		inside   int
		lost     int
		problems int
	}{
		"nothing wrong":                   {stated, servers.Cell{Pages: 5, InRetryAfter: 10, Repeated: 99}, 0, 10, 0, 0},
		"eleven inside a window":          {stated, servers.Cell{Pages: 5, InRetryAfter: 11}, 0, 11, 0, 1},
		"refusals in a row, nothing said": {silent, servers.Cell{Pages: 5, Repeated: 11}, 0, 11, 0, 1},
		"the same, but it has said":       {asking, servers.Cell{Pages: 5, Repeated: 11, InRetryAfter: 2}, 0, 2, 0, 0},
		"a page given up":                 {stated, servers.Cell{Pages: 5}, 1, 0, 1, 1},
		"no page":                         {stated, servers.Cell{}, 0, 0, 0, 1},
		"a refusal that was told":         {told, servers.Cell{Pages: 5, Foreseeable: 1}, 0, 0, 0, 1},
		"one that nobody has told":        {stated, servers.Cell{Pages: 5, Foreseeable: 1}, 0, 0, 0, 0},
	} {
		cell := limiters.Cell{Limiter: c.limiter, Result: servers.Result{
			Cell: c.cell, Server: c.limiter.Server, Crawler: servers.Crawlers[0], Length: time.Minute, GivenUp: c.givenUp,
		}}
		if cell.Inside() != c.inside || cell.Lost() != c.lost || len(cell.Problems()) != c.problems {
			t.Errorf("%s: %d inside, %d lost, %q", name, cell.Inside(), cell.Lost(), cell.Problems())
		}
	}
}

// TestACrawlThatEndsHasAllPages: those that it never had are lost, unless its time was over.
func TestACrawlThatEndsHasAllPages(t *testing.T) {
	limiter := &limiters.Limiter{Server: &servers.Server{Name: "npm", Kind: servers.Window}, From: "npm"}
	site := limiter.Site(time.Minute)
	for ended, want := range map[bool]int{true: 2, false: 0} {
		cell := limiters.Cell{Limiter: limiter, Result: servers.Result{
			Cell: servers.Cell{Pages: site.Pages() - 2}, Server: limiter.Server, Crawler: servers.Crawlers[0], Site: site, Ended: ended,
		}}
		if cell.Lost() != want {
			t.Errorf("ended %v: %d lost, want %d", ended, cell.Lost(), want)
		}
	}
}
