package crawl

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-politeness/politeness/internal/printable"
	"github.com/go-politeness/politeness/revisit"
)

// An Outcome is the end of a URL. Use it in Config.Done and Summary.Outcomes.
type Outcome string

// The outcomes. Every URL that a crawl was given, or found and would have followed, ends in one.
const (
	Visited      Outcome = "visited"        // Visit has returned nil for a response of any status, 304 included
	VisitFailed  Outcome = "visit failed"   // Visit has returned an error, or panicked
	Unchanged    Outcome = "unchanged"      // fetched again and the same, so Visit isn't called (Config.Revisit)
	Redirected   Outcome = "redirected"     // it led to another URL, which has its own outcome or isn't followed
	NotCanonical Outcome = "not canonical"  // it gave way to its canonical URL (Config.Canonical)
	Disallowed   Outcome = "disallowed"     // by robots.txt, or reserved by the site
	Unreachable  Outcome = "unreachable"    // robots.txt couldn't be fetched, Config.Tries times or permanently
	Refused      Outcome = "refused"        // refused Tries times, or its host allowed no request within Patience
	OverBudget   Outcome = "over budget"    // the budget's pages of its host are spent (budget.Limits.PagesPerHost)
	Failed       Outcome = "failed"         // no response or half a response, though its host responds
	Rejected     Outcome = "rejected"       // too large or of the wrong type, by the Transport's ResponseLimits
	Duplicate    Outcome = "duplicate"      // known already
	TooDeep      Outcome = "too deep"       // Config.MaxDepth
	TooLong      Outcome = "too long"       // a URL of more than 2,048 bytes
	TooMany      Outcome = "too many"       // beyond the 10,000th link of a page
	Invalid      Outcome = "invalid"        // no http or https URL
	NoRoom       Outcome = "no room"        // Config.MaxURLs, or the Queue is full
	EnoughOfHost Outcome = "enough of host" // Config.MaxPagesPerHost
	Left         Outcome = "left"           // still to be fetched when the crawl ended, or refused by an own rule
)

// A Summary is the result of a crawl. Run returns it.
type Summary struct {
	Outcomes map[Outcome]int   // number of URLs by outcome; with a Config.Queue, Left has only those lent at the end
	Statuses map[int]int       // number of Visited pages, by status
	Errors   map[Outcome]error // the first Result.Err of each outcome, of which Config.Done receives all
	Bytes    int64             // of bodies

	// With Config.Revisit, Changes is the number of URLs by change, without revisit.Same.
	// NotModified is the number of those that are Unchanged by status 304.
	Changes     map[revisit.Change]int
	NotModified int

	Elapsed time.Duration
	Stopped error // why URLs may be left (ctx, budget, MaxPages, Queue, own rules), nil if none is

	// Rules counts the URLs that are Left, or set aside so far, because of your own rules. The key is
	// the text of the rule. The text is the error of Config.Refuse of the Transport. For a block that
	// ends later than Patience, it is "by hand: " with the reason of the block. After a hundred rules,
	// all others share one key. Rules is nil if no rule applied.
	Rules map[string]int

	// Postponed is the number of URLs that wait, or are Left, because they look like those of a
	// trap (Config.Traps), by what has postponed them, such as "parameter orderby". It has at most
	// 20 reasons, and one key for all others. If the Queue has URLs of earlier runs, their
	// postponed URLs count too. It is nil if there is none, or if they weren't counted yet.
	Postponed map[string]int
}

// ErrMaxPages is Summary.Stopped of a crawl that ended because of Config.MaxPages. Test for it to
// recognize such a crawl.
var ErrMaxPages = errors.New("crawl: as many pages are visited as Config.MaxPages allows")

// mostRules is the number of rules that a Summary names.
const mostRules = 100

// otherRules is the key in Summary.Rules of those that it doesn't name.
const otherRules = "other rules"

// countRule counts a URL that the given rule refuses. It returns the rule's key in s.Rules.
func (s *Summary) countRule(rule string) string {
	if s.Rules == nil {
		s.Rules = make(map[string]int)
	}
	rule = printable.Clipped(rule, 200)
	if s.Rules[rule] == 0 && len(s.Rules) >= mostRules {
		rule = otherRules
	}
	s.Rules[rule]++
	return rule
}

// uncountRule takes a URL back that countRule has counted under the key rule.
func (s *Summary) uncountRule(rule string) {
	s.Rules[rule]--
	if s.Rules[rule] == 0 {
		delete(s.Rules, rule)
	}
}

// rules returns the rules that refuse URLs, and how many each, those that refuse most first.
func (s Summary) rules() string {
	names := slices.SortedFunc(maps.Keys(s.Rules), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.Rules[b], s.Rules[a]), cmp.Compare(a, b))
	})
	var parts []string
	for _, name := range names {
		if len(parts) == 3 {
			parts = append(parts, "and further rules")
			break
		}
		parts = append(parts, fmt.Sprintf("%d %s", s.Rules[name], name))
	}
	return strings.Join(parts, "; ")
}

// Visited returns the number of pages visited.
func (s Summary) Visited() int { return s.Outcomes[Visited] }

// mostStatuses is how many statuses a line of a Summary has.
const mostStatuses = 3

// statuses returns the statuses of visited pages other than 200, those of most pages first: ", 586
// of them 202, 2 of them 404". It is empty if there are none.
func (s Summary) statuses() string {
	others := slices.DeleteFunc(slices.Collect(maps.Keys(s.Statuses)), func(status int) bool {
		return status == http.StatusOK
	})
	slices.SortFunc(others, func(a, b int) int {
		return cmp.Or(cmp.Compare(s.Statuses[b], s.Statuses[a]), cmp.Compare(a, b))
	})
	text := ""
	for i, status := range others {
		if i == mostStatuses {
			return text + " and so on"
		}
		text += fmt.Sprintf(", %d of them %d", s.Statuses[status], status)
	}
	return text
}

// changes returns the number of the given changes: " (2 new, 3 changed)", and nothing if there are
// none.
func (s Summary) changes(which ...revisit.Change) string {
	var parts []string
	for _, c := range which {
		if n := s.Changes[c]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, c))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// String returns the summary in a line, such as "12 visited, 2 of them 404, 1 visit failed
// (database is locked), 3 disallowed in 3.2s". Of the pages visited it names the statuses other
// than 200. Each outcome is followed by its first error, but not Disallowed and Left. Duplicates
// are in Outcomes only. Their number shows how often pages lead to each other.
func (s Summary) String() string {
	var parts []string
	for _, o := range order {
		n := s.Outcomes[o]
		if n == 0 && o != Visited { // that nothing was visited is part of the summary
			continue
		}
		part := fmt.Sprintf("%d %s", n, o)
		if o == Visited {
			part += s.statuses() + s.changes(revisit.New, revisit.Changed, revisit.Gone)
		}
		if o == Redirected {
			part += s.changes(revisit.Moved)
		}
		err := s.Errors[o]
		if err != nil && o != Disallowed && o != Left {
			part += " (" + printable.Clipped(err.Error(), 200) + ")"
		}
		if o == Left && len(s.Rules) > 0 {
			part += " (by own rules: " + s.rules() + ")"
		}
		parts = append(parts, part)
	}
	if postponed := s.postponed(); postponed != "" {
		parts = append(parts, postponed)
	}
	text := fmt.Sprintf("%s in %v", strings.Join(parts, ", "), s.Elapsed.Round(100*time.Millisecond))
	if s.NotModified > 0 {
		text += fmt.Sprintf("; %d answered 304", s.NotModified)
	}
	if s.Stopped != nil {
		text += "; stopped: " + s.Stopped.Error()
	}
	return text
}

// order is the order of the outcomes in Summary.String, which leaves Duplicate out.
var order = []Outcome{
	Visited, VisitFailed, Unchanged, Redirected, NotCanonical,
	Disallowed, Unreachable, Refused, OverBudget, Failed, Rejected,
	TooDeep, TooLong, TooMany, Invalid, NoRoom, EnoughOfHost, Left,
}
