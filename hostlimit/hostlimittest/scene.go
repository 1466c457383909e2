package hostlimittest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

// A scene is the stage of one scenario: it takes turns, and keeps a book of them that
// it checks in the end.
type scene struct {
	*testing.T
	newLimiter New
	limiter    hostlimit.Limiter
	cfg        hostlimit.Config
	key        string

	tries int // of insist, before this one

	mu    sync.Mutex
	book  []*turn
	whole bool // the numbers must have no hole
}

// A turn is a lease that has started, and its place in the book.
type turn struct {
	hostlimit.Grant
	lease hostlimit.Lease
	key   string
	floor time.Duration
	ended time.Time // before the slot was given back; zero: held
}

// stuck is longer than any scenario waits for a turn.
const stuck = time.Minute

var keys atomic.Uint64

// newKey returns a key that no scenario has used, also in earlier processes.
func newKey() string {
	return fmt.Sprintf("%d-%d.test", time.Now().UnixNano(), keys.Add(1))
}

// use makes the limiter. If a scenario sets no MaxWait, its requests wait as long as needed.
func (s *scene) use(cfg hostlimit.Config) {
	s.Helper()
	cfg.MaxWait = cmp.Or(cfg.MaxWait, 100*age)
	s.useAsItIs(cfg)
}

func (s *scene) useAsItIs(cfg hostlimit.Config) {
	s.Helper()
	s.cfg = cfg
	s.key = newKey()
	s.limiter = s.newLimiter(s, cfg)
}

// try takes a turn.
func (s *scene) try(ctx context.Context, key string, floor time.Duration) (*turn, error) {
	// If a limiter waits instead of refusing, the scenario fails and doesn't hang.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer time.AfterFunc(stuck, cancel).Stop()
	called := time.Now()
	l, err := s.limiter.Acquire(ctx, key, floor)
	if err != nil {
		return nil, err
	}
	g, err := l.Start(ctx)
	if err != nil {
		l.Release()
		return nil, err
	}
	t := &turn{Grant: g, lease: l, key: key, floor: floor}
	s.mu.Lock()
	s.book = append(s.book, t)
	s.mu.Unlock()
	if back := time.Now(); t.Start.Before(called) || t.Start.After(back) {
		s.Errorf("start stamped %v, outside of Acquire and Start: %v to %v", t.Start, called, back)
	}
	took := t.Start.Sub(called)
	waited := t.WaitSlot + t.WaitDelay + t.WaitBlock
	if min(t.WaitSlot, t.WaitDelay, t.WaitBlock) < 0 || waited > took {
		s.Errorf("waits of %v, %v and %v in a call that took %v", t.WaitSlot, t.WaitDelay, t.WaitBlock, took)
	}
	return t, nil
}

// take takes a turn on the scene's key, and ends the test if there is none.
func (s *scene) take() *turn {
	s.Helper()
	return s.takeKey(s.key, 0)
}

func (s *scene) takeKey(key string, floor time.Duration) *turn {
	s.Helper()
	t, err := s.try(s.Context(), key, floor)
	if err != nil {
		s.Fatalf("no turn on %s: %v", key, err)
	}
	return t
}

// insistent takes a turn on the scene's key, and tries again if a busy machine made the wait for it
// too long.
func (s *scene) insistent() *turn {
	s.Helper()
	for begin := time.Now(); ; {
		t, err := s.try(s.Context(), s.key, 0)
		if err == nil {
			return t
		}
		if !errors.Is(err, hostlimit.ErrBusy) || time.Since(begin) > stuck {
			s.Fatalf("no turn on %s: %v", s.key, err)
		}
	}
}

// next asks when a request on the scene's key could start.
func (s *scene) next(floor time.Duration) time.Time {
	s.Helper()
	t, err := s.limiter.Next(s.Context(), s.key, floor)
	if err != nil {
		s.Fatal(err)
	}
	return t
}

// behind has a request wait in the queue, without a deadline, until leave is called.
func (s *scene) behind() (leave func()) {
	ctx, cancel := context.WithCancel(s.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if l, err := s.limiter.Acquire(ctx, s.key, 0); err == nil {
			l.Release()
		}
	}()
	s.settle(5 * tick)
	return func() {
		cancel()
		<-gone
	}
}

// hurries has a request wait in the queue for timeout at most.
func (s *scene) hurries(timeout time.Duration) (ended <-chan error) {
	end := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(s.Context(), timeout)
		defer cancel()
		t, err := s.try(ctx, s.key, 0)
		if err == nil {
			s.done(t)
		}
		end <- err
	}()
	s.settle(5 * tick)
	return end
}

// insist plays up to four times, until there is no fault: a busy machine can spoil a scenario, as
// nothing shows from outside that a request has taken its place in the queue.
func (s *scene) insist(play func() (fault string)) {
	s.Helper()
	var fault string
	for s.tries = range 4 {
		fault = play()
		if fault == "" {
			break
		}
	}
	s.tries = 0
	if fault != "" {
		s.Error(fault)
	}
}

// settle gives a request d to take its place in the queue, and longer with each try of insist.
func (s *scene) settle(d time.Duration) { time.Sleep(d << (2 * s.tries)) }

// done gives a turn back, and reports whether it had expired.
func (s *scene) done(t *turn) (expired bool) {
	s.mu.Lock()
	if t.ended.IsZero() {
		t.ended = time.Now()
	}
	s.mu.Unlock()
	return t.lease.Release()
}

// answer ends a turn with a response of the given status, and returns its effect.
func (s *scene) answer(t *turn, status int, retryAfter time.Duration) hostlimit.Effect {
	defer s.done(t)
	return t.lease.Observe(hostlimit.Outcome{Status: status, RetryAfter: retryAfter})
}

// crowd runs n goroutines and waits for them.
func (s *scene) crowd(n int, each func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { each(i) })
	}
	wg.Wait()
}

// audit checks the book: the gaps, the numbers and the slots of every key. A
// turn that was given back when a later one had its number already leaves a hole in the
// numbers; set whole only if no other turn could have come between.
func (s *scene) audit() {
	s.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	byKey := make(map[string][]*turn)
	for _, t := range s.book {
		byKey[t.key] = append(byKey[t.key], t)
	}
	for key, book := range byKey {
		slices.SortFunc(book, func(a, b *turn) int { return int(a.Seq) - int(b.Seq) })
		for i := range book {
			s.auditStart(key, book, i)
		}
	}
}

// auditStart checks the i-th start of a key.
func (s *scene) auditStart(key string, book []*turn, i int) {
	s.Helper()
	t := book[i]
	number := uint64(i + 1)
	isTwice := i > 0 && t.Seq == book[i-1].Seq
	hasHole := s.whole && t.Seq > number
	if t.Seq < number || hasHole || isTwice {
		s.Errorf("%s: start %d has number %d", key, number, t.Seq)
	}
	if t.Slot < 1 || t.Slot > t.Slots {
		s.Errorf("%s: start %d has slot %d of %d", key, t.Seq, t.Slot, t.Slots)
	}
	if t.Delay < t.floor {
		s.Errorf("%s: start %d has delay %v, floor %v", key, t.Seq, t.Delay, t.floor)
	}
	flying := 1
	for _, earlier := range book[:i] {
		if earlier.ended.IsZero() || earlier.ended.After(t.Start) {
			flying++
		}
	}
	mayHaveExpired := len(t.TakenBack) > 0 || s.cfg.LeaseTTL != 0 // the book may have turns that were taken back
	if flying > t.Slots && !mayHaveExpired {
		s.Errorf("%s: %d requests in flight at start %d, which has %d slots", key, flying, t.Seq, t.Slots)
	}
	if i == 0 {
		return
	}
	gap := t.Start.Sub(book[i-1].Start)
	least := max(book[i-1].Delay, t.floor)
	if gap < least {
		s.Errorf("%s: start %d came %v after the one before, want at least %v", key, t.Seq, gap, least)
	}
}
