package crawl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/rules"
)

// An aside is a URL that is set aside, because one of the user's own rules refuses it. The rule may
// change, so the URL has no outcome yet. Such a rule is Config.Refuse of the Transport, or an
// operator's block that ends later than Patience. The URL stays lent, and isn't fetched. The rule
// is asked again each askRules, and once before the crawl ends. A URL that passes goes back to its
// host.
type aside struct {
	request Request
	rule    string // key in Summary.Rules
	err     error  // for Result.Err
	asked   bool   // the rule was asked before the end
}

// askRules is the time between two questions whether rules still refuse the URLs that are set
// aside.
const askRules = time.Minute

// A rest is a host of which nothing is taken from the Queue, as rules refuse its URLs.
type rest struct {
	until time.Time // zero: until the Run ends
	given []aside   // given back to the Queue, not counted yet
}

// A heldFlight is the end of one whose URL is refused by a rule.
type heldFlight struct {
	fl   *flight
	rule *politeness.Error
}

func (e heldFlight) apply(r *run) {
	r.frontier.finish(e.fl, 0)
	r.setAside(e.fl, asideByRule(e.rule))
}

// asideByRule returns the reason of a URL that Config.Refuse refuses.
func asideByRule(rule *politeness.Error) aside {
	return aside{rule: fmt.Sprint(rule.Err), err: rule}
}

// asideByHand returns the reason of a URL whose host an operator has blocked for longer than
// Patience.
func asideByHand(cause string) aside {
	return aside{rule: cause, err: fmt.Errorf("crawl: its host is blocked %s: %w", cause, hostlimit.ErrBlocked)}
}

// setAside sets the URL of fl aside. If its page was served before, the next URL shows whether the
// host refuses.
func (r *run) setAside(fl *flight, a aside) {
	h := fl.h
	if fl.good {
		h.refusals.loseGood(fl.request)
	} else {
		a.request = fl.request
		r.keepAside(h, a)
	}
	r.settle(h)
	r.frontier.put(h)
}

// setAllAside sets the URL of fl aside, and those at hand of its host.
func (r *run) setAllAside(fl *flight, a aside) {
	for _, req := range r.atHand(fl.h) {
		a.request = req
		r.keepAside(fl.h, a)
	}
	r.setAside(fl, a)
	r.want(fl.h)
}

// keepAside sets aside the URL of a, which belongs to h.
func (r *run) keepAside(h *host, a aside) {
	if r.stopped {
		r.doneAside(a)
		return
	}
	// Beyond this bound the Queue keeps the URLs: a host of which there are too many is left alone.
	if r.asides >= r.c.cfg.MaxURLs {
		r.resting[h.key] = &rest{given: r.givenOf(h.key)}
		h.more = false
		r.doneAside(a)
		return
	}
	a.asked = a.asked || a.request.asked
	a.rule = r.summary.countRule(a.rule)
	h.aside = append(h.aside, a)
	r.asides++
}

// givenOf returns the URLs of the host key that were given back and aren't counted yet.
func (r *run) givenOf(key string) []aside {
	if old := r.resting[key]; old != nil {
		return old.given
	}
	return nil
}

// doneAside ends the URL of a, which isn't among those of its host any more, as Left.
func (r *run) doneAside(a aside) {
	r.summary.countRule(a.rule)
	r.done(Result{Request: a.request, Outcome: Left, Err: a.err}, nil)
}

// takeAsides returns the URLs of h that are set aside, and takes them away from h.
func (r *run) takeAsides(h *host) []aside {
	taken := h.aside
	h.aside = nil
	r.asides -= len(taken)
	for _, a := range taken {
		r.summary.uncountRule(a.rule)
	}
	return taken
}

// isAside reports whether all URLs of h are set aside.
func (h *host) isAside() bool { return h.open == len(h.aside) && !h.more && !h.wanted }

// allAside reports whether all URLs of all hosts are set aside.
func (r *run) allAside() bool {
	for _, h := range r.frontier.hosts {
		if !h.isAside() {
			return false
		}
	}
	return true
}

// askAside calls Transport.Next for the URLs that are set aside, if it is time.
func (r *run) askAside(now time.Time) {
	if r.asides > 0 && !r.asking && now.Sub(r.askedAside) >= askRules {
		r.startAsking(false)
	}
}

// startAsking calls Transport.Next for the URLs that are set aside. last is true for the last call
// before the crawl ends. That call leaves out URLs whose rules were asked in an earlier last call.
// It reports whether there are any.
func (r *run) startAsking(last bool) bool {
	if r.asking {
		return true
	}
	urls := make(map[*host][]string)
	for _, h := range r.frontier.hosts {
		for i := range h.aside {
			a := &h.aside[i]
			if last && a.asked {
				continue
			}
			a.asked = a.asked || last
			urls[h] = append(urls[h], a.request.URL)
		}
	}
	if len(urls) == 0 {
		return false
	}
	r.asking = true
	r.askedAside = time.Now()
	go r.callRules(urls)
	return true
}

// callRules finds which of urls the user's own rules let pass, in a separate goroutine.
func (r *run) callRules(urls map[*host][]string) {
	end := askedRules{pass: make(map[string]bool)}
	defer func() { r.events <- end }()
	for _, list := range urls {
		for _, url := range list {
			at, err := guardedValue("the Transport, asked for "+url, func() (time.Time, error) {
				return r.c.cfg.Transport.Next(r.late, url)
			})
			tooFar := time.Until(at) > r.c.cfg.Patience // still blocked by an operator
			if byRule(err) == nil && !tooFar {
				end.pass[url] = true
			}
		}
	}
}

// An askedRules has the results of callRules.
type askedRules struct{ pass map[string]bool }

func (e askedRules) apply(r *run) {
	r.asking = false
	if len(e.pass) == 0 {
		return
	}
	for _, h := range r.frontier.hosts {
		if len(h.aside) == 0 {
			continue
		}
		for _, a := range r.takeAsides(h) {
			if !e.pass[a.request.URL] {
				r.keepAside(h, a)
				continue
			}
			a.request.asked = a.asked
			h.append(a.request)
		}
		r.frontier.put(h)
	}
}

// giveAsides gives the URLs that are set aside back to the Queue, if nothing else is left and their
// rules were asked for the last time. It reports whether it has done all that. While the Queue is
// open their hosts rest, and are taken once more: another process may bring further work. If the
// rules refuse all again, the crawl ends, although the Queue is open. Processes that all have such
// URLs would wait for each other otherwise.
func (r *run) giveAsides(now time.Time) bool {
	if r.startAsking(true) {
		return false
	}
	visited := r.summary.Visited()
	r.refusedAll = r.gaveBefore && visited == r.gaveAt
	r.gaveBefore = true
	r.gaveAt = visited
	for _, h := range r.frontier.hosts {
		if len(h.aside) == 0 {
			continue
		}
		rest := &rest{until: now.Add(askRules), given: r.givenOf(h.key)}
		for _, a := range r.takeAsides(h) {
			rest.given = append(rest.given, a)
			r.work.back = append(r.work.back, Result{Request: a.request, Outcome: Left, Err: a.err})
		}
		r.resting[h.key] = rest
	}
	return true
}

// rests reports whether nothing is taken of the host key. A rest that is over ends: its URLs are
// taken from the Queue again.
func (r *run) rests(key string) bool {
	rest := r.resting[key]
	if rest == nil {
		return false
	}
	if rest.until.IsZero() || time.Now().Before(rest.until) {
		return true
	}
	delete(r.resting, key)
	return false
}

// countAsides counts the URLs that were given back to the Queue, at the end of the Run.
func (r *run) countAsides() {
	var results []Result
	var first error
	for _, rest := range r.resting {
		for _, a := range rest.given {
			r.summary.countRule(a.rule)
			res := Result{Request: a.request, Outcome: Left, Err: a.err}
			r.count(res)
			results = append(results, res)
			first = a.err
		}
	}
	if first != nil && r.summary.Stopped == nil {
		r.summary.Stopped = fmt.Errorf("crawl: your own rules exclude every URL that is left: %w", first)
	}
	r.callDone(results)
}

// handBlock returns the operator's block of the host of fl. It is empty if there is none, or none
// is known. at is the time from which the host may be asked. The limiter is asked only if the URLs
// of the host would be given up without such a block.
func (r *run) handBlock(fl *flight, at time.Time) string {
	wait := time.Until(at)
	if wait <= r.c.cfg.Patience && !(fl.probe && wait > patient) {
		return ""
	}
	state, err := guardedValue("the state of "+fl.h.key, func() (hostlimit.HostState, error) {
		ctx, cancel := context.WithTimeout(r.ctx, askingForState)
		defer cancel()
		return r.c.cfg.Transport.Limiter().State(ctx, fl.h.key)
	})
	if _, byHand := rules.ByHand(state.BlockedBy); !byHand || err != nil {
		return ""
	}
	return state.BlockedBy
}

// byRule returns the refusal by Config.Refuse of the Transport that is behind err, nil if none is.
// It refuses robots.txt as well, so err may be ErrUnreachable.
func byRule(err error) *politeness.Error {
	for {
		refused, ok := errors.AsType[*politeness.Error](err)
		switch {
		case !ok:
			return nil
		case refused.Stage == politeness.StageRule:
			return refused
		}
		err = refused.Err // that of robots.txt, for example
	}
}
