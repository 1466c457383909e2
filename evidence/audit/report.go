package audit

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/internal/lines"
	"github.com/go-politeness/politeness/internal/printable"
)

// A Kind names the promise that a Violation breaks.
type Kind string

// The kinds of violations.
const (
	BrokenGap         Kind = "gap"           // two starts on a host closer than the delay in force
	BrokenConcurrency Kind = "concurrency"   // more requests in flight than the host has slots
	BrokenBlock       Kind = "block"         // a start on a host that was blocked
	BrokenRobots      Kind = "robots"        // a fetch that was disallowed, or that no verdict allowed
	BrokenVerdict     Kind = "verdict"       // a verdict that robots.txt, as logged, doesn't give
	BrokenConsent     Kind = "consent"       // a page for a purpose that the site reserves, or preferences that it doesn't state
	BrokenBudget      Kind = "budget"        // more spent than the limit
	MissingEnd        Kind = "end"           // a start without an end, or an end without a start
	MissingStart      Kind = "sequence"      // the starts of a host aren't numbered without a hole
	MissingLine       Kind = "line"          // the lines aren't numbered without a hole
	BrokenChain       Kind = "chain"         // a line isn't what was hashed, or doesn't follow the one before it
	BrokenSignature   Kind = "signature"     // lines aren't what a checkpoint was made of, or it isn't signed by the key
	Contradiction     Kind = "contradiction" // records that can't both be true, or one that can't be true
	Unreadable        Kind = "unreadable"    // a line that is no record
)

// A Violation is a broken promise, or a sign that the log isn't what was written.
type Violation struct {
	Kind   Kind   `json:"kind"`
	Host   string `json:"host,omitempty"`
	Lines  []int  `json:"lines"`          // lines of the records concerned, from 1, in order
	Logs   []int  `json:"logs,omitempty"` // logs that these lines are in, from 1; nil where there is only one
	Detail string `json:"detail"`
}

// String returns the violation as one line of text, with what can't be printed escaped as by %q.
func (v Violation) String() string {
	at := make([]string, len(v.Lines))
	for i, line := range v.Lines {
		if at[i] = fmt.Sprint(line); v.Logs != nil { // each line is named with its log
			at[i] = place{v.Logs[i], line}.String()
		}
	}
	where := strings.Join(at, " and ")
	if v.Logs == nil {
		where = map[bool]string{true: "line ", false: "lines "}[len(at) == 1] + where
	}
	parts := slices.DeleteFunc([]string{where, string(v.Kind), v.Host, v.Detail}, func(s string) bool { return s == "" })
	return printable.Text(strings.Join(parts, ": "))
}

// A Report is what Check found.
type Report struct {
	Lines   int                   `json:"lines"`          // number of lines, of all logs
	Logs    int                   `json:"logs"`           // number of logs, also of those that follow each other in a file
	First   time.Time             `json:"first,omitzero"` // time of the earliest record
	Last    time.Time             `json:"last,omitzero"`  // time of the latest
	Records map[evidence.Type]int `json:"records"`        // number of each type
	// Numbered and Chained tell whether every line has its number, and is covered by a hash.
	Numbered bool         `json:"numbered"`
	Chained  bool         `json:"chained"`
	Signed   Signed       `json:"signed,omitzero"`
	Hosts    []HostReport `json:"hosts"` // by name

	// Promised says what the policies state, in a line for all Transports that state the same: the
	// first 1,000 lines.
	Promised []string `json:"promised,omitempty"`
	// Promises are what the crawl promised, one by one: proved, open, or broken.
	Promises []Promise `json:"promises"`

	Violations []Violation  `json:"violations"` // at most 1,000, in the order of their first lines
	Broken     map[Kind]int `json:"broken"`     // number of each kind, all counted
}

// Signed says what the checkpoints of a signed log prove.
type Signed struct {
	Checkpoints int    `json:"checkpoints"`      // number of those that are right
	Records     int    `json:"records"`          // number of records before them
	After       int    `json:"after"`            // number of records after the last one, or of all if there is none
	Key         string `json:"key,omitempty"`    // name and hash of the key, "" where none was given
	Older       int    `json:"older,omitempty"`  // number of older checkpoints that the log extends
	Latest      string `json:"latest,omitempty"` // the last right checkpoint, a signed note: keep it to hold the next log against
}

// A HostReport sums up one host. In JSON its durations are seconds.
type HostReport struct {
	Host       string   `json:"host"`
	Starts     int      `json:"starts"`     // number of requests sent, those for robots.txt included
	Pages      int      `json:"pages"`      // number of those that are pages of the budget
	Bytes      int64    `json:"bytes"`      // of bodies
	Disallowed int      `json:"disallowed"` // number of URLs refused by robots.txt, reserved ones included, or by the user's rules
	Blocks     int      `json:"blocks"`     // how often the host was blocked
	Answers    int      `json:"answers"`    // number of answers, and of requests that got none
	Refused    Refusals `json:"refused"`    // number of those that were refusals
	// RefusalShare is the share of the answers that were refusals, from 0 to 1.
	RefusalShare float64       `json:"refusalShare"`
	MinGap       time.Duration `json:"-"` // shortest gap between two starts of one limiter; 0 if there were fewer than two
	MaxDelay     time.Duration `json:"-"` // longest delay in force
	Wait         time.Duration `json:"-"` // time that requests waited for their turn, in all
	Latency      time.Duration `json:"-"` // mean time to the response's headers; 0 if there was none
}

// Refusals are how often a host didn't serve what it was asked for, by the words that it had for
// that.
type Refusals struct {
	TooMany   int `json:"tooMany"`   // 429, and what the policy or Config.IsRefusal takes for the same
	Forbidden int `json:"forbidden"` // 401, 402, 403, 451
	Failed    int `json:"failed"`    // 5xx, 408, 425
	None      int `json:"none"`      // no answer
}

// String returns the refusals as words: "7 × 429, 2 × 5xx".
func (r Refusals) String() string {
	return counts("%d × %s", []string{"429", "403", "5xx", "no answer"}, r.TooMany, r.Forbidden, r.Failed, r.None)
}

const (
	// tooManyRefusals is the share of refusals above which a report warns: a crawl that keeps all its
	// promises may still ask more of a host than that wants to give.
	tooManyRefusals = 0.1
	// fewAnswers is the number of answers below which a share says nothing.
	fewAnswers = 10

	maxViolations = 1000 // violations, and policies, that a Report names one by one
	shown         = 10   // hosts that its text names
)

// Warning returns what the owner of the log should know of the host, as a sentence: that more than
// a tenth of its answers, of which there are ten at least, were refusals. It is empty where there
// is no such thing.
func (h *HostReport) Warning() string {
	if h.RefusalShare <= tooManyRefusals || h.Answers < fewAnswers {
		return ""
	}
	return printable.Text(fmt.Sprintf("%s refused %.0f %% of %s: %v", h.Host, 100*h.RefusalShare, lines.Count(h.Answers, "request"), h.Refused))
}

// MarshalJSON writes durations in seconds.
func (h HostReport) MarshalJSON() ([]byte, error) {
	type plain HostReport // without this method
	return json.Marshal(struct {
		plain
		MinGap   float64 `json:"minGap"`
		MaxDelay float64 `json:"maxDelay"`
		Wait     float64 `json:"wait"`
		Latency  float64 `json:"latency"`
	}{plain(h), h.MinGap.Seconds(), h.MaxDelay.Seconds(), h.Wait.Seconds(), h.Latency.Seconds()})
}

// OK reports whether nothing is broken: the log holds no violation. What is open may still be
// anything; see [Report.Complete].
func (r *Report) OK() bool { return len(r.Broken) == 0 }

// Complete reports whether nothing is broken and nothing open: every promise is proved from what is
// in the log.
func (r *Report) Complete() bool {
	return r.OK() && !slices.ContainsFunc(r.Promises, func(p Promise) bool { return p.Open > 0 })
}

// Promise returns the promise of that name, such as "delays kept".
func (r *Report) Promise(name string) (p Promise) {
	if i := slices.IndexFunc(r.Promises, func(p Promise) bool { return p.Name == name }); i >= 0 {
		p = r.Promises[i]
	}
	return p
}

// WriteText writes the report for people.
func (r *Report) WriteText(w io.Writer) error {
	_, err := io.WriteString(w, r.String())
	return err
}

// orDash is "-" for a gap where a limiter had one start, or for waiting that a crawler does itself.
func orDash(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return printable.Duration(d).String()
}

// String returns the report as text.
func (r *Report) String() string {
	var text strings.Builder
	b := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	total, broken := 0, 0
	for _, n := range r.Records {
		total += n
	}
	for _, n := range r.Broken {
		broken += n
	}
	fmt.Fprintf(b, "%s, %s", lines.Count(total, "record"), lines.Count(len(r.Hosts), "host"))
	if !r.First.IsZero() {
		fmt.Fprintf(b, ", %s to %s", r.First.UTC().Format(time.DateTime), r.Last.UTC().Format(time.DateTime+" UTC"))
	}
	if r.Logs > 1 {
		fmt.Fprintf(b, ", %d logs one after the other", r.Logs)
	}
	fmt.Fprint(b, "\n\n")
	for _, said := range r.Promised {
		fmt.Fprintf(b, "promised: %s\n\n", printable.Text(said))
	}
	for _, p := range r.Promises {
		fmt.Fprintf(b, "%s\t%s\t%s\n", p.Name, p, p.Proof)
	}
	for _, p := range r.Promises {
		if p.Open > 0 {
			fmt.Fprintf(b, "\nopen, %s:\n  %s\n", p.Name, strings.Join(p.Why, "\n  "))
		}
	}
	if len(r.Hosts) > 0 {
		fmt.Fprint(b, "\nslowest hosts\tstarts\tlatency\tmin gap\tmax delay\twaited\tdisallowed\tblocks\trefusals\n")
	}
	for _, h := range r.mostOf(func(h *HostReport) float64 { return float64(h.Latency) })[:min(len(r.Hosts), shown)] {
		fmt.Fprintf(b, "%s\t%d\t%v\t%v\t%v\t%v\t%d\t%d\t%.0f %%\n", printable.Text(h.Host), h.Starts, printable.Duration(h.Latency),
			orDash(h.MinGap), printable.Duration(h.MaxDelay), orDash(h.Wait), h.Disallowed, h.Blocks, 100*h.RefusalShare)
	}
	warned := slices.DeleteFunc(r.mostOf(func(h *HostReport) float64 { return h.RefusalShare }), func(h HostReport) bool { return h.Warning() == "" })
	if len(warned) > 0 {
		fmt.Fprintf(b, "\nwarning, over %.0f %% of what was asked was refused:\n", 100*tooManyRefusals)
	}
	for _, h := range warned[:min(len(warned), shown)] {
		fmt.Fprintf(b, "  %s\n", h.Warning())
	}
	if more := len(warned) - shown; more > 0 {
		fmt.Fprintf(b, "  and %s\n", lines.Count(more, "more host"))
	}
	switch {
	case r.Complete():
		fmt.Fprint(b, "\nProved: every promise was kept, by what is in the log.\n")
	case broken == 0:
		fmt.Fprint(b, "\nNothing is broken, but not everything is proved: see what is open.\n")
	default:
		fmt.Fprintf(b, "\n%s:\n", lines.Count(broken, "violation"))
		for _, v := range r.Violations {
			fmt.Fprintf(b, "  %s\n", v)
		}
		if more := broken - len(r.Violations); more > 0 {
			fmt.Fprintf(b, "  and %d more\n", more)
		}
	}
	b.Flush()
	return text.String()
}

// mostOf returns the hosts, those first that have most of something.
func (r *Report) mostOf(something func(h *HostReport) float64) []HostReport {
	hosts := slices.Clone(r.Hosts)
	slices.SortStableFunc(hosts, func(a, b HostReport) int { return cmp.Compare(something(&b), something(&a)) })
	return hosts
}
