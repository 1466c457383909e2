package audit

import (
	"hash/maphash"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/internal/hostname"
)

// A transport is what the records say of one Transport. Those that name none are of one that stated
// no policy.
type transport struct {
	mix      uint64            // makes its trips' numbers its own; 0 for the one without a name
	policy   *evidence.Policy  // nil: it has stated none
	limits   *hostLimits       // the same, for hosts that have no limits of their own
	statuses map[int]bool      // that block at once, by its policy
	sites    map[string]string // keys of names, where names of one site share a key

	limiter *transport // another one that has the same limiter; nil: itself, as far as is known

	budget  budgetAudit
	answers *simplelru.LRU[uint64, robotsAnswer] // to its last fetch of each robots.txt, by URL
	hops    *simplelru.LRU[uint64, bool]         // where redirects of robots.txt lead
	anyHop  bool                                 // whether one leads to where the log doesn't say

	led      *simplelru.LRU[uint64, int] // number of answers that lead to a page, and that no request has followed yet
	followed map[uint64]int              // number of requests for a page whose redirect isn't in the log yet
	run      *run                        // log that the last record stood in
}

// maxRedirects bounds the redirects of one Transport that lead to no request.
const maxRedirects = 1 << 14

func newTransport(name string) *transport {
	t := &transport{
		followed: map[uint64]int{}, budget: newBudget(), sites: map[string]string{},
		answers: lastOf[uint64, robotsAnswer](maxRedirects), hops: lastOf[uint64, bool](maxRedirects), led: lastOf[uint64, int](maxRedirects),
	}
	if name != "" {
		t.mix = maphash.String(seed, name) | 1
	}
	return t
}

// group returns the same transport for all that are known to share a limiter.
func (t *transport) group() *transport {
	for t.limiter != nil {
		if next := t.limiter.limiter; next != nil {
			t.limiter = next // the way is shorter next time
		}
		t = t.limiter
	}
	return t
}

// shares notes that t and o share a limiter: it numbers their starts in one row.
func (t *transport) shares(o *transport) {
	if a, b := t.group(), o.group(); a != b {
		a.limiter = b
	}
}

// begin forgets what no longer matters once a log has ended.
func (t *transport) begin() {
	t.budget = newBudget()
	if t.policy != nil {
		t.budget.promise(t.policy)
	}
	t.answers.Purge()
	t.hops.Purge()
	t.led.Purge()
	clear(t.followed)
}

// byName returns the transport whose records bear name, a new one for a new name.
func (a *auditor) byName(name string) *transport {
	if a.by != nil && a.byWhom == name {
		return a.by
	}
	t := a.transports[name]
	if t == nil {
		t = newTransport(name)
		a.transports[strings.Clone(name)] = t
	}
	a.byWhom = name
	return t
}

// policyStated takes a policy, of a Transport or of one host.
func (a *auditor) policyStated(d *evidence.Decision) {
	p := d.Policy
	switch {
	case p == nil: // nothing was promised
	case d.Host != "":
		if a.by.policy != nil && !a.by.policy.Overrides {
			a.contradiction("limits of one host, though the policy says that all hosts have the same")
		}
		a.host(d).override(d.Seq, p)
	case a.by.policy != nil && *a.by.policy != *p:
		a.contradiction("two policies of one Transport")
	default:
		if a.by.policy == nil {
			a.report.Policies = append(a.report.Policies, *p)
		}
		a.by.policy, a.by.limits, a.by.statuses = p, newHostLimits(p), statusesOf(p.Statuses)
		a.by.budget.promise(p)
		a.report.Proofs.Budget += len(a.by.budget.limits)
		if p.Every > 0 {
			a.openEnded(budgetKept, "the budget is renewed, and the log doesn't say in which window a page was reserved")
		}
		if p.OwnRefused {
			a.openEnded(blocksKept, "the user's own eye for refusals (Config.Refused) can't be asked again")
		}
		switch p.HostKey {
		case "own":
			a.openEnded(delaysKept, "hosts are told apart by a function of the user's (Config.HostKey)")
		case "":
			a.openEnded(delaysKept, "the policy doesn't say how hosts are told apart")
		}
	}
}

// longestWait returns how long a request waits at most. While one waits to ask for robots.txt
// again, the others go on by the copy that is out of date.
func (t *transport) longestWait() time.Duration {
	if t.policy == nil {
		return 0
	}
	return t.policy.MaxWait
}

// statusesOf reads "403,520-530".
func statusesOf(s string) map[int]bool {
	set := map[int]bool{429: true}
	for part := range strings.SplitSeq(s, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err != nil || err2 != nil || to > 999 {
			continue
		}
		for ; from <= to; from++ {
			set[from] = true
		}
	}
	return set
}

// keyFits reports whether a record's host is the key that the policy makes of its URL; known tells
// whether that can be said.
func (t *transport) keyFits(d *evidence.Decision) (fits, known bool) {
	if t.policy == nil || t.policy.HostKey == "own" || t.policy.HostKey == "" {
		return true, true // said of the policy already
	}
	_, rest, _ := strings.Cut(d.URL, "://")
	authority := rest
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority = rest[:end]
	}
	cut := authority == rest && !isWhole(d.URL)
	if strings.Contains(authority, "%") {
		if u, err := url.Parse("//" + authority); err == nil {
			authority = u.Host
		}
	}
	key := hostname.Key(authority)
	if cut || key == "" || strings.Contains(authority, "@") || strings.Contains(key, "%") && !strings.HasPrefix(key, "[") {
		return true, false
	}
	if t.policy.HostKey == "site" {
		// Which end of a name is its site is for the public suffix list to say, which needs net/http.
		name := hostname.WithoutPort(key)
		if _, ok := t.sites[name]; !ok {
			t.sites[strings.Clone(name)] = strings.Clone(d.Host)
		}
		within := d.Host == name || strings.HasSuffix(name, "."+d.Host) && strings.Contains(d.Host, ".")
		return within && t.sites[name] == d.Host, true
	}
	return d.Host == key, true
}
