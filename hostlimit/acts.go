package hostlimit

import (
	"slices"
	"sync"
)

// An Act is a Block, a Clear or a Drain by an operator. A limiter reports its own acts, and acts of
// other processes when it learns of them. The limiter passes each Act to a function that was added
// by Acts.Add, so that the act is recorded.
type Act struct {
	Key      string    // empty for Drained
	ByHand   *Debt     // a Block or a Clear, as in Grant.ByHand, nil if there is none
	Restored *Restored // a block by hand that was read from Config.Store, nil if there is none
	Drained  bool      // Drain was called
}

// Acts keeps the functions that receive the acts of an operator. Use it if you write a Limiter. The
// Limiter may then have a method OnAct(func(Act) bool), which passes its argument to Acts.Add. The
// method is optional. With OnAct an operator's act is recorded immediately. Without OnAct the act
// is recorded with the next Grant or Error of the key. The zero Acts has no receiver.
type Acts struct {
	mu        sync.Mutex
	receivers []func(Act) bool
}

// mostReceivers bounds the receivers: a program may make a Transport for each request.
const mostReceivers = 16

// Add adds f as a receiver of acts. f returns false if it receives no acts any more. The limiter
// holds no lock while it calls f. A Transport calls it to record acts immediately.
func (a *Acts) Add(f func(Act) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.receivers) == mostReceivers {
		a.receivers = slices.Delete(a.receivers, 0, 1)
	}
	a.receivers = append(a.receivers, f)
}

// Any reports whether there is a receiver. Use it to make no Act that nobody receives.
func (a *Acts) Any() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.receivers) > 0
}

// taken calls f, and reports whether it has taken act. A panic counts as taken, because the
// goroutine that reports an act may have no caller.
func taken(f func(Act) bool, act Act) (taken bool) {
	defer func() {
		if recover() != nil {
			taken = true
		}
	}()
	return f(act)
}

// Tell passes act to one receiver, so that it is recorded once, and reports whether a receiver has
// taken it. If a receiver panics, Tell recovers, and the act counts as taken.
func (a *Acts) Tell(act Act) bool {
	for {
		a.mu.Lock()
		if len(a.receivers) == 0 {
			a.mu.Unlock()
			return false
		}
		first := a.receivers[0]
		a.mu.Unlock()
		if taken(first, act) {
			return true
		}
		a.mu.Lock()
		if len(a.receivers) > 0 {
			a.receivers = slices.Delete(a.receivers, 0, 1)
		}
		a.mu.Unlock()
	}
}
