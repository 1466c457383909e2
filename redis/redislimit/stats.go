package redislimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/redis/internal/contexts"
)

// Stats are counts of a Limiter since New, for metrics. The numbers only grow, except for the
// last five, which are of the moment.
type Stats struct {
	Calls       uint64            // scripts run, each perhaps for many requests
	Failed      uint64            // of these, the ones without a response
	Stale       uint64            // of these, the ones that the server refused to do, as they came too late
	Quarantines uint64            // how often the server had lost its data, or its clock had been stepped
	Refused     map[string]uint64 // by reason: blocked, busy, unavailable, draining, cancelled

	Latency  time.Duration // of a reply, from the server to this process, on average
	Guard    time.Duration // how late a start may be, on top of its delay
	InFlight int           // requests of this process
	Waiting  int           // of this process, in Acquire and Start
	Down     bool          // the server, or one of a cluster, can't be reached
}

// Stats returns the counts of l. Use it for metrics.
func (l *Limiter) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stats
	s.Refused = maps.Clone(s.Refused)
	for _, h := range l.hosts {
		s.Waiting += len(h.waiters)
	}
	// Of a cluster, the worst node's.
	for _, p := range l.parts {
		uncertainty := min(p.clock.Uncertainty(l.now()), 2*p.latency)
		s.Latency = max(s.Latency, p.latency)
		s.Guard = max(s.Guard, p.guard.Allow(uncertainty))
	}
	s.InFlight = l.places.taken
	s.Down = l.down.parts > 0
	return s
}

// refused counts a turn that ends with err, if it isn't nil, and returns it.
func (l *Limiter) refused(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	reason := "busy"
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrUnavailable): // first, because an ErrUnavailable is an ErrBusy too
		reason = "unavailable"
	case errors.Is(err, hostlimit.ErrBlocked):
		reason = "blocked"
	case errors.Is(err, hostlimit.ErrDraining), errors.Is(err, ErrClosed):
		reason = "draining"
	case errors.Is(err, context.Canceled):
		reason = "cancelled"
	}
	l.stats.Refused[reason]++
	return err
}

// Check looks at the server, each node of a cluster, and at the other processes, and returns a
// sentence for each danger to the promises of a Limiter. Dangers are settings of the server, calls
// that its ACL forbids, and each process with other limits or on another database. Call it when a
// process begins, and log the result. It takes half a second. The error is that of a server which
// can't be asked.
func (l *Limiter) Check(ctx context.Context) (problems []string, err error) {
	var found gathered
	err = l.masters(ctx, func(ctx context.Context, node *redis.Client) error {
		ofNode, err := l.checkNode(ctx, node)
		found.add(ofNode...)
		return err
	})
	if err != nil {
		return found.texts, err
	}
	ofFleet, err := l.checkFleet(ctx)
	return append(found.texts, ofFleet...), err
}

// masters calls f with the server, or with each node of a cluster, side by side.
func (l *Limiter) masters(ctx context.Context, f func(context.Context, *redis.Client) error) error {
	if c, ok := l.conf.Client.(*redis.ClusterClient); ok {
		return c.ForEachMaster(ctx, f)
	}
	return f(ctx, l.conf.Client.(*redis.Client)) // New takes no other
}

// A nodeReport is the list of one node's problems.
type nodeReport struct {
	addr     string
	problems []string
}

func (r *nodeReport) add(format string, args ...any) {
	r.problems = append(r.problems, "server "+r.addr+": "+fmt.Sprintf(format, args...))
}

// mostOff is how far the server's clock may be off that of this machine.
const mostOff = 2 * time.Second

// checkNode returns the problems of a server's settings.
func (l *Limiter) checkNode(ctx context.Context, node *redis.Client) ([]string, error) {
	found := nodeReport{addr: node.Options().Addr}
	info := node.InfoMap(ctx)
	before := time.Now()
	at, err := node.Time(ctx).Result()
	took := time.Since(before)
	if err = cmp.Or(info.Err(), err); err != nil {
		return nil, &ServerError{Server: found.addr, Err: err}
	}
	version := info.Item("Server", "redis_version")
	major, _, _ := strings.Cut(version, ".")
	if len(major) == 1 && major < "7" {
		found.add("version %s is older than 7, and can't run the script", version)
	}
	policy := info.Item("Memory", "maxmemory_policy")
	if policy != "" && policy != "noeviction" {
		found.add("maxmemory-policy is %s: the state of hosts may be evicted; set noeviction", policy)
	}
	cluster := info.Item("Cluster", "cluster_enabled") == "1"
	if cluster != l.cluster {
		found.add("cluster mode is %t, but Config.Client is a %T", cluster, l.conf.Client)
	}
	role := info.Item("Replication", "role")
	if role != "" && role != "master" {
		found.add("it is a replica, which can't be written to; " +
			"give the client the address of the master, or of the Sentinels")
	}
	off := at.Sub(before)
	// The server's time was read somewhen during the call.
	if off > mostOff+took || off < -mostOff {
		found.add("its clock is off by %.0f s from that of this machine; "+
			"Windows are hours of the server's clock", off.Seconds())
	}
	return found.problems, nil
}

// checkFleet is the part of Check that runs step.lua, publishes to this process and asks the
// others.
func (l *Limiter) checkFleet(ctx context.Context) (problems []string, err error) {
	began := l.now()
	echoed := false
	// The first message may come before the subscription is up.
	for !echoed {
		if l.now()-began > echoing {
			problems = append(problems, fmt.Sprintf(
				"server %s: what this process publishes doesn't reach it; waiters ask again and again, "+
					"and blocks come late: allow it to subscribe to channels %s*", l.server, l.channel("")))
			break
		}
		err := l.helloAll(ctx)
		var refused *ServerError
		switch {
		case ctx.Err() == nil && errors.As(err, &refused): // it has just reported its settings
			problems = append(problems, fmt.Sprintf(
				"server %s refuses what every Limiter asks of it: %v", l.server, refused.Err))
			return problems, nil
		case err != nil:
			return problems, err
		}
		_ = contexts.Sleep(ctx, replying) // for its own message, and for the responses of the others
		echoed = l.echoedSince(began)
	}
	l.mu.Lock()
	found := maps.Clone(l.peers.differ)
	l.mu.Unlock()
	// The hellos miss processes that hear nothing. Their signs of life have their settings as well.
	fleet, err := l.Fleet(ctx)
	for _, p := range fleet.Processes {
		difference := differs(p.Name, p.Promises, l.promise)
		if difference != "" {
			found[p.ID] = difference
		}
	}
	return append(problems, slices.Sorted(maps.Values(found))...), err
}

// helloAll says hello to all processes, and to this one by each other node of a cluster, because
// each node has a separate ACL.
func (l *Limiter) helloAll(ctx context.Context) error {
	for i, p := range l.parts {
		to := l.proc
		if i == 0 {
			to = "all"
		}
		if err := l.do(ctx, l.hello(p, to, true), func(reply) {}); err != nil {
			return err
		}
	}
	return nil
}

// echoedSince reports whether a hello of this process came back after since.
func (l *Limiter) echoedSince(since time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.peers.echoed > since
}
