// Package audit checks logs of package evidence. [Check] proves, from the records of a log alone,
// that a crawl kept its promises.
//
// It needs no crawler and no network. A program that imports only this package can check the log of
// another crawler.
package audit

import (
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

// For maintainers: Check reads all records first. Then it checks each host. The files are listed in
// the order of this work. A file calls functions of files further down:
//
//	audit.go      Check; an exchange, a limiter
//	source.go     lines: their numbers, the chain, checkpoints
//	records.go    records, each against itself and its request: starts, ends, blocks
//	robots.go     verdicts and preferences, decided again from robots.txt
//	pages.go      redirects, tries, pages, and the use of the budget
//	answers.go    responses: the meaning of each for its host, and the wait that it asks for
//	hosts.go      each host by the times of its starts, with everything known: gaps, slots
//	inflight.go   concurrent requests on a host, on a site, on all hosts
//	refusals.go   each response of a host by its time: the blocks that it had to set or lift
//	together.go   several limiters on one host, as its site saw them
//	revisits.go   pages that were fetched before: fetched again only when due
//	lessons.go    how long a refusal blocks its host, and which delay it teaches
//	transport.go  policies, and the limiters that Transports share
//	promises.go   findings: the broken and the open promises
//	report.go     the report as text and in JSON

// Check reads logs that [evidence.JSONLines] wrote and proves their claims. No two starts on a host
// were closer than the delay in force. There were never more requests in flight on a host than it
// has slots. No request started inside a block. No disallowed URL was fetched, and nothing was
// spent past the budget. Every start ended. If a log has the text of robots.txt, the decisions are
// computed again. Check also reports whether the logs are whole.
//
// A violation is no error. See [Report.OK] and Report.Violations. If a reader fails, Check returns
// its error, and a Report on the records before the error. Check needs about 145 bytes of memory
// for each request and 2 KB for each host. It also keeps up to eight copies of each robots.txt. A
// million requests to a few hosts need at most 400 MB. A million hosts with a page each need 2 GB.
// If you have more, check the logs of one day at a time.
//
// A file may have several logs one after the other, as when a crawler is started again, even if it
// was killed in mid-line. Each log is proved by itself, with two exceptions. A block, and a gap
// longer than a minute, also apply to later logs. A crawler that stores its state
// (politeness.Config.WithState) obeys both in later runs.
//
// Pass several readers for the logs of a fleet, or of runs that follow each other. If the policies
// of Transports name the same limiter, Check proves their records together. The proof uses the
// clock of that limiter, and every start that the limiter knew. If the policies name the same state
// (politeness.Config.WithState), Check proves the Transports as runs that follow each other. A gap
// between two runs that is too short breaks a promise. If the runs together exceed a kept budget,
// this breaks a promise too. Any other budget applies to each Transport by itself. If limiters that
// share nothing asked one host, the report has a note of the gaps that the site saw.
//
// A process that is killed leaves the beginning of an honest log, or an empty one. Records that a
// kill may have taken from a log are open. These are the ends of requests, starts without a
// response, the seal of a chained log, and the last line if only half of it was written.
//
// The signatures of a log are proved only with its key. See [Trust.Check].
func Check(logs ...io.Reader) (*Report, error) { return Trust{}.Check(logs...) }

// A Trust has a key and checkpoints that a reader of a log has from elsewhere, such as the
// crawler's web page, a mailbox or a witness. Without a key or a checkpoint, a log can't be told
// from one that its owner has rewritten. The zero Trust has neither. Use it for a log by
// somebody else.
type Trust struct {
	// Key is the verifier key of a signed log ("example.com/crawler+c74f20a3+AR..."), as
	// golang.org/x/mod/sumdb/note.NewEd25519VerifierKey makes it. Without it signatures stay open.
	Key string
	// Checkpoints are checkpoints that were made earlier. The log must begin with the very lines
	// that they were made of.
	Checkpoints [][]byte
	// Site returns the site of a host. Set it to hostlimit/sitekey.Of. SiteList is the revision of the
	// public suffix list that Site uses. Set it to hostlimit/sitekey.List. Set both, so that Check
	// checks requests to many names of one site (hostlimit.Config.PerSite). If Site is nil, or the
	// crawler used another list, these promises are open. Requests to several ports of one name are
	// checked without Site.
	Site     func(host string) string
	SiteList string
}

// Check is like the function [Check], and also compares the logs with the key and the checkpoints
// of t. If the key or a checkpoint can't be read, Check returns an error.
func (t Trust) Check(logs ...io.Reader) (*Report, error) {
	f, err := trees.Read(t.Key, t.Checkpoints)
	if err != nil {
		return nil, err
	}
	return check(t, f, nil, logs)
}

// CheckSite checks the records of the given hosts, and of the names below them, for the owner of
// one of them. It skips all other records, so it can't prove that the log is whole. See [Check].
func CheckSite(log io.Reader, hosts ...string) (*Report, error) {
	site, err := sites.Read(hosts)
	if err != nil {
		return nil, err
	}
	r, err := check(Trust{}, new(trees.Forest), site, []io.Reader{log})
	// Numbers, hashes and checkpoints go over all lines of a log. Nothing is proved of lines that
	// were passed over. So that promise gets one reason to be open, instead of all others.
	r.Numbered = false
	r.Chained = false
	whole := &r.Promises[logWhole]
	*whole = Promise{
		Name:   whole.Name,
		Proof:  "lines of it",
		Open:   1,
		Broken: whole.Broken,
		Why:    []string{"only the records of some hosts were judged"},
	}
	return r, err
}

const emptyLog = "a log without a record beside others, as of a process that was killed before it wrote one"

// check checks logs against the key and the checkpoints in forest. With a site it checks only the
// records about it.
func check(trust Trust, forest *trees.Forest, site sites.Site, logs []io.Reader) (*Report, error) {
	a := newAuditor()
	a.trust = trust
	var errs error
	for i, log := range logs { // Transports and hosts go on from one to the next
		s := &source{a: a, chain: sha256.New(), forest: forest, site: site, run: new(run)}
		if len(logs) > 1 {
			s.at.log = i + 1
		}
		forest.Broken = func(detail string, at, before int) {
			a.violation(BrokenSignature, "", detail, place{s.at.log, before}, place{s.at.log, at})
		}
		errs = errors.Join(errs, s.readAll(log))
		forest.End()
		if len(logs) > 1 && s.lines == 0 {
			// Its process may have shared a limiter with those of the other logs.
			a.blind = true
			a.openEnded(logWhole, emptyLog)
		}
	}
	older, broken := forest.Extended()
	for _, detail := range broken {
		a.violation(BrokenSignature, "", detail, a.at)
	}
	a.report.Signed = Signed{
		Checkpoints: forest.Checkpoints,
		Records:     forest.Records,
		After:       forest.After,
		Key:         forest.Key,
		Older:       older,
		Latest:      forest.Latest,
	}
	return a.judge(), errs
}

const (
	// slack is how long after a start or an end its record may have been made.
	slack = int64(time.Second)
	// settling is how long a limiter may take to learn of a response: one that many machines share
	// is asked over the network.
	settling = 3 * slack
	// leeway is how much earlier than computed a block may end, because a limiter reads the clock a
	// second time.
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

// An auditor reads records and checks them.
type auditor struct {
	report Report
	trust  Trust

	// The present record, its line and its log, and its Transport.
	d   *evidence.Decision
	at  place
	run *run
	by  *transport

	// The records that were read.
	transports map[string]*transport // by their names in records
	indexed    []*transport          // by their index
	limiters   map[string]*limiter
	budgets    map[string]*keptBudget // by state and length of the window
	hosts      map[string]*host
	cut        map[string]bool // numberings of which a log was cut off

	// Times of fetches of robots.txt, by the URL and the SHA-256 or status: those that exchanges in
	// the logs prove, and those that a record takes over from an earlier process, or another one.
	fetches  map[string][]int64
	restored map[string][]int64

	lostSlot   bool // a slot was taken back, and its record doesn't give the time, or the start
	blind      bool // one of the logs is empty: nothing is known of its process
	unpromised bool // a Transport that has stated no policy did something
}

func newAuditor() *auditor {
	a := &auditor{
		report: Report{
			Records:    map[evidence.Type]int{},
			Broken:     map[Kind]int{},
			Violations: []Violation{},
			Hosts:      []HostReport{},
		},
		transports: map[string]*transport{},
		limiters:   map[string]*limiter{},
		budgets:    map[string]*keptBudget{},
		hosts:      map[string]*host{},
		cut:        map[string]bool{},
		fetches:    map[string][]int64{},
		restored:   map[string][]int64{},
	}
	for _, about := range aboutPromises {
		a.report.Promises = append(a.report.Promises, about.Promise)
	}
	return a
}

// A limiter is one that some Transports share, with the slots, delays and blocks of each host.
// Times are by its clock.
type limiter struct {
	index     int
	policy    *evidence.Policy // of the first Transport that has it
	at        place            // of that policy
	exchanges []*exchange      // those that need one of MaxInFlight places; none without a bound
	first     int64            // first record of its logs
	last      int64            // latest record of them
	local     int64            // earliest start that its server doesn't know of; never: there is none
	cut       int64            // time from which on records may be missing, as a log was cut off; never: none was
	isShared  bool             // another process used its state when it began
}

// A fate is how an exchange ended.
type fate uint8

const (
	unknown fate = iota // it has no end in a log that was sealed: it never ends
	ended
	cutOff // its log was cut off while it was under way: end is a lower bound
)

// flags are facts about an exchange.
type flags uint32

const (
	page        flags = 1 << iota // it costs a page of the budget
	unsent                        // the turn was given back unused
	takenBack                     // its slot was taken back at end
	robotsTxt                     // it fetched robots.txt, and costs nothing of the budget
	learned                       // refusals have taught its delay, by its record
	resent                        // the transport sent it again, as another exchange, and its slot went on with that
	serves                        // its answer shows that the host serves us
	kept                          // its answer is one of its sequence's answers
	undated                       // the time of its answer isn't known
	local                         // it started without its limiter's server, which doesn't know of it
	conditional                   // it asked for a page only if that had changed
	further                       // it is a further try, or follows a redirect: no caller asked for it
	version                       // its answer has all of its page
	unchanged                     // its answer is the 304 that it asked for
	validated                     // its answer has a validator that can be sent back
	outdates                      // its answer says that the page is gone, or elsewhere
	proof                         // by its asker it is to show whether the host serves again
)

// An exchange is one request from its start to its end. It has no pointers, so that the garbage
// collector passes over millions of them. Times are by the clock of its limiter.
type exchange struct {
	start, end int64 // the end is that of its slot
	answered   int64 // time of the headers
	delay      int64 // from this start to the next
	floor      int64 // the request's own crawl-delay
	prev       int64 // start before it, as the limiter has it; 0: the limiter knows none
	seq        uint64
	page       uint64 // hash of its URL; 0: it isn't a GET of a page whose URL is whole
	due        int64  // time from which its page could be asked for again, by its asker; 0: nobody remembers
	fresh      int64  // time for which its answer calls itself fresh
	bytes      uint32 // of its answer
	resource   uint32 // hash of its URL's path and query
	line       uint32
	slots      uint32
	by         uint32 // index of its Transport
	flags      flags
	fate       fate
}

// has reports whether one of the given flags is set.
func (x *exchange) has(one flags) bool { return x.flags&one != 0 }

// endLog ends the present log.
func (a *auditor) endLog() {
	for _, t := range slices.Backward(a.indexed) {
		if t.run != a.run {
			break // of the log before
		}
		a.endTransport(t)
	}
}

// endTransport ends the records of t, at the end of its log.
func (a *auditor) endTransport(t *transport) {
	sealed := a.run.seal != 0
	// If a kill has removed the end of a request, it certainly had its slot until then, because ends
	// are recorded within slack.
	until := t.run.last - slack + t.shift
	for _, trip := range t.trips {
		if trip.underWay && !sealed {
			trip.x.fate = cutOff
			if trip.open == 0 { // otherwise its slot is free
				trip.x.end = max(trip.x.start, until)
			}
		}
	}
	// No later record can name its trips.
	t.trips = nil
	t.over = nil
	t.origins = nil
	l := t.limiter
	if l == nil {
		return // it has stated no policy
	}
	l.first = min(l.first, a.run.first+t.shift)
	l.last = max(l.last, a.run.last+t.shift)
	if !sealed {
		l.cut = min(l.cut, until)
		a.cut[t.numbering] = true
	}
}

// judge checks the hosts, after everything was read, and returns the report.
func (a *auditor) judge() *Report {
	for _, l := range a.limiters {
		// A start that the server doesn't know of leaves as much open as one that is missing.
		l.cut = min(l.cut, l.local)
		if a.blind {
			l.cut = math.MinInt64 // the process of the empty log may have used any of them
		}
	}
	// In a fixed order, so that one log gives one report.
	for _, name := range slices.Sorted(maps.Keys(a.hosts)) {
		h := a.hosts[name]
		h.judge()
		h.report.conclude()
		a.report.Hosts = append(a.report.Hosts, h.report)
	}
	for _, id := range slices.Sorted(maps.Keys(a.limiters)) {
		a.provePlaces(a.limiters[id].exchanges)
	}
	a.proveSites()
	a.proveRestored()
	a.sortViolations()
	for promise := range dueKept { // without records, or a policy, all of them are open
		a.openIf(len(a.report.Records) == 0, promise, "the log has no record")
		a.openIf(a.unpromised, promise, "no policy record has the promises")
	}
	a.prove()
	return &a.report
}

// proveRestored compares each robots.txt that a process took over from another one with the fetches
// of it in the logs.
func (a *auditor) proveRestored() {
	for copied, starts := range a.restored {
		fetches := slices.Sorted(slices.Values(a.fetches[copied]))
		for _, start := range starts {
			// The first fetch that isn't too early. Clocks of two processes may differ by maxSkew.
			i, _ := slices.BinarySearch(fetches, start-slack)
			missing := i == len(fetches) || fetches[i] > start+maxSkew
			a.openIf(missing, verdictsRight, "a robots.txt that another process fetched, whose log isn't here")
		}
	}
}
