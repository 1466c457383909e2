package queuetest

import (
	"context"
	"errors"
	"slices"
	"sort"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/crawl"
)

// A server is a Queue in memory for several processes, and what may be wrong with one.
type server struct {
	broken  string // one of defects; empty: none
	alone   bool   // a Queue for one process: opening it ends the one before
	urls    []*entry
	owners  map[string]*process // of hosts
	current *process            // the one that was opened last
	all     []*process
}

type entry struct {
	crawl.Request
	done  bool
	due   time.Time
	again bool // it has been done
	lent  *process
}

// waits reports whether e may be lent.
func (s *server) waits(e *entry) bool {
	return !e.done && (!e.due.After(time.Now()) || s.is("lends early"))
}

// hint hears that e was modified.
func (s *server) hint(e *entry, modified time.Time) {
	due, ok := crawl.Hinted(e.State, modified)
	switch {
	case s.is("hears no hint"), s.is("hears no hint of what is final") && e.done:
		return
	case s.is("hears any hint"):
		ok = !modified.IsZero()
		due = modified
	case s.is("hears hints early"):
		due = modified
	}
	if ok && e.lent == nil && (e.done || due.Before(e.due)) {
		e.due = due
		e.done = false
	}
}

// A single is the Queue of the only process, which doesn't own.
type single struct {
	crawl.Postponer
	crawl.Recurring
}

func (s single) Add(ctx context.Context, reqs []crawl.Request) (added, noRoom int, err error) {
	return s.Postponer.Add(ctx, reqs)
}

func (s single) Take(ctx context.Context, hosts []string, n int) ([]crawl.Request, error) {
	return s.Postponer.Take(ctx, hosts, n)
}

func (s single) Done(ctx context.Context, results []crawl.Result) error {
	return s.Postponer.Done(ctx, results)
}

func (s single) Hosts(ctx context.Context, n int) (hosts []string, open bool, err error) {
	return s.Postponer.Hosts(ctx, n)
}

// A process is a server's Queue in one process.
type process struct {
	s     *server
	alive time.Time       // last call of Hosts
	lent  map[string]bool // URLs
	want  bool            // the last call of Hosts had room
	over  map[string]bool // hosts to give back
}

const modelLease = 5 * time.Second

func (s *server) open() crawl.Queue {
	p := &process{s: s, alive: time.Now(), lent: map[string]bool{}, over: map[string]bool{}}
	if s.current != nil && s.alone {
		s.end(s.current)
	}
	s.current = p
	if s.alone {
		return single{p, p}
	}
	return p
}

func (s *server) is(defect string) bool { return s.broken == defect }

// end makes wait what a dead process had.
func (s *server) end(p *process) {
	s.all = slices.DeleteFunc(s.all, func(o *process) bool { return o == p })
	for _, e := range s.urls {
		if e.lent == p && !s.is("loses at a kill") {
			e.lent = nil
		}
		if s.is("forgets Data at a kill") {
			e.Data = ""
		}
		if s.is("forgets State at a kill") {
			e.State = ""
		}
	}
	for host, o := range s.owners {
		if o == p {
			delete(s.owners, host)
		}
	}
}

func (p *process) beat() {
	s := p.s
	if !s.is("has no leases") {
		for _, o := range slices.Clone(s.all) {
			if time.Since(o.alive) > modelLease {
				s.end(o)
			}
		}
	}
	p.alive = time.Now()
	if !slices.Contains(s.all, p) {
		s.all = append(s.all, p)
	}
}

func (p *process) Add(_ context.Context, reqs []crawl.Request) (added, noRoom int, err error) {
	s := p.s
	for _, r := range reqs {
		i := slices.IndexFunc(s.urls, func(e *entry) bool {
			return e.URL == r.URL && !(s.is("forgets what is done") && e.done) ||
				s.is("compares prefixes") && len(r.URL) > 1000 && len(e.URL) > 1000
		})
		if i >= 0 && !s.is("adds what is known") {
			s.hint(s.urls[i], r.Modified)
			continue
		}
		r.Tries = 0
		r.Modified = time.Time{}
		switch {
		case s.is("forgets Via"):
			r.Via = ""
		case s.is("forgets From"):
			r.From = ""
		case s.is("forgets Data"):
			r.Data = ""
		case s.is("cuts Data"):
			r.Data = r.Data[:min(len(r.Data), 32<<10)]
		case s.is("keeps text only"):
			r.Data = strings.ToValidUTF8(r.Data, "?")
		case s.is("forgets Later"):
			r.Later = 0
		case s.is("forgets Mark"):
			r.Mark = 0
		}
		s.urls = append(s.urls, &entry{Request: r, due: time.Now()})
		added++
	}
	if s.is("miscounts") {
		added = len(reqs)
	}
	if s.is("refuses duplicates") && added < len(reqs) {
		return 0, 0, errors.New("constraint violated")
	}
	return added, 0, nil
}

func (p *process) Take(_ context.Context, hosts []string, n int) (taken []crawl.Request, _ error) {
	return p.take(hosts, 0, n), nil
}

func (p *process) TakeLater(_ context.Context, host string, least, n int) ([]crawl.Request, error) {
	if p.s.is("takes no later ones") {
		least = 0
	}
	return p.take([]string{host}, least, n), nil
}

func (p *process) Lift(_ context.Context, host string, mark uint32, later int) (more bool, err error) {
	for _, e := range p.s.urls {
		isOf := e.Host == host || p.s.is("lifts other hosts")
		isLater := e.Later > later || p.s.is("lifts back")
		isMarked := e.Mark == mark || p.s.is("lifts all")
		if isOf && isLater && isMarked && !p.s.is("lifts none") {
			e.Later = later
		}
	}
	return p.s.is("lifts for ever"), nil
}

func (p *process) Postponed(_ context.Context, n int) (largest []crawl.PostponedGroup, all int, _ error) {
	for _, e := range p.s.urls {
		if e.Later == 0 || e.done && !p.s.is("counts what is done") {
			continue
		}
		all++
		i := slices.IndexFunc(largest, func(g crawl.PostponedGroup) bool {
			return g.Host == e.Host && (g.Mark == e.Mark || p.s.is("counts all marks as one"))
		})
		if i < 0 {
			i = len(largest)
			largest = append(largest, crawl.PostponedGroup{Host: e.Host, Mark: e.Mark, URL: e.URL})
		}
		largest[i].Number++
	}
	sort.SliceStable(largest, func(i, j int) bool { return largest[i].Number > largest[j].Number })
	if p.s.is("counts groups only") {
		all = len(largest)
	}
	return largest[:min(n, len(largest))], all, nil
}

func (p *process) take(hosts []string, least, n int) (taken []crawl.Request) {
	s := p.s
	waiting := slices.Clone(s.urls)
	if !s.is("takes in the order of adding") {
		sort.SliceStable(waiting, func(i, j int) bool { return waiting[i].due.Before(waiting[j].due) })
	}
	sort.SliceStable(waiting, func(i, j int) bool { return waiting[i].Later < waiting[j].Later && !s.is("has no levels") })
	if !s.is("keeps no priorities") {
		sort.SliceStable(waiting, func(i, j int) bool { return waiting[i].Priority > waiting[j].Priority })
	}
	if s.is("has levels before priorities") {
		sort.SliceStable(waiting, func(i, j int) bool { return waiting[i].Later < waiting[j].Later })
	}
	if s.is("takes the newest first") {
		slices.Reverse(waiting)
	}
	for _, host := range hosts {
		if s.is("stops at an unknown host") && !slices.ContainsFunc(s.urls, func(e *entry) bool { return e.Host == host }) {
			break
		}
		isOthers := !s.alone && s.owners[host] != p && !s.is("shares a host")
		if isOthers && s.is("shares what is due again") {
			isOthers = !slices.ContainsFunc(s.urls, func(e *entry) bool { return e.Host == host && e.again })
		}
		if isOthers || p.over[host] {
			continue
		}
		left := n
		for _, e := range waiting {
			if e.Host != host || !s.waits(e) || e.lent != nil && !s.is("lends twice") || left == 0 || e.Later < least {
				continue
			}
			if !s.is("takes without end") {
				left--
			}
			e.lent = p
			p.lent[e.URL] = true
			taken = append(taken, e.Request)
		}
	}
	return taken
}

func (p *process) Done(_ context.Context, results []crawl.Result) error {
	s := p.s
	for _, r := range results {
		i := slices.IndexFunc(s.urls, func(e *entry) bool { return e.URL == r.URL })
		if i < 0 {
			if s.is("knows no unknown") {
				return errors.New("no such URL")
			}
			continue
		}
		delete(p.lent, r.URL)
		e := s.urls[i]
		switch {
		case r.Outcome != crawl.Left || s.is("ends what is Left"):
			e.done = r.Again.IsZero() && (e.done || r.Outcome == crawl.Visited || !s.is("ends visits only"))
			e.lent = nil
			s.keep(e, &r)
		case e.lent == p, s.is("has no fence"):
			e.lent = nil
			if s.is("postpones none that is Left") {
				break
			}
			e.Later = r.Later
			e.Mark = r.Mark
			if s.is("forgets how long a request has waited") {
				s.urls = append(slices.Delete(s.urls, i, i+1), e)
			}
		}
		if s.is("keeps hosts") {
			continue
		}
		if !p.has(r.Host) && s.owners[r.Host] == p {
			delete(s.owners, r.Host)
			delete(p.over, r.Host)
		}
	}
	return nil
}

// keep keeps what a Result says of the next visit.
func (s *server) keep(e *entry, r *crawl.Result) {
	if !s.is("keeps no State") {
		e.State = r.State
	}
	e.due = r.Again
	e.again = true
	if s.is("ends what is due again") {
		e.done = true
	}
}

func (p *process) Next(context.Context) (next time.Time, _ error) {
	now := time.Now()
	for _, e := range p.s.urls {
		isLater := !e.done && e.due.After(now)
		if p.s.is("says what is due already") {
			isLater = !e.done
		}
		if isLater && (next.IsZero() || e.due.Before(next) != p.s.is("says the last due time")) {
			next = e.due
		}
	}
	return next, nil
}

// has reports whether something is lent of a host.
func (p *process) has(host string) bool {
	return slices.ContainsFunc(p.s.urls, func(e *entry) bool { return e.Host == host && e.lent == p })
}

func (p *process) Hosts(_ context.Context, n int) (hosts []string, open bool, _ error) {
	s := p.s
	p.beat()
	if !s.is("shares nothing") {
		p.share()
	}
	for _, e := range s.urls {
		o := s.owners[e.Host]
		isWaiting := s.waits(e) || s.is("is open for what is due later") && !e.done
		open = open || isWaiting && !s.alone && (o != p || s.is("is open for itself"))
		free := o == nil || o == p
		if s.is("steals hosts") {
			free = o != p
		}
		if !s.waits(e) && !s.is("lists what is done") || e.lent != nil && !s.is("lists what is lent") || !free || p.has(e.Host) && !s.is("lists what is lent") ||
			slices.Contains(hosts, e.Host) || len(hosts) >= n || p.over[e.Host] || len(s.all) > 1 && o == nil && p.number() >= p.part() && !s.is("shares nothing") {
			continue
		}
		if hosts = append(hosts, e.Host); !s.alone {
			if s.owners == nil {
				s.owners = map[string]*process{}
			}
			s.owners[e.Host] = p
		}
		if s.is("lists one host") {
			break
		}
	}
	p.want = n > len(hosts)
	switch {
	case s.is("never closes"):
		open = true
	case s.is("is never open"):
		open = false
	}
	return hosts, open, nil
}

func (p *process) number() (n int) {
	for _, o := range p.s.owners {
		if o == p {
			n++
		}
	}
	return n
}

// part is the fair part of the hosts that have requests.
func (p *process) part() int {
	hosts := map[string]bool{}
	for _, e := range p.s.urls {
		if !e.done {
			hosts[e.Host] = true
		}
	}
	return (len(hosts) + len(p.s.all) - 1) / len(p.s.all)
}

// share marks what p has too much of.
func (p *process) share() {
	for _, host := range slices.Sorted(func(yield func(string) bool) {
		for h, o := range p.s.owners {
			if o == p && !yield(h) {
				return
			}
		}
	}) {
		if len(p.s.all) > 1 && p.number()-len(p.over) > p.part() {
			p.over[host] = true
		}
	}
}

func (p *process) Owns(host string) bool {
	if p.s.is("never loses") {
		return true
	}
	return p.s.owners[host] == p && !p.over[host]
}

// defects are those that Run must find; the second is whether the Queue is for one process.
var defects = map[string]bool{
	"adds what is known": true, "forgets what is done": true, "compares prefixes": true, "miscounts": true, "refuses duplicates": true,
	"forgets From": true, "forgets Data": true, "cuts Data": true, "keeps text only": true, "forgets Data at a kill": true,
	"forgets Via": true, "keeps no priorities": true, "takes the newest first": true, "takes without end": true, "lends twice": true,
	"knows no unknown": true, "stops at an unknown host": true, "ends what is Left": true, "ends visits only": true, "lists what is done": true, "lists what is lent": true,
	"lends early": true, "ends what is due again": true, "keeps no State": true, "forgets State at a kill": true,
	"says what is due already": true, "says the last due time": true, "takes in the order of adding": true,
	"hears no hint": true, "hears no hint of what is final": true, "hears any hint": true, "hears hints early": true,
	"is open for what is due later": false,
	"lists one host":                false, "never closes": true, "loses at a kill": true,
	"shares a host": false, "has no leases": false, "has no fence": false, "keeps hosts": false, "never loses": false, "steals hosts": false,
	"forgets Later": true, "forgets Mark": true, "takes no later ones": true, "has no levels": true, "has levels before priorities": true,
	"lifts other hosts": true, "lifts back": true, "lifts all": true, "lifts none": true, "lifts for ever": true, "counts what is done": true,
	"counts all marks as one": true, "counts groups only": true, "postpones none that is Left": true, "forgets how long a request has waited": true,
	"shares what is due again": false,
	"is never open":            false, "is open for itself": false, "shares nothing": false,
}

// TestRunFindsEveryDefect: a Queue that is broken in one place fails, and one that isn't passes.
func TestRunFindsEveryDefect(t *testing.T) {
	problemsOf := func(t *testing.T, broken string, alone bool) (problems []string) {
		for _, p := range promises {
			synctest.Test(t, func(t *testing.T) {
				s := &server{broken: broken, alone: alone}
				c := &check{ctx: t.Context(), open: s.open, urls: 100, logf: func(string, ...any) {}}
				if problem := c.run(p); problem != "" {
					problems = append(problems, p.name+": "+problem)
				}
			})
		}
		return problems
	}
	for _, alone := range []bool{true, false} {
		if problems := problemsOf(t, "", alone); len(problems) > 0 {
			t.Errorf("a whole Queue, for one process %v, fails: %q", alone, problems)
		}
	}
	for defect, alone := range defects {
		t.Run(defect, func(t *testing.T) {
			problems := problemsOf(t, defect, alone)
			if len(problems) == 0 {
				t.Errorf("a Queue that %s passes", defect)
			}
			for _, p := range problems {
				t.Log(p)
			}
		})
	}
}
