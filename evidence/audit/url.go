package audit

import (
	"strings"

	"golang.org/x/net/idna"
)

// splitURL splits a URL into its origin and its target, the path and query as they were sent.
func splitURL(u string) (origin, target string) {
	u, _, _ = strings.Cut(u, "#")
	i := strings.Index(u, "://")
	if i < 0 {
		return "", u
	}
	scheme, rest := strings.ToLower(u[:i]), u[i+len("://"):]
	authority := rest
	if j := strings.IndexAny(rest, "/?"); j >= 0 {
		authority, target = rest[:j], rest[j:]
	}
	if !strings.HasPrefix(target, "/") {
		target = "/" + target
	}
	return scheme + "://" + plainAuthority(scheme, authority), target
}

// plainAuthority spells an authority as origins are spelled: in lower case, IDN as punycode,
// without a final dot and without the scheme's default port.
func plainAuthority(scheme, authority string) string {
	name, port := strings.ToLower(authority), ""
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, ']') {
		name, port = name[:i], strings.TrimLeft(name[i+1:], "0")
	}
	if strings.ContainsFunc(name, func(r rune) bool { return r >= 0x80 }) {
		if ascii, err := idna.Lookup.ToASCII(name); err == nil {
			name = ascii
		}
	}
	name = strings.TrimSuffix(name, ".")
	if port == "" || scheme == "http" && port == "80" || scheme == "https" && port == "443" {
		return name
	}
	return name + ":" + port
}
