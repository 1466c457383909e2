package politeness

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
)

// handOver passes the response on. The slot is held until its body ends.
func (trip *trip) handOver(resp *http.Response) (*http.Response, error) {
	a := answer{trip.lease, resp.StatusCode, resp.Header}
	if resp.Body == nil || trip.req.Method == http.MethodHead || bodiless(resp) {
		if resp.Body != nil {
			resp.Body.Close()
		}
		resp.Body = http.NoBody
	}
	if err := trip.guard(resp); err != nil {
		resp.Body.Close() // before the slot is somebody else's
		trip.lease = nil
		trip.conclude(a, 0, time.Since(trip.start), err)
		return nil, err
	}
	trip.lease = nil
	if trip.t.budget != nil && resp.StatusCode/100 == 3 && !trip.exempt {
		// The request that follows tells by it that its page is paid for.
		resp.Request = trip.req.WithContext(context.WithValue(trip.req.Context(), paidKey{}, new(atomic.Bool)))
	}
	if resp.Body == http.NoBody {
		trip.conclude(a, 0, trip.latency, nil) // it ended with its headers
		return resp, nil
	}
	b := &body{answer: a, ReadCloser: resp.Body, trip: trip}
	if !trip.exempt && success(resp) {
		b.limit, b.index = trip.t.response.maxBytes, trip.index
	}
	trip.kept = true
	// A switched connection (101) can be written to as well.
	if w, ok := resp.Body.(io.Writer); ok {
		resp.Body = writableBody{b, w}
	} else {
		resp.Body = b
	}
	return resp, nil
}

// bodiless reports whether resp has no body whatever resp.Body is: HTTP/2 has a
// value of its own for none. (A ContentLength of 0 alone says nothing, many a
// RoundTripper doesn't set it.)
func bodiless(resp *http.Response) bool {
	switch resp.StatusCode {
	case http.StatusNoContent, http.StatusNotModified:
		return true
	}
	return resp.ProtoMajor == 2 && resp.ContentLength == 0
}

// An answer is what is left of a response when its body is with the caller.
type answer struct {
	lease  hostlimit.Lease
	status int
	header http.Header
}

// body is a response body on its way to the caller: it gives the slot back at
// EOF, at Close or at a failed read, whichever comes first, and refuses what
// the guards or the budget don't allow.
type body struct {
	answer
	io.ReadCloser
	trip  *trip // nil after the end was read
	read  atomic.Int64
	done  atomic.Bool
	limit int64     // ResponseLimits.MaxBytes; 0: none
	over  error     // what ended the reading; returned ever after
	index *indexing // nil: nobody wants to know
}

type writableBody struct {
	*body
	io.Writer
}

// Read reads from the body and counts what it reads.
func (b *body) Read(p []byte) (int, error) {
	switch {
	case b.over != nil:
		return 0, b.over
	case b.done.Load():
		return 0, http.ErrBodyReadAfterClose
	}
	if len(p) == 0 {
		return 0, nil
	}
	allowed, err := b.allowance(int64(len(p)))
	if err != nil {
		return 0, b.refuse(p, err)
	}
	b.lease.Renew() // a body that is read must be told from one that nobody closes
	got, err := b.ReadCloser.Read(p[:allowed])
	n, over := b.spend(got)
	if b.index != nil {
		b.index.write(p[:n])
	}
	if over != nil {
		clear(p[n:got])
		return n, b.cut(b.trip.overBudget(StageBody, over))
	}
	if err != nil {
		b.over = err
		if b.finish(err) && b.trip.kept {
			// Whoever closes the body now, at the same time perhaps, sees that it is
			// finished and leaves the trip alone.
			b.trip.free()
			b.trip = nil
		}
	}
	return n, err
}

// Close closes the body and gives the slot back.
func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.finish(nil)
	return err
}

// allowance says how many of want bytes may be read.
func (b *body) allowance(want int64) (int64, error) {
	if b.limit <= 0 {
		return want, nil
	}
	left := b.limit - b.read.Load()
	if left <= 0 {
		return 0, &tooLargeError{limit: b.limit}
	}
	return min(want, left), nil
}

// spend takes the n bytes that were read from the budget, and returns how many
// of them there were to take. It is asked after the read, not before it: bytes
// that a slow server is yet to send are no other reader's loss.
func (b *body) spend(n int) (spent int, err error) {
	t := b.trip.t
	if t.budget == nil || b.trip.exempt {
		b.read.Add(int64(n))
		return n, nil
	}
	ctx := b.trip.original.Context()
	for spent < n && err == nil {
		var some int64
		some, err = t.budget.TakeBytes(ctx, int64(n-spent))
		b.trip.warn(t.budget.SettleBytes(ctx, some, some))
		spent += int(some)
	}
	b.read.Add(int64(spent))
	return spent, err
}

// emptyReads is how often a reader may return nothing, as in package bufio.
const emptyReads = 100

// refuse ends the reading because a limit is reached, unless the body is at its
// end anyway: a limit of n bytes lets a body of n bytes pass.
func (b *body) refuse(p []byte, limit error) error {
	n, err := 0, error(nil)
	for range emptyReads {
		if n, err = b.ReadCloser.Read(p[:1]); n > 0 || err != nil {
			break
		}
	}
	if n == 0 && err != nil { // the end, or what broke the body before the limit did
		b.over = err
		b.finish(err)
		return err
	}
	clear(p[:1])
	return b.cut(b.trip.reject(StageBody, b.status, b.header, limit))
}

// cut ends the reading with err, and returns it: the rest isn't read.
func (b *body) cut(err error) error {
	b.over = err
	b.ReadCloser.Close()
	b.finish(err)
	return err
}

// finish reports the end of the body. It does so once, and returns whether this was
// the time.
func (b *body) finish(err error) bool {
	if b.done.Swap(true) {
		return false
	}
	var took time.Duration
	if !b.trip.silent {
		took = time.Since(b.trip.start)
	}
	b.trip.conclude(b.answer, b.read.Load(), took, err)
	return true
}

// conclude gives the slot back and reports the end of the exchange, read bytes
// and some time after its start.
func (trip *trip) conclude(a answer, read int64, took time.Duration, err error) {
	expired := a.lease.Release()
	if trip.silent {
		return
	}
	now := trip.start.Add(took)
	if trip.index != nil {
		trip.recordIndexing(now)
	}
	var d evidence.Decision
	trip.describe(&d, evidence.Fetched, now)
	d.Allowed, d.Status, d.Bytes = true, a.status, read
	d.Seq, d.Start, d.Latency, d.Duration = trip.grant.Seq, trip.start, trip.latency, took
	d.ContentType, d.ETag = noted(a.header, "Content-Type"), noted(a.header, "Etag")
	d.LastModified, d.ServerDate = noted(a.header, "Last-Modified"), noted(a.header, "Date")
	d.Location = redactLocation(noted(a.header, "Location"))
	if err != nil && err != io.EOF { //nolint:errorlint // a Reader's end is io.EOF itself
		d.Err = err.Error()
	}
	trip.record(&d)
	if expired {
		d := trip.decision(evidence.LeaseExpired, now)
		d.Reason = "the body was held for longer than LeaseTTL; its slot had been taken back"
		trip.record(&d)
	}
}

// first is Header.Get for a name that is canonical already.
func first(h http.Header, name string) string {
	if values := h[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// longestNote bounds what one header may put on record: a server may send
// megabytes of it.
const longestNote = 4 << 10

// noted is a header as it is put on record.
func noted(h http.Header, name string) string {
	value := first(h, name)
	return value[:min(len(value), longestNote)]
}
