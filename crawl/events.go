package crawl

import (
	"errors"
	"fmt"
	"log"
	"runtime/debug"

	"github.com/go-politeness/politeness/internal/printable"
)

// An event is the report of a goroutine that the run has started. The goroutine of Run owns the
// run, and only it reads and writes the fields that aren't shared. Any other goroutine does one
// thing that takes time, such as a request, a visit or a call of the Queue, and sends its result as
// an event. The goroutine of Run then calls apply, for one event at a time.
//
//	goroutine    sends          when
//	ask          startedFlight  the request goes out now; its end is another event
//	ask          gotRobots      the fetch of robots.txt of a new host has ended
//	ask          lostHost       another process has the host now
//	ask          delayedFlight  the host may not be asked yet
//	ask          repeatedFlight the URL has to be fetched once more
//	ask          earlyFlight    its URL may not be asked for yet (Config.Revisit)
//	ask          endedFlight    there is no page: refused by the Transport, spent, broken off
//	ask          gotPage        the host has answered or has failed to; refusals decides
//	finishVisit  visitedPage    Visit has returned
//	seek         foundURLs      Discover has yielded URLs, or has ended
//	callNext     lookedAhead    Transport.Next was called for hosts that wait
//	callQueue    calledQueue    the Queue has taken results in, and lent further URLs
//
// Each goroutine sends its last event by a deferred call, so the run hears of its end even if a
// function of the user's calls runtime.Goexit.
type event interface {
	apply(r *run)
}

// guarded calls f. It returns a panic of f as an error, and reports the panic with its stack, as
// net/http does for handlers. The argument what names f.
func guarded(what string, f func() error) error {
	_, err := guardedValue(what, func() (struct{}, error) { return struct{}{}, f() })
	return err
}

// guardedValue is guarded for a function with a result, which is its zero value after a panic.
func guardedValue[T any](what string, f func() (T, error)) (value T, err error) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		err = fmt.Errorf("crawl: panic in %s: %v", what, p)
		log.Printf("%s\n%s", printable.Text(err.Error()), debug.Stack()) //nolint:forbidigo // as net/http does
	}()
	return f()
}

// errGone is the error of a page for which a function of the Config has ended the goroutine, as
// testing.T.FailNow does.
var errGone = errors.New("crawl: a function of the Config has called runtime.Goexit")
