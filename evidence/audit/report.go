package audit

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/internal/lines"
	"github.com/go-politeness/politeness/internal/printable"
)

// A Kind names the promise that a Violation breaks. Use it to count violations by kind.
type Kind string

// The kinds of violations.
const (
	BrokenGap         Kind = "gap"           // two starts on a host closer than the delay in force
	BrokenConcurrency Kind = "concurrency"   // more requests in flight than the host has slots
	BrokenSite        Kind = "site"          // more requests in flight than a site may have, over its ports and names
	BrokenBlock       Kind = "block"         // a start on a host that was blocked
	BrokenRobots      Kind = "robots"        // a fetch that was disallowed, or that no verdict allowed
	BrokenVerdict     Kind = "verdict"       // a verdict that robots.txt, as logged, doesn't give
	BrokenBudget      Kind = "budget"        // more spent than the limit
	MissingEnd        Kind = "end"           // a start without an end, or an end without a start
	MissingStart      Kind = "sequence"      // a number is missing among the starts of a host
	MissingLine       Kind = "line"          // a number is missing among the lines
	BrokenChain       Kind = "chain"         // a line was changed, or doesn't follow the one before it
	Contradiction     Kind = "contradiction" // records that can't both be true, or one that can't be true
	Unreadable        Kind = "unreadable"    // a line that is no record

	// BrokenRevisit is a request for a page that was fetched before, and wasn't due.
	BrokenRevisit Kind = "revisit"
	// BrokenConsent means that a page was fetched for a purpose that the site reserves. It also
	// means that a record has preferences that the site doesn't state.
	BrokenConsent Kind = "consent"
	// BrokenSignature means that lines differ from those of a checkpoint, or that it isn't signed
	// by the key.
	BrokenSignature Kind = "signature"
)

// A Violation is a broken promise, or a sign that the log was changed.
type Violation struct {
	Kind   Kind   `json:"kind"`
	Host   string `json:"host,omitempty"`
	Lines  []int  `json:"lines"`          // lines of the records concerned, from 1, in order
	Logs   []int  `json:"logs,omitempty"` // logs that these lines are in, from 1, nil if there is only one
	Detail string `json:"detail"`
}

// String returns the violation as one line of text, with unprintable characters escaped as by %q.
func (v Violation) String() string {
	parts := []string{v.where(), string(v.Kind), v.Host, v.Detail}
	parts = slices.DeleteFunc(parts, func(part string) bool { return part == "" })
	return printable.Text(strings.Join(parts, ": "))
}

// where returns the lines of the violation as words. With several logs each line is named with its
// log.
func (v Violation) where() string {
	at := make([]string, len(v.Lines))
	for i, line := range v.Lines {
		if v.Logs != nil { // the lines may be of several logs
			at[i] = place{v.Logs[i], line}.String()
		} else {
			at[i] = strconv.Itoa(line)
		}
	}
	where := strings.Join(at, " and ")
	switch {
	case v.Logs != nil:
		return where
	case len(at) == 1:
		return "line " + where
	}
	return "lines " + where
}

// A Report is the result of Check.
type Report struct {
	Lines   int                   `json:"lines"`          // number of lines, of all logs
	Logs    int                   `json:"logs"`           // number of logs, of which a file may have several
	First   time.Time             `json:"first,omitzero"` // time of the earliest record
	Last    time.Time             `json:"last,omitzero"`  // time of the latest
	Records map[evidence.Type]int `json:"records"`        // number of each type
	// Numbered reports whether every line has its number. Chained reports whether every line is
	// covered by a hash.
	Numbered bool         `json:"numbered"`
	Chained  bool         `json:"chained"`
	Signed   Signed       `json:"signed,omitzero"`
	Hosts    []HostReport `json:"hosts"` // by name

	// Promised has a line for each of the first 1,000 policies, in words. Transports that promise
	// the same share a line.
	Promised []string `json:"promised,omitempty"`
	// Promises are the promises of a crawl, with their counts of proved, open and broken cases.
	Promises []Promise `json:"promises"`

	// Each note is about limiters that share nothing and were used on one host, one limiter after
	// the other. There are at most 1,000 notes.
	Notes []string `json:"notes,omitempty"`

	Violations []Violation  `json:"violations"` // at most 1,000, in the order of their first lines
	Broken     map[Kind]int `json:"broken"`     // number of each kind, all counted
}

// Signed sums up the checkpoints of a signed log.
type Signed struct {
	Checkpoints int    `json:"checkpoints"`     // number of those that are right
	Records     int    `json:"records"`         // number of records that they sign
	After       int    `json:"after"`           // number of records after the last one, or of all if there is none
	Key         string `json:"key,omitempty"`   // name and hash of the key, empty if none was given
	Older       int    `json:"older,omitempty"` // number of older checkpoints that the log extends

	// Latest is the last right checkpoint, a signed note. Keep it to compare the next log with.
	Latest string `json:"latest,omitempty"`
}

// A HostReport sums up one host. In JSON its durations are seconds. Use it to show how one host was
// treated.
type HostReport struct {
	Host   string `json:"host"`
	Starts int    `json:"starts"` // number of requests sent, those for robots.txt included
	Pages  int    `json:"pages"`  // number of these requests that are pages of the budget
	Bytes  int64  `json:"bytes"`  // of bodies
	// Disallowed is the number of URLs that weren't fetched because of robots.txt, the site's
	// reservations or the user's rules.
	Disallowed int           `json:"disallowed"`
	Blocks     int           `json:"blocks"`  // how often the host was blocked
	Answers    int           `json:"answers"` // number of responses, and of requests without one
	Refused    RefusalCounts `json:"refused"` // number of those that were refusals
	// RefusalShare is the share of the responses that were refusals, from 0 to 1.
	RefusalShare float64 `json:"refusalShare"`
	// Together is the number of limiters that came too close to each other on the host. The gaps
	// between their starts were shorter than each limiter alone promises. This happens if limiters
	// don't know of each other. It is 0 if there are none.
	Together int `json:"together,omitzero"`
	// Repeats is the number of requests, without a due time (hostlimit.WithDue), for pages that the
	// host had served before. Repeated is the number of these pages.
	Repeats  int `json:"repeats,omitzero"`
	Repeated int `json:"repeated,omitzero"`
	// Proofs is the number of requests for a page that the host had served before, to see whether it
	// serves again (Call.Proof of package politeness). They have no due time, and are no repeats. A
	// request counts as one only if the host has refused or was blocked since it served the page.
	Proofs int `json:"proofs,omitzero"`
	// Conditional is the number of requests that asked for a page only if it had changed.
	// NotModified is how many of these got 304. Spared is the length of the pages that weren't sent
	// for these 304. For each 304, Spared counts the length of the latest earlier response with
	// status 200, as logged. For a compressed page the log has the unpacked length. So fewer bytes
	// were really spared.
	Conditional int           `json:"conditional,omitzero"`
	NotModified int           `json:"notModified,omitzero"`
	Spared      int64         `json:"spared,omitzero"`
	MinGap      time.Duration `json:"-"` // shortest gap between two starts, as the site saw them, 0 if fewer than two
	MaxDelay    time.Duration `json:"-"` // longest delay in force
	Wait        time.Duration `json:"-"` // time that requests waited for their start, in all
	Latency     time.Duration `json:"-"` // mean time to the response's headers, 0 without a response
}

// conclude makes a mean of Latency, so far the sum, and computes the share of refusals.
func (h *HostReport) conclude() {
	r := h.Refused
	refused := r.TooMany + r.Forbidden + r.Failed + r.None
	h.Latency /= time.Duration(max(1, h.Answers-r.None))
	h.RefusalShare = float64(refused) / float64(max(1, h.Answers))
}

// RefusalCounts are how often a host didn't serve a request, by the form of its refusal.
type RefusalCounts struct {
	TooMany   int `json:"tooMany"`   // 429, and responses that the policy or Config.IsRefusal treats alike
	Forbidden int `json:"forbidden"` // 401, 402, 403, 451
	Failed    int `json:"failed"`    // 5xx, 408, 425
	None      int `json:"none"`      // no response
}

// String returns the counts as words, such as "7 × 429, 2 × 5xx".
func (r RefusalCounts) String() string {
	names := []string{"429", "403", "5xx", "no response"}
	return counts("%d × %s", names, r.TooMany, r.Forbidden, r.Failed, r.None)
}

const (
	// tooManyRefusals is the share of refusals above which a report warns: a crawl that keeps all
	// its promises may still ask more of a host than that wants to give.
	tooManyRefusals = 0.1
	// fewAnswers is the number of answers below which a share says nothing.
	fewAnswers = 10

	maxViolations = 1000 // violations, and policies, that a Report names one by one
	shown         = 10   // hosts that its text names
)

// Warning returns a sentence for the owner of the log if the host refused often. This is if it gave
// ten or more responses, and more than 10 % of them were refusals. Otherwise it returns "".
func (h *HostReport) Warning() string {
	if h.RefusalShare <= tooManyRefusals || h.Answers < fewAnswers {
		return ""
	}
	requests := lines.Count(h.Answers, "request")
	return printable.Text(fmt.Sprintf("%s refused %.0f %% of %s: %v", h.Host, 100*h.RefusalShare, requests, h.Refused))
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
	}{
		plain:    plain(h),
		MinGap:   h.MinGap.Seconds(),
		MaxDelay: h.MaxDelay.Seconds(),
		Wait:     h.Wait.Seconds(),
		Latency:  h.Latency.Seconds(),
	})
}

// OK reports whether the log has no violation. Open promises may be broken nevertheless. See
// [Report.Complete]. Use it in CI.
func (r *Report) OK() bool { return len(r.Broken) == 0 }

// Complete reports whether every promise is proved from the records alone, and none is broken or
// open. Use it if an open promise isn't enough for you.
func (r *Report) Complete() bool {
	open := func(p Promise) bool { return p.Open > 0 }
	return r.OK() && !slices.ContainsFunc(r.Promises, open)
}

// Promise returns the promise of that name, such as "delays kept". Use it to test for one promise.
func (r *Report) Promise(name string) Promise {
	for _, p := range r.Promises {
		if p.Name == name {
			return p
		}
	}
	return Promise{}
}

// WriteText writes the report for people. Use it for a terminal. The JSON of a Report is for
// programs.
func (r *Report) WriteText(w io.Writer) error {
	_, err := io.WriteString(w, r.String())
	return err
}

// orDash returns d, or "-" for 0: the gap of a limiter that had one start, or the wait of a crawler
// that waits by itself.
func orDash(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return printable.Duration(d).String()
}

// String returns the report as text.
func (r *Report) String() string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	r.writeLogs(w)
	r.writePromises(w)
	r.writeHosts(w)
	r.writeWarnings(w)
	r.writeRevisits(w)
	r.writeNotes(w)
	r.writeVerdict(w)
	w.Flush()
	return text.String()
}

// writeLogs writes how much was read, and of which time.
func (r *Report) writeLogs(w io.Writer) {
	records := sum(maps.Values(r.Records))
	fmt.Fprintf(w, "%s, %s", lines.Count(records, "record"), lines.Count(len(r.Hosts), "host"))
	if !r.First.IsZero() {
		first := r.First.UTC().Format(time.DateTime)
		last := r.Last.UTC().Format(time.DateTime + " UTC")
		fmt.Fprintf(w, ", %s to %s", first, last)
	}
	if r.Logs > 1 {
		fmt.Fprintf(w, ", %d logs", r.Logs)
	}
	fmt.Fprint(w, "\n\n")
}

// writePromises writes the policies, the promises, and the reasons of those that are open.
func (r *Report) writePromises(w io.Writer) {
	for _, policy := range r.Promised {
		fmt.Fprintf(w, "promised: %s\n\n", printable.Text(policy))
	}
	for _, p := range r.Promises {
		fmt.Fprintf(w, "%s\t%s\t%s\n", p.Name, p, p.Proof)
	}
	for _, p := range r.Promises {
		if p.Open > 0 {
			fmt.Fprintf(w, "\nopen, %s:\n  %s\n", p.Name, strings.Join(p.Why, "\n  "))
		}
	}
}

// writeHosts writes a table of the slowest hosts.
func (r *Report) writeHosts(w io.Writer) {
	if len(r.Hosts) == 0 {
		return
	}
	const columns = "slowest hosts\tstarts\tlatency\tmin gap\tmax delay\twaited\tdisallowed\tblocks\trefusals"
	fmt.Fprintf(w, "\n%s\n", columns)
	// They are the ones that a crawl waits for.
	slowest := r.mostOf(func(h *HostReport) float64 { return float64(h.Latency) })
	for _, h := range slowest[:min(len(slowest), shown)] {
		fmt.Fprintf(w, "%s\t%d\t", printable.Text(h.Host), h.Starts)
		fmt.Fprintf(w, "%v\t%v\t", printable.Duration(h.Latency), orDash(h.MinGap))
		fmt.Fprintf(w, "%v\t%v\t", printable.Duration(h.MaxDelay), orDash(h.Wait))
		fmt.Fprintf(w, "%d\t%d\t%.0f %%\n", h.Disallowed, h.Blocks, 100*h.RefusalShare)
	}
}

// writeWarnings writes the warnings, that of the host with the largest share of refusals first.
func (r *Report) writeWarnings(w io.Writer) {
	warned := r.mostOf(func(h *HostReport) float64 { return h.RefusalShare })
	warned = slices.DeleteFunc(warned, func(h HostReport) bool { return h.Warning() == "" })
	if len(warned) == 0 {
		return
	}
	fmt.Fprintf(w, "\nwarning, over %.0f %% of the requests were refused:\n", 100*tooManyRefusals)
	for _, h := range warned[:min(len(warned), shown)] {
		fmt.Fprintf(w, "  %s\n", h.Warning())
	}
	if more := len(warned) - shown; more > 0 {
		fmt.Fprintf(w, "  and %s\n", lines.Count(more, "more host"))
	}
}

// writeRevisits writes what was spared, and which hosts were asked for the same again and again.
func (r *Report) writeRevisits(w io.Writer) {
	asked := 0
	unchanged := 0
	spared := int64(0)
	for i := range r.Hosts {
		asked += r.Hosts[i].Conditional
		unchanged += r.Hosts[i].NotModified
		spared += r.Hosts[i].Spared
	}
	if asked > 0 {
		megabytes := float64(spared) / 1e6
		fmt.Fprintf(w, "\n%d asked conditionally, %d answered 304, %.1f MB of pages (unpacked) not sent\n",
			asked, unchanged, megabytes)
	}
	warned := r.mostOf(func(h *HostReport) float64 { return float64(h.Repeats) })
	warned = slices.DeleteFunc(warned, func(h HostReport) bool { return h.RepeatWarning() == "" })
	if len(warned) == 0 {
		return
	}
	fmt.Fprint(w, "\nwarning, pages were asked for again without a word that they were due:\n")
	for _, h := range warned[:min(len(warned), shown)] {
		fmt.Fprintf(w, "  %s\n", h.RepeatWarning())
	}
	if more := len(warned) - shown; more > 0 {
		fmt.Fprintf(w, "  and %s\n", lines.Count(more, "more host"))
	}
}

// writeNotes writes the notes.
func (r *Report) writeNotes(w io.Writer) {
	if len(r.Notes) == 0 {
		return
	}
	fmt.Fprint(w, "\na site saw, without a promise:\n")
	for _, note := range r.Notes[:min(len(r.Notes), shown)] {
		fmt.Fprintf(w, "  %s\n", printable.Text(note))
	}
	if more := len(r.Notes) - shown; more > 0 {
		fmt.Fprintf(w, "  and %s\n", lines.Count(more, "more host"))
	}
}

// writeVerdict writes the conclusion, with the violations if there are any.
func (r *Report) writeVerdict(w io.Writer) {
	// Violations has the first thousand, Broken counts all.
	broken := sum(maps.Values(r.Broken))
	switch {
	case r.Complete():
		fmt.Fprint(w, "\nProved: every promise was kept, by what is in the log.\n")
	case broken == 0:
		fmt.Fprint(w, "\nNothing is broken, but not everything is proved: see what is open.\n")
	default:
		fmt.Fprintf(w, "\n%s:\n", lines.Count(broken, "violation"))
		for _, v := range r.Violations {
			fmt.Fprintf(w, "  %s\n", v)
		}
		if more := broken - len(r.Violations); more > 0 {
			fmt.Fprintf(w, "  and %d more\n", more)
		}
	}
}

func sum(numbers iter.Seq[int]) int {
	total := 0
	for n := range numbers {
		total += n
	}
	return total
}

// mostOf returns the hosts, those with the largest value first.
func (r *Report) mostOf(value func(h *HostReport) float64) []HostReport {
	hosts := slices.Clone(r.Hosts)
	slices.SortStableFunc(hosts, func(a, b HostReport) int { return cmp.Compare(value(&b), value(&a)) })
	return hosts
}
