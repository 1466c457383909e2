package redislimit

import (
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/redis/redislimit/internal/wire"
)

// Processes with differing limits, or on differing databases of a server, keep no common promise.
// Each sign of life carries the promise of its process, in words. Messages cross databases, so each
// process also says hello to all now and then: one that differs answers, and both report the other.

const (
	// greeting is the time between two hellos of a process.
	greeting = 10 * time.Minute

	// mostPeers bounds the number of processes that are reported as differing.
	mostPeers = 64

	// echoing is how long Check waits for its own message, and replying how long for those of
	// others each time that it asks.
	echoing  = 2 * time.Second
	replying = 200 * time.Millisecond
)

// isDue reports whether it is time for the next hello.
func (p *peers) isDue(now time.Duration) bool {
	return p.helloed == 0 || now-p.helloed >= greeting
}

// greet notes a hello, to which all that differ answer again.
func (p *peers) greet(now time.Duration) {
	p.helloed = now
	p.before = p.differ
	p.differ = make(map[string]string)
}

// meet notes that the process id differs, and reports whether that is news.
func (p *peers) meet(id, difference string) bool {
	if len(p.differ) >= mostPeers {
		return false // a client that sends names without end
	}
	isNew := p.differ[id] == "" && p.before[id] == ""
	p.differ[id] = difference
	return isNew
}

// promise writes the settings that processes of one fleet have in common: "Database 0; Concurrency
// 2; ...".
func promise(c Config, limits hostlimit.Config, refusals backoff.Refusals) string {
	database := 0
	if client, ok := c.Client.(*redis.Client); ok {
		database = client.Options().DB
	}
	if c.Operator {
		return fmt.Sprintf("Database %d", database)
	}
	policy := fmt.Sprintf("%T", refusals.Policy) // one of the user's own may print as an address
	switch refusals.Policy.(type) {
	case backoff.Fibonacci, backoff.Doubling:
		policy += fmt.Sprintf("%+v", refusals.Policy)
	}
	refusals.Policy = nil
	d := limits.Delay
	return strings.Join([]string{
		fmt.Sprintf("Database %d", database),
		fmt.Sprintf("Processes %d", c.Processes),
		fmt.Sprintf("Concurrency %d", limits.Concurrency),
		fmt.Sprintf("Delay.Min %v", d.Min),
		fmt.Sprintf("Delay.Max %v", d.Max),
		fmt.Sprintf("Delay.Adaptive %v", d.Adaptive),
		fmt.Sprintf("Delay.Ceiling %v", d.Ceiling),
		fmt.Sprintf("Delay.FromEnd %t", d.FromEnd),
		fmt.Sprintf("LeaseTTL %v", limits.LeaseTTL),
		fmt.Sprintf("Windows %v", limits.Windows),
		fmt.Sprintf("Override %t", limits.Override != nil), // functions can't be compared
		"Backoff " + policy,
		fmt.Sprintf("Refusals %.300s", fmt.Sprintf("%+v", refusals)),
	}, "; ")
}

// differs returns a sentence about a process that has another promise in fields that we have, too;
// empty: it hasn't.
func differs(name, theirs, ours string) string {
	own := make(map[string]string)
	for setting := range strings.SplitSeq(ours, "; ") {
		field, value, _ := strings.Cut(setting, " ")
		own[field] = value
	}
	var found []string
	for setting := range strings.SplitSeq(theirs, "; ") {
		field, value, _ := strings.Cut(setting, " ")
		here, ok := own[field]
		// Another version may have other fields, and a tool has few.
		if ok && here != value {
			found = append(found, setting+" (here "+here+")")
		}
	}
	if len(found) == 0 {
		return ""
	}
	return fmt.Sprintf("process %.100q has %s", name, strings.Join(found, ", "))
}

// hello is an operation that publishes the promise of l to a process, or to "all". With check it
// does everything else that needs the server's permission. Without, a hello to all is sent until it
// arrives.
func (l *Limiter) hello(p *partition, to string, check bool) op {
	return op{
		h: &host{l: l, p: p},
		request: &wire.Greet{
			To:    to,
			Text:  wire.Hello{ID: l.proc, Name: l.conf.Name, Promise: l.promise}.Pack(),
			Check: check,
		},
		owed: to == "all" && !check,
	}
}

// greeted handles a hello, to all or to this process.
func (l *Limiter) greeted(hello *wire.Hello, toAll bool) {
	if hello.ID == l.proc {
		l.peers.echoed = l.now() // for Check
		return
	}
	difference := differs(hello.Name, hello.Promise, l.promise)
	if difference == "" {
		return
	}
	// Only a hello to all has a response, else two processes that differ would never stop.
	if toAll && !l.closed {
		l.parts[0].add(l.hello(l.parts[0], hello.ID, false))
	}
	if l.peers.meet(hello.ID, difference) {
		l.events = append(l.events, Event{Time: time.Now(), Server: l.server, Differs: difference})
	}
}
