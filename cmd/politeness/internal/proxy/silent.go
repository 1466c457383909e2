package proxy

import (
	"container/list"
	"net"
	"net/http"
	"sync"
)

// A silence keeps the connections on which no request is under way, up to a number: the one that
// has been silent for longest is closed for the next one. So they leave room for those at work.
type silence struct {
	most int

	mu    sync.Mutex
	conns list.List // of net.Conn, the longest silent one first
	at    map[net.Conn]*list.Element
}

// state is a ConnState of an http.Server.
func (s *silence) state(c net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.at[c]; ok {
		s.conns.Remove(e)
		delete(s.at, c)
	}
	if state != http.StateNew && state != http.StateIdle {
		return
	}
	if s.at == nil {
		s.at = make(map[net.Conn]*list.Element)
	}
	s.at[c] = s.conns.PushBack(c)
	if len(s.at) <= s.most {
		return
	}
	longest, _ := s.conns.Remove(s.conns.Front()).(net.Conn)
	delete(s.at, longest)
	beneath(longest).Close() // without a TLS alert, whose sending may wait
}
