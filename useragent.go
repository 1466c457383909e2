package politeness

import (
	"errors"
	"fmt"
	"net/mail"
	"regexp"
	"strings"
)

// version is what follows the product in a strict User-Agent (RFC 9110, section 10.1.5), and
// mailAddress what has to be somewhere in it: an address by itself, not a part of a URL.
var (
	version     = regexp.MustCompile(`^/v?[0-9]`)
	mailAddress = regexp.MustCompile(`(?:^|[\s(<\[;,+]|mailto:)[^\s()<>\[\];,:@/]+@[^\s()<>\[\];,:@/]+\.[^\s()<>\[\];,:@/]+`)
)

// strictAgent reports whether ua holds a version of the product and a mail address.
func strictAgent(ua, product string) bool {
	_, rest, _ := strings.Cut(ua, product)
	return version.MatchString(rest) && mailAddress.MatchString(ua)
}

// checkUserAgent wants a name that robots.txt can address and a contact that a site's owner can
// write to.
func (c *Config) checkUserAgent(product string) error {
	ua := c.UserAgent
	switch {
	case strings.TrimSpace(ua) == "":
		return errors.New(`required, such as "ExampleBot/1.0 (+https://example.com/bot; bot@example.com)"`)
	case strings.ContainsFunc(ua, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return fmt.Errorf("%q holds a control character", ua)
	case product == "":
		return fmt.Errorf("%q doesn't begin with a product token, such as ExampleBot/1.0", ua)
	case cutShort(ua, product):
		return fmt.Errorf("%q is cut short, robots.txt knows the crawler as %q: write the name as one word, its version after "+
			"a slash, then comments, such as ExampleBot/1.0 (+https://example.com/bot; bot@example.com); see RFC 9110, section 10.1.5",
			ua, product)
	case !c.hasContact():
		return fmt.Errorf("%q has no contact: add a URL or a mail address, such as (+https://example.com/bot; bot@example.com)", ua)
	case c.StrictUserAgent && !strictAgent(ua, product):
		return fmt.Errorf("%q must hold a product, a version and a mail address, such as ExampleBot/1.0 (bot@example.com)", ua)
	}
	return nil
}

// hasContact reports whether the UserAgent or From says how to reach the crawler's owner.
func (c *Config) hasContact() bool {
	in := func(mark string) bool { return strings.Contains(c.UserAgent, mark) }
	return in("@") || in("http://") || in("https://") || c.From != "" && checkFrom(c.From) == nil
}

// whole is what follows a product that isn't cut short: a version, a comment, the next part of the
// comment that it is in, a contact, or nothing.
var whole = regexp.MustCompile(`^(?:/| *(?:$|[();])| +[^ ();]*(?:@|://))`)

// cutShort reports whether the product is only the beginning of a name, as "my" is of "my bot 1.0".
// The product stands first, or in a comment: "Mozilla/5.0 (compatible; ExampleBot/1.0; ...)".
func cutShort(ua, product string) bool {
	for before, rest := "", ua; ; {
		upTo, after, found := strings.Cut(rest, product)
		if !found {
			return true
		}
		before, rest = strings.TrimRight(before+upTo, " "), after
		if (before == "" || strings.ContainsAny(before[len(before)-1:], "(;")) && whole.MatchString(rest) {
			return false
		}
		before = product
	}
}

// checkFrom wants a mail address, or nothing.
func checkFrom(from string) error {
	if from == "" {
		return nil
	}
	if _, err := mail.ParseAddress(from); err != nil {
		return fmt.Errorf("%q is not a mail address: %w", from, err)
	}
	return nil
}
