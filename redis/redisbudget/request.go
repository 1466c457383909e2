package redisbudget

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/budget"
)

//go:embed take.lua
var source string

var take = redis.NewScript(source)

// form is the version of the values that take.lua keeps on the server.
const form = 2

const (
	// onTheWay is how long a call may be under way. One that arrives later does nothing.
	onTheWay = 5 * time.Second

	// mostResent bounds the hosts whose counts one call sends again.
	mostResent = 500
)

// A request is one run of take.lua. Its seq makes it count once, however often it is sent.
type request struct {
	seq        int64
	window     int64 // that its pages and bytes belong to
	host       string
	wantPages  int64
	wantHost   int64
	wantBytes  int64
	leastBytes int64
	backPages  int64
	backBytes  int64
	backHosts  map[string]int64
	resent     []string // hosts whose counts go along, as the server may have lost them
	start      bool
	bye        bool // the last call of this process
	again      bool // a copy was sent before, and may have counted
}

// A state names the data on the server. It is another one after a loss.
type state struct {
	id     string // empty: no reply has come yet
	epoch  int64  // number of id
	fence  int64  // number of calls that counted
	window int64  // number of the window of budget.Limits.Every
}

// A clock bounds the server's clock by the time in a reply.
type clock struct {
	server int64     // microseconds
	sent   time.Time // when the call was sent: the server's clock showed its time after that
}

// latest returns the latest time that the server's clock can show, in microseconds.
func (c clock) latest(now time.Time) int64 {
	if c.sent.IsZero() {
		return 0
	}
	return c.server + now.Sub(c.sent).Microseconds()
}

// lock waits for the right to call.
func (b *Budget) lock(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case b.calling <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// catchUp sends the call again that has no reply yet, because a grant must not get lost, and the
// counts that the server has lost. It reports whether it asked. The caller has the right to call.
func (b *Budget) catchUp(ctx context.Context) (asked bool, err error) {
	for {
		b.mu.Lock()
		r := b.pending
		if r == nil && len(b.resend) > 0 {
			r = b.request("", 0, false)
			r.resent = b.resend[:min(len(b.resend), mostResent)]
		}
		b.mu.Unlock()
		if r == nil {
			return asked, nil
		}
		asked = true
		if err := b.do(ctx, r); err != nil {
			return asked, err
		}
	}
}

// ask takes a chunk of pages of host, or of n bytes, unless there are some in hand. start is true
// if the page or bytes are to be spent.
func (b *Budget) ask(ctx context.Context, host string, n int64, start bool) error {
	if err := b.lock(ctx); err != nil {
		return err
	}
	defer func() { <-b.calling }()
	if asked, err := b.catchUp(ctx); asked {
		return err // the caller looks again
	}
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return ErrClosed
	}
	now := time.Now()
	askFirst := start && b.owesCall(now)
	if b.inHand(host, n) && !b.windowOver(now) && !askFirst {
		b.mu.Unlock() // another call has got it meanwhile
		return nil
	}
	r := b.request(host, n, start)
	b.mu.Unlock()
	return b.do(ctx, r)
}

// inHand reports whether some of n bytes are in hand or, for 0, a page of host. The caller holds
// mu.
func (b *Budget) inHand(host string, n int64) bool {
	if n > 0 {
		return b.bytes.unspent > 0
	}
	ofHost := b.hosts == nil || b.host(host).unspent > 0
	return b.pages.unspent > 0 && ofHost && !b.bytesGone()
}

// request returns a request for n bytes or, for 0, for a page of host, or for nothing. The caller
// holds mu.
func (b *Budget) request(host string, n int64, start bool) *request {
	b.seq++
	r := &request{seq: b.seq, window: b.state.window, start: start}
	now := time.Now()
	if n > 0 {
		if b.bytes.unspent == 0 {
			r.wantBytes = max(n, b.bytes.grow(now, b.chunkTime(), firstBytes, mostBytes))
			r.leastBytes = n
		}
		return r
	}
	if b.hosts != nil {
		r.host = host
	}
	if host == "" && !start {
		return r
	}
	if b.pages.unspent == 0 {
		r.wantPages = b.pages.grow(now, b.chunkTime(), firstPages, mostPages)
	}
	if b.hosts != nil && b.host(host).unspent == 0 {
		r.wantHost = b.host(host).grow(now, b.chunkTime(), 1, mostPages)
	}
	return r
}

// giveBack moves the pages and bytes that are in hand into the request. The caller holds mu.
func (r *request) giveBack(b *Budget) {
	r.backPages = b.pages.unspent
	r.backBytes = b.bytes.unspent
	b.pages.unspent = 0
	b.bytes.unspent = 0
	for name, h := range b.hosts {
		if h.unspent > 0 {
			if r.backHosts == nil {
				r.backHosts = make(map[string]int64)
			}
			r.backHosts[name] = h.unspent
			h.unspent = 0
		}
	}
}

func (r *request) gives() bool { return r.backPages > 0 || r.backBytes > 0 || len(r.backHosts) > 0 }

// args are those of take.lua, in its order. The caller holds mu.
func (r *request) args(b *Budget, now time.Time) []any {
	limits := b.limits
	var elapsed, notAfter int64
	if !b.started.IsZero() {
		elapsed = now.Sub(b.started).Microseconds()
	}
	latest := b.clock.latest(now)
	if latest > 0 {
		notAfter = latest + onTheWay.Microseconds()
	}
	const day = 24 * time.Hour
	args := []any{
		fmt.Sprintf("%d:%d", form, b.every.Microseconds()),
		b.proc,
		r.seq,
		notAfter,
		bit(r.again),
		b.state.epoch,
		b.state.id,
		b.state.fence,
		r.window,
		b.processes,
		max(keepFor, limits.Duration+day, b.every+day).Milliseconds(),
		limits.Pages,
		limits.PagesPerHost,
		limits.Bytes,
		b.warnAt(limits.Pages),
		b.warnAt(limits.PagesPerHost),
		b.warnAt(limits.Bytes),
		r.host,
		r.wantPages,
		r.wantHost,
		r.wantBytes,
		r.leastBytes,
		r.backPages,
		r.backBytes,
		b.pages.total,
		b.bytes.total,
		elapsed,
		bit(r.start),
		b.warnTime().Microseconds(),
		b.every.Microseconds(),
		quietNew.Microseconds(),
		quietLost.Microseconds(),
		beat.Microseconds(),
		b.resendEpoch,
		len(r.resent),
		bit(r.bye),
		b.lostAfter.Seconds(),
		b.lostFor.Seconds(),
	}
	for _, name := range r.resent {
		args = append(args, name, b.host(name).total)
	}
	for name, n := range r.backHosts {
		args = append(args, name, n)
	}
	return args
}

func bit(on bool) int {
	if on {
		return 1
	}
	return 0
}

// replyFields is how many fields of a reply to a call that counted are read.
const replyFields = 17

// errOld is the error of a call that arrives after a later one of its process.
var errOld = errors.New("the server has had a later call of this process")

// mostLate is how often a call is sent anew that arrived too late: once if the server's clock
// wasn't known or was changed, and again if the network is too slow.
const mostLate = 3

// do calls the server and stores its reply. The caller has the right to call.
func (b *Budget) do(ctx context.Context, r *request) error {
	b.mu.Lock()
	b.pending = r
	b.watch()
	b.mu.Unlock()
	for range mostLate {
		b.mu.Lock()
		sent := time.Now()
		args := r.args(b, sent)
		b.mu.Unlock()
		reply, err := b.run(ctx, r, args)
		counted, err := b.answered(r, sent, reply, err)
		if counted || err != nil {
			return err
		}
	}
	return &ServerError{b.name, fmt.Errorf("calls arrive later than %v after they were sent", onTheWay)}
}

// run runs take.lua with args, those of r.
func (b *Budget) run(ctx context.Context, r *request, args []any) ([]any, error) {
	answer, err := take.Run(ctx, b.client, b.keys, args...).Result()
	if err != nil {
		return nil, err
	}
	reply, _ := answer.([]any)
	name := b.proc + strconv.FormatInt(r.seq, 10)
	if len(reply) == 0 || text(reply[len(reply)-1]) != name {
		b.purge(ctx)
		return nil, errMixedUp
	}
	return reply, check(reply)
}

// answered stores the reply to r, which was sent at that time, or counts its failure err. It
// reports whether the call has counted; without an error it came too late, and is to be sent again.
func (b *Budget) answered(r *request, sent time.Time, reply []any, err error) (counted bool, _ error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		r.again = true
		b.stats.Failed++
		return false, &ServerError{b.name, err}
	}
	b.stats.Calls++
	b.stats.Took += time.Since(sent)
	known := !b.clock.sent.IsZero()
	b.clock = clock{number(reply[1]), sent}
	switch text(reply[0]) {
	case "late":
		if known { // else the call was sent to learn the server's time
			b.stats.Late++
		}
		return false, nil
	case "old":
		b.pending = nil
		return false, &ServerError{b.name, errOld}
	}
	b.pending = nil
	b.take(r, reply)
	return true, nil
}

// errMixedUp is the error of a call that got the response to another one: a response that a client
// left unread on a connection is the first that its next user reads. If it were believed, pages
// would be taken twice.
var errMixedUp = errors.New("the connection has given the answer to another call")

// purge gets rid of a connection that gives each caller the response of the one before: a client
// closes one on which it reads a reply of another type than that of its command. It ends when the
// client gives proper answers.
func (b *Budget) purge(ctx context.Context) {
	const most = 16
	for i := range most {
		// A reply of take.lua isn't a time, and a time isn't an echo. So a wrong reply to either
		// command shows.
		_, err := b.client.Time(ctx).Result()
		word := strconv.Itoa(i)
		echo, echoErr := b.client.Echo(ctx, word).Result()
		proper := err == nil && echoErr == nil && echo == word
		if proper || ctx.Err() != nil {
			return
		}
	}
}

// check returns an error for a reply that take.lua of this version doesn't give.
func check(reply []any) error {
	switch {
	case len(reply) >= 2 && (text(reply[0]) == "late" || text(reply[0]) == "old"):
		return nil
	case len(reply) < replyFields || text(reply[0]) != "ok":
		return fmt.Errorf("%.200q is no reply", fmt.Sprint(reply))
	}
	return nil
}

// take stores the reply to a call that counted. The caller holds mu.
func (b *Budget) take(r *request, reply []any) {
	now := time.Now()
	before := b.state
	b.state = state{
		id:     text(reply[2]),
		epoch:  number(reply[3]),
		fence:  number(reply[4]),
		window: number(reply[5]),
	}
	b.quietUntil = now.Add(time.Duration(max(number(reply[6]), 0)) * time.Microsecond)
	switch {
	case before.id == "": // the first reply
	case before.window != b.state.window:
		b.renew()
	case before.id != b.state.id:
		b.stats.Losses++
		b.resendAll(before.epoch)
	default:
		b.resend = b.resend[len(r.resent):]
		for name, n := range r.backHosts {
			b.host(name).total -= n
		}
	}
	b.pages.total = number(reply[7])
	b.bytes.total = number(reply[8])
	grantPages := max(number(reply[11]), 0)
	grantHost := max(number(reply[12]), 0)
	grantBytes := max(number(reply[13]), 0)
	b.pages.unspent += grantPages
	b.bytes.unspent += grantBytes
	ofHost := number(reply[9])
	if b.hosts != nil && r.host != "" {
		h := b.host(r.host)
		h.unspent += grantHost
		if len(b.resend) == 0 { // else the server may know less
			h.total = ofHost
		}
	}
	if grantPages+grantHost+grantBytes > 0 {
		b.used = now
	}
	b.learnStart(number(reply[10]), now)
	b.divisor = max(number(reply[15]), 1)
	b.timeAsked = b.timeAsked || b.timeDue(now)
	for _, limit := range text(reply[14]) {
		b.warn(limit, r.host, ofHost, now)
	}
}

// learnStart stores that the budget's clock began us microseconds before now, if it isn't negative.
// The earliest of such times is closest: the later ones have the time of their reply on top.
func (b *Budget) learnStart(us int64, now time.Time) {
	if us < 0 {
		return
	}
	at := now.Add(-time.Duration(us) * time.Microsecond)
	if b.started.IsZero() || at.Before(b.started) {
		b.started = at
	}
}

// warn adds the warning of a limit, by the letter of take.lua.
func (b *Budget) warn(limit rune, host string, ofHost int64, now time.Time) {
	limits := &b.limits
	var w budget.Warning
	switch limit {
	case 'p':
		w = budget.Warning{Limit: budget.Pages, Used: b.pages.total, Max: limits.Pages}
	case 'b':
		w = budget.Warning{Limit: budget.Bytes, Used: b.bytes.total, Max: limits.Bytes}
	case 'h':
		w = budget.Warning{Limit: budget.PagesPerHost, Host: host, Used: ofHost, Max: limits.PagesPerHost}
	case 't':
		w = budget.Warning{
			Limit: budget.Time,
			Used:  int64(now.Sub(b.started) / time.Second),
			Max:   int64(limits.Duration / time.Second),
		}
	default:
		return
	}
	b.warnings = append(b.warnings, w)
}

// resendAll makes the next calls send the counts of hosts that this process knows, as of an epoch.
// The caller holds mu.
func (b *Budget) resendAll(epoch int64) {
	if len(b.resend) == 0 || epoch < b.resendEpoch {
		b.resendEpoch = epoch // else some count may be older than this epoch
	}
	b.resend = b.resend[:0:0]
	for name, h := range b.hosts {
		if h.total > 0 {
			b.resend = append(b.resend, name)
		}
	}
}
