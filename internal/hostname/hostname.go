// Package hostname spells hosts, in one way for everybody who compares them: what paces requests,
// what keeps robots.txt, what audits a log and what checks a crawler must agree which URLs are
// about one host.
//
// The judge is net/http: what it would dial as one address is one [Key]. So a host is read as
// net/http reads it: percent signs are kept, a name in ASCII isn't checked, and any other name goes
// through IDNA, or stays as it is where IDNA refuses it or it is longer than MaxLen. Beyond that,
// spellings are one where the DNS and the dialer make no difference: upper and lower case, final
// dots, the many ways to write an IPv6 address, an empty port and leading zeros of a port. The zone
// of an IPv6 address keeps its case, as the name of a network interface does.
//
// A host in its one spelling is returned as it is, and costs no allocation.
package hostname

import (
	"net/netip"
	"net/url"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// MaxLen is the length of the longest host that is worth spelling: of the longest name that the
// DNS carries (RFC 1035, section 2.3.4), with a port. Longer hosts are nobody's, and would be kept
// as keys.
const MaxLen = 253 + len(":65535")

// Key returns what slots, delays and blocks of host are counted by, where host is a URL.Host. It
// is the name with its port, without the ports of http and https, whatever the scheme: the two
// servers are one machine. An IPv4 address that is mapped to IPv6 is the IPv4 address, since that
// is what gets dialed. A host without a name has the empty key, and nobody to be polite to.
func Key(host string) string {
	key := spell(host)
	if rest, ok := strings.CutPrefix(key, "[::ffff:"); ok {
		end := strings.LastIndexByte(rest, ']')
		if ip, err := netip.ParseAddr(rest[:end]); err == nil && ip.Is4() {
			key = rest[:end] + rest[end+1:]
		}
	}
	key, ok := strings.CutSuffix(key, ":80")
	if !ok {
		key = strings.TrimSuffix(key, ":443")
	}
	return key
}

// Authority returns host, which is a URL.Host, as it stands in the origin of a URL with the given
// scheme (RFC 6454): without the port if that is the scheme's own. Use it for what is bound to
// an origin, such as robots.txt. A host without a name has an empty authority.
func Authority(scheme, host string) string {
	host = spell(host)
	if name, ok := strings.CutSuffix(host, ":80"); ok && strings.EqualFold(scheme, "http") {
		return name
	}
	if name, ok := strings.CutSuffix(host, ":443"); ok && strings.EqualFold(scheme, "https") {
		return name
	}
	return host
}

// URL returns u with its scheme in lower case and its Authority as the host, u itself where it is
// so. What is sent is spelled so: net/http finds its HTTP/2 connections by the host as it stands
// and makes them by the host in punycode, and where the two differ it opens one after the other.
func URL(u *url.URL) *url.URL {
	scheme := strings.ToLower(u.Scheme)
	host := Authority(u.Scheme, u.Host)
	if scheme == u.Scheme && host == u.Host {
		return u
	}
	spelled := *u
	spelled.Scheme = scheme
	spelled.Host = host
	return &spelled
}

// Within reports whether host, a URL.Host, is the given site or a name below it. A site without a
// port has every port.
func Within(host, site string) bool {
	site = Key(site)
	if site == "" {
		return false
	}
	key := Key(host)
	// The key is compared too, for a site with a port.
	return isOrBelow(key, site) || isOrBelow(WithoutPort(key), site)
}

// isOrBelow reports whether name is site or a name below it.
func isOrBelow(name, site string) bool {
	rest, ok := strings.CutSuffix(name, site)
	return ok && (rest == "" || strings.HasSuffix(rest, "."))
}

// WithoutPort returns the name of a host that is spelled as a key.
func WithoutPort(key string) string {
	colon := strings.LastIndexByte(key, ':')
	if colon < 0 || strings.HasSuffix(key, "]") { // the colons in brackets are those of an IPv6 address
		return key
	}
	return key[:colon]
}

// ASCII returns host, which is a URL.Host, with its name as net/http sends it: in punycode where it
// isn't ASCII. What IDNA refuses, or is longer than MaxLen, stays as it is.
func ASCII(host string) string {
	if isASCII(host) {
		return host
	}
	colon := strings.LastIndexByte(host, ':')
	if colon < 0 {
		return punycode(host)
	}
	return punycode(host[:colon]) + host[colon:]
}

// punycode returns name, in punycode where it isn't ASCII and IDNA takes it. One that is too long
// stays as it is: the time that IDNA takes grows with the square of the length.
func punycode(name string) string {
	if len(name) <= MaxLen && !isASCII(name) {
		if ascii, err := idna.Lookup.ToASCII(name); err == nil {
			return ascii
		}
	}
	return name
}

// spell returns the one spelling of host: its name, an IPv6 address in brackets, and its port.
func spell(host string) string {
	if ordinary(host) {
		return host
	}
	u := url.URL{Host: host}
	name := punycode(u.Hostname())
	port := u.Port()
	colons := strings.Contains(name, ":") // then it is no name of the DNS
	if !colons {
		name = strings.TrimRight(name, ".")
	}
	if name == "" {
		return ""
	}

	var buf [MaxLen + len("[]")]byte
	spelled := buf[:0]
	// Brackets separate the colons of a name from the colon of the port. A name that has brackets
	// itself gets a second pair, so that the two differ.
	hasBrackets := name[0] == '[' && name[len(name)-1] == ']'
	bracketed := colons || hasBrackets
	if bracketed {
		spelled = append(spelled, '[')
	}
	if ip, err := netip.ParseAddr(name); err == nil {
		spelled = ip.AppendTo(spelled)
	} else {
		spelled = appendLower(spelled, name)
	}
	if bracketed {
		spelled = append(spelled, ']')
	}
	if port != "" {
		spelled = append(spelled, ':')
		// The last digit stays, so that port 0 is one.
		spelled = append(spelled, strings.TrimLeft(port[:len(port)-1], "0")...)
		spelled = append(spelled, port[len(port)-1])
	}
	if string(spelled) == host { // which costs no allocation
		return host
	}
	return string(spelled)
}

// ordinary reports whether host is in its one spelling, as nearly every host is. It may be so
// although ordinary doesn't say it.
func ordinary(host string) bool {
	for i := range len(host) {
		c := host[i]
		switch {
		case 'a' <= c && c <= 'z':
		case isDigit(c):
		case c == '-' || c == '_':
		case c == '.' && i < len(host)-1:
		case c == ':':
			return i > 0 && host[i-1] != '.' && ordinaryPort(host[i+1:])
		default:
			return false
		}
	}
	return true
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func ordinaryPort(port string) bool {
	for i := range len(port) {
		if !isDigit(port[i]) {
			return false
		}
	}
	return port != "" && (port[0] != '0' || port == "0")
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// appendLower appends s with its ASCII letters in lower case. The others have no case for the DNS.
func appendLower(b []byte, s string) []byte {
	for i := range len(s) {
		c := s[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		b = append(b, c)
	}
	return b
}
