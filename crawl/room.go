package crawl

import (
	"context"
	"net/http"
	"sync"
)

// A room limits the bytes of the responses that are in flight or wait for their visits
// (Config.MaxHeld). The bytes of a response are those of its header and its body.
//
//	bytes of a response     where they count
//	up to freeBytes         nowhere: each connection may have them
//	up to smallBody         in small, a quarter of the room
//	more                    in large, the rest
//
// A response takes bytes as it is read, twice as many each time. If the room is full, it waits and
// keeps its bytes. Responses that each have a part could wait for each other. So one of them may
// continue without waiting, and the room reserves the longest body for it. It ends, or
// Config.Timeout ends it, and then the next one may continue. A response of more than smallBody
// waits for large while it counts in small, and never the other way round.
type room struct {
	small, large pool
}

// Bytes of a response.
const (
	freeBytes = 16 << 10
	smallBody = 256 << 10
)

func newRoom(most, longest int64) *room {
	var r room
	r.small.free = max(0, most/4-smallBody)
	r.large.free = max(0, most-most/4-longest)
	return &r
}

// A pool is a number of bytes that responses take, and a place for one that needn't wait.
type pool struct {
	mu      sync.Mutex
	free    int64
	isTaken bool      // a response has the place
	waiting []*waiter // in the order in which they came
}

// A waiter waits for bytes of a pool.
type waiter struct {
	bytes    int64
	isPlaced bool // it got the place instead; read it once ready is closed
	ready    chan struct{}
}

// tryAcquire takes bytes if they are free.
func (p *pool) tryAcquire(bytes int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting) > 0 || bytes > p.free {
		return false
	}
	p.free -= bytes
	return true
}

// acquire takes bytes, or the place, for which it reports true. The error is that of ctx.
func (p *pool) acquire(ctx context.Context, bytes int64) (isPlaced bool, err error) {
	p.mu.Lock()
	w := &waiter{bytes: bytes, ready: make(chan struct{})}
	p.waiting = append(p.waiting, w)
	p.serve()
	p.mu.Unlock()
	select {
	case <-w.ready:
		return w.isPlaced, nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, other := range p.waiting {
		if other == w {
			p.waiting = append(p.waiting[:i:i], p.waiting[i+1:]...)
			p.serve() // one behind it may need less
			return false, ctx.Err()
		}
	}
	return w.isPlaced, nil // it was served at the same instant
}

// release gives bytes back, and the place.
func (p *pool) release(bytes int64, isPlaced bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free += bytes
	p.isTaken = p.isTaken && !isPlaced
	p.serve()
}

// serve ends the waits for which there is room, under p.mu.
func (p *pool) serve() {
	for len(p.waiting) > 0 {
		w := p.waiting[0]
		switch {
		case w.bytes <= p.free:
			p.free -= w.bytes
		case !p.isTaken:
			p.isTaken = true
			w.isPlaced = true
		default:
			return
		}
		p.waiting = p.waiting[1:]
		close(w.ready)
	}
}

// A share is the part of a room that a response has.
type share struct {
	room     *room
	pool     *pool // nil: it has none
	bytes    int64
	isPlaced bool
	waited   bool // there was no room at once
}

// grow makes room for a response of that many bytes. The error is that of ctx.
func (s *share) grow(ctx context.Context, bytes int64) error {
	if bytes <= freeBytes {
		return nil
	}
	target := &s.room.small
	if bytes > smallBody {
		target = &s.room.large
	}
	if target != s.pool {
		isPlaced, err := s.acquire(ctx, target, bytes)
		if err != nil {
			return err
		}
		s.release() // that of small
		s.pool = target
		s.bytes = bytes
		s.isPlaced = isPlaced
		if isPlaced {
			s.bytes = 0
		}
		return nil
	}
	if s.isPlaced || bytes <= s.bytes {
		return nil
	}
	isPlaced, err := s.acquire(ctx, target, bytes-s.bytes)
	if err != nil {
		return err
	}
	s.isPlaced = isPlaced
	if !isPlaced {
		s.bytes = bytes
	}
	return nil
}

// acquire calls p.acquire, and notes in waited if that may have taken time.
func (s *share) acquire(ctx context.Context, p *pool, bytes int64) (isPlaced bool, err error) {
	if p.tryAcquire(bytes) {
		return false, nil
	}
	s.waited = true
	return p.acquire(ctx, bytes)
}

// release gives all of it back.
func (s *share) release() {
	if s.pool == nil {
		return
	}
	s.pool.release(s.bytes, s.isPlaced)
	s.pool = nil
	s.bytes = 0
	s.isPlaced = false
}

// sizeOf returns the number of bytes of a header, with some for each field that a map has.
func sizeOf(header http.Header) (bytes int64) {
	const eachField = 64
	for name, values := range header {
		bytes += int64(len(name)) + eachField
		for _, v := range values {
			bytes += int64(len(v)) + 16
		}
	}
	return bytes
}
