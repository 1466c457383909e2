package audit

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit/internal/sites"
	"github.com/go-politeness/politeness/internal/hostname"
)

// A transport is what the records of one log say of a Transport. Those that name none count as one.
type transport struct {
	index    uint32
	policy   *evidence.Policy // nil: it has stated none
	limits   *limits          // the same, for hosts that have no limits of their own
	statuses []string         // that block at once, by its policy: "403", "520-530"
	limiter  *limiter
	row      string // id of what its starts are numbered in: its process, or its limiter
	run      *run
	shift    int64                    // how far the limiter's clock is ahead of that of the records
	origins  map[string][]*robotsCopy // of each robots.txt that it knows, the newest first
	trips    map[uint64]*trip
	over     []uint64          // those of them that are over, the first one first
	pages    map[window]int64  // that were spent of the budget
	bytes    int64             // the same
	pageFrom int64             // start of the first page
	sites    map[string]string // keys of names, where names of one site share a key
}

// transportOf returns the Transport that the record d is of.
func (a *auditor) transportOf(d *evidence.Decision) *transport {
	t := a.transports[d.Transport]
	if t == nil || t.run != a.run {
		for _, promise := range [...]int{delaysKept, budgetKept} {
			a.openIf(t != nil, promise, "what a Transport did between two logs that it has records in") // a new process has a new name
		}
		t = &transport{
			index: uint32(len(a.named)), run: a.run,
			origins: map[string][]*robotsCopy{}, trips: map[uint64]*trip{}, sites: map[string]string{}, pages: map[window]int64{},
		}
		a.transports[strings.Clone(d.Transport)], a.named = t, append(a.named, t)
	}
	return t
}

// policyStated takes a policy, of a Transport or of one host.
func (a *auditor) policyStated(d *evidence.Decision) {
	p, t := d.Policy, a.by
	switch {
	case p == nil: // nothing was promised
	case d.Host != "":
		a.cannot(!t.policy.Overrides, "limits of one host, though the policy says that all hosts have the same")
		h, l := a.host(d), newLimits(p)
		l.from = cmp.Or(d.Seq, h.latest+1)
		h.own[t.index] = append(h.own[t.index], l)
	case t.policy != nil:
		a.cannot(*t.policy != *p, "two policies of one Transport")
	default:
		if words := policyInWords(p); len(a.report.Promised) < maxViolations && !slices.Contains(a.report.Promised, words) {
			a.report.Promised = append(a.report.Promised, words)
		}
		t.policy, t.limits, t.statuses = p, newLimits(p), strings.Split(p.Statuses[:min(len(p.Statuses), 256)], ",") // no log has longer ones
		a.share(t)
		a.openIf(p.OwnRefused, blocksKept, "the user's own eye for refusals (Config.IsRefusal) can't be asked again")
		a.openIf(p.HostKey == "own", delaysKept, "hosts are told apart by a function of the user's (Config.HostKey)")
		a.openIf(p.HostKey == "", delaysKept, "the policy doesn't say how hosts are told apart")
	}
}

// share finds the limiter and the row of t, as its policy names them, and checks that t promises
// what others promise that share the limiter. The processes of a fleet may be started again with
// other limits, one after the other.
func (a *auditor) share(t *transport) {
	p := t.policy
	name := cmp.Or(p.Limiter, fmt.Sprint("\x00", a.report.Logs))
	l := a.limiters[name]
	if l == nil {
		l = &limiter{index: len(a.limiters), policy: p, at: a.at, first: never, local: never, cut: never}
		a.limiters[name] = l
	}
	t.limiter, t.row = l, cmp.Or(p.Process, name)
	shared := func(p *evidence.Policy) evidence.Policy {
		return evidence.Policy{
			Slots: p.Slots, DelayMin: p.DelayMin, DelayMax: p.DelayMax, Adaptive: p.Adaptive, Ceiling: p.Ceiling, FromEnd: p.FromEnd,
			MaxInFlight: p.MaxInFlight, LeaseTTL: p.LeaseTTL,
		}
	}
	switch {
	case p.Limiter == "":
		a.openEnded(logWhole, "a policy that doesn't name its limiter: the Transports of one log are taken to share one")
	case shared(p) == shared(l.policy):
	case p.Process != "" && p.Process != l.policy.Process:
		a.openEnded(delaysKept, "processes that share a limiter and state different limits")
	default:
		a.contradiction("other limits than those of another Transport that has the same limiter", l.at)
	}
}

// blocksAtOnce reports whether a status does, by the policy.
func (t *transport) blocksAtOnce(status int) bool {
	s := string(strconv.AppendInt(make([]byte, 0, 20), int64(status), 10)) // on the stack
	for _, part := range t.statuses {
		from, to, _ := strings.Cut(part, "-")
		if from != "" && from <= s && s <= cmp.Or(to, from) {
			return true
		}
	}
	return status == 429
}

// The limits are a policy as it holds for the turns of a host.
type limits struct {
	*evidence.Policy
	from           uint64 // first start of its Transport that they hold for, where they are of one host
	known, learned bool   // whether its formula of the delay is one of ours, and takes what refusals teach
}

// formula finds formulas of ours: "Fixed", "Longest(Learned, Proportional(1))".
var formula = regexp.MustCompile(`^(Longest\(|[,) ]|Fixed|Squared|Learned|(Proportional|Slower|Throttle)\([0-9.]*[1-9][0-9.]*(e[+-]?[0-9]+)?\))+$`)

func newLimits(p *evidence.Policy) *limits {
	return &limits{Policy: p, known: formula.MatchString(p.Adaptive), learned: strings.Contains(p.Adaptive, "Learned")}
}

// limits returns what limits hold for x.
func (h *host) limits(x *exchange) *limits {
	own := h.own[x.by]
	if i, _ := slices.BinarySearchFunc(own, x.seq+1, func(l *limits, seq uint64) int { return cmp.Compare(l.from, seq) }); i > 0 {
		return own[i-1]
	}
	return h.a.named[x.by].limits
}

// safe returns how long x held its slot for sure before it could be taken back; 0: it never is.
func (a *auditor) safe(x *exchange) int64 { return int64(a.named[x.by].policy.LeaseTTL) }

// keyFits checks that the host of the start d is the key that the policy makes of its URL. Where
// the policy doesn't say how, that was said of it already.
func (a *auditor) keyFits(d *evidence.Decision) {
	t, key := a.by, hostname.Key(sites.Authority(d.URL))
	fits := d.Host == key
	switch p := t.policy; {
	case p.HostKey == "own" || p.HostKey == "":
		return
	case key == "" || strings.HasSuffix(key, evidence.Clipped) || strings.ContainsAny(key, "@%") && key[0] != '[':
		a.openEnded(delaysKept, "a URL that doesn't tell its host")
		return
	case p.HostKey == "site":
		// Which end of a name is its site is for the public suffix list to say, which needs net/http.
		name := hostname.WithoutPort(key)
		if t.sites[name] == "" {
			t.sites[strings.Clone(name)] = strings.Clone(d.Host)
		}
		fits = t.sites[name] == d.Host && (d.Host == name || strings.HasSuffix(name, "."+d.Host) && strings.Contains(d.Host, "."))
	}
	if !fits {
		a.contradiction("the URL " + d.URL + " has another host than " + d.Host)
	}
}
