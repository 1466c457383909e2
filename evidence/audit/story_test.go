package audit_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/internal/logtest"
)

// A story is a log in the making, of one host with two slots and half a second
// between starts. Times are seconds. Each has a limiter of its own.
type story []evidence.Decision

var stories atomic.Int64

func seconds(s float64) time.Duration { return time.Duration(s * 1e9) }
func at(s float64) time.Time          { return logtest.Day.Add(seconds(s)) }

const storyURL = "https://a.example/x"

// add appends a record. The changes are made to it last.
func (s *story) add(d evidence.Decision, changes []func(*evidence.Decision)) {
	d.Host, d.Method, d.Agent, d.Attempt = "a.example", "GET", "TestBot", 1
	if d.URL == "" {
		d.URL = storyURL
	}
	for _, change := range changes {
		change(&d)
	}
	if len(*s) == 0 {
		p := logtest.Policy
		p.ID = fmt.Sprint("T", stories.Add(1))
		p.Limiter = p.ID
		*s = story{{Type: evidence.PolicyStated, Transport: p.ID, Allowed: true, Policy: &p}}
	}
	d.Transport = (*s)[0].Transport
	*s = append(*s, d)
}

func (s *story) allowed(trip uint64, t float64, changes ...func(*evidence.Decision)) {
	s.add(evidence.Decision{Type: evidence.RobotsAllowed, Time: at(t), Trip: trip, Allowed: true, Group: "*"}, changes)
}

func (s *story) started(trip uint64, t float64, changes ...func(*evidence.Decision)) {
	seq := uint64(1)
	for _, d := range *s {
		if d.Type == evidence.Started {
			seq++
		}
	}
	s.add(evidence.Decision{
		Type: evidence.Started, Time: at(t), Start: at(t), Trip: trip, Allowed: true, Seq: seq, Delay: seconds(0.5), Slot: 1, Slots: 2,
	}, changes)
}

// fetched ends the exchange of a trip after some time, with the headers after 0.1 s.
func (s *story) fetched(trip uint64, after float64, changes ...func(*evidence.Decision)) {
	for _, d := range *s {
		if d.Type == evidence.Started && d.Trip == trip {
			s.add(evidence.Decision{
				Type: evidence.Fetched, Time: d.Start.Add(seconds(after)), Start: d.Start, Trip: trip, Allowed: true, Seq: d.Seq,
				Status: 200, Latency: seconds(0.1), Duration: seconds(after), Bytes: 100,
			}, changes)
		}
	}
}

// page is a whole trip that ends 0.2 s after its start.
func (s *story) page(trip uint64, t float64) {
	s.allowed(trip, t)
	s.started(trip, t)
	s.fetched(trip, 0.2)
}

func (s *story) blocked(trip uint64, from, until float64, changes ...func(*evidence.Decision)) {
	s.add(evidence.Decision{
		Type: evidence.HostBlocked, Time: at(from), Trip: trip, Status: 429, Until: at(until), RetryAt: at(until), Kind: "refused", Refusals: 1,
	}, changes)
}

// refused is a whole trip whose answer, after 0.1 s, blocks the host.
func (s *story) refused(trip uint64, t, until float64) {
	s.allowed(trip, t)
	s.started(trip, t)
	s.blocked(trip, t+0.1, until)
	s.fetched(trip, 0.2, func(d *evidence.Decision) { d.Status = 429 })
}

// probed is a whole trip whose answer, after 0.1 s, ends a block.
func (s *story) probed(trip uint64, t float64) {
	s.allowed(trip, t)
	s.started(trip, t)
	s.cleared(trip, t+0.1)
	s.fetched(trip, 0.2)
}

// waiting is a record that changes nothing.
func (s *story) waiting(t float64) {
	s.add(evidence.Decision{Type: evidence.Waiting, Time: at(t), Allowed: true}, nil)
}

func (s *story) cleared(trip uint64, t float64, changes ...func(*evidence.Decision)) {
	s.add(evidence.Decision{Type: evidence.HostCleared, Time: at(t), Trip: trip, Status: 200, Allowed: true}, changes)
}

// robots is a whole fetch of robots.txt.
func (s *story) robots(text string, t float64, changes ...func(*evidence.Decision)) {
	sum := sha256.Sum256([]byte(text))
	d := evidence.Decision{
		Type: evidence.RobotsFetched, Time: at(t), Allowed: true, RobotsTxt: true, URL: "https://a.example/robots.txt", Status: 200,
		Bytes: int64(len(text)), SHA256: hex.EncodeToString(sum[:]), Text: text, TTL: time.Hour, Trip: 9000 + uint64(len(*s)),
	}
	for _, change := range changes {
		change(&d)
	}
	of := func(e *evidence.Decision) { e.URL, e.RobotsTxt, e.Status = d.URL, true, 0 }
	s.started(d.Trip, t-0.2, of)
	if d.Status >= 500 {
		s.blocked(d.Trip, t-0.1, t+0.9, of, func(b *evidence.Decision) { b.Status, b.Kind = d.Status, "unsure" })
	}
	s.fetched(d.Trip, 0.2, of, func(e *evidence.Decision) { e.Status = d.Status })
	s.add(d, nil)
}

// pages is n whole trips that start a second apart, each of which lasts some time.
func pages(n int, last float64) story {
	var s story
	for i := range n {
		s.allowed(uint64(i+1), float64(i+1))
		s.started(uint64(i+1), float64(i+1))
	}
	for i := range n {
		s.fetched(uint64(i+1), last)
	}
	return s
}

// wants fails the test unless the audit of s finds a violation of the given kind, or
// none at all if it is empty.
func (s story) wants(t *testing.T, kind audit.Kind) {
	t.Helper()
	r := check(t, logtest.Write(t, s))
	if kind == "" && !r.OK() || kind != "" && r.Broken[kind] == 0 {
		t.Errorf("want %q, got %v", kind, fmt.Sprint(r.Violations))
	}
}
