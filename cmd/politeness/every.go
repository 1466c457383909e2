package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-politeness/politeness/cmd/politeness/internal/printable"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/crawl/sqlitequeue"
	"github.com/go-politeness/politeness/revisit"
)

// An every has the flags about fetching pages again.
type every struct {
	schedule   revisit.Schedule
	wait       time.Duration // Config.Watch
	watch      bool
	ignore     patterns // of text
	ignoreWord bool     // ignore the site's statement that a response is fresh
	sources    sourceList
}

// A sourceList is a flag of URLs that may be given several times.
type sourceList []string

// String implements flag.Value.
func (l *sourceList) String() string { return "" }

// Set implements flag.Value.
func (l *sourceList) Set(s string) error {
	if _, err := crawl.Normalize(s); err != nil {
		return noURL(s, err)
	}
	*l = append(*l, s)
	return nil
}

// isSet reports whether pages are asked for again.
func (e *every) isSet() bool { return e.schedule.Min > 0 }

// String implements flag.Value.
func (e *every) String() string { return "" }

// Set implements flag.Value, for -every: "1d", or "1h-30d".
func (e *every) Set(s string) error {
	least, most, isRange := strings.Cut(s, "-")
	from, err := parseDays(least)
	if err != nil {
		return err
	}
	if from < leastEvery {
		return fmt.Errorf("pages are fetched again after %v at the earliest", leastEvery)
	}
	// Runs that cron starts each day aren't equally long. So pages are due after nine tenths of the
	// time, and a run waits for what comes due within the last tenth.
	e.schedule.Min = from - from/10
	e.schedule.Max = e.schedule.Min
	e.wait = from / 10
	if isRange {
		to, err := parseDays(most)
		if err != nil {
			return err
		}
		if to < from {
			return fmt.Errorf("of %s the second time is the longer one, as in 1h-30d", s)
		}
		e.schedule.Max = to
	}
	return e.schedule.Validate()
}

// leastEvery is the least time of -every.
const leastEvery = 2 * time.Second

// parseDays parses a duration that may be of days.
func parseDays(s string) (time.Duration, error) {
	const longest = 10_000 // days
	days, isDays := strings.CutSuffix(s, "d")
	if isDays {
		n, err := strconv.ParseFloat(days, 64)
		if err == nil && n > 0 && n <= longest {
			return time.Duration(n * float64(24*time.Hour)), nil
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, errors.New("write it as 1d, 6h or, for pages that change at different rates, 1h-30d")
	}
	return d, nil
}

// check returns what is wrong with the flags beside -every.
func (e *every) check(state string) error {
	switch {
	case e.isSet() && state == "":
		return misused("-every needs -state DIR, which remembers the pages")
	case e.watch && !e.isSet():
		return misused("-watch waits for pages that are due again: set their interval with -every")
	case len(e.ignore) > 0 && !e.isSet():
		return misused("-ignore-text is for pages that are compared with their last version: give -every")
	case e.ignoreWord && !e.isSet():
		return misused("-ignore-fresh is for pages that are asked for again: give -every")
	}
	return nil
}

// apply sets the fields of a Config.
func (e *every) apply(cfg *crawl.Config) {
	if !e.isSet() {
		return
	}
	cfg.Revisit = e.schedule
	cfg.Revisit.IgnoreFresh = e.ignoreWord
	cfg.Watch = e.wait
	if e.watch {
		cfg.Watch = -1
	}
	if len(e.ignore) > 0 {
		cfg.Compare = e.compared
	}
}

// compared is a Config.Compare that leaves out what -ignore-text matches.
func (e *every) compared(p *crawl.Page) []byte {
	text := slices.Clone(p.Compared())
	for _, re := range e.ignore {
		text = re.ReplaceAllLiteral(text, nil)
	}
	return text
}

// isAsked reports whether a crawl has come to its end: something was asked for, or nothing was due.
func isAsked(s crawl.Summary) bool {
	had := 0
	for _, o := range []crawl.Outcome{crawl.Visited, crawl.Unchanged, crawl.Redirected, crawl.NotCanonical} {
		had += s.Outcomes[o]
	}
	lost := 0
	for _, o := range []crawl.Outcome{
		crawl.Failed, crawl.Refused, crawl.Unreachable, crawl.Disallowed, crawl.Rejected, crawl.VisitFailed,
	} {
		lost += s.Outcomes[o]
	}
	return had > 0 || lost == 0
}

// moved writes the line of a page that has moved, which isn't visited.
func (w *writer) moved(res crawl.Result) {
	if res.Change != revisit.Moved || w.urlsOnly {
		return
	}
	l := line{Change: string(res.Change), URL: res.URL, Time: time.Now().UTC(), Status: res.Status, To: res.To}
	l.setSince(res.Since)
	_ = w.write(l) // it is reported at the end
}

// setSince sets when the page was visited before.
func (l *line) setSince(t time.Time) {
	if !t.IsZero() {
		t = t.UTC()
		l.Since = &t
	}
}

// isIdle reports whether a run had nothing to do: it met no URL but those that it knew.
func isIdle(s crawl.Summary) bool {
	for outcome, n := range s.Outcomes {
		if n > 0 && outcome != crawl.Duplicate {
			return false
		}
	}
	return true
}

// tellNext says when the next page is due, after a run in which none was.
func (c *crawlCommand) tellNext(ctx context.Context, sh *shell) {
	next, err := c.urls.Next(ctx)
	if err != nil || next.IsZero() {
		return // the summary says that nothing was fetched
	}
	what := "one"
	if c.polls != nil { // the queue has a row for them, too
		what = "page or sitemap"
	}
	fmt.Fprintf(sh.errs, "politeness crawl: no page was due, the next %s is at %s\n",
		what, next.Local().Format(time.DateTime))
}

// tellDue says how many URLs of -state are due, and when the next one is.
func (c *crawlCommand) tellDue(ctx context.Context, sh *shell) error {
	path := filepath.Join(c.policy.state, "urls.db")
	if _, err := os.Stat(path); !c.every.isSet() || c.policy.state == "" || err != nil {
		return nil
	}
	q, err := sqlitequeue.Open(path)
	if err != nil {
		return fmt.Errorf("-state: %w", err)
	}
	defer q.Close()
	due, err := q.Waiting(ctx)
	if err != nil {
		return err
	}
	next, err := q.Next(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(sh.out, "\n%d URLs of %s are due", due, printable.Text(c.policy.state))
	if !next.IsZero() {
		fmt.Fprintf(sh.out, ", the next one at %s", next.Local().Format(time.DateTime))
	}
	fmt.Fprintln(sh.out)
	return nil
}
