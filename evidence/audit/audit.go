// Package audit is the judge of logs that package evidence wrote: [Check] proves again, from what
// is in them, that a crawl kept its promises.
//
// It needs no crawler and no network: a program that imports this package alone can judge the log
// of somebody else.
//
// Check reads first and judges then. The files follow each other as it does, and call what is
// further down this list:
//
//	audit.go      Check; an exchange, a limiter
//	source.go     lines: their numbers, the chain, checkpoints
//	records.go    records, each against itself and its request: starts, ends, blocks
//	robots.go     verdicts and preferences, decided again from robots.txt
//	pages.go      redirects, tries, pages, and what was spent of the budget
//	hosts.go      each host by the times of its starts, with everything known: gaps, slots, blocks
//	refusals.go   each answer of a host by its time: what it had to do to the host
//	transport.go  what was promised, and by whose limiter
//	promises.go   what was found: what is broken, and what is open, by promise
//	report.go     how that is shown
package audit

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"io"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit/internal/sites"
	"github.com/go-politeness/politeness/evidence/audit/internal/trees"
)

// Check reads what [evidence.JSONLines] wrote and proves again what it claims: that no two starts
// on a host were closer than the delay in force, that never more requests were in flight than the
// host has slots, that none started inside a block, that no disallowed URL was fetched and nothing
// spent past the budget, and that every start ended. Where a log holds robots.txt, the verdicts are
// decided again. Check also tells whether the logs are whole.
//
// A violation is no error: see [Report.OK] and Report.Violations. The error is a reader's, beside a
// Report on what was read before. Check takes some 115 bytes a request, 2 KB a host and eight texts
// of each robots.txt: 400 MB at most for a million requests to a few hosts, and 2 GB for a page of
// each of a million hosts. For more, judge the logs of a day at a time.
//
// A file may hold several logs one after the other, as when a crawler is started again, even where
// it was killed in mid-line; each is proved by itself, but for what hosts are owed beyond the end
// of a crawler: a block holds in the logs after the one that has it, and so does the gap after a
// start where that is longer than a minute. A crawler that keeps its state
// (politeness.Config.WithState) keeps both.
//
// Several readers are the logs of a fleet, or of runs that follow each other. Transports whose
// policies name one limiter are proved together, in whichever log they stand: by the clock of that
// limiter, and with every start that it knew of. The budget is that of each Transport.
//
// A process that is killed leaves the beginning of an honest log, or an empty one. What a kill may
// have taken is open: ends, the starts without an answer, the seal of a chained log, half a line.
//
// A log that is signed needs its key to prove that: see [Trust.Check].
func Check(logs ...io.Reader) (*Report, error) { return Trust{}.Check(logs...) }

// A Trust is what a reader of a log has from elsewhere: from the crawler's web page, from a
// mailbox, from a witness. The owner of a log can invent it anew as long as nobody has any of that.
// The zero Trust knows nothing.
type Trust struct {
	// Key is the verifier key of a signed log ("example.com/crawler+c74f20a3+AR..."), as
	// golang.org/x/mod/sumdb/note.NewEd25519VerifierKey makes it. Without it signatures stay open.
	Key string
	// Checkpoints are checkpoints that were made earlier. The log must begin with the very lines
	// that they were made of.
	Checkpoints [][]byte
}

// Check is [Check] for a reader who has a key, or checkpoints, to hold the logs against. A key or a
// checkpoint that can't be read is an error.
func (t Trust) Check(logs ...io.Reader) (*Report, error) {
	f, err := trees.Read(t.Key, t.Checkpoints)
	if err != nil {
		return nil, err
	}
	return check(f, nil, logs)
}

// CheckSite judges what a log says of the given hosts, and of the names below them: for the owner
// of one of them, who doesn't care about the rest. It can't tell whether the log is whole: see
// [Check].
func CheckSite(log io.Reader, hosts ...string) (*Report, error) {
	site, err := sites.Read(hosts)
	if err != nil {
		return nil, err
	}
	r, err := check(new(trees.Forest), site, []io.Reader{log})
	r.Numbered, r.Chained = false, false
	whole := &r.Promises[logWhole]
	*whole = Promise{whole.Name, "lines of it", 0, 1, whole.Broken, []string{"only the records of some hosts were judged"}}
	return r, err
}

// check checks logs against what f knows of them, or only what they say of a site, unless it is
// nil.
func check(f *trees.Forest, site sites.Site, logs []io.Reader) (*Report, error) {
	a := &auditor{
		report:     Report{Records: map[evidence.Type]int{}, Broken: map[Kind]int{}, Violations: []Violation{}, Hosts: []HostReport{}},
		transports: map[string]*transport{}, limiters: map[string]*limiter{}, cut: map[string]bool{}, hosts: map[string]*host{},
		proved: map[string][]int64{}, restored: map[string][]int64{},
	}
	for _, about := range aboutPromises {
		a.report.Promises = append(a.report.Promises, about.Promise)
	}
	var errs error
	for i, r := range logs {
		s := &source{a: a, chain: sha256.New(), forest: f, site: site, run: new(run)}
		if len(logs) > 1 {
			s.at.log = i + 1
		}
		f.Broken = func(detail string, at, before int) {
			a.violation(BrokenSignature, "", detail, place{s.at.log, before}, place{s.at.log, at})
		}
		errs = errors.Join(errs, s.readAll(r))
		f.End()
		if len(logs) > 1 && s.lines == 0 {
			a.blind = true
			a.openEnded(logWhole, "a log without a record beside others, as of a process that was killed before it wrote one")
		}
	}
	older := f.Extended(func(detail string) { a.violation(BrokenSignature, "", detail, a.at) })
	a.report.Signed = Signed{f.Checkpoints, f.Records, f.After, f.Key, older, f.Latest}
	return a.judge(), errs
}

const (
	// slack is how long after a start or an end its record may have been made.
	slack = int64(time.Second)
	// settling is how long a limiter may take to learn from an answer: one that many machines share
	// is asked over the network.
	settling = 3 * slack
	// leeway is how much earlier than we reckon a block may end: a limiter reads its clock for itself.
	leeway = slack / 10
	// maxSkew is how far the clocks of processes that share robots.txt may be apart.
	maxSkew = 60 * slack
	// drifts is the part of a time by which two clocks may run apart in it.
	drifts = 5000
	// lasting is the delay above which a gap is kept over a restart.
	lasting = int64(time.Minute) + slack
	// longest is a delay that no request waits for: a limiter needn't count further.
	longest = int64(10 * 365 * 24 * time.Hour)
	// never is later than any time.
	never = math.MaxInt64
)

// An auditor reads records and judges them.
type auditor struct {
	report Report

	// The present record, its line and its log, and its Transport.
	d   *evidence.Decision
	at  place
	run *run
	by  *transport

	// What was read.
	transports map[string]*transport
	named      []*transport // by their index
	limiters   map[string]*limiter
	cut        map[string]bool // ids of rows of which a log was cut off
	hosts      map[string]*host
	lost       bool               // whether a slot was taken back whose record doesn't say when, or whose it was
	proved     map[string][]int64 // when a robots.txt was had, by its URL and what it was, as exchanges show
	restored   map[string][]int64 // when an earlier process, or another one, had one that was taken over from it
	blind      bool               // whether a log is there of which nothing is known
	unsaid     bool               // whether a Transport did something that has stated no policy
}

// A limiter is what some Transports share: slots, delays and blocks of each host.
type limiter struct {
	index       int
	policy      *evidence.Policy // the first one of a Transport that has it
	at          place            // of that
	exchanges   []*exchange      // only where places are counted
	first, last int64            // first and latest record of its logs
	local       int64            // earliest start of which its server knows nothing
	cut         int64            // time from which on records may be missing, of logs that were cut off; never: none was
}

// A fate is how an exchange ended.
type fate uint8

const (
	unknown fate = iota // it has no end in a log that was sealed: it never ends
	ended
	cutOff // its log was cut off while it was under way: end is a lower bound
)

// The flags of an exchange.
const (
	page      uint16 = 1 << iota // it costs one of the budget
	unsent                       // the turn was given back unused
	takenBack                    // its slot was taken back at end
	robotsTxt                    // it fetched robots.txt, and costs nothing of the budget
	learned                      // its delay is one that refusals have taught, as its record says
	again                        // it was sent once more, over another connection
	serves                       // its answer is that of a host that serves us
	kept                         // its answer is one of its sequence's answers
	vague                        // what it was answered came at a time that isn't known
	local                        // it started without the server of its limiter, which knows nothing of it
)

// An exchange is one request from its start to its end. It has no pointers, so that a collector
// looks into none of millions. Times are by the clock of its limiter.
type exchange struct {
	start, end int64 // the end is that of its slot
	answered   int64 // when the headers were there
	delay      int64 // from this start to the next
	floor      int64 // the request's own crawl-delay
	prev       int64 // start before it, as the limiter has it; 0: the limiter knows none
	seq        uint64
	resource   uint32 // hash of what its URL has behind its host
	line       uint32
	slots      uint32
	by         uint32 // index of its Transport
	flags      uint16
	fate       fate
}

// end ends a log.
func (a *auditor) end() {
	for i := len(a.named) - 1; i >= 0 && a.named[i].run == a.run; i-- {
		by := a.named[i]
		// A request whose end a kill has taken out of the log surely had its slot until then: ends are
		// recorded within slack.
		until := by.run.last - slack + by.shift
		for _, t := range by.trips {
			if t.underWay && a.run.seal == 0 {
				t.x.fate, t.x.end = cutOff, max(t.x.start, until)
			}
		}
		by.trips = nil
		by.over = nil
		by.origins = nil
		if l, r := by.limiter, a.run; l != nil {
			l.first, l.last = min(l.first, r.first+by.shift), max(l.last, r.last+by.shift)
			if r.seal == 0 {
				l.cut, a.cut[by.row] = min(l.cut, until), true
			}
		}
	}
}

// judge judges the hosts, when everything was read, and reports what was found.
func (a *auditor) judge() *Report {
	r := &a.report
	for _, l := range a.limiters {
		if l.cut = min(l.cut, l.local); a.blind {
			l.cut = math.MinInt64
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.hosts)) {
		h := a.hosts[name]
		h.judge()
		answers, refused := h.report.Answers, h.report.Refused
		h.report.Latency /= time.Duration(max(1, answers-refused.None)) // the sum of all so far
		h.report.RefusalShare = float64(refused.TooMany+refused.Forbidden+refused.Failed+refused.None) / float64(max(1, answers))
		r.Hosts = append(r.Hosts, h.report)
	}
	for _, id := range slices.Sorted(maps.Keys(a.limiters)) {
		xs := a.limiters[id].exchanges
		slices.SortStableFunc(xs, func(x, y *exchange) int { return cmp.Or(cmp.Compare(x.start, y.start), cmp.Compare(x.end, y.end)) })
		a.provePlaces("", xs, func(x *exchange) int { return a.named[x.by].policy.MaxInFlight })
	}
	for copied, starts := range a.restored {
		fetches := slices.Sorted(slices.Values(a.proved[copied]))
		for _, start := range starts {
			i, _ := slices.BinarySearch(fetches, start-slack)
			a.openIf(i == len(fetches) || fetches[i] > start+maxSkew, verdictsRight, "a robots.txt that another process fetched, whose log isn't here")
		}
	}
	a.sortViolations()
	for promise := range promises {
		a.openIf(len(r.Records) == 0, promise, "the log holds no record")
		a.openIf(a.unsaid, promise, "no policy record says what was promised")
	}
	a.prove()
	return r
}
