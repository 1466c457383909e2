package redislimit

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/redis/redislimit/internal/clock"
	"github.com/go-politeness/politeness/redis/redislimit/internal/wire"
)

// TestWhatACallSaysOfItsProcess: until when the server may do what is asked, and from time to time
// that the process lives.
func TestWhatACallSaysOfItsProcess(t *testing.T) {
	for name, c := range map[string]struct {
		failure          Failure
		beaten           time.Duration // so long ago; 0: never
		operator, closed bool
		bye              bool
		beat             string
	}{
		"the first one":                  {beat: "me"},
		"soon after":                     {beaten: deadAfter/5 - time.Second/2},
		"after a fifth of its life":      {beaten: deadAfter / 5, beat: "me"},
		"soon after, where shares count": {failure: FailLocal, beaten: heartbeat / 2, beat: "me"},
		"an operator's":                  {operator: true},
		"the last one":                   {beaten: time.Second, closed: true, bye: true, beat: "-"},
		"the last one, of a live lease":  {closed: true},
	} {
		l := idle(t, Config{Name: "me", Failure: c.failure, Processes: 2, Operator: c.operator})
		p := l.parts[0]
		for _, known := range []bool{false, true} {
			p.clock = clock.Server{Known: known, At: l.now(), Hi: time.Second}
			l.closed = c.closed
			before := l.now()
			if p.sent.beat = 0; c.beaten > 0 {
				p.sent.beat = before - c.beaten
			}
			was := p.sent.beat
			call := p.newCall(nil, c.bye)
			after := l.now()
			request := call.request
			notAfter, beat, promise, spread := request.NotAfter, request.Name, request.Promise, request.Spread
			if request.Leave {
				beat = "-"
			}
			if least := micros(before + time.Second + l.patience); known && (notAfter < least-1 || notAfter > least+micros(after-before)+1) || !known && notAfter != 0 {
				t.Errorf("%s: not after %d, %v later than now", name, notAfter, notAfter.Duration()-before)
			}
			if beat != c.beat || request.Beat != (beat == "me") || (promise != "") != request.Beat || (p.sent.beat != was) != request.Beat {
				t.Errorf("%s: it says that %q lives, and promises %q", name, beat, promise)
			}
			if (spread == 2) != (c.failure == FailLocal) {
				t.Errorf("%s: spread over %d", name, spread)
			}
		}
	}
}

// TestNothingIsCalledForNothing, nor after Close.
func TestNothingIsCalledForNothing(t *testing.T) {
	l := idle(t, Config{})
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.parts[0]
	calls := func(what string, want uint64) {
		if l.stats.Calls != want {
			t.Errorf("%s: %d calls", what, l.stats.Calls)
		}
		l.stats.Calls, p.sent.underWay = 0, 0
	}
	p.flush()
	p.restore(true)
	calls("nothing to say", 0)
	p.ops = []op{renewal(l.host("a.example"))}
	l.closed = true
	p.flush()
	calls("after Close", 0)
	l.closed = false
	p.flush()
	calls("one operation", 1)
	p.ops = make([]op, 2*most+1)
	for i := range p.ops {
		p.ops[i] = renewal(l.host("a.example"))
	}
	p.flush()
	calls("so many that a server would be kept from others", 3)
	for range mostCalls {
		p.ops = []op{renewal(l.host("a.example"))}
		p.flush()
		p.sent.last = l.now() + time.Hour // as if that were a moment ago
	}
	p.ops = []op{renewal(l.host("a.example"))}
	p.sent.underWay = mostCalls
	p.flush()
	calls("while the server has enough to do", mostCalls)
	p.sent.underWay, p.sent.last = mostCalls, l.now()-patient
	p.flush()
	calls("one that takes long", 1)
	l.id = "the fleet's"
	p.restore(false)
	calls("a restore of slots", 0)
	p.restore(true)
	calls("the name of all, for a server that lost it", 1)
}

// TestALossIsLookedForInEachPartition of a cluster of which something is known here.
func TestALossIsLookedForInEachPartition(t *testing.T) {
	l := idle(t, Config{Client: redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}, MaxRedirects: -1})})
	l.mu.Lock()
	defer l.mu.Unlock()
	first, risk, waits, both, idle := l.parts[0], l.parts[1], l.parts[2], l.parts[3], l.parts[4]
	first.uses.atRisk, risk.uses.atRisk, waits.uses.waiting, both.uses.atRisk, both.uses.waiting = 1, 1, 1, 1, 1
	first.gen.name, first.clock, l.id = "1", clock.Server{Known: true, At: l.now()}, "the fleet's"
	sent := l.now()
	if !first.learn(sent, reply{server: micros(l.now()), received: l.now()}, "2") {
		t.Error("a reply of a new generation holds nothing")
	}
	if first.learn(sent, reply{server: micros(l.now()), received: l.now()}, "1") || first.gen.name != "2" {
		t.Error("a reply of before holds")
	}
	for i, p := range []*partition{first, risk, waits, both, idle} { // the first one tells what it knows
		if want := []int{1, 1, 1, 1, 0}[i]; p.sent.underWay != want {
			t.Errorf("partition %d: %d calls", i, p.sent.underWay)
		}
	}
	second := l.parts[5]
	second.gen.name, second.clock = "1", first.clock
	l.allCalled = sent
	if second.learn(sent, reply{server: micros(l.now()), received: l.now()}, "2"); risk.sent.underWay != 1 || second.sent.underWay != 0 {
		t.Error("all were called since that call was sent, and only the first one names all")
	}
}

// TestTheLatencyIsAnAverage of the last replies, of which one that hung counts for no more than 200 ms.
func TestTheLatencyIsAnAverage(t *testing.T) {
	const ms = time.Millisecond
	h := idleHost(t, hostlimit.Config{})
	h.p.gen.name = "1"
	for _, c := range []struct{ took, lead time.Duration }{{80 * ms, 10 * ms}, {90 * ms, 20 * ms}, {time.Minute, 42500 * time.Microsecond}, {2500 * time.Microsecond, 37500 * time.Microsecond}} {
		h.p.clock = clock.Server{Known: true, At: later}
		h.p.learn(later-c.took, reply{server: micros(later - c.took), received: later}, "1")
		if h.p.latency != c.lead {
			t.Errorf("after a reply of %v: %v, want %v", c.took, h.p.latency, c.lead)
		}
	}
}

// TestASlewedClockIsNoStep: up to 20 ms a server's clock may be off what was known, and nothing is void.
func TestASlewedClockIsNoStep(t *testing.T) {
	for slip, stepped := range map[time.Duration]bool{0: false, 19 * time.Millisecond: false, 21 * time.Millisecond: true, -19 * time.Millisecond: false, -21 * time.Millisecond: true} {
		h := idleHost(t, hostlimit.Config{})
		h.l.mu.Lock()
		h.p.gen.name, h.p.clock.Lo, h.p.clock.Hi = "1", -time.Microsecond, time.Microsecond
		holds := h.p.learn(later, reply{server: micros(later + slip), received: later}, "1")
		if holds != (slip == 0) || (h.p.gen.stepped != 0) != stepped {
			t.Errorf("%v off: the reply holds: %t, a step of %v", slip, holds, h.p.gen.stepped)
		}
		h.l.mu.Unlock()
	}
}

// TestAnAnswerIsWaitedForAsLongAsTheClientDoes, within reason; where its client has no timeout, 3 s.
// A client that is asked for none in particular has go-redis's 5 s.
func TestAnAnswerIsWaitedForAsLongAsTheClientDoes(t *testing.T) {
	for timeout, want := range map[time.Duration]time.Duration{-1: 3 * time.Second, 0: 5 * time.Second, time.Second: time.Second, time.Millisecond: heartbeat, time.Minute: 10 * time.Second} {
		l := idle(t, Config{Client: redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", ReadTimeout: timeout})})
		if l.patience != want {
			t.Errorf("ReadTimeout %v: %v", timeout, l.patience)
		}
	}
}

// TestWhatHasComeMeanwhileGoesWithTheAnswer, where somebody waits for it to go.
func TestWhatHasComeMeanwhileGoesWithTheAnswer(t *testing.T) {
	for name, c := range map[string]struct{ waits, fails, stays bool }{
		"something to tell":                {waits: true},
		"what goes along with a call":      {stays: true},
		"to a server that has just failed": {waits: true, fails: true, stays: true},
	} {
		post := new(courier)
		if c.fails {
			post.set(func(string, func() error) error { return errReset })
		}
		client := newClient(t, shared)
		client.AddHook(post)
		l, err := idleLimiter(Config{Client: client, Prefix: "meanwhile:" + name + ":"}, 0, born())
		if err != nil {
			t.Fatal(err)
		}
		p := l.parts[0]
		l.mu.Lock()
		call := p.newCall(nil, false)
		p.ops = []op{renewal(l.host("a.example"))}
		if c.waits {
			p.timer = time.AfterFunc(time.Hour, func() {})
		}
		l.mu.Unlock()
		p.call(call)
		l.mu.Lock()
		if stays := len(p.ops) == 1; stays != c.stays {
			t.Errorf("%s: stays: %t", name, stays)
		}
		l.mu.Unlock()
		l.wg.Wait()
		l.cancel()
	}
}

// TestWhatIsHeardOfAGeneration makes this process call, where it has something to lose.
func TestWhatIsHeardOfAGeneration(t *testing.T) {
	for _, c := range []struct {
		atRisk, waits int
		closed        bool
		want          uint64
	}{{0, 0, false, 0}, {1, 0, false, 1}, {0, 1, false, 1}, {1, 1, false, 1}, {1, 1, true, 0}} {
		l := idle(t, Config{})
		p := l.parts[0]
		p.uses.atRisk, p.uses.waiting, l.closed = c.atRisk, c.waits, c.closed
		l.heard("something else", true)
		if l.heard(packed(t, wire.NewGeneration{Kind: "gen", Key: p.genKey()}), true); l.Stats().Calls != c.want {
			t.Errorf("%+v: %d calls", c, l.Stats().Calls)
		}
	}
}

// TestWhatIsHeardOfABlock holds, unless the server has told more since, and is told of where a person
// has set it.
func TestWhatIsHeardOfABlock(t *testing.T) {
	for name, c := range map[string]struct {
		until           time.Duration // from later
		act             int
		met, newer      bool
		blocked, byHand bool
	}{
		"a block":                             {until: time.Hour, blocked: true},
		"a block of a host that is known":     {until: time.Hour, met: true, blocked: true},
		"a person's":                          {until: time.Hour, act: 1, blocked: true, byHand: true},
		"a lifted one":                        {act: 2, met: true, byHand: true},
		"a lifted one of a host nobody knows": {act: 2},
		"old news":                            {until: time.Hour, act: 1, met: true, newer: true},
	} {
		l := idle(t, Config{})
		l.parts[0].clock = clock.Server{Known: true, At: l.now()}
		now := micros(l.now() - time.Millisecond)
		key := l.parts[0].hostKey("a.example")
		if c.met {
			h := l.host("a.example")
			if h.known.AsOf = now; c.newer {
				h.known.AsOf = now + 1
			}
		}
		l.proclaimed(&wire.Verdict{Key: key, Now: now, Act: c.act, Host: wire.Report{Until: now + micros(c.until)}})
		h := l.hosts["a.example"]
		if (h != nil) != (c.met || c.blocked) {
			t.Errorf("%s: met %t", name, h != nil)
		}
		if h == nil {
			continue
		}
		if h.known.Refusals.Blocks(l.now()) != c.blocked || (h.known.BlockSeen > 0) != c.blocked || (h.news.byHand != nil) != c.byHand {
			t.Errorf("%s: %+v, turns of before are void: %t; by hand: %+v", name, h.known.Refusals, h.known.BlockSeen > 0, h.news.byHand)
		}
	}
}

// TestTheSubscriptionIsRenewedWhereNobodyHearsOfIt: the heartbeat, which the server echoes to this
// process, was sent while it listened, and had no echo.
func TestTheSubscriptionIsRenewedWhereNobodyHearsOfIt(t *testing.T) {
	for name, c := range map[string]struct {
		change func(l *Limiter, call *call, heard *int)
		goesOn bool
	}{
		"no echo":                     {func(*Limiter, *call, *int) {}, false},
		"an echo":                     {func(_ *Limiter, _ *call, heard *int) { *heard = 1 }, true},
		"no heartbeat":                {func(_ *Limiter, c *call, _ *int) { c.request.Beat = false }, true},
		"it was sent before":          {func(l *Limiter, c *call, _ *int) { l.sub.since = c.sent }, true},
		"a cluster, which echoes not": {func(l *Limiter, _ *call, _ *int) { l.cluster = true }, true},
		"after Close":                 {func(l *Limiter, _ *call, _ *int) { l.closed = true }, true},
	} {
		l := idle(t, Config{})
		p, heard := l.parts[0], 0
		now := l.now()
		p.down, p.gen.name, p.clock, l.sub.listening = nil, "1", clock.Server{Known: true, At: now, Lo: -time.Second, Hi: time.Second}, true
		l.sub.since = now - time.Second
		call := &call{request: wire.Call{Beat: true}, sent: now}
		c.change(l, call, &heard)
		r := reply{received: l.now()}
		if !p.answered(call, &r, wire.Reply{Now: micros(l.now()), Generation: "1", Listeners: heard}) || l.sub.listening != c.goesOn || p.sent.heard != call.sent {
			t.Errorf("%s: it listens: %t; %+v", name, l.sub.listening, r)
		}
	}
}

// TestTheLossOfAServerIsToldOnce, whichever of its partitions is lost, and not after Close.
func TestTheLossOfAServerIsToldOnce(t *testing.T) {
	for _, closed := range []bool{false, true} {
		l := idle(t, Config{Failure: FailLocal, Processes: 1})
		p, q := l.parts[0], &partition{l: l}
		p.down, l.closed = nil, closed
		for range 2 {
			p.lost(errors.New("refused"))
			q.lost(errors.New("refused"))
		}
		if want := map[bool]int{false: 1, true: 0}[closed]; len(l.events) != want || (l.down.outage != nil) == closed || l.down.parts != 2 {
			t.Errorf("closed %t: %+v, %d down", closed, l.events, l.down.parts)
		}
	}
	for _, why := range []string{"BADVERSION 7", "BADKEY x"} { // the server is there
		l := idle(t, Config{Failure: FailLocal, Processes: 1})
		l.parts[0].down = nil
		if l.parts[0].lost(errors.New(why)); l.down.outage != nil {
			t.Errorf("%s: this process paces itself", why)
		}
	}
}

// TestOneHostIsOneKeyOfACall: what is asked of one host goes together.
func TestOneHostIsOneKeyOfACall(t *testing.T) {
	l := idle(t, Config{})
	a, b := l.host("a.example"), l.host("b.example")
	built := func(time.Duration) wire.Request { return &wire.Renew{ID: "built"} }
	ops := []op{{h: a, request: new(wire.GetState)}, {h: b, request: new(wire.GetState)}, {h: a, build: built}}
	c := l.parts[0].newCall(ops, false)
	list := c.request.Ops
	want := []wire.Request{
		&wire.GetState{Operation: wire.Operation{Name: "state", Host: 1}},
		&wire.GetState{Operation: wire.Operation{Name: "state", Host: 2}},
		&wire.Renew{Operation: wire.Operation{Name: "renew", Host: 1}, ID: "built"},
	}
	if !reflect.DeepEqual(list, want) || len(c.keys) != 4 || c.keys[2] != l.parts[0].hostKey(a.key) {
		t.Errorf("%v of %v", list, c.keys)
	}
}

// TestAHeartbeatCallsWhatIsDue, and says hello from time to time.
func TestAHeartbeatCallsWhatIsDue(t *testing.T) {
	inUse := func(h *host) { h.leases["1"] = &lease{phase: held, use: use{renewed: later}} }
	waits := func(h *host) { h.waiters = make([]*lease, 1) }
	owes := func(h *host) { h.known.Next = later + 1 }
	for name, c := range map[string]struct {
		set   func(h *host)
		since time.Duration // the last call
		calls uint64
	}{
		"nothing":                     {func(*host) {}, time.Hour, 0},
		"a request in flight":         {inUse, heartbeat, 1},
		"one, a moment ago":           {inUse, heartbeat - 1, 0},
		"one, and calls that hang":    {func(h *host) { inUse(h); h.p.sent.underWay = mostHanging }, heartbeat, 0},
		"one, after Close":            {func(h *host) { inUse(h); h.l.closed = true }, heartbeat, 0},
		"a change under way":          {func(h *host) { h.changes = []*change{{}} }, heartbeat, 1},
		"one, of a request in flight": {func(h *host) { inUse(h); h.changes = []*change{{}} }, heartbeat, 1},
		"a waiter":                    {waits, deadAfter / 5, 1},
		"one, not for long":           {waits, deadAfter/5 - 1, 0},
		"a debt":                      {owes, heartbeat, 1},
		"what it has to tell":         {func(h *host) { h.p.ops = []op{renewal(h)} }, heartbeat, 1},
		"a server that is away":       {func(h *host) { h.p.down = errReset }, heartbeat, 1},
	} {
		h := idleHost(t, hostlimit.Config{})
		h.l.mu.Lock()
		h.p.down, h.p.sent.underWay, h.p.sent.last, h.p.sent.heard = nil, 0, later-time.Hour, later-c.since
		c.set(h)
		h.l.callIfDue(later)
		if h.l.stats.Calls != c.calls {
			t.Errorf("%s: %d calls", name, h.l.stats.Calls)
		}
		h.l.mu.Unlock()
	}
	for name, c := range map[string]struct {
		operator, deaf bool
		down           int
		helloed        time.Duration
		says           bool
	}{
		"the first one":         {says: true},
		"one more":              {helloed: later - greeting, says: true},
		"too soon":              {helloed: later - greeting + 1},
		"of a tool":             {operator: true},
		"before it listens":     {deaf: true},
		"to one that is away":   {down: 1},
		"of a tool, once again": {operator: true, helloed: later - greeting},
	} {
		l := idle(t, Config{Operator: c.operator})
		l.mu.Lock()
		l.parts[0].down, l.parts[0].sent.heard, l.sub.listening, l.down.parts, l.peers.helloed = nil, later, !c.deaf, c.down, c.helloed
		if l.callIfDue(later); (len(l.parts[0].ops) == 1) != c.says || (l.peers.helloed == later) != c.says {
			t.Errorf("%s: %d operations, the last hello in %v", name, len(l.parts[0].ops), l.peers.helloed-later)
		}
		l.mu.Unlock()
	}
}

// TestTheLastCallTakesLeave, where the server knows of this process and no request is in flight.
func TestTheLastCallTakesLeave(t *testing.T) {
	for name, c := range map[string]struct {
		set   func(p *partition)
		calls uint64
	}{
		"a process that was there": {func(*partition) {}, 1},
		"with a request in flight": {func(p *partition) { p.l.places.taken = 1 }, 0},
		"one that never called":    {func(p *partition) { p.gen.name = "" }, 0},
		"of a server that is away": {func(p *partition) { p.down = errReset }, 0},
		"a tool":                   {func(p *partition) { p.l.conf.Operator = true }, 0},
		"something to tell": {func(p *partition) {
			p.gen.name, p.l.places.taken, p.ops = "", 1, []op{renewal(p.l.host("a.example"))}
		}, 1},
	} {
		l := idle(t, Config{})
		p := l.parts[0]
		p.down, p.gen.name, l.closed = nil, "1", true
		c.set(p)
		if p.last(); l.stats.Calls != c.calls {
			t.Errorf("%s: %d calls", name, l.stats.Calls)
		}
	}
}

// TestACallThatIsOvertakenIsNoOutage: the server has answered one that was sent later.
func TestACallThatIsOvertakenIsNoOutage(t *testing.T) {
	for _, c := range []struct {
		heard  time.Duration
		closed bool
		fate   fate
	}{{later, false, lost}, {later + 1, false, stale}, {later + 1, true, lost}} {
		h := idleHost(t, hostlimit.Config{})
		h.p.down, h.p.sent.heard, h.p.sent.beat, h.l.closed = nil, c.heard, later, c.closed
		r := reply{fate: lost, err: errReset}
		if h.p.failed(&call{sent: later}, &r); r.fate != c.fate || (h.p.down != nil) != (c.fate == lost) || h.p.sent.beat != 0 || h.l.stats.Failed != 1 {
			t.Errorf("%+v: fate %d, down %v", c, r.fate, h.p.down)
		}
	}
}

// TestAPauseMakesWaitersAsk, where it begins or ends.
func TestAPauseMakesWaitersAsk(t *testing.T) {
	for _, c := range []struct {
		message string
		ask     bool
	}{{packed(t, wire.Paused{Kind: "pause"}), true}, {packed(t, wire.Echo{Kind: "echo"}), false}, {"", false}, {"x", false}} {
		h := idleHost(t, hostlimit.Config{})
		w := h.waiter(t, later)
		w.phase, w.wait.next = waiting, later
		if h.l.heard(c.message, true); (w.wait.next == 1) != c.ask {
			t.Errorf("%+v: asks at %v", c, w.wait.next)
		}
	}
}
