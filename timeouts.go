package politeness

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/go-politeness/politeness/internal/contexts"
)

// Timeouts is the moment from which http.Client.Timeout counts. Set it in Config.Timeouts.
type Timeouts uint8

const (
	// FromStart takes http.Client.Timeout as the length of one exchange. It counts from the start of
	// the request, and anew for each redirect and each try. The waits for robots.txt and for the host
	// don't count. hostlimit.Config.MaxWait bounds them, and the caller's context ends them. So a
	// response may come, with its body, after http.Client alone would have given up. If a context has
	// a deadline, the deadline still ends everything.
	//
	// If a request takes longer than Timeout in all, counted from Client.Do, two things aren't as in
	// net/http. First, closing Request.Cancel doesn't end the wait any more. Cancelling the context
	// still does. Second, http.Client keeps only the text of an error, so errors.Is and errors.As find
	// nothing.
	FromStart Timeouts = iota
	// FromCall leaves http.Client.Timeout as it is in net/http. It counts from Client.Do, so that
	// the wait for the host uses it up. A request that can't start in time fails immediately, and
	// its error has Timeout() true. Use FromCall if the program must have an error after that time.
	FromCall
)

func (t Timeouts) validate() error {
	if t > FromCall {
		return fmt.Errorf("is %d: there are FromStart and FromCall", t)
	}
	return nil
}

// exchangeOf returns the Exchange of a page's request whose deadline is http.Client's, and nil for
// every other request.
func (t *Transport) exchangeOf(req *http.Request, k kind) *contexts.Exchange {
	//lint:ignore SA1019 http.Client's Timeout sets it
	left := req.Cancel //nolint:staticcheck // the same
	if left == nil || k != kindPage || t.cfg.Timeouts != FromStart {
		return nil
	}
	var length time.Duration
	if mark := markOf(req); mark != nil {
		length = mark.length
	}
	return contexts.NewExchange(req.Context(), left, length, errRequestCanceled)
}

// errRequestCanceled returns net/http's error for an exchange that Request.Cancel has ended. The
// error isn't exported, and callers compare others with it.
var errRequestCanceled = sync.OnceValue(func() error {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	canceled := make(chan struct{})
	go func() {
		_, _ = theirs.Read(make([]byte, 1)) // the request has its connection, and is being sent
		close(canceled)
	}()
	base := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return ours, nil }}
	req, _ := http.NewRequest(http.MethodGet, "http://request.canceled.invalid/", nil)
	//lint:ignore SA1019 this is about what is deprecated
	req.Cancel = canceled //nolint:staticcheck // the same
	_, err := base.RoundTrip(req)
	return err
})
