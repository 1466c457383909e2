package redistest

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"testing"
	"time"
)

// TestProxyHoldsDeliversAndReplays counts on a real server what arrives.
func TestProxyHoldsDeliversAndReplays(t *testing.T) {
	if _, err := executable(); err != nil && os.Getenv("POLITENESS_LONG") == "" {
		t.Skip(err) // the root module's tests need nothing but Go
	}
	s := New(t)
	p, err := NewProxy(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	say := func(addr, line string, wait bool) string {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "%s\r\n", line)
		if !wait {
			return ""
		}
		answer, _ := bufio.NewReader(conn).ReadString('\n')
		return answer
	}
	if got := say(p.Addr, "INCR n", true); got != ":1\r\n" {
		t.Errorf("through the proxy: %q", got)
	}
	p.Hold()
	say(p.Addr, "INCR n", false) // the client has left before it is delivered
	time.Sleep(50 * time.Millisecond)
	if got := say(s.Addr, "INCRBY n 0", true); got != ":1\r\n" {
		t.Errorf("while it is held: %q", got)
	}
	p.Deliver()
	for end := time.Now().Add(time.Minute); say(s.Addr, "INCRBY n 0", true) != ":2\r\n"; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("what was held was not delivered")
		}
	}
	if err := p.Replay(); err != nil {
		t.Fatal(err)
	}
	if got := say(s.Addr, "INCRBY n 0", true); got != ":4\r\n" {
		t.Errorf("after the replay: %q", got)
	}
	p.Swallow("INCRBY n 2")
	if got := say(p.Addr, "INCRBY n 1", true); got != ":5\r\n" || p.HasSwallowed() {
		t.Errorf("the reply to another command: %q", got)
	}
	conn, err := net.Dial("tcp", p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "INCRBY n 2\r\n")
	for end := time.Now().Add(time.Minute); say(s.Addr, "INCRBY n 0", true) != ":7\r\n"; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the command whose reply is swallowed was not done")
		}
	}
	_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := conn.Read(make([]byte, 1)); n > 0 || !os.IsTimeout(err) || !p.HasSwallowed() {
		t.Errorf("%d bytes of a reply that was swallowed, %v", n, err)
	}
	if got := say(p.Addr, "INCRBY n 2", true); got != ":9\r\n" {
		t.Errorf("the reply after it: %q", got)
	}
}
