package politeness

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
)

// errCredentials: Base has added credentials to a fetch of robots.txt.
var errCredentials = errors.New("Config.Base adds credentials to the request for robots.txt, which must have none. " +
	"Set Config.RobotsBase, or add the credentials outside of the Transport")

// A headerGuard keeps credentials that Base adds, as an oauth2.Transport does, off requests for
// robots.txt. They show only when the header is written. The header is in the connection's buffer
// then, and is lost if the connection is closed. A headerGuard can't see the headers of a Base that
// calls no hooks of httptrace.
type headerGuard struct {
	mu    sync.Mutex
	conn  net.Conn // that carries the request; nil: none does yet
	found string   // name of the header with credentials; empty: there was none
}

// watch adds g to the hooks of the request that c sends.
func (g *headerGuard) watch(c *sendContext) {
	gotConn := c.hooks.GotConn
	c.hooks.GotConn = func(info httptrace.GotConnInfo) {
		gotConn(info)
		g.mu.Lock()
		defer g.mu.Unlock()
		g.conn = info.Conn
	}
	theirs := c.hooks.WroteHeaderField
	c.hooks.WroteHeaderField = func(name string, values []string) {
		if theirs != nil {
			theirs(name, values)
		}
		if isCredential(name) && g.stop(name) {
			c.Cancel(errCredentials)
		}
	}
}

// stop closes the connection, and reports whether that is new.
func (g *headerGuard) stop(name string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.found != "" {
		return false
	}
	g.found = name
	conn := g.conn
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn() // whose Close doesn't wait until a TLS alert is sent
	}
	if conn != nil {
		conn.Close()
	}
	return true
}

// err returns the error of a request whose header had credentials; nil: it had none. g may be nil.
func (g *headerGuard) err() error {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.found == "" {
		return nil
	}
	return fmt.Errorf("%w (%s)", errCredentials, g.found)
}

// isCredential reports whether a header of that name identifies the sender beyond the crawler's
// name. There is no list of all such headers, so their usual words are searched for. A header for a
// proxy doesn't reach the site.
func isCredential(name string) bool {
	name = strings.ToLower(name)
	if strings.HasPrefix(name, ":") || strings.HasPrefix(name, "proxy-") {
		return false
	}
	return slices.ContainsFunc(credentialWords, func(word string) bool { return strings.Contains(name, word) })
}

var credentialWords = []string{
	"auth", "cookie", "token", "apikey", "api-key", "secret", "session", "password", "credential",
}
