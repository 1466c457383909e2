package redislimit

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/memory"
	"github.com/go-politeness/politeness/hostlimit/rules"
	"github.com/go-politeness/politeness/redis/redislimit/internal/clock"
	"github.com/go-politeness/politeness/redis/redislimit/internal/known"
	"github.com/go-politeness/politeness/redis/redislimit/internal/wire"
)

// The values of a Limiter, from the whole to its parts: a Limiter has partitions of the server and
// hosts; a host has its waiters and its leases. The other files have the steps that change them,
// each in its own field.

// A Limiter is a hostlimit.Limiter on a server. It is safe for concurrent use. It owns a
// subscription and a heartbeat. Close ends both.
type Limiter struct {
	setup
	lifetime

	mu     sync.Mutex // guards all that follows; never held across a wait
	closed bool
	id     string // the server's name of all that is under the prefix; "": it wasn't asked yet

	parts     []*partition
	allCalled time.Duration // when all partitions were called after a loss of data
	down      downtime
	sub       subscription
	asked     map[string]*lease // the leases that the server may push to, by id

	hosts   map[string]*host
	numbers numbers
	places  places
	peers   peers
	stats   Stats   // without the values of the moment
	events  []Event // that OnFailure hasn't got yet
	acts    hostlimit.Acts
	acted   []hostlimit.Act // that no receiver of acts has got yet

	foundOlder bool // the server had the state of an older version, see begunAnew
}

// setup is the part of a Limiter that New sets once.
type setup struct {
	conf       Config        // with every default but those of Limits
	script     *redis.Script // step, but for tests that set the server's clock
	server     string        // addresses, for errors
	cluster    bool
	rules      *rules.Rules
	limits     hostlimit.Config // with every default; MaxInFlight is the share of this process
	failsLocal bool             // FailLocal
	windows    []wire.Hours     // limits.Windows, for step.lua
	quarantine time.Duration
	patience   time.Duration // how long a call may take
	deadAfter  time.Duration
	base       time.Time // origin of all times of this process
	proc       string    // names this process on the server, and in evidence
	promise    string    // the settings that all processes should have in common, see hello.go
}

// A lifetime has two ends: nothing starts any more, and all goroutines have returned.
type lifetime struct {
	ctx    context.Context
	cancel context.CancelFunc
	open   context.Context // done when nothing starts any more, after Drain or Close
	drain  context.CancelFunc
	wg     sync.WaitGroup // every goroutine
	ended  chan struct{}  // closed when all have returned, after Close

	drained atomic.Bool // Drain was called
}

// numbers are the last numbers of all that a process counts.
type numbers struct {
	leases  uint64
	changes int64
	calls   int64                          // begins anywhere, as others may share the client
	starts  *simplelru.LRU[string, uint64] // host.seq of hosts that were forgotten
}

// A downtime is how much of the server can't be reached.
type downtime struct {
	parts  int     // partitions that can't be reached
	outage *outage // paces the requests meanwhile, with FailLocal; nil: nothing does
}

// An outage is a time without the server under FailLocal. Its Memory has this process's share, and
// gets the known state of a host as the debt of a Store: so the rules are those of hostlimit, and
// its saves are reported to the server afterwards.
type outage struct {
	l     *Limiter
	hosts *memory.Limiter
}

// A subscription is how the server pushes turns to this process.
type subscription struct {
	pubsub    *redis.PubSub // nil: none was made yet
	listening bool          // it is up
	since     time.Duration // when it came up; an earlier call proves nothing about it
}

// peers are the processes of the fleet that this one has found to differ from it.
type peers struct {
	helloed time.Duration     // when this process said hello last; 0: not yet
	echoed  time.Duration     // when its own hello came back last
	differ  map[string]string // a sentence about each process that differs, by id, since helloed
	before  map[string]string // the same, between the two hellos before
}

// places are the requests in flight of this process: at most MaxInFlight, and PerSite of a site.
type places struct {
	most    int // 0: there is no limit
	perSite int // 0 or less: there is no limit
	taken   int
	bySite  map[string]int // taken, of each site that has requests in flight
	line    []*lease       // first come, first served
}

// A partition is a set of hosts whose keys share a slot of the cluster: one on a single server,
// where all calls can be taken together. Its methods are called with the Limiter's mu held.
type partition struct {
	l   *Limiter
	tag string // {0}, {1}...: the hash tag of its keys

	ops   []op // to be sent with the next call
	timer *time.Timer
	sent  sent
	uses  uses

	gen       generation
	restoring int // restore operations without a reply

	clock   clock.Server
	guard   clock.Guard
	latency time.Duration // of a reply, on average

	down error              // why the server can't be reached; nil: it can
	over context.Context    // done when it can again, or nothing starts any more; nil: it always could
	end  context.CancelFunc // of over
}

// sent is when the calls of a partition were sent.
type sent struct {
	last     time.Duration
	beat     time.Duration // the last one with a sign of life; 0: the next one has one
	heard    time.Duration // the last one that the server has handled
	underWay int           // number of calls without a reply
}

// uses are the hosts of a partition by their use in this process, as sweep has counted them.
type uses struct {
	atRisk  int // something is known of them here
	inUse   int // requests are in flight, too
	waiting int // requests wait
}

// A generation is a state of the server, in which it has lost nothing and its clock made no step.
type generation struct {
	name    string        // the server's; "": it isn't known yet
	since   time.Duration // when that was heard; a reply to an earlier call says nothing about it
	stepped time.Duration // step of the clock, which calls report until the server makes a new generation
}

// An op is an operation of step.lua on a host.
type op struct {
	h       *host
	request wire.Request
	build   func(now time.Duration) wire.Request // makes request when the operation is sent; nil: it is made
	owed    bool                                 // it is sent again until the server has had it, or can't read the host
	tried   int64                                // number of the first call that may have done it; 0: none
	done    func(r reply)                        // called under mu; nil: it isn't
}

// A fate is what has become of an operation.
type fate int

const (
	did    fate = iota // the server has done it
	stale              // this copy did nothing: it came too late, or for a state of the server that is lost
	broken             // nothing was done: the host's key is no longer one of step.lua's
	lost               // there was no response: it may have been done
)

// A reply is the response to an operation.
type reply struct {
	call     int64 // its number
	fate     fate
	err      error         // why it wasn't done; nil: it was
	answer   wire.Answer   // of the type that the request asks for
	server   wire.Micros   // when it was made, on the server's clock
	received time.Duration // and when it came
}

// A call is one run of step.lua.
type call struct {
	ops     []op
	keys    []string
	request wire.Call
	payload string // request, packed
	sent    time.Duration
}

// A host is a key in this process, with its waiters here. Only the first of its waiters
// asks the server (and the second when the first is about to start); the others wait for those to
// leave, at no cost. So the server's queue holds a place or two for each process, and processes
// take turns. Its fields and those of its waiters are guarded by the Limiter's mu.
type host struct {
	l    *Limiter
	p    *partition
	key  string
	site string // of key, see sitekey.Of
	seq  uint64 // number of the last start of this process

	waiters []*lease          // by rank, then first come, first served
	leases  map[string]*lease // that callers have, by id
	wait    hostWait

	known   known.Host
	changes []*change     // of the refusals that the server hasn't answered; the first one is under way
	usual   time.Duration // how long pages usually take, by the responses to this process

	keeping keeping
	news    news
	local   localDebt
}

// news is what the next Grant or Error of a host reports.
type news struct {
	restored  *hostlimit.Restored
	stateErr  error
	byHand    *hostlimit.Debt
	takenBack []hostlimit.TakenBack // only a Grant reports these
	noted     bool                  // there was a byHand
	actOf     int64                 // version of the server's refusals by the last byHand
}

// A hostWait is the reason for which the waiters of a host wait, and the time that they spent so.
type hostWait struct {
	blame  blame // since the time since
	since  time.Duration
	spent  spent
	opens  time.Duration // no start before, by Config.Windows
	expiry time.Duration // when the server takes a lease back next, by its last WAIT
}

// spent is time spent in a queue, by blame.
type spent [3]time.Duration

// A blame is one of the three reasons for a wait that a Grant knows.
type blame int

const (
	slot blame = iota
	delay
	block
)

// keeping is the part of a host that belongs to the Store.
type keeping struct {
	recalled bool           // the server has the debt of the Store
	saved    rules.Refusals // in the Store
	savedAt  time.Duration
	retryAt  time.Duration // no Update before, except for changes by this process, as the last one has failed
	busy     chan struct{} // full while a call of the Store is under way; nil: there is no Store
}

// A localDebt is the debt of a host in an outage, multiplied for the share of this process.
type localDebt struct {
	debt hostlimit.Debt
	of   *outage // nil: of none
}

// A lease is one turn, from Acquire on. The goroutine of an Acquire or a Start waits for its wake
// channel and one timer; all the rest happens under l.mu, which guards every field that changes.
type lease struct {
	l      *Limiter
	h      *host
	id     string
	limits *hostlimit.Limits
	floor  time.Duration
	blind  bool          // the floor is unknown here, and the server takes the one that was reported last
	delay  time.Duration // drawn, or the floor if that is longer

	phase    phase
	asks     int64    // number of the last question; 0: none was sent
	granted  granting // the last GO of the server
	wait     wait     // of Acquire or Start
	start    start
	use      use
	hasPlace bool            // occupies a place in MaxInFlight
	local    hostlimit.Lease // of FailLocal's Memory; nil: the server gave the turn
}

// A phase is how far a lease has come.
type phase int

const (
	parked  phase = iota // other waiters of this process are ahead
	inLine               // waits for a place in MaxInFlight
	asking               // a call is under way
	waiting              // until wait.next, or for a push
	granted              // may start within a window
	held                 // the caller has it
	over
)

// A wait is how an Acquire, or a Start, waits for its turn.
type wait struct {
	caller
	wake    chan struct{} // wakes the goroutine that waits
	before  spent         // host.wait.spent at arrival
	noticed bool          // the watcher was called
	next    time.Duration // when to act without being woken; 0: not at all
	planned time.Duration // earliest start, by the server's last reply or push; 0: unknown
	why     string        // why not sooner, in step.lua's letters
	push    *wire.Push    // came while a question was under way; nil: none
	err     error         // how the wait ended; nil: with a turn, or it hasn't ended
}

// A granting is a Go of the server.
type granting struct {
	at     wire.Micros // earliest start, on the server's clock
	guard  wire.Micros // how much later it may be
	delay  time.Duration
	source string      // decided delay
	prev   wire.Micros // stamp of the latest start that had ended, on the server's clock; 0: none is known
	slots  int         // in use, this one included
	probe  bool
	others bool // other turns are reserved behind it
	report wire.Report
	heard  reply
	gen    string // generation of the server that granted it
}

// A caller is read from the context of an Acquire or a Start, under no lock: a context is any code.
type caller struct {
	arrived   time.Duration
	limit     time.Duration     // latest start
	byContext bool              // limit is the context's deadline
	rank      int64             // priority
	watcher   hostlimit.Watcher // nil: none is called
}

// A start is the latest start of a lease.
type start struct {
	take  int64         // number of the question whose reply allowed it; 0: the lease hasn't started
	seq   uint64        // number of the start on its host, for this process
	stamp wire.Micros   // its recorded time on the server's clock; 0: void
	by    wire.Micros   // the latest time that the server's clock may have shown at the start
	began time.Duration // before the first start: when the caller got the lease
}

// A use is the part of a lease's life in which the caller has it.
type use struct {
	had        bool          // an Acquire has ended with the lease
	waited     spent         // in Acquire and Start
	renewed    time.Duration // the last Renew or start
	observed   bool
	revised    bool
	before     rules.Counts // rows of refusals before Observe, for Revise
	unanswered bool         // Observe reported an attempt without a response
	released   bool
	expired    bool // LeaseTTL had passed when it ended
	unshared   bool // the server has no record of the lease
}

// A change is the effect of a lease's outcome, or of an operator, on the refusals of a host. This
// process computes it, and the server stores the result if its refusals are of the version that the
// change was computed from. Otherwise the server returns its own, and the change is computed anew.
// A process makes the changes of a host one by one, so the server knows by the number of the last
// one whether it has stored a change already.
type change struct {
	h       *host
	number  int64 // in its process; 0: it wasn't submitted yet
	compute func(s *rules.Refusals, now time.Duration) hostlimit.Effect

	lease  *lease      // nil: an operator's
	late   bool        // the outcome revises an earlier one, and the lease may have ended
	served bool        // the outcome is a success
	adapt  *wire.Adapt // of the delay by response times; nil: it stays
	act    act
	slots  int              // number of slots of the host
	will   rules.Refusals   // if Until > 0, its block holds here until the server has answered
	effect hostlimit.Effect // as computed last
	stored *wire.Change     // what the server is to store, as computed last; nil: it is to be computed
	until  time.Duration    // end of the block in stored
	latest time.Duration    // no request that was granted before the change can start after it
	done   chan reply       // receives the reply to the change
}

// An act is what an operator does to a host, as step.lua numbers it.
type act int

const (
	noAct act = iota // the change is an outcome's
	blocks
	clears
)

// now is the time on this process's monotonic clock.
func (l *Limiter) now() time.Duration { return time.Since(l.base) }

// channel is the channel of a process, or of all.
func (l *Limiter) channel(to string) string { return l.conf.Prefix + "push:" + to }

// signOfLife is the time between two signs of life of a process, of which the server may miss some.
func (l *Limiter) signOfLife() time.Duration { return l.deadAfter / 5 }
