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

// A transport is a Transport, as the records of one log show it. Records that name none are those
// of one Transport.
type transport struct {
	index     uint32
	run       *run             // its log
	policy    *evidence.Policy // nil: it has stated none
	limits    *limits          // of its policy, for hosts that have no limits of their own
	statuses  []string         // that block at once, by its policy: "403", "520-530"
	limiter   *limiter
	numbering string // id of the process, or of the limiter, that numbers its starts
	shift     int64  // how far the limiter's clock is ahead of that of the records

	origins map[string][]*robotsCopy // of each robots.txt that it knows, the newest first
	trips   map[uint64]*trip
	over    []uint64          // trips that are over, the first one first
	sites   map[string]string // hosts by names, if names of one site share a host

	// The use of the budget.
	pages    map[window]int64 // all Transports with one kept budget have the same map
	kept     *keptBudget      // nil: the budget is that of the Transport alone
	bytes    int64
	pageFrom int64 // start of the first page
}

// transportOf returns the Transport that the record d is of.
func (a *auditor) transportOf(d *evidence.Decision) *transport {
	t := a.transports[d.Transport]
	if t != nil && t.run == a.run {
		return t
	}
	if t != nil {
		// A new process has a new name, so this one was at work between the logs.
		const between = "what a Transport did between two logs that it has records in"
		a.openEnded(delaysKept, between)
		a.openEnded(budgetKept, between)
	}
	t = &transport{
		index:   uint32(len(a.indexed)),
		run:     a.run,
		origins: map[string][]*robotsCopy{},
		trips:   map[uint64]*trip{},
		sites:   map[string]string{},
		pages:   map[window]int64{},
	}
	a.transports[strings.Clone(d.Transport)] = t
	a.indexed = append(a.indexed, t)
	return t
}

// policyStated takes a policy, of a Transport or of one host.
func (a *auditor) policyStated(d *evidence.Decision) {
	p := d.Policy
	t := a.by
	switch {
	case p == nil: // nothing was promised
	case d.Host != "":
		a.cannot(!t.policy.Overrides, "limits of one host, though the policy says that all hosts have the same")
		// They hold from the start that the record names, or else from the next one.
		h := a.host(d)
		own := newLimits(p)
		own.from = cmp.Or(d.Seq, h.latest+1)
		h.own[t.index] = append(h.own[t.index], own)
	case t.policy != nil: // a log may repeat it
		a.cannot(*t.policy != *p, "two policies of one Transport")
	default:
		a.promise(t, p)
	}
}

// maxStatuses is how many bytes of a policy's statuses are read: no log has longer ones.
const maxStatuses = 256

// promise takes the policy p of t.
func (a *auditor) promise(t *transport, p *evidence.Policy) {
	words := policyInWords(p)
	if len(a.report.Promised) < maxViolations && !slices.Contains(a.report.Promised, words) {
		a.report.Promised = append(a.report.Promised, words)
	}
	t.policy = p
	t.limits = newLimits(p)
	t.statuses = strings.Split(p.Statuses[:min(len(p.Statuses), maxStatuses)], ",")
	a.share(t)
	a.shareBudget(t)
	// Functions of the user's can't be called again.
	a.openIf(p.OwnRefused, blocksKept, "the user's own check for refusals (Config.IsRefusal) can't be repeated")
	a.openIf(p.HostKey == "own", delaysKept, "the key of hosts is a user's function (Config.HostKey)")
	a.openIf(p.HostKey == "", delaysKept, "the policy doesn't name the key of hosts")
}

// share finds the limiter of t by its policy, and checks that all its Transports promise the same.
// The processes of a fleet may be started again with other limits, one after the other.
func (a *auditor) share(t *transport) {
	p := t.policy
	name := cmp.Or(p.Limiter, fmt.Sprint("\x00", a.report.Logs)) // no limiter of a policy has such a name
	// The first policy that names the limiter is the one that the others have to agree with.
	l := a.limiters[name]
	if l == nil {
		l = &limiter{
			index:  len(a.limiters),
			policy: p,
			at:     a.at,
			first:  never,
			local:  never,
			cut:    never,
		}
		a.limiters[name] = l
	}
	t.limiter = l
	t.numbering = cmp.Or(p.Process, name)
	switch {
	case p.Limiter == "":
		const unnamed = "a policy that doesn't name its limiter: the Transports of one log are taken to share one"
		a.openEnded(logWhole, unnamed)
	case shared(p) == shared(l.policy): // all agree
	case p.Process != "" && p.Process != l.policy.Process:
		a.openEnded(delaysKept, "processes that share a limiter and state different limits")
	default:
		a.contradiction("other limits than those of another Transport that has the same limiter", l.at)
	}
}

// A keptBudget is one that all Transports of one state spend together.
type keptBudget struct {
	pages       map[window]int64
	most, owned int64 // largest limits of pages, and of pages of a host
	lost        bool  // a process couldn't read or keep it, and counted by itself
}

// shareBudget finds the budget of t by its policy, if that is kept with the state.
func (a *auditor) shareBudget(t *transport) {
	p := t.policy
	if !p.Kept || p.State == "" || p.Every == 0 {
		return
	}
	name := fmt.Sprint(p.State, " ", p.Every)
	k := a.budgets[name]
	if k == nil {
		k = &keptBudget{pages: map[window]int64{}}
		a.budgets[name] = k
	}
	// Another run may have other limits.
	k.most = max(k.most, p.Pages)
	k.owned = max(k.owned, p.PagesPerHost)
	t.kept = k
	t.pages = k.pages
}

// shared returns the part of p that Transports with one limiter have in common.
func shared(p *evidence.Policy) evidence.Policy {
	return evidence.Policy{
		Slots:       p.Slots,
		DelayMin:    p.DelayMin,
		DelayMax:    p.DelayMax,
		Adaptive:    p.Adaptive,
		Ceiling:     p.Ceiling,
		FromEnd:     p.FromEnd,
		MaxInFlight: p.MaxInFlight,
		PerSite:     p.PerSite,
		SiteList:    p.SiteList,
		LeaseTTL:    p.LeaseTTL,
	}
}

// blocksAtOnce reports whether a response of that status blocks its host at once, by the policy.
func (t *transport) blocksAtOnce(status int) bool {
	s := string(strconv.AppendInt(make([]byte, 0, 20), int64(status), 10)) // on the stack
	for _, part := range t.statuses {
		from, to, _ := strings.Cut(part, "-")
		if from != "" && from <= s && s <= cmp.Or(to, from) { // all have three digits
			return true
		}
	}
	return status == 429
}

// limits are a policy as it applies to the starts on a host.
type limits struct {
	*evidence.Policy
	from    uint64 // of one host's own limits: number of the first start that they hold for
	known   bool   // the formula of the delay is one of this module's
	learned bool   // refusals teach the delay
}

// formula finds this module's formulas: "Fixed", "Longest(Learned, Proportional(1))".
var formula = regexp.MustCompile(`^(Longest\(|[,) ]|Fixed|Squared|Learned|` +
	`(Proportional|Slower|Throttle)\([0-9.]*[1-9][0-9.]*(e[+-]?[0-9]+)?\))+$`)

func newLimits(p *evidence.Policy) *limits {
	return &limits{
		Policy:  p,
		known:   formula.MatchString(p.Adaptive),
		learned: strings.Contains(p.Adaptive, "Learned"),
	}
}

// limits returns the limits that hold for x: the host's own that were stated last before it, or
// those of its Transport.
func (h *host) limits(x *exchange) *limits {
	own := h.own[x.by]
	byFirst := func(l *limits, seq uint64) int { return cmp.Compare(l.from, seq) }
	// The first limits that begin after x: those before them hold.
	i, _ := slices.BinarySearchFunc(own, x.seq+1, byFirst)
	if i > 0 {
		return own[i-1]
	}
	return h.a.indexed[x.by].limits
}

// safe returns for how long x has its slot before that can be taken back; 0: it never is.
func (a *auditor) safe(x *exchange) int64 { return int64(a.indexed[x.by].policy.LeaseTTL) }

// keyFits checks that the host of the start d is the key that the policy makes of its URL. A policy
// without a HostKey was found before, in promise.
func (a *auditor) keyFits(d *evidence.Decision) {
	p := a.by.policy
	if p.HostKey == "own" || p.HostKey == "" {
		return
	}
	// Two hosts under one key would only be asked more slowly, but one host under two keys is asked
	// twice as fast.
	key := hostname.Key(sites.Authority(d.URL))
	if !isKey(key) {
		a.openEnded(delaysKept, "a URL without a host")
		return
	}
	fits := d.Host == key
	if p.HostKey == "site" {
		fits = a.by.siteFits(hostname.WithoutPort(key), d.Host)
	}
	if !fits {
		a.contradiction("the URL " + d.URL + " has another host than " + d.Host)
	}
}

// isKey reports whether a key is that of a whole host, without a part that can't be in one.
func isKey(key string) bool {
	if key == "" || strings.HasSuffix(key, evidence.Clipped) {
		return false
	}
	return key[0] == '[' || !strings.ContainsAny(key, "@%")
}

// siteFits reports whether host may be the site of a name, and is the same for each URL with that
// name. The public suffix list knows which end of a name is its site, but it needs net/http.
func (t *transport) siteFits(name, host string) bool {
	// The first URL with the name decides: a later one with another site was counted elsewhere.
	if t.sites[name] == "" {
		t.sites[strings.Clone(name)] = strings.Clone(host)
	}
	above := strings.HasSuffix(name, "."+host) && strings.Contains(host, ".")
	return t.sites[name] == host && (host == name || above)
}
