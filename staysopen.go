package politeness

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/mediatype"
)

// defaultUpgrades replaces a Config.Upgrades of 0.
const defaultUpgrades = 16

// A stay is a kind of response that stays open for as long as its caller reads it.
type stay int

const (
	ends     stay = iota // none of them: it holds its slot until its end
	upgraded             // a connection that was switched to another protocol
	streams              // a stream of events
)

// A stayKey is the kind and the host by which open responses are counted.
type stayKey struct {
	host string
	kind stay
}

// staysOpen counts the responses that stay open without a slot. Each kind has a separate limit.
type staysOpen struct {
	mu   sync.Mutex
	open map[stayKey]int
}

// take counts one more, unless most are open.
func (s *staysOpen) take(key stayKey, most int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[key] >= most {
		return false
	}
	if s.open == nil {
		s.open = map[stayKey]int{}
	}
	s.open[key]++
	return true
}

func (s *staysOpen) leave(key stayKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[key]--
	if s.open[key] == 0 {
		delete(s.open, key)
	}
}

func (s *staysOpen) count(key stayKey) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[key]
}

// stayOf returns which kind of open answer resp is, and how many of it a host may have.
func (t *Transport) stayOf(resp *http.Response) (kind stay, most int) {
	_, writes := resp.Body.(io.Writer)
	switch {
	case resp.StatusCode == http.StatusSwitchingProtocols && writes:
		return upgraded, t.cfg.Upgrades
	case success(resp.StatusCode) && isStream(mediatype.Of(first(resp.Header, "Content-Type"))):
		return streams, t.cfg.Streams
	}
	return ends, 0
}

// isStream reports whether responses of a type are endless: streams of events, and camera pictures
// that replace each other.
func isStream(kind string) bool {
	return kind == "text/event-stream" || kind == "multipart/x-mixed-replace"
}

// admitsUpgrade refuses a request for another protocol if the host has as many such connections as
// it may have. A further one would occupy a slot for pages.
func (trip *trip) admitsUpgrade() error {
	most := trip.t.cfg.Upgrades
	asks := first(trip.req.Header, "Upgrade") != ""
	if !asks || most == 0 || trip.t.stays.count(stayKey{trip.subject.host, upgraded}) < most {
		return nil
	}
	return &hostlimit.Error{
		Key: trip.subject.host,
		Err: fmt.Errorf("%w: %d switched connections are open, and Config.Upgrades is that", ErrBusy, most),
	}
}

// stayOpen frees the slot of a response that stays open. It returns the lease that its body has:
// one that is released already, or the given one if the response keeps its slot.
func (trip *trip) stayOpen(resp *http.Response, lease hostlimit.Lease) hostlimit.Lease {
	kind, most := trip.t.stayOf(resp)
	key := stayKey{trip.subject.host, kind}
	if kind == ends || !trip.t.stays.take(key, most) {
		return lease
	}
	trip.stay = key
	now := time.Now() // before the slot is free
	lease.Release()
	trip.subject.report(evidence.StaysOpen, func(d *evidence.Decision) {
		d.Time = now
		d.Allowed = true
		d.Status = resp.StatusCode
		d.ContentType = first(resp.Header, "Content-Type")
	})
	return releasedLease{lease}
}

// closeStay is called after the end of an exchange was recorded. So no log shows more of them open
// than there were.
func (trip *trip) closeStay() {
	if trip.stay.kind != ends {
		trip.t.stays.leave(trip.stay)
	}
}

// A releasedLease is the lease of a body that has none any more.
type releasedLease struct{ hostlimit.Lease }

// Renew implements hostlimit.Lease.
func (releasedLease) Renew() {}

// Release implements hostlimit.Lease.
func (releasedLease) Release() bool { return false }
