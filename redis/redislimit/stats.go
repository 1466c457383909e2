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
	"github.com/go-politeness/politeness/internal/contexts"
)

// Stats are what a Limiter has done since New, for metrics. The numbers only grow, except for the
// last five, which are of the moment.
type Stats struct {
	Calls       uint64            // scripts run; one may do the work of many turns
	Failed      uint64            // of these, the ones without an answer
	Stale       uint64            // of these, the ones that the server refused to do, as they came too late
	Quarantines uint64            // how often the server had lost its data, or its clock had been stepped
	Refused     map[string]uint64 // turns refused, by reason: blocked, busy, unavailable, draining, cancelled

	Latency  time.Duration // of a reply, from the server to this process, on average
	Guard    time.Duration // how late a start may be, on top of its delay
	InFlight int           // requests of this process
	Waiting  int           // of this process, in Acquire and Start
	Down     bool          // the server, or one of a cluster, can't be reached
}

// Stats returns what l has done.
func (l *Limiter) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stats
	s.Refused = maps.Clone(s.Refused)
	for _, h := range l.hosts {
		s.Waiting += len(h.waiters)
	}
	for _, p := range l.parts {
		s.Latency = max(s.Latency, p.lead)
		s.Guard = max(s.Guard, p.guard.allow(min(p.clock.uncertainty(l.now()), 2*p.lead)))
	}
	s.InFlight, s.Down = l.inFlight, l.down > 0
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
	case errors.Is(err, ErrUnavailable):
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
// sentence for everything that endangers what a Limiter promises: settings of the server, what its
// ACL forbids, and each process with other limits or on another database. Call it when a process
// begins, and log what it says. It takes half a second. The error is that of a server which can't
// be asked.
func (l *Limiter) Check(ctx context.Context) (problems []string, err error) {
	err = l.masters(ctx, func(ctx context.Context, node *redis.Client) error {
		found, err := l.check(ctx, node)
		l.mu.Lock()
		defer l.mu.Unlock()
		problems = append(problems, found...)
		return err
	})
	if err != nil {
		return problems, err
	}
	more, err := l.checkFleet(ctx)
	return append(problems, more...), err
}

// masters calls f with the server, or with each node of a cluster, side by side.
func (l *Limiter) masters(ctx context.Context, f func(context.Context, *redis.Client) error) error {
	if c, ok := l.conf.Client.(*redis.ClusterClient); ok {
		return c.ForEachMaster(ctx, f)
	}
	return f(ctx, l.conf.Client.(*redis.Client)) // New takes no other
}

func (l *Limiter) check(ctx context.Context, node *redis.Client) (problems []string, err error) {
	addr := node.Options().Addr
	bad := func(format string, args ...any) {
		problems = append(problems, "server "+addr+": "+fmt.Sprintf(format, args...))
	}
	info, before := node.InfoMap(ctx), time.Now()
	at, err := node.Time(ctx).Result()
	if err = cmp.Or(info.Err(), err); err != nil {
		return nil, &ServerError{Server: addr, Err: err}
	}
	version := info.Item("Server", "redis_version")
	if major, _, _ := strings.Cut(version, "."); len(major) == 1 && major < "7" {
		bad("version %s is older than 7, and can't run the script", version)
	}
	if policy := info.Item("Memory", "maxmemory_policy"); policy != "" && policy != "noeviction" {
		bad("maxmemory-policy is %s: what hosts are owed may be evicted; set noeviction", policy)
	}
	if cluster := info.Item("Cluster", "cluster_enabled") == "1"; cluster != l.cluster {
		bad("cluster mode is %t, but Config.Client is a %T", cluster, l.conf.Client)
	}
	if role := info.Item("Replication", "role"); role != "" && role != "master" {
		bad("it is a replica, which can't be written to; give the client the address of the master, or of the Sentinels")
	}
	if off := at.Sub(before); off > 2*time.Second+time.Since(before) || off < -2*time.Second {
		bad("its clock is off by %.0f s from that of this machine; Windows are hours of the server's clock", off.Seconds())
	}
	return problems, nil
}

// checkFleet is the part of Check that runs step.lua, publishes to this process and asks the
// others.
func (l *Limiter) checkFleet(ctx context.Context) (problems []string, err error) {
	var found map[string]string
	for began, echoed := l.now(), false; !echoed; {
		if l.now()-began > echoing {
			problems = append(problems, fmt.Sprintf("server %s: what this process publishes doesn't reach it; waiters ask again and again, "+
				"and blocks come late: allow it to subscribe to channels %spush:*", l.server, l.conf.Prefix))
			break
		}
		for i, p := range l.parts { // each node of a cluster has an ACL of its own
			to := l.proc
			if i == 0 {
				to = "all"
			}
			err := l.do(ctx, l.hello(p, to, true), func(reply) {})
			var refused *ServerError
			if ctx.Err() == nil && errors.As(err, &refused) { // it has just told its settings
				return append(problems, fmt.Sprintf("server %s refuses what every Limiter asks of it: %v", l.server, refused.Err)), nil
			} else if err != nil {
				return problems, err
			}
		}
		_ = contexts.Sleep(ctx, replying) // for its own message, and for the answers of the others
		l.mu.Lock()
		echoed, found = l.echoed > began, maps.Clone(l.others)
		l.mu.Unlock()
	}
	fleet, err := l.Fleet(ctx)
	for _, p := range fleet.Processes {
		if d := differs(p.Name, p.Promises, l.promise); d != "" {
			found[p.ID] = d
		}
	}
	return append(problems, slices.Sorted(maps.Values(found))...), err
}
