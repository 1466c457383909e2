package docs

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/memory"
	"github.com/go-politeness/politeness/hostlimit/rules"
)

var update = flag.Bool("update", false, "write the tables that are generated into the guides")

const (
	tableBegins = "<!-- The table is made by: go test ./docs -run Statuses -update -->\n"
	tableEnds   = "<!-- end of the table -->\n"
)

// TestStatuses holds the table of statuses in 429.md against rules.Rules, whose words it has, and
// against the limiter itself: each status is observed by one, alone, in a row, and between answers that
// forbid.
func TestStatuses(t *testing.T) {
	text, err := os.ReadFile("429.md")
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), tableBegins)
	table, after, whole := strings.Cut(rest, tableEnds)
	if !ok || !whole {
		t.Fatal("429.md has no place for the table")
	}
	const agent = "ExampleBot/1.0 (bot@example.com)"
	want := statusTable(t, politeness.Bulk(agent).Hosts, politeness.Conservative(agent).Hosts)
	if table == want {
		return
	}
	if !*update {
		const text = "429.md says\n%s\nand the limiter does\n%s\nTo write it: go test ./docs -run Statuses -update"
		t.Fatalf(text, table, want)
	}
	guide := before + tableBegins + want + tableEnds + after
	if err := os.WriteFile("429.md", []byte(guide), 0o644); err != nil { //nolint:gosec // a guide is for everybody
		t.Fatal(err)
	}
}

// statusTable groups the statuses by what limiters with the limits do about them: a row for each pair
// of effects.
func statusTable(t *testing.T, usual, conservative hostlimit.Config) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("\n| status | by default | `Conservative` |\n|---|---|---|\n")
	effectOf := func(o hostlimit.Outcome) [2]string {
		return [2]string{effect(t, usual, o), effect(t, conservative, o)}
	}
	const most = 999 // HTTP has three digits
	var rows [][2]string
	statuses := map[[2]string][]string{}
	add := func(from, to int, effect [2]string) {
		name := fmt.Sprint(from)
		switch {
		case to == from+1:
			name = fmt.Sprintf("%d, %d", from, to)
		case to > from:
			name = fmt.Sprintf("%d to %d", from, to)
		}
		if statuses[effect] == nil {
			rows = append(rows, effect)
		}
		statuses[effect] = append(statuses[effect], name)
	}
	from := 100
	last := effectOf(hostlimit.Outcome{Status: 100})
	for status := 101; status <= most+1; status++ {
		var now [2]string
		if status <= most {
			now = effectOf(hostlimit.Outcome{Status: status})
		}
		if now != last {
			add(from, status-1, last)
			from = status
			last = now
		}
	}
	for _, effect := range rows {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", strings.Join(statuses[effect], ", "), effect[0], effect[1])
	}
	for _, more := range []struct {
		name    string
		outcome hostlimit.Outcome
	}{
		{"503 with `Retry-After`", hostlimit.Outcome{Status: 503, RetryAfter: time.Minute}},
		{"400, 405, 409 to a GET of [package crawl](crawl.md)", hostlimit.Outcome{Status: 405, Page: true}},
		{"400, 405, 409 to a GET of package crawl with a condition or a range", hostlimit.Outcome{Status: 405, Page: true, Conditional: true}},
		{"406 with a condition or a range", hostlimit.Outcome{Status: 406, Conditional: true}},
		{"406 to another method than GET", hostlimit.Outcome{Status: 406, Method: http.MethodHead}},
		{"501 to another method than GET", hostlimit.Outcome{Status: 501, Method: http.MethodHead}},
	} {
		does := effectOf(more.outcome)
		fmt.Fprintf(&b, "| %s | %s | %s |\n", more.name, does[0], does[1])
	}
	b.WriteString("\n")
	return b.String()
}

// meanings are the words of the guide for those of rules.Rules.
var meanings = map[string]string{
	"neutral":   "no effect",
	"ok":        "success, ends a block",
	"unsure":    "pauses the host. A repeat shows if the fault is in the page",
	"forbidden": "doesn't end a block. After %d in a row, one more is a ban",
	"refused":   "blocks the host",
}

// effect returns what the rules of a limiter say about a status, once the limiter does so.
func effect(t *testing.T, limits hostlimit.Config, o hostlimit.Outcome) string {
	t.Helper()
	words := observed(t, limits, o)
	rules, err := rules.New(limits)
	if err != nil {
		t.Fatal(err)
	}
	meaning := rules.Meaning(&o).String()
	want := meanings[meaning]
	if meaning == "forbidden" {
		want = fmt.Sprintf(want, rules.Backoff().InARow)
	}
	if words != want {
		t.Errorf("%+v: the rules say %q, and the limiter does %q", o, want, words)
	}
	return words
}

// observed returns the words of the guide for a limiter's reaction to a status.
func observed(t *testing.T, limits hostlimit.Config, o hostlimit.Outcome) string {
	t.Helper()
	status := o.Status
	words := ""
	synctest.Test(t, func(t *testing.T) {
		answers := statusAnswers{limits, o}
		first, _ := answers.observe(t, slices.Repeat([]int{status}, 10)...)
		switch first {
		case 0:
			words = meanings["ok"]
			// A status that clears ends the row of 451s.
			_, ban := answers.observe(t, 451, 451, 451, 451, 451, status, 451)
			if ban {
				words = meanings["neutral"]
			}
		case 1:
			words = meanings["refused"]
			_, again := answers.observe(t, status, status)
			if !again { // it may be the page's own trouble
				words = meanings["unsure"]
			}
		default:
			words = fmt.Sprintf(meanings["forbidden"], first-1)
		}
	})
	return words
}

// statusAnswers are answers of hosts, of which those with the status of outcome are it.
type statusAnswers struct {
	limits  hostlimit.Config
	outcome hostlimit.Outcome
}

// observe has a new host answer for one page with each of the statuses. It returns the number of
// the first that blocked the host, 0 for none, and whether the last did.
func (a statusAnswers) observe(t *testing.T, statuses ...int) (first int, last bool) {
	t.Helper()
	patient := a.limits
	patient.MaxWait = 1000 * time.Hour
	limiter, err := memory.New(patient)
	if err != nil {
		t.Fatal(err)
	}
	for i, status := range statuses {
		lease, err := limiter.Acquire(t.Context(), "host", 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := lease.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		outcome := hostlimit.Outcome{Status: status}
		if status == a.outcome.Status {
			outcome = a.outcome
		}
		outcome.Resource = 1
		e := lease.Observe(outcome)
		last = e.Blocked && e.Kind != "" // else only Retry-After has asked for it
		lease.Release()
		if last && first == 0 {
			first = i + 1
		}
	}
	return first, last
}
