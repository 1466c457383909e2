package conntrace

import (
	"crypto/tls"
	"net"
)

// A Socket is the socket below a connection of HTTP/1, by which to say what the system does with
// data that isn't sent yet when the connection is closed. The zero value does nothing.
type Socket struct {
	tcp interface{ SetLinger(seconds int) error } // as *net.TCPConn has it; nil: none
}

// SocketOf returns the socket of c. A connection of HTTP/2 has none: it carries other requests as
// well. One of HTTP/2 without TLS (http.Protocols) is taken for one of HTTP/1: nothing shows what
// it speaks.
func SocketOf(c net.Conn) (s Socket) {
	if secure, ok := c.(*tls.Conn); ok {
		if SpeaksHTTP2(c) {
			return s
		}
		c = secure.NetConn()
	}
	s.tcp, _ = c.(interface{ SetLinger(seconds int) error })
	return s
}

// Discard makes a close throw away what isn't sent, also where the process is killed.
func (s Socket) Discard() { s.linger(0) }

// Deliver makes a close send what isn't sent, as the system does by default.
func (s Socket) Deliver() { s.linger(-1) }

func (s Socket) linger(seconds int) {
	if s.tcp != nil {
		_ = s.tcp.SetLinger(seconds) // a connection that is lost already sends nothing
	}
}

// SpeaksHTTP2 reports whether c has agreed on HTTP/2 by TLS.
func SpeaksHTTP2(c net.Conn) bool {
	secure, ok := c.(interface{ ConnectionState() tls.ConnectionState })
	return ok && secure.ConnectionState().NegotiatedProtocol == "h2"
}
