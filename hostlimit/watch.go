package hostlimit

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/go-politeness/politeness/internal/contexts"
)

type priorityKey struct{}

// WithPriority returns a ctx for Acquire that gives a request the priority p. The default is 0. A
// request goes before those of its key that wait with a lower priority. Requests of equal priority
// start in the order in which they came. A priority changes only the order within a key. It doesn't
// shorten the wait for the delay, a slot or the end of a block. If requests with a high priority
// keep coming, the others wait until MaxWait.
func WithPriority(ctx context.Context, p int) context.Context {
	return context.WithValue(ctx, priorityKey{}, p)
}

// Priority returns the priority that WithPriority has given to ctx, 0 if none. A limiter asks for
// it at each Acquire. Implementers of a Limiter call it.
func Priority(ctx context.Context) int {
	p, _ := ctx.Value(priorityKey{}).(int)
	return p
}

// WithDue returns a ctx for a request for a page that was fetched before. The page may be fetched
// again from due on. A limiter ignores the due time. Evidence records it with the start, so that an
// auditor can prove that pages were fetched again only when due. Use it in a program that remembers
// its pages by itself. A revisit.Transport calls it for its own pages. Without it, or with the zero
// time, the log has no due time for the request.
func WithDue(ctx context.Context, due time.Time) context.Context {
	return contexts.WithDue(ctx, due)
}

// A Watcher is told why its request waits. Write one to show the reason to people. A
// politeness.Transport has Watchers of its own. Put a Watcher into the context of Acquire and
// Start, as the value for the key (*Watcher)(nil). The Limiter calls it under no lock. If a request
// needs a name, but no reports, put a fmt.Stringer there instead.
type Watcher interface {
	// Waits is called once in an Acquire or a Start whose wait is long. The call comes as soon as
	// the wait is known to exceed a second, or else after one second. Acquire and Start return
	// after Waits has returned.
	Waits(Wait)
	// String names the request, for example by its URL. The name appears in Wait.HeldBy of other
	// requests. Their goroutines call String, so it must be safe for concurrent use.
	String() string
}

// A Wait is the reason why a request waits. Hold names it:
//
//	block   the key is blocked: by a refusal, by an operator, or outside of Config.Windows
//	probe   the first request after a block has no response yet
//	slot    every slot of the key is held
//	delay   the delay since the last start isn't over, or requests ahead wait for theirs
//	place   every place of MaxInFlight is held
//	site    every place of PerSite is held by keys of the same site
//
// A Limiter of your own may have further words, such as "address".
type Wait struct {
	Key   string
	Hold  string    // one of the words in the table of Wait
	Since time.Time // beginning of the wait
	Until time.Time // earliest start, zero if not known
	// Cause depends on Hold:
	//
	//   - For "block" it is the cause of the block, as in HostState.BlockedBy.
	//   - For "delay" it is the rule, as in Grant.DelaySource, or "kept" if the next start was read
	//     from the Store.
	//   - For "site" it is the name of the site.
	//   - For a Hold that isn't in the table of Wait, it is the reason in a sentence.
	Cause string
	Delay time.Duration // delay in force, 0 if there is none
	Ahead int           // number of requests of the key that go before, at most 1000 in a memory.Limiter
	Slots int           // number of slots of the key
	Held  int           // number of slots in use
	// HeldBy is the name of the request that has occupied its slot the longest, as Watcher.String
	// returns it. It is empty if the request has no name.
	HeldBy  string
	HeldFor time.Duration // time for which HeldBy has its slot, 0 if not known or if the wait is for something else
}

// String returns the reason of the wait in a sentence for people, without the key.
func (w Wait) String() string {
	s := w.reason()
	switch w.Ahead {
	case 0:
		return s
	case 1:
		return s + ", 1 request ahead"
	}
	return fmt.Sprintf("%s, %d requests ahead", s, w.Ahead)
}

// reason returns the part of String about Hold.
func (w Wait) reason() string {
	switch w.Hold {
	case "block":
		return "blocked (" + w.Cause + ")"
	case "probe":
		return "the first request after a block has no response yet" + w.holder()
	case "slot":
		return fmt.Sprintf("%d of %d slots are in use%s", w.Held, w.Slots, w.holder())
	case "site":
		return "every place of PerSite is taken by requests to hosts of " + w.Cause
	case "place":
		return "every place of MaxInFlight is taken by requests to other hosts"
	case "delay":
		return w.delayName() + " of " + roughly(w.Delay)
	}
	return w.Cause // Hold is a word of another limiter's own
}

// delayName returns the name of the delay by its Cause.
func (w Wait) delayName() string {
	switch w.Cause {
	case "crawl-delay":
		return w.Cause
	case "random", "": // a fixed delay is drawn too, from a range of one
		return "delay"
	}
	return w.Cause + " delay"
}

// holder returns the part of String about the request that has held a slot the longest.
func (w Wait) holder() string {
	if w.HeldFor == 0 {
		return ""
	}
	return fmt.Sprintf(", one for %s by %s", roughly(w.HeldFor), cmp.Or(w.HeldBy, "a request"))
}

// roughly formats d with two digits or so.
func roughly(d time.Duration) string {
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
