// Package freeport finds ports of the loopback interface for the servers that tests start as
// processes of their own.
package freeport

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
)

// A Port is kept for one server until it is closed.
type Port struct {
	Addr *net.TCPAddr

	kept net.PacketConn
}

// Keep returns a free port of 127.0.0.1. It is none that a system gives to connections, of which
// one could take it before the server does; nor is the port 10,000 above, of the bus of a Redis in
// a cluster. A server that is starting, or was killed, has no port, and another test could get the
// same one. So a Port holds the UDP port of that number.
func Keep(ctx context.Context) (*Port, error) {
	var config net.ListenConfig
	var err error
	for range 100 {
		addr := fmt.Sprintf("127.0.0.1:%d", 12_000+rand.IntN(10_000))
		var kept net.PacketConn
		kept, err = config.ListenPacket(ctx, "udp", addr)
		if err != nil {
			continue
		}
		var ln net.Listener
		ln, err = config.Listen(ctx, "tcp", addr)
		if err == nil {
			return &Port{ln.Addr().(*net.TCPAddr), kept}, ln.Close()
		}
		_ = kept.Close()
	}
	return nil, err
}

// Close lets others have the port.
func (p *Port) Close() { _ = p.kept.Close() }
