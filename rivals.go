package politeness

import (
	"context"
	"hash/maphash"
	"log"
	"net"
	"net/url"
	"sync"
	"time"
	"weak"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit/memory"
)

// If two limiters of one process send to one host, the host gets the sum of their rates. A program
// that makes a Transport for each goroutine or request does that unnoticed. So each request that
// goes out on a socket leaves a note of its host and its limiter, and the first request that finds
// a recent note of another limiter warns.

const (
	rivalTime = time.Minute // a note is recent for so long
	noteSpots = 1024        // most hosts that have a note
	nameTime  = time.Second // limit on asking for the names of two limiters, perhaps of a server
)

// notes are those of the process. A host has its spot by its hash, where a later host replaces it.
var notes [noteSpots]note

// hostSeed is the seed of the hashes of hosts.
var hostSeed = maphash.MakeSeed()

// A note is about the latest request to a host. It keeps nothing alive.
type note struct {
	mu     sync.Mutex
	host   uint64 // hash; 0: there is no note
	at     time.Time
	kin    weak.Pointer[kin]
	by     weak.Pointer[Transport]
	warned bool // of the host
}

// A rival is another limiter that has sent to the host of a request.
type rival struct {
	kin *kin
	by  *Transport // one that has the limiter; nil: it isn't used any more
}

// noteRequest leaves a note of a request of t to host. It returns the rival that t must warn about,
// or nil if there is none or a warning was given before.
func (t *Transport) noteRequest(host uint64, now time.Time) *rival {
	n := &notes[host%noteSpots]
	n.mu.Lock()
	defer n.mu.Unlock()
	before := n.kin
	by := n.by
	age := now.Sub(n.at)
	isSameHost := n.host == host
	isRecent := isSameHost && age >= 0 && age < rivalTime // a note of another synctest bubble may be of any time
	warned := isSameHost && n.warned
	n.host = host
	n.at = now
	n.kin = t.kin.self
	n.by = t.self
	n.warned = warned
	if !isRecent || warned || before == t.kin.self {
		return nil
	}
	n.warned = true
	other := before.Value()
	if other == nil {
		other = new(kin)
	}
	// If many limiters send to many hosts, one warning is enough for each limiter.
	wasWarned := t.kin.hasWarned.Swap(true)
	wasOtherWarned := other.hasWarned.Swap(true)
	if wasWarned || wasOtherWarned {
		return nil
	}
	return &rival{kin: other, by: by.Value()}
}

// socketHost returns the hash of the host and port that a request for u asks over conn. It returns
// 0 if conn is no TCP connection, as in a test with a fake network.
func socketHost(u *url.URL, conn net.Conn) uint64 {
	remote := tcpAddr(conn)
	if remote == nil {
		return 0
	}
	hash := maphash.String(hostSeed, u.Host)
	if u.Scheme == "https" {
		hash++ // another port, if u.Host has none
	}
	// Servers of tests that run side by side may be reached under one name.
	if remote.IP.IsLoopback() {
		hash += uint64(remote.Port) << 20
	}
	return max(hash, 1)
}

// tcpAddr returns the address at the other end of conn; nil: it isn't one of TCP.
func tcpAddr(conn net.Conn) (remote *net.TCPAddr) {
	if conn == nil {
		return nil
	}
	defer func() { _ = recover() }() // a conn of a test's own may have no such method inside
	remote, _ = conn.RemoteAddr().(*net.TCPAddr)
	return remote
}

// connected is called when the request has its connection, before it is sent.
func (trip *trip) connected(conn net.Conn) {
	if trip.t.kin == nil {
		return
	}
	host := socketHost(trip.subject.target, conn)
	if host == 0 {
		return
	}
	found := trip.t.noteRequest(host, time.Now())
	if found != nil {
		trip.rival = found
	}
}

// warnOf warns of r, unless its limiter shares its state with that of t.
func (t *Transport) warnOf(r *rival, s *subject) {
	if !t.isApart(s.ctx, r.by) {
		return
	}
	reason := "another Transport of this process, with a limiter that has nothing in common with this one's, asks " +
		s.target.Host + " too, which gets both their rates: make one Transport and share it " +
		"(Transport.Over sends by another base), or give all the same Config.Limiter"
	t.kin.warning.Store(&reason)
	r.kin.warning.Store(&reason)
	if t.recorder == nil {
		log.Print("politeness: " + reason) //nolint:forbidigo // the program has no Evidence, and must learn of it
		return
	}
	s.report(evidence.LimitersApart, func(d *evidence.Decision) {
		d.Allowed = true
		d.Reason = reason
	})
}

// isApart reports whether the limiters of t and other share no state, as far as is known. Two
// values may stand for one limiter: a wrapper and its inside, or two on one server.
func (t *Transport) isApart(ctx context.Context, other *Transport) bool {
	if other == nil {
		_, isOwn := t.cfg.Limiter.(*memory.Limiter)
		return isOwn
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), nameTime)
	defer cancel()
	name := nameOf(ctx, t)
	otherName := nameOf(ctx, other)
	return name != "" && otherName != "" && name != otherName
}

// nameOf returns the name of t's limiter. It is empty if that isn't known.
func nameOf(ctx context.Context, t *Transport) (name string) {
	defer func() { _ = recover() }() // of a limiter of the user's
	name, _ = t.cfg.Limiter.ID(ctx)
	return name
}
