package accesslog

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/go-politeness/politeness/internal/hostname"
)

// A naming is how a line of an access log names the host of its request.
type naming int

const (
	// unnamed lines have no host, or a word that is none.
	unnamed naming = iota
	// known hosts are hosts of the evidence, or those that the caller names.
	known
	// foreign hosts look like one, and the evidence doesn't have them: the server has a name that
	// no client uses, as behind a proxy, or the crawler left out all of its requests to the host.
	foreign
)

// names are the names of hosts in both logs. Evidence knows the names that a crawler asked for. An
// access log knows the names of servers: one server may have several names, and may note one of
// them whichever was asked for.
type names struct {
	caller []string            // that the caller gives to the log's server; none: it gives none
	hosts  map[string]bool     // of the evidence; true: the access log is of them
	byName map[string][]string // hosts of the evidence, by their names without ports
	only   string              // host of a line without one; "": it isn't known
	scope  map[string]bool     // hosts of the evidence that the caller names
}

// newNames returns the names of a server as its caller gives them.
func newNames(given ...string) names {
	n := names{
		hosts:  make(map[string]bool),
		byName: make(map[string][]string),
		scope:  make(map[string]bool),
	}
	for _, host := range given {
		if key := readable(hostname.Key(host)); key != "" {
			n.caller = append(n.caller, key)
		}
	}
	return n
}

// given reports whether the host of a request in the evidence may be one of the caller's. If the
// caller gives none, all are.
func (n *names) given(host string) bool {
	name := hostname.WithoutPort(host)
	return len(n.caller) == 0 || slices.ContainsFunc(n.caller, func(given string) bool {
		return given == host || hostname.WithoutPort(given) == name
	})
}

// addHost adds a host of the evidence.
func (n *names) addHost(host string) {
	if _, there := n.hosts[host]; there {
		return
	}
	n.hosts[host] = false
	name := hostname.WithoutPort(host)
	n.byName[name] = append(n.byName[name], host)
}

// settle finds out which hosts the access log may be of. The whole evidence has been read.
func (n *names) settle() {
	for _, given := range n.caller {
		if _, exact := n.hosts[given]; exact {
			n.scope[given] = true
			continue
		}
		// A proxy may have another port than the server behind it.
		for _, host := range n.byName[hostname.WithoutPort(given)] {
			n.scope[host] = true
		}
	}
	switch {
	case len(n.caller) > 0:
		n.only = n.caller[0]
	case len(n.hosts) == 1:
		for host := range n.hosts {
			n.only = host
		}
	}
}

// find returns the host of the evidence, or of the caller, that a word of a log means. It has the
// same port, or is the only one of its name.
func (n *names) find(word string) (host string, ok bool) {
	key := readable(hostname.Key(word))
	if key == "" {
		return "", false
	}
	if _, exact := n.hosts[key]; exact || slices.Contains(n.caller, key) {
		return key, true
	}
	if same := n.byName[hostname.WithoutPort(key)]; len(same) == 1 {
		return same[0], true
	}
	return "", false
}

// resolve returns the host of a line. A line that names none gets the only host that the access log
// can be of, "" if there are several.
func (n *names) resolve(e entry) (host string, how naming) {
	for _, word := range e.hosts {
		if host, ok := n.find(word); ok {
			return host, known
		}
	}
	if isHost(e.hostname) {
		return readable(hostname.Key(e.hostname)), foreign
	}
	return n.only, unnamed
}

// server returns the name that requests of one server share: see request.setServer.
func (n *names) server(host string, how naming) string {
	if len(n.caller) > 0 && (how == unnamed || n.inScope(host, how)) {
		return ""
	}
	return host
}

// inScope reports whether a host, so named, belongs to the server that the caller names.
func (n *names) inScope(host string, how naming) bool {
	return len(n.caller) == 0 || how == unnamed || n.scope[host] || slices.Contains(n.caller, host)
}

// seen notes that the access log has a line of a host.
func (n *names) seen(host string, how naming) {
	if how == foreign {
		return
	}
	if len(n.caller) == 0 {
		if _, there := n.hosts[host]; there {
			n.hosts[host] = true
		}
		return
	}
	if n.inScope(host, how) {
		for scoped := range n.scope {
			n.hosts[scoped] = true
		}
	}
}

const (
	letters = "abcdefghijklmnopqrstuvwxyz"
	digits  = "0123456789"
)

// isHost reports whether a word that no log explains looks like the name of a host: it has a dot
// and ends as top-level domains do, a port behind it apart. Words such as "_", "nginx:", a count, a
// time or the id of a request don't.
func isHost(word string) bool {
	name := strings.ToLower(hostname.WithoutPort(word))
	if addr, ok := strings.CutPrefix(name, "["); ok {
		_, err := netip.ParseAddr(strings.TrimSuffix(addr, "]"))
		return err == nil
	}
	if strings.Trim(name, letters+digits+"-_.") != "" {
		return false
	}
	name = strings.TrimSuffix(name, ".")
	dot := strings.LastIndexByte(name, '.')
	if dot <= 0 {
		return false
	}
	top := name[dot+1:]
	return strings.HasPrefix(top, "xn--") || (top != "" && strings.Trim(top, letters) == "")
}
