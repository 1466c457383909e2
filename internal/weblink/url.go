package weblink

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"

	"github.com/go-politeness/politeness/internal/hostname"
)

// A URL is an http or https URL as the URL standard (https://url.spec.whatwg.org) reads it, without
// userinfo and fragment, which aren't sent.
type URL struct {
	Scheme   string // "http" or "https"
	Host     string // in ASCII and lower case, with a port if it isn't that of the scheme; a zone is unescaped
	Path     string // begins with a slash and has no dot segments; its escapes and other characters are as written
	Query    string // as written
	HasQuery bool   // there is a query, which may be empty
}

// ErrRelative is the error of ParseURL for a relative reference without a base.
var ErrRelative = errors.New("a URL begins with https:// or http://")

// A SchemeError is the error of ParseURL for a URL with another scheme than http and https.
type SchemeError struct {
	Scheme string // in lower case
	Rest   string // of the URL, behind the colon
}

func (e *SchemeError) Error() string {
	return fmt.Sprintf("scheme %q is neither http nor https", clip(e.Scheme))
}

// ParseURL reads ref, which is relative to base, as browsers do: by the rules of the URL standard
// for http and https. Spaces and control characters around it are dropped, tabs and line ends
// anywhere; backslashes are slashes; any number of slashes stands before a host; a percent sign
// needs no digits behind it. Unlike the standard it takes the zone of an IPv6 address (RFC 6874).
//
// A nil base takes no relative reference: the error is ErrRelative. The error for another scheme is
// a *SchemeError. The time grows with the length of ref, and with that of the path of base if ref
// needs it.
func ParseURL(base *URL, ref string) (URL, error) {
	ref = strings.TrimFunc(ref, isControlOrSpace)
	if strings.ContainsAny(ref, "\t\r\n") {
		ref = withoutLineEnds.Replace(ref)
	}
	ref, _, _ = strings.Cut(ref, "#")
	rest, query, hasQuery := strings.Cut(ref, "?")
	u := URL{Query: query, HasQuery: hasQuery}
	scheme, afterScheme, ok := cutScheme(rest)
	switch {
	case ok && scheme != "http" && scheme != "https":
		return URL{}, &SchemeError{Scheme: scheme, Rest: afterScheme}
	case ok && (base == nil || base.Scheme != scheme || strings.HasPrefix(afterScheme, "//")):
		u.Scheme = scheme
		return u.withAuthority(afterScheme)
	case ok: // such as https:page on a page of https, which is relative
		rest = afterScheme
	case base == nil:
		return URL{}, ErrRelative
	}
	u.Scheme = base.Scheme
	if len(rest) > 1 && isSlash(rest[0]) && isSlash(rest[1]) {
		return u.withAuthority(rest)
	}
	u.Host = base.Host
	switch {
	case rest == "":
		u.Path = base.Path
		if !hasQuery {
			u.Query = base.Query
			u.HasQuery = base.HasQuery
		}
	case isSlash(rest[0]):
		u.Path = cleanPath("", rest)
	default:
		directory := base.Path[:strings.LastIndexByte(base.Path, '/')+1]
		u.Path = cleanPath(directory, rest)
	}
	return u, nil
}

func isControlOrSpace(r rune) bool { return r <= ' ' }

var withoutLineEnds = strings.NewReplacer("\t", "", "\r", "", "\n", "")

func isSlash(c byte) bool { return c == '/' || c == '\\' }

// cutScheme cuts the scheme off, which it returns in lower case; ok is false if there is none.
func cutScheme(s string) (scheme, rest string, ok bool) {
	for i := range len(s) {
		c := s[i]
		isLetter := 'a' <= c|0x20 && c|0x20 <= 'z'
		isLater := i > 0 && ('0' <= c && c <= '9' || c == '+' || c == '-' || c == '.')
		switch {
		case isLetter, isLater:
		case c == ':' && i > 0:
			return strings.ToLower(s[:i]), s[i+1:], true
		default:
			return "", s, false
		}
	}
	return "", s, false
}

// withAuthority returns u with the host and the path of rest, which begins with any number of
// slashes.
func (u URL) withAuthority(rest string) (URL, error) {
	for rest != "" && isSlash(rest[0]) {
		rest = rest[1:]
	}
	end := strings.IndexAny(rest, `/\`)
	if end < 0 {
		end = len(rest)
	}
	authority := rest[:end]
	authority = authority[strings.LastIndexByte(authority, '@')+1:]
	name, port, err := cutPort(authority)
	if err != nil {
		return URL{}, err
	}
	u.Host, err = parseHost(name)
	if err != nil {
		return URL{}, err
	}
	isOwnPort := u.Scheme == "http" && port == "80" || u.Scheme == "https" && port == "443"
	if port != "" && !isOwnPort {
		u.Host += ":" + port
	}
	u.Path = "/"
	if end < len(rest) {
		u.Path = cleanPath("", rest[end:])
	}
	return u, nil
}

// cutPort cuts the port off an authority without userinfo. It returns the port without leading
// zeros; empty: there is none.
func cutPort(authority string) (name, port string, err error) {
	colon := strings.LastIndexByte(authority, ':')
	if colon <= strings.LastIndexByte(authority, ']') { // those before it are of an IPv6 address
		return authority, "", nil
	}
	if strings.IndexByte(authority, '[') < 0 {
		colon = strings.IndexByte(authority, ':')
	}
	name = authority[:colon]
	port = authority[colon+1:]
	if port == "" {
		return name, "", nil
	}
	for i := range len(port) {
		if port[i] < '0' || port[i] > '9' {
			return "", "", fmt.Errorf("invalid port %q after host", clip(port))
		}
	}
	port = strings.TrimLeft(port[:len(port)-1], "0") + port[len(port)-1:]
	if len(port) > 5 || len(port) == 5 && port > "65535" {
		return "", "", fmt.Errorf("port %q is larger than 65535", clip(port))
	}
	return name, port, nil
}

// cleanPath returns a path with slashes for backslashes and without dot segments, escaped ones
// included. directory begins it, which is clean already.
func cleanPath(directory, rest string) string {
	if strings.IndexByte(rest, '\\') >= 0 {
		rest = strings.ReplaceAll(rest, `\`, "/")
	}
	if !mayHaveDots(rest) {
		return directory + rest
	}
	path := []byte(directory)
	if directory == "" {
		path = append(path, '/')
		rest = rest[1:]
	}
	// path ends with a slash in front of each segment.
	for {
		segment, after, more := strings.Cut(rest, "/")
		switch dots(segment) {
		case 1:
		case 2:
			if len(path) > 1 {
				path = path[:bytes.LastIndexByte(path[:len(path)-1], '/')+1]
			}
		default:
			path = append(path, segment...)
			if more {
				path = append(path, '/')
			}
		}
		if !more {
			return string(path)
		}
		rest = after
	}
}

// mayHaveDots reports whether a segment of path may be one of dots.
func mayHaveDots(path string) bool {
	for i := range len(path) {
		isStart := i == 0 || path[i-1] == '/'
		if isStart && (path[i] == '.' || path[i] == '%') {
			return true
		}
	}
	return false
}

// dots returns how many dots segment is, 1 or 2, some of which may be escaped; 0: it is something
// else.
func dots(segment string) int {
	n := 0
	for segment != "" && n < 3 {
		switch {
		case segment[0] == '.':
			segment = segment[1:]
		case len(segment) >= 3 && segment[0] == '%' && segment[1] == '2' && segment[2]|0x20 == 'e':
			segment = segment[3:]
		default:
			return 0
		}
		n++
	}
	if n > 2 {
		return 0
	}
	return n
}

// Errors of hosts.
var (
	errNoHost  = errors.New("a URL needs a host")
	errBracket = errors.New("missing ']' in host")
)

// parseHost returns a host as browsers send it: a name in lower case and punycode, an IPv4 address
// as four numbers, an IPv6 address in brackets.
func parseHost(name string) (string, error) {
	switch {
	case name == "":
		return "", errNoHost
	case isPlainName(name):
		return name, nil
	case name[0] == '[':
		return parseIPv6(name)
	}
	domain, err := toASCII(unescaped(name))
	if err != nil {
		return "", fmt.Errorf("%q is no name of a host", clip(name))
	}
	if domain == "" {
		return "", errNoHost
	}
	if strings.ContainsFunc(domain, isForbidden) {
		return "", fmt.Errorf("%q is no name of a host", clip(name))
	}
	if !endsInNumber(domain) {
		return domain, nil
	}
	return parseIPv4(domain)
}

// isPlainName reports whether name is the name of a host as most are, which stays as it is.
func isPlainName(name string) bool {
	label := 0 // start of the last label
	for i := range len(name) {
		c := name[i]
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '_':
		case c == '.':
			label = i + 1
		default:
			return false
		}
	}
	isNumber := label == len(name) || '0' <= name[label] && name[label] <= '9'
	return !isNumber && !strings.Contains(name, "xn--")
}

// unescaped returns s with the bytes that its escapes stand for. Percent signs that begin no escape
// stay.
func unescaped(s string) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			c, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
			if err == nil {
				b.WriteByte(byte(c))
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// browserNames is the processing of names by the URL standard, section 3.3: UTS 46 without the
// rules for hyphens and for the characters of host names.
var browserNames = idna.New(
	idna.MapForLookup(), idna.Transitional(false), idna.StrictDomainName(false), idna.CheckHyphens(false),
	idna.CheckJoiners(true), idna.BidiRule(), idna.VerifyDNSLength(false),
)

// maxIDN is the length of the longest name that goes through IDNA, whose time grows with the square
// of it: 253 characters of at most four bytes.
const maxIDN = 4 * 253

var errLongName = errors.New("the name is too long")

// toASCII returns the name of a host in lower case and punycode.
func toASCII(name string) (string, error) {
	lower := strings.ToLower(name)
	isASCII := strings.IndexFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }) < 0
	switch {
	case isASCII && !hasPunycode(lower):
		return lower, nil
	case len(name) > maxIDN:
		return "", errLongName
	}
	ascii, err := browserNames.ToASCII(strings.ToValidUTF8(name, "\ufffd"))
	return ascii, err
}

// hasPunycode reports whether a label of name, which is in lower case, is in punycode.
func hasPunycode(name string) bool {
	return strings.HasPrefix(name, "xn--") || strings.Contains(name, ".xn--")
}

// isForbidden reports whether r can't stand in the name of a host: the forbidden domain code points
// (URL standard, section 3.1), and three with which net/url takes no name.
func isForbidden(r rune) bool {
	return r <= ' ' || r >= 0x7f || strings.ContainsRune("#/:<>?@[\\]^|%"+"{}`", r)
}

// endsInNumber reports whether a name is read as an IPv4 address (URL standard, section 3.5).
func endsInNumber(domain string) bool {
	domain = strings.TrimSuffix(domain, ".")
	last := domain[strings.LastIndexByte(domain, '.')+1:]
	if last == "" {
		return false
	}
	if strings.Trim(last, "0123456789") == "" {
		return true
	}
	_, err := ipv4Number(last)
	return err == nil || errors.Is(err, strconv.ErrRange)
}

// parseIPv4 reads the spellings of an IPv4 address: with one to four numbers, which are decimal,
// octal or hexadecimal.
func parseIPv4(domain string) (string, error) {
	parts := strings.Split(strings.TrimSuffix(domain, "."), ".")
	bad := fmt.Errorf("%q is no IPv4 address", clip(domain))
	if len(parts) > 4 {
		return "", bad
	}
	var address uint64
	for i, part := range parts {
		n, err := ipv4Number(part)
		isLast := i == len(parts)-1
		bits := 8
		if isLast {
			bits = 8 * (5 - len(parts))
		}
		if err != nil || n >= 1<<bits {
			return "", bad
		}
		address = address<<bits | n
	}
	ip := netip.AddrFrom4([4]byte{byte(address >> 24), byte(address >> 16), byte(address >> 8), byte(address)})
	return ip.String(), nil
}

// ipv4Number reads a number of an IPv4 address.
func ipv4Number(s string) (uint64, error) {
	base := 10
	lower := strings.ToLower(s)
	switch {
	case lower == "":
		return 0, errors.New("no digits")
	case strings.HasPrefix(lower, "0x"):
		lower = lower[2:]
		base = 16
	case len(lower) > 1 && lower[0] == '0':
		lower = lower[1:]
		base = 8
	}
	if lower == "" { // "0x" is 0
		return 0, nil
	}
	if lower[0] == '+' || lower[0] == '-' {
		return 0, errors.New("a sign")
	}
	return strconv.ParseUint(lower, base, 64)
}

// parseIPv6 reads an IPv6 address in brackets.
func parseIPv6(name string) (string, error) {
	if !strings.HasSuffix(name, "]") {
		return "", errBracket
	}
	text, zone, hasZone := strings.Cut(name[1:len(name)-1], "%")
	bad := fmt.Errorf("%q is no IPv6 address", clip(name))
	ip, err := netip.ParseAddr(text)
	if err != nil || !ip.Is6() {
		return "", bad
	}
	if !hasZone {
		return "[" + ip.String() + "]", nil
	}
	zone, isEscaped := strings.CutPrefix(zone, "25") // RFC 6874 has "%25" in front of a zone
	zone = unescaped(zone)
	isBad := !isEscaped || zone == "" || strings.ContainsFunc(zone, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`/\[]?#@`, r)
	})
	if isBad {
		return "", bad
	}
	return "[" + ip.WithZone(zone).String() + "]", nil
}

// String returns the URL with an escape for each character that needs one, so that net/url reads
// it.
func (u *URL) String() string {
	var b strings.Builder
	b.Grow(len(u.Scheme) + len(u.Host) + len(u.Path) + len(u.Query) + 8)
	b.WriteString(u.Scheme)
	b.WriteString("://")
	b.WriteString(strings.ReplaceAll(u.Host, "%", "%25"))
	Escape(&b, u.Path, false)
	if u.HasQuery {
		b.WriteByte('?')
		Escape(&b, u.Query, true)
	}
	return b.String()
}

// Escape writes a path or a query with an escape for each byte that needs one. A percent sign that
// begins no escape needs one in a path, which net/url can't parse otherwise.
func Escape(b *strings.Builder, s string, isQuery bool) {
	const digits = "0123456789ABCDEF"
	for i := range len(s) {
		c := s[i]
		isBare := c == '%' && !isQuery && !isEscape(s[i:])
		if !NeedsEscape(c, isQuery) && !isBare {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(digits[c>>4])
		b.WriteByte(digits[c&15])
	}
}

// NeedsEscape reports whether c mustn't stand in a path or a query as it is.
func NeedsEscape(c byte, isQuery bool) bool {
	return c <= ' ' || c >= 0x7f || strings.IndexByte("\"#<>\\^`{|}", c) >= 0 || isQuery && c == '\''
}

// isEscape reports whether s begins with an escape.
func isEscape(s string) bool { return len(s) >= 3 && isHex(s[1]) && isHex(s[2]) }

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}

// Spelled returns raw, of which u is the reading, if net/url reads raw as the same URL, and else
// the String of u.
func (u *URL) Spelled(raw string) string {
	raw = strings.TrimSpace(raw)
	other, err := url.Parse(raw)
	isSame := err == nil && other.Opaque == "" && other.Host != "" && strings.EqualFold(other.Scheme, u.Scheme) &&
		hostname.Key(other.Host) == hostname.Key(u.Host) && !strings.ContainsAny(raw, "\\\t\r\n")
	if isSame {
		return raw
	}
	return u.String()
}

// Redirect returns the URL of a redirect from the URL from to a Location. The error is why browsers
// don't read it as one of http or https.
func Redirect(from *url.URL, location string) (URL, error) {
	text := from.String()
	if strings.HasPrefix(from.Opaque, "/") { // which String doesn't put behind the host
		text = from.Scheme + "://" + from.Host + from.RequestURI()
	}
	base, err := ParseURL(nil, text)
	if err != nil {
		return URL{}, err
	}
	return ParseURL(&base, location)
}

// clip shortens what an error quotes.
func clip(s string) string {
	if len(s) > 100 {
		return s[:100] + "..."
	}
	return s
}
