package redislimit

import (
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/hostlimit"
)

// Config of a Limiter.
type Config struct {
	// Client talks to the server. It is a *redis.Client (single, or failover through Sentinel) or a
	// *redis.ClusterClient. Required. The Limiter doesn't close it. Its timeouts and retries are
	// how long an Acquire waits for a server that doesn't respond.
	Client redis.UniversalClient

	// Prefix of all keys and channels, so that several fleets can share a server, by default
	// "politeness:". It must not contain braces, which are hash tags.
	Prefix string

	// Name of this process, for people who look at the fleet, by default the machine's name and the
	// process's number.
	Name string

	// Limits as for one process, which apply to all processes together. If Processes is set, each
	// process gets its share of MaxInFlight, at least one. Otherwise MaxInFlight bounds the
	// requests of each process. PerSite bounds those of each process. MaxHosts bounds the hosts
	// that a process keeps in memory, which are those of [FailLocal], and idle hosts whose last
	// start number it keeps. Keys on the server expire when they have no state left. Store keeps
	// the state that the server may lose. Processes may share one or have one each.
	Limits hostlimit.Config

	// Failure decides whether requests start while the server can't be reached.
	Failure Failure

	// Processes is the largest number of processes that share the limits, 0 if not known. It
	// divides MaxInFlight. FailLocal requires it, and divides the rates by it.
	Processes int

	// OnFailure, if not nil, is called once when the server is lost, when it is back, when another
	// process has other limits or another database, and when the state of an older version of this
	// package was begun anew. Use it to record these as evidence. It is called from one of the
	// Limiter's goroutines and must be quick.
	OnFailure func(Event)

	// Operator is for a tool that starts no request. Its Limiter counts as no process of the fleet,
	// and its Limits aren't compared with those of processes.
	Operator bool
}

// Times of the design.
const (
	defaultPrefix = "politeness:"

	longWait = time.Second // a longer wait is reported to its Watcher

	heartbeat = 500 * time.Millisecond

	// deadAfter is the time without a sign of life after which a process has lost its slots.
	deadAfter = 10 * time.Second

	// askAhead is how long before its start time a process asks to be let go, so that no call is
	// on the critical path.
	askAhead = 8 * time.Millisecond

	// A turn is let go at most a horizon ahead: that is how long a block that is
	// set meanwhile can't stop it. It leaves room for starts that moved since they were reserved.
	horizon = 20 * time.Millisecond

	// claimWithin is the time after its start at which a reserved turn lapses.
	claimWithin = time.Second

	// Operations wait for linger for another call that can take them along.
	linger = time.Millisecond

	// mostPatience bounds the time for a call, if the client's timeouts are longer, and
	// defaultPatience is that time if it has none.
	mostPatience    = 10 * time.Second
	defaultPatience = 3 * time.Second

	leastQuarantine = 2 * time.Second

	clusterPartitions = 64

	// exact bounds numbers that step.lua computes with, in float64.
	exact = 1 << 52
)

// ErrClosed is returned by methods of a Limiter after Close. Close the Limiter only after the last
// request.
var ErrClosed = errors.New("redislimit: limiter is closed")

// looking is the time between two looks at something without a known end.
const looking = 20 * time.Millisecond

// noticed is how long it takes until the server has noticed that a process is gone, and the others
// leave it its share of the rate.
const noticed = 2500 * time.Millisecond

// mostHanging bounds the calls of a process to a server that doesn't answer.
const mostHanging = 8

// observing bounds how long Observe waits for the server.
const observing = time.Second

// Times between questions that only matter if a push got lost, or if nobody listens.
const (
	pollQueue = 5 * time.Second
	pollProbe = 250 * time.Millisecond
	pollDeaf  = 20 * time.Millisecond

	// pollBlock is how often a waiter asks whether a block still holds that an operator may have
	// lifted.
	pollBlock = 5 * time.Second

	// pollApart is the time between the polls of neighbours in the server's queue.
	pollApart = time.Millisecond
)
