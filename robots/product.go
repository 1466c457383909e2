package robots

import "strings"

// ProductToken extracts the product token of a User-Agent header, the name of the crawler in
// robots.txt files. Use it to find the token that a site's owner has to write into robots.txt.
//
//	"AEO-Audit/1.0 (+https://example.com/bot)"                   -> "AEO-Audit"
//	"MJ12bot/v1.4.8 (http://mj12bot.com/)"                       -> "MJ12bot"
//	"Mozilla/5.0 (compatible; Googlebot/2.1; +http://goo.gl/b)"  -> "Googlebot"
//
// The product token is the first token of the header (RFC 9110 section 5.6.2). It may have digits
// and dots. If the first token is Mozilla, as that of a browser, the product token is the first
// token after "compatible;" that isn't an address. If the header doesn't begin with a token,
// ProductToken returns "".
func ProductToken(userAgent string) string {
	userAgent = trim(userAgent)
	token := leading(userAgent, isTokenChar)
	if token != "Mozilla" {
		return token
	}
	// Each comment ends with ")". The name stands in the first one that has "compatible;".
	for comment := range strings.SplitSeq(userAgent, ")") {
		compatible := false
		for part := range strings.SplitSeq(comment, ";") {
			name := leading(trim(part), isTokenChar)
			// A plus is before the address of the crawler's page.
			if compatible && name != "" && name[0] != '+' {
				return name
			}
			compatible = compatible || isCompatible(part)
		}
	}
	return token
}

// isCompatible reports whether s ends with the word "compatible".
func isCompatible(s string) bool {
	const word = "compatible"
	i := len(s) - len(word)
	return i >= 0 && equalFold(s[i:], word) && (i == 0 || !isTokenChar(s[i-1]))
}

// leading returns the longest prefix of s of bytes that are in.
func leading(s string, in func(byte) bool) string {
	for i := range len(s) {
		if !in(s[i]) {
			return s[:i]
		}
	}
	return s
}

// isNameChar reports whether c can be part of a product token of RFC 9309: [A-Za-z_-].
func isNameChar(c byte) bool {
	lower := c | 0x20
	return ('a' <= lower && lower <= 'z') || c == '-' || c == '_'
}

// isTokenChar reports whether c is a tchar of RFC 9110 section 5.6.2.
func isTokenChar(c byte) bool {
	return isNameChar(c) || isDigit(c) || strings.IndexByte("!#$%&'*+.^`|~", c) >= 0
}

// isGlobal reports whether the value of a User-agent line stands for every crawler: a star,
// alone or followed by white space and anything.
func isGlobal(value string) bool {
	return value != "" && value[0] == '*' && (len(value) == 1 || isSpace(value[1]))
}
