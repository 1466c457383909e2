// Package useragent checks the names that crawlers give themselves, and puts them on requests.
package useragent

import (
	"errors"
	"fmt"
	"net/http"
	"net/mail"
	"regexp"
	"strings"
)

// version is what follows the product in a strict User-Agent (RFC 9110, section 10.1.5), and
// mailAddress what has to be somewhere in it: an address by itself, not a part of a URL.
var (
	version     = regexp.MustCompile(`^/v?[0-9]`)
	mailAddress = regexp.MustCompile(`(?:^|[\s(<\[;,+]|mailto:)` + mailPart + `@` + mailPart + `\.` + mailPart)
)

// mailPart is a part of a mail address: what delimits it in a User-Agent isn't in it.
const mailPart = `[^\s()<>\[\];,:@/]+`

// strictAgent reports whether ua holds a version of the product and a mail address.
func strictAgent(ua, product string) bool {
	_, rest, _ := strings.Cut(ua, product)
	return version.MatchString(rest) && mailAddress.MatchString(ua)
}

// Check refuses ua unless robots.txt can address it, by product, and a site's owner can write to a
// contact in it, or to from. A strict check wants a version and a mail address in ua itself.
func Check(ua, product, from string, strict bool) error {
	switch {
	case strings.TrimSpace(ua) == "":
		return errors.New(`required, such as "ExampleBot/1.0 (+https://example.com/bot; bot@example.com)"`)
	case strings.ContainsFunc(ua, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return fmt.Errorf("%q contains a control character", ua)
	case product == "":
		return fmt.Errorf("%q doesn't begin with a product token, such as ExampleBot/1.0", ua)
	case cutShort(ua, product):
		return fmt.Errorf("%q is cut short, robots.txt knows the crawler as %q: "+
			"write the name as one word, its version after a slash, then comments, "+
			"such as ExampleBot/1.0 (+https://example.com/bot; bot@example.com); see RFC 9110, section 10.1.5",
			ua, product)
	case !hasContact(ua, from):
		return fmt.Errorf("%q has no contact: "+
			"add a URL or a mail address, such as (+https://example.com/bot; bot@example.com)", ua)
	case product == "Mozilla":
		return fmt.Errorf("%q names no crawler: "+
			"begin with its name, or write (compatible; ExampleBot/1.0; ...) behind Mozilla/5.0", ua)
	case strict && !strictAgent(ua, product):
		return fmt.Errorf("%q must contain a product, a version and a mail address, "+
			"such as ExampleBot/1.0 (bot@example.com)", ua)
	}
	return nil
}

// hasContact reports whether ua or from has an address of the crawler's owner.
func hasContact(ua, from string) bool {
	for _, mark := range []string{"@", "http://", "https://"} {
		if strings.Contains(ua, mark) {
			return true
		}
	}
	return from != "" && CheckFrom(from) == nil
}

// whole is what follows a product that isn't cut short: a version, a comment, the next part of the
// comment that it is in, a contact, or nothing.
var whole = regexp.MustCompile(`^(?:/| *(?:$|[();])| +[^ ();]*(?:@|://))`)

// cutShort reports whether the product is only the beginning of a name, as "my" is of "my bot 1.0".
// The product stands first, or in a comment: "Mozilla/5.0 (compatible; ExampleBot/1.0; ...)".
func cutShort(ua, product string) bool {
	before := "" // of the place that is looked at; only its last letter counts
	rest := ua
	for {
		upTo, after, found := strings.Cut(rest, product)
		if !found {
			return true
		}
		before = strings.TrimRight(before+upTo, " ")
		begins := before == "" || strings.ContainsAny(before[len(before)-1:], "(;")
		if begins && whole.MatchString(after) {
			return false
		}
		before = product
		rest = after
	}
}

// CheckFrom refuses what is neither empty nor a mail address.
func CheckFrom(from string) error {
	if from == "" {
		return nil
	}
	if _, err := mail.ParseAddress(from); err != nil {
		return fmt.Errorf("%q is not a mail address: %w", from, err)
	}
	return nil
}

// Sign returns a copy of h with the given values of User-Agent and, unless it is nil, From. It
// returns nil where h has them already. The map is a new one, since many a transport writes to it.
func Sign(h http.Header, agent, from []string) http.Header {
	ua := h["User-Agent"]
	if from == nil && len(ua) == 1 && ua[0] == agent[0] && !anyRespelled(h) {
		return nil
	}
	header := make(http.Header, len(h)+2)
	for k, v := range h {
		if !respelled(k) {
			header[k] = v[:len(v):len(v)]
		}
	}
	header["User-Agent"] = agent[:1:1]
	if from != nil {
		header["From"] = from[:1:1]
	}
	return header
}

// respelled reports whether name is User-Agent in another spelling, which would be sent beside
// ours.
func respelled(name string) bool {
	return name != "User-Agent" && strings.EqualFold(name, "User-Agent")
}

func anyRespelled(h http.Header) bool {
	if len(h) == 1 {
		return false // the one that is ours
	}
	for name := range h {
		if respelled(name) {
			return true
		}
	}
	return false
}
