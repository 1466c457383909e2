package politeness

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/printable"
)

// An obstacle is the cause of a wait that ended without a start.
type obstacle struct {
	hold string // as in evidence.Decision.Hold
	text string
}

// An inVainError is the error of a wait that ended without a start. Its text has the obstacle and
// the reason, because http.Client keeps only the text of an error that comes after its timer.
type inVainError struct {
	obstacle
	reason error
}

func (e *inVainError) Error() string {
	// The limiter's text about SlotTimeout or MaxWait already states that the request couldn't start.
	if !errors.Is(e.reason, context.DeadlineExceeded) {
		return fmt.Sprintf("%v (%s)", e.reason, e.text)
	}
	return fmt.Sprintf("not started: %s: %v", e.text, e.reason)
}

// Unwrap returns the reason.
func (e *inVainError) Unwrap() error { return e.reason }

// inVain adds the obstacle to the reason why the request can't start. A drained limiter and an
// operator's block are reason enough.
func (trip *trip) inVain(stage Stage, reason error) error {
	if !isTimeout(reason) {
		return reason
	}
	// The error of the request for robots.txt has its obstacle.
	if _, ok := errors.AsType[*inVainError](reason); ok {
		return reason
	}
	o := obstacle{hold: "robots.txt", text: "robots.txt is still being fetched"}
	switch {
	case errors.Is(reason, errClosed):
		o = obstacle{hold: "visit-time", text: "the site has hours"}
	case stage == StageTurn:
		o = trip.obstacle()
	}
	return &inVainError{obstacle: o, reason: reason}
}

// isTimeout reports whether err is that of a wait which took too long, or would have.
func isTimeout(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrBusy)
}

// obstacle asks the limiter why the request's host is blocked.
func (trip *trip) obstacle() obstacle {
	s := &trip.subject
	limiter := trip.t.cfg.Limiter
	// The request's context may have ended, and a limiter on a server mustn't hold its error up.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), time.Second)
	defer cancel()
	state, err := limiter.State(ctx, s.host)
	switch {
	case err != nil:
		return obstacle{text: "the limiter granted no start"}
	case state.BlockedBy != "":
		return obstacle{hold: "block", text: "the host is blocked (" + state.BlockedBy + ")"}
	case state.Probing:
		return obstacle{hold: "probe", text: "the first request after a block has no response yet"}
	case state.Slots > 0 && state.InFlight >= state.Slots:
		return obstacle{hold: "slot", text: heldSlots(&state)}
	case state.Hold != "" && state.Hold != "delay":
		return obstacle{hold: state.Hold, text: state.Why}
	case !state.Next.After(time.Now()) && limiter.Config().MaxInFlight > 0:
		return obstacle{hold: "place", text: "every place of MaxInFlight is taken by requests to other hosts"}
	}
	name := delayName(state.DelaySource)
	o := obstacle{hold: "delay", text: fmt.Sprintf("%s of %s", name, printable.Duration(state.Delay))}
	if state.Waiters > 0 {
		o.text += fmt.Sprintf(", %d requests of the host wait too", state.Waiters)
	}
	return o
}

// heldSlots returns the text that all slots of a host are in use, and by which request.
func heldSlots(state *hostlimit.HostState) string {
	text := fmt.Sprintf("%d of %d slots are in use", state.InFlight, state.Slots)
	if state.SilentBy != "" {
		since := printable.Duration(state.Silent)
		return text + fmt.Sprintf(", one for %s by %s; is its body closed?", since, state.SilentBy)
	}
	return text + "; are the bodies of all responses closed?"
}

// delayName returns the name of a delay by HostState.DelaySource.
func delayName(source string) string {
	switch source {
	case "crawl-delay":
		return source
	case "random", "":
		return "delay"
	}
	return source + " delay"
}

// logOnce writes the first refusal for lack of time to the log, if nothing is recorded: a program
// that drops such errors would lose its pages without a word. A crawler with a Call handles such
// errors itself.
func (trip *trip) logOnce(refusal error) {
	s := &trip.subject
	if s.recorder != nil || s.kind != kindPage || s.call != nil {
		return
	}
	in, ok := errors.AsType[*inVainError](refusal)
	isSilent := ok && (in.hold == "slot" || errors.Is(refusal, context.DeadlineExceeded))
	if isSilent && !trip.t.hasLogged.Swap(true) {
		//nolint:forbidigo // nothing is recorded, so the log is all that there is
		log.Printf("%v (logged once: to see all, set politeness.Config.Evidence, "+
			"such as evidence.Console(os.Stderr))", refusal)
	}
}
