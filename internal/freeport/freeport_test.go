package freeport

import (
	"net"
	"testing"
)

// TestAPortIsKeptUntilClose, also while no server has it: no other test gets it.
func TestAPortIsKeptUntilClose(t *testing.T) {
	port, err := Keep(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	take := func() error {
		kept, err := net.ListenPacket("udp", port.Addr.String())
		if err != nil {
			return err
		}
		return kept.Close()
	}
	if take() == nil {
		t.Error("another test may have the port")
	}
	server, err := net.Listen("tcp", port.Addr.String())
	if err != nil {
		t.Fatalf("a server can't have it: %v", err)
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	port.Close()
	if err := take(); err != nil {
		t.Errorf("after Close: %v", err)
	}
}
