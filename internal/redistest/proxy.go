package redistest

import (
	"bytes"
	"net"
	"slices"
	"sync"
	"sync/atomic"
)

// A Proxy stands between clients and a server, as a network that fails: it holds what clients send,
// delivers it late, delivers it again, swallows a reply, and leads to another server.
type Proxy struct {
	Addr string // where clients connect

	ln net.Listener
	wg sync.WaitGroup

	mu      sync.Mutex
	server  string
	held    chan struct{} // closed when held bytes may go on; nil: nothing is held
	past    [][]byte      // what each connection has sent
	conns   map[net.Conn]bool
	swallow string // the next connection that sends this word gets no reply any more; empty: none
	closed  bool
}

// NewProxy returns a Proxy to the server at addr. Close it.
func NewProxy(addr string) (*Proxy, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{Addr: ln.Addr().String(), ln: ln, server: addr, conns: make(map[net.Conn]bool)}
	p.wg.Go(p.accept)
	return p, nil
}

// Lead makes new connections go to the server at addr, and ends the old ones.
func (p *Proxy) Lead(addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server = addr
	for conn := range p.conns {
		_ = conn.Close()
	}
}

// Hold keeps what clients send from the server, also when they hang up, until Deliver.
func (p *Proxy) Hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held == nil {
		p.held = make(chan struct{})
	}
}

// Deliver lets the server have what was held.
func (p *Proxy) Deliver() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held != nil {
		close(p.held)
		p.held = nil
	}
}

// Swallow has the server do the next command in which word is, and keeps the reply from the client,
// whose connection stays open and silent.
func (p *Proxy) Swallow(word string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.swallow = word
}

// HasSwallowed reports whether the command of the last Swallow has come.
func (p *Proxy) HasSwallowed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.swallow == ""
}

// isSwallowed reports whether the reply to data, which a client has sent, is to be swallowed.
func (p *Proxy) isSwallowed(data []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.swallow == "" || !bytes.Contains(data, []byte(p.swallow)) {
		return false
	}
	p.swallow = ""
	return true
}

// Replay sends the server once more all that clients have ever sent, in the order of their
// connections, and throws the answers away.
func (p *Proxy) Replay() error {
	p.mu.Lock()
	past := slices.Clone(p.past)
	server := p.server
	p.mu.Unlock()
	for _, data := range past {
		conn, err := net.Dial("tcp", server)
		if err != nil {
			return err
		}
		if _, err := conn.Write(data); err != nil {
			return err
		}
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil { // the server answers all, then closes
			return err
		}
		drain(conn)
		_ = conn.Close()
	}
	return nil
}

// Close ends all connections and waits for their goroutines.
func (p *Proxy) Close() {
	p.Deliver()
	p.mu.Lock()
	p.closed = true
	_ = p.ln.Close()
	for conn := range p.conns {
		_ = conn.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.ln.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.serve(client) })
	}
}

// serve carries one connection.
func (p *Proxy) serve(client net.Conn) {
	p.mu.Lock()
	addr := p.server
	closed := p.closed
	p.mu.Unlock()
	server, err := net.Dial("tcp", addr)
	if err != nil || closed {
		_ = client.Close()
		return
	}
	p.mu.Lock()
	number := len(p.past)
	p.past = append(p.past, nil)
	p.conns[client] = true
	p.conns[server] = true
	p.mu.Unlock()

	var silent atomic.Bool
	p.wg.Go(func() { answer(client, server, &silent) })
	data := make(chan []byte, 1<<12) // what the client has sent, whether it is still there or not
	p.wg.Go(func() { p.receive(client, number, data) })
	for piece := range data {
		p.mu.Lock()
		held := p.held
		p.mu.Unlock()
		if held != nil {
			<-held
		}
		if p.isSwallowed(piece) {
			silent.Store(true)
		}
		_, _ = server.Write(piece) // an error ends the reader, too
	}
	_ = server.(*net.TCPConn).CloseWrite()
	p.mu.Lock()
	delete(p.conns, client)
	delete(p.conns, server)
	p.mu.Unlock()
}

// answer carries what the server sends, until it hangs up. Nothing is carried once silent is set.
func answer(client, server net.Conn, silent *atomic.Bool) {
	defer client.Close()
	defer server.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := server.Read(buffer)
		if !silent.Load() {
			_, _ = client.Write(buffer[:n]) // the client may have left
		}
		if err != nil {
			return
		}
	}
}

// receive reads what the client of the connection of that number sends, until it hangs up.
func (p *Proxy) receive(client net.Conn, number int, data chan<- []byte) {
	defer close(data)
	for {
		buffer := make([]byte, 64<<10)
		n, err := client.Read(buffer)
		if n > 0 {
			p.mu.Lock()
			p.past[number] = append(p.past[number], buffer[:n]...)
			p.mu.Unlock()
			data <- buffer[:n]
		}
		if err != nil {
			return
		}
	}
}

// drain reads to the end.
func drain(conn net.Conn) {
	buffer := make([]byte, 64<<10)
	for {
		if _, err := conn.Read(buffer); err != nil {
			return
		}
	}
}
