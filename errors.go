package politeness

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/printable"
	"github.com/go-politeness/politeness/publicnet"
)

// The reasons of a refusal, for [errors.Is], which finds them also through the *url.Error that
// http.Client wraps around every error.
var (
	// ErrDisallowed means that robots.txt or Config.Refuse disallows the URL. It is returned too if
	// a server responds to the fetch of robots.txt with an error such as 500, and
	// robotscache.Config.OnUnreachable denies pages in that case. The error then matches
	// ErrUnreachable as well.
	ErrDisallowed = errors.New("disallowed")
	// ErrUnreachable means that robots.txt can't be fetched. [Error.RetryAt] is the time of the
	// next fetch. If a server has responded, and Config.Robots denies pages in that case, the error
	// matches ErrDisallowed as well. If no server has responded (robotscache.ErrNoAnswer), it
	// doesn't match ErrDisallowed. errors.As finds the cause if there is one, such as a
	// *net.DNSError or a *tls.CertificateVerificationError. The field UnverifiedCertificates of the
	// latter is empty.
	ErrUnreachable = errors.New("robots.txt can't be fetched")
	// ErrReserved means that the site says that its pages must not be used for one of
	// Config.Purposes, such as training AI. It says so in robots.txt, in a header or in the page.
	// The text of the error names the place.
	ErrReserved = errors.New("reserved by the site")
	// ErrBudget means that pages, bytes or time are spent. [Error.RetryAt] is the time at which
	// budget.Limits.Every renews them.
	ErrBudget = budget.ErrExceeded
	// ErrBusy means that the request couldn't start in time. [Error.RetryAt] is the earliest time
	// for another try.
	ErrBusy = hostlimit.ErrBusy
	// ErrBlocked means that the host is blocked for longer than the request may wait. The host has
	// refused, or an operator has blocked it (hostlimit.Controller). [Error.RetryAt] is the end of
	// the block.
	ErrBlocked = hostlimit.ErrBlocked
	// ErrTooLarge means that the body is larger than ResponseLimits.MaxBytes.
	ErrTooLarge = errors.New("response too large")
	// ErrContentType means that ResponseLimits.Accept or Reject exclude the Content-Type.
	ErrContentType = errors.New("content type not accepted")
)

// ErrStateHeld means that another process uses the state of Config.WithState. New returns it only
// if Config.StateWait isn't 0. New waits for StateWait before it returns the error. If StateWait is
// negative, New doesn't wait.
var ErrStateHeld = errors.New("another process uses the state")

// A Stage names the part of the pipeline that refused. Use it to handle refusals by their cause.
type Stage string

// The stages, in their order.
const (
	StageRequest  Stage = "request"  // the request itself has no host, no http URL, or too long a host
	StageRule     Stage = "rule"     // Config.Refuse
	StageBudget   Stage = "budget"   // nothing left to spend
	StageRobots   Stage = "robots"   // robots.txt disallows or reserves, or could not be fetched in time
	StageTurn     Stage = "turn"     // no slot or no start time within the time that the caller may wait
	StageResponse Stage = "response" // ResponseLimits or Purposes, by the headers
	StageBody     Stage = "body"     // ResponseLimits, Purposes or the budget, while the body was read
)

// An Error is returned if politeness ends a request or a body. RoundTrip, Check, Next and the
// reading of a body return it. Get it with errors.As, and the reason with errors.Is. An error of
// Base is no refusal, and is returned as it is.
type Error struct {
	Stage   Stage
	Host    string    // host key, empty if the URL has none
	URL     string    // without userinfo
	RetryAt time.Time // when to try again, zero if that doesn't help or isn't known
	Err     error

	redirects int // redirects that led to URL
}

// Error returns the host, the stage, the reason and, if it is set, RetryAt. Servers can influence
// this text, so unprintable characters are escaped as by %q, a reason that is too long is clipped,
// and userinfo is cut out of URLs. Err has the reason unchanged.
func (e *Error) Error() string {
	s := "politeness: "
	if e.Host != "" {
		s += printable.Text(e.Host) + ": "
	}
	reason := evidence.RedactURL(fmt.Sprint(e.Err)) // its text may come from a server
	s += string(e.Stage) + ": " + printable.Clipped(reason, 1<<10)
	if !e.RetryAt.IsZero() {
		s += "; retry at " + e.RetryAt.UTC().Format(time.RFC3339)
	} else if e.redirects > 0 && e.final() {
		// Words of http.Client at the end of the text: retry loops look for them.
		s += fmt.Sprintf("; stopped after %d redirects", e.redirects)
	}
	return s
}

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

// Timeout reports whether time ran out. The request couldn't start in time, the context's deadline
// passed, or robots.txt didn't come in time. Method url.Error.Timeout asks only the error that it
// wraps directly. That is this *Error.
func (e *Error) Timeout() bool {
	if errors.Is(e.Err, ErrBusy) || errors.Is(e.Err, context.DeadlineExceeded) {
		return true
	}
	// Err may wrap a timeout of package net, such as that of a fetch of robots.txt.
	var t interface{ Timeout() bool }
	return errors.As(e.Err, &t) && t.Timeout()
}

// soon is how far away RetryAt may be for Temporary. Retry loops give up before that.
const soon = time.Minute

// Temporary reports whether a retry loop may make the same request again. This is so if RetryAt is
// at most a minute away. If RetryAt isn't known, it is so if Timeout is true. A URL that is
// disallowed is never temporary. Retry loops ask it, such as rehttp's RetryTemporaryErr.
func (e *Error) Temporary() bool {
	if e.RetryAt.IsZero() {
		return e.Timeout()
	}
	return time.Until(e.RetryAt) <= soon
}

// RetryableError is [Error.Temporary] under the name that the AWS SDK for Go asks for.
func (e *Error) RetryableError() bool { return e.Temporary() }

// As lets [errors.As] find a *PermanentError of github.com/cenkalti/backoff in e if the refusal
// isn't temporary. Every version of that package works. Its function Retry then stops immediately,
// and returns e.
func (e *Error) As(target any) bool {
	// Each version of the module is a separate package, with a type of this shape.
	found := reflect.ValueOf(target).Elem()
	if found.Kind() != reflect.Pointer || found.Type().Elem().Name() != "PermanentError" {
		return false
	}
	isCenkalti := strings.HasPrefix(found.Type().Elem().PkgPath(), "github.com/cenkalti/backoff")
	if !isCenkalti || e.Temporary() {
		return false
	}
	permanent := reflect.New(found.Type().Elem())
	reason := permanent.Elem().FieldByName("Err")
	if !reason.IsValid() || reason.Type() != reflect.TypeFor[error]() {
		return false
	}
	reason.Set(reflect.ValueOf(e))
	found.Set(permanent)
	return true
}

// final reports whether the request would be refused again within a minute, even if its caller
// could wait longer.
func (e *Error) final() bool { return !e.Temporary() && !e.Timeout() }

// reasonOf returns the reason under which Status.Refusals counts a refusal.
func reasonOf(stage Stage, err error) string {
	// An error may match several: that of a robots.txt that can't be fetched is ErrDisallowed as
	// well.
	for _, r := range reasons {
		if errors.Is(err, r.err) && (r.stage == "" || r.stage == stage) {
			return r.text
		}
	}
	return string(stage)
}

// reasons are the texts of refusals, the more special ones first.
var reasons = []struct {
	stage Stage // empty: any
	err   error
	text  string
}{
	{StageRule, ErrDisallowed, "own rule"},
	{"", context.Canceled, "caller left"},
	{"", publicnet.ErrPrivate, "not a public address"},
	{"", ErrUnreachable, "robots.txt unreachable"},
	{"", ErrReserved, "reserved"},
	{"", ErrDisallowed, "robots.txt"},
	{"", ErrBudget, "budget"},
	{"", ErrBlocked, "blocked"},
	{"", ErrBusy, "busy"},
	{"", ErrTooLarge, "too large"},
	{"", ErrContentType, "content type"},
}
