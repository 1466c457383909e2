package politeness

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"sync"
	"time"
	"weak"

	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// WithState returns c with a memory in dir that outlives the process, so that a crawler that is
// started every hour is as polite as one that never stops:
//
//	DIR/hosts/    state of hosts: blocks, refusals in a row, learned delays,
//	              and next starts that are more than a minute away (hostlimit.Dir)
//	DIR/robots/   robots.txt, and which origins can't be asked for it (robotscache.Dir)
//	DIR/budget/   what is spent of the budget, if Spend.Every is set (budget.Keep)
//
// Each host and each origin has a separate file with a hashed name. Files have mode 0600, and
// directories 0700. Processes may share dir. New fails if dir can't be written to. If dir can't be
// read or written later, no request fails. Evidence records state_lost, and EvidenceErr, the status
// page and crawl.Progress report the reason. They also warn if others may write to dir. See
// docs/restarts.md. If dir is "", WithState returns c unchanged, so nothing is kept.
//
// Several runs, one after the other, are paced like one long run. The first start on a host waits
// for the host's delay, counted from New, unless the kept state shows that the delay is over.
// Concurrent runs share blocks, but not delays. See StateWait.
//
// WithState changes Hosts and Robots, so set them before WithState. If you replace one of them
// afterwards, New returns an error. WithState has no effect on a Limiter that was made from other
// Hosts. If such a Limiter is set, New returns an error too. To share a limiter that remembers,
// make it from the result:
//
//	cfg := politeness.Bulk(ua).WithState("state")
//	cfg.Limiter, err = memory.New(cfg.Hosts)
func (c Config) WithState(dir string) Config {
	if dir == "" {
		return c
	}
	c.state = dir
	c.Hosts.Store = hostlimit.Dir(filepath.Join(dir, "hosts"))
	c.Robots.Store = robotscache.Dir(filepath.Join(dir, "robots"))
	return c
}

// newBudget returns the budget of Spend, which is kept with the state if it is renewed.
func (c Config) newBudget() budget.Budget {
	if !c.keepsBudget() {
		return budget.New(c.Spend)
	}
	return budget.Keep(filepath.Join(c.state, "budget"), c.Spend)
}

// keepsBudget reports whether the budget of Spend is kept with the state. One in Budget may be kept
// elsewhere.
func (c Config) keepsBudget() bool { return c.Budget == nil && c.state != "" && c.Spend.Every != 0 }

// GiveBack returns the unspent part of a budget that is kept on disk (budget.Kept, WithState). Such
// a budget reserves small parts for each process. After GiveBack another process may spend the rest
// of that part. Call it when t sends nothing more for a while. Package crawl does so at the end of
// Run. Without the call up to a hundredth of each limit is lost until Spend.Every renews the
// budget. Other budgets have nothing to give back.
func (t *Transport) GiveBack(ctx context.Context) error {
	if kept, ok := t.cfg.Budget.(interface{ GiveBack(context.Context) error }); ok {
		return kept.GiveBack(ctx)
	}
	return nil
}

// A holder is a Store whose state one process holds at a time, see hostlimit.Store.
type holder interface {
	Hold(ctx context.Context) (id, by string, err error)
}

// A heldState is the state of the limiter's Store, as New has found it.
type heldState struct {
	id    string // empty: there is no state, or it has no id
	by    string // describes another process that uses the state; empty: none does
	store holder // nil: there is no state
}

// holdState takes the state of the limiter's Store for this process. If another process has it,
// StateWait decides: New waits, fails, or continues. An error of the Store counts as a loss of
// state: the crawl continues.
func (t *Transport) holdState() (heldState, error) {
	store, ok := t.cfg.Limiter.Config().Store.(holder)
	if !ok {
		return heldState{}, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), max(0, t.cfg.StateWait))
	defer cancel()
	id, by, err := store.Hold(ctx)
	t.tally.Lost(err)
	if by == "" || t.cfg.StateWait == 0 {
		return heldState{id, by, store}, nil
	}
	waited := ""
	if t.cfg.StateWait > 0 {
		waited = fmt.Sprintf(" after %v", t.cfg.StateWait)
	}
	return heldState{}, fmt.Errorf("politeness: %w%s: %s", ErrStateHeld, waited, by)
}

// A sharedState is a state that another process holds. This process takes it when that process has
// ended, so that the next one is noticed in its turn.
type sharedState struct {
	store holder

	// looking is held by the goroutine that looks. It guards the fields below.
	looking sync.Mutex
	looked  time.Time // when this process last tried to take the state
	by      string    // describes the process that holds the state; empty: this one does
}

// lookEvery is the least time between two tries to take a state.
const lookEvery = time.Second

// share has t take the state when the process that holds it has ended.
func (t *Transport) share(state heldState) {
	if state.by == "" {
		return
	}
	t.shared = &sharedState{store: state.store, looked: time.Now(), by: state.by}
	t.tellShared(state.by)
}

// takeShared tries to take the state that another process held when t was made. It waits for no
// other goroutine, and for no process. If a further process has the state by now, t reports it.
func (t *Transport) takeShared() {
	if t.shared == nil { // nearly always
		return
	}
	if by := t.shared.look(); by != "" {
		t.tellShared(by)
	}
}

// look tries to take s. It returns the process that has it, or an empty text if that is known or
// there is none.
func (s *sharedState) look() (news string) {
	if !s.looking.TryLock() {
		return ""
	}
	defer s.looking.Unlock()
	if s.by == "" || time.Since(s.looked) < lookEvery {
		return ""
	}
	s.looked = time.Now()
	noWait, cancel := context.WithCancel(context.Background())
	cancel()
	_, by, err := s.store.Hold(noWait)
	if err != nil || by == s.by {
		return ""
	}
	s.by = by
	return by
}

// tellShared reports, in evidence and by EvidenceErr, that the process called by uses this state
// too. If processes share their limiter, as on Redis, they share the pace too, so it reports
// nothing.
func (t *Transport) tellShared(by string) {
	if !isOfOneProcess(t.cfg.Limiter) {
		return
	}
	err := fmt.Errorf("%s uses this state too. Both share blocks, but not delays. Let one end first "+
		"(Config.StateWait), or give each a separate state", by)
	t.tally.Lost(err)
	t.recorder.Pass(context.Background(), &evidence.Decision{
		Type:    evidence.StateShared,
		Time:    time.Now(),
		Allowed: true,
		Reason:  err.Error(),
	})
}

// isOfOneProcess reports whether l counts the starts of this process alone, as far as is known.
func isOfOneProcess(l hostlimit.Limiter) (one bool) {
	defer func() { _ = recover() }() // ID is code of the user's
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	limiter, process := l.ID(ctx)
	return limiter != "" && process == ""
}

// receiveActs makes the limiter report the acts of an operator when they happen. The limiter may
// outlive the Transport.
func (t *Transport) receiveActs() {
	limiter, ok := t.cfg.Limiter.(interface {
		OnAct(f func(hostlimit.Act) bool)
	})
	if !ok || t.recorder == nil {
		return
	}
	own := weak.Make(t.recorder)
	limiter.OnAct(func(a hostlimit.Act) bool {
		r := own.Value()
		if r == nil {
			return false
		}
		r.Act(a)
		return true
	})
}

// checkStore refuses a Store that can have no effect.
func (c Config) checkStore() error {
	store := c.Hosts.Store
	// Setting Hosts or Robots after WithState drops the Store that WithState has set.
	lostHosts := c.Limiter == nil && store == nil
	lostRobots := !c.DangerouslyIgnoreRobots && c.Robots.Store == nil
	if c.state != "" && (lostHosts || lostRobots) {
		return errors.New("or Robots.Store is gone: set Hosts and Robots before WithState, which changes them")
	}
	if c.Limiter == nil || store == nil {
		return nil
	}
	// Stores that can't be compared may be one Store.
	if !reflect.ValueOf(store).Comparable() || c.Limiter.Config().Store == store {
		return nil
	}
	return errors.New("has no effect, because Limiter is set: make Limiter from the Config that WithState returns, " +
		"by memory.New(cfg.Hosts), or set it after WithState to a limiter made from these Hosts")
}
