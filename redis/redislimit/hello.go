package redislimit

import (
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/hostlimit"
)

// Processes with differing limits, or on differing databases of a server, keep no common promise.
// Each sign of life carries what its process promises, in words. Messages cross databases, so each
// process also says hello to all now and then: one that differs answers, and both report the other.

const (
	// greeting is the time between two hellos of a process.
	greeting = 10 * time.Minute

	// mostOthers bounds the number of processes that are reported as differing.
	mostOthers = 64

	// echoing is how long Check waits for its own message, and replying how long for those of others
	// each time that it asks.
	echoing  = 2 * time.Second
	replying = 200 * time.Millisecond
)

// promise writes what processes of one fleet have in common: "Database 0; Concurrency 2; ...".
func promise(c Config, complete hostlimit.Config, refusals backoff.Refusals) string {
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
	d := complete.Delay
	return fmt.Sprintf("Database %d; Processes %d; Concurrency %d; Delay.Min %v; Delay.Max %v; Delay.Adaptive %v; Delay.Ceiling %v; Delay.FromEnd %t; "+
		"LeaseTTL %v; Windows %v; Override %t; Backoff %s; Refusals %.300s", database, c.Processes, complete.Concurrency,
		d.Min, d.Max, d.Adaptive, d.Ceiling, d.FromEnd, complete.LeaseTTL, complete.Windows, complete.Override != nil, policy, fmt.Sprintf("%+v", refusals))
}

// differs returns a sentence about a process that has another promise in fields that we have, too;
// empty: it hasn't.
func differs(name, theirs, ours string) string {
	var found []string
	own := strings.Split(ours, "; ")
	for field := range strings.SplitSeq(theirs, "; ") {
		name, _, _ := strings.Cut(field, " ")
		for _, o := range own {
			if n, value, _ := strings.Cut(o, " "); n == name && field != o {
				found = append(found, field+" (here "+value+")")
			}
		}
	}
	if len(found) == 0 {
		return ""
	}
	return fmt.Sprintf("process %.100q has %s", name, strings.Join(found, ", "))
}

// hello is an operation that publishes what l promises to a process, or to "all". With check it
// does what else needs the server's permission; without, that to all is sent until it is there.
func (l *Limiter) hello(p *partition, to string, check bool) op {
	return op{name: "hello", h: &host{l: l, p: p}, args: []any{to, pack(l.proc, l.conf.Name, l.promise), check}, owed: to == "all" && !check}
}

// greeted takes in a hello, to all or to this process.
func (l *Limiter) greeted(f []any, toAll bool) {
	id, d := text(f[0]), differs(text(f[1]), text(f[2]), l.promise)
	switch {
	case id == l.proc:
		l.echoed = l.now()
	case d != "":
		if toAll && !l.closed {
			l.parts[0].add(l.hello(l.parts[0], id, false))
		}
		if len(l.others) < mostOthers {
			if l.others[id] == "" && l.before[id] == "" {
				l.events = append(l.events, Event{Time: time.Now(), Server: l.server, Differs: d})
			}
			l.others[id] = d
		}
	}
}
