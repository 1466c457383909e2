// Package robots parses robots.txt files and decides which URLs a crawler may fetch.
//
//	rules := robots.Parse(body).Agent("FooBot")
//	verdict := rules.Test("/private/page?id=1")
//	fmt.Println(verdict.Allowed, verdict.Rule, verdict.Line)
//
// It follows RFC 9309 and, if that leaves a choice, Google's open-source matcher, with its leniency
// towards typos, missing colons and byte order marks. With Options.GoogleExact verdicts and lines
// are those of that matcher, bit for bit.
//
// The package also reads the other lines of the file (Crawl-delay, Request-rate and Visit-time,
// Sitemap, Host and License). It reads the directives of pages in X-Robots-Tag (ParseTags) and
// <meta name="robots"> (ReadMeta, MetaScanner). Preferences merges all statements of a site about
// the use of a page. File.Lint finds mistakes in a file.
//
// Parsing never fails. It takes time and memory in proportion to the file. The package fetches
// nothing. Use package robotscache to fetch files.
//
// Compiled rules usually need about 1.5 times the bytes of the file. If the lines are very short,
// the rules need three times the bytes. If a target has up to 2,048 bytes of ASCII, a check
// allocates nothing. A check takes 100 to 300 ns with usual files. With 12,900 rules, 3,000 of them
// with wildcards, a check takes 2 to 4 µs. The cost of a hostile file is bounded. These are the
// times of a check with the worst known file of 500 KB:
//
//   - 2.5 ms for a path of 60 bytes,
//   - 20 ms for a path of 2,000 bytes,
//   - 200 ms for a path of 64 KB.
//
// Preferences take as long.
package robots

// Options choose how a file is read. The zero value stands for RFC 9309 as Google reads it. Rules
// and targets are both normalised before they are compared.
type Options struct {
	// GoogleExact gives the same verdicts as Google's open-source matcher. Use it to predict
	// Googlebot, and for comparisons. Escapes aren't decoded, and targets aren't normalised. So a
	// verdict depends on the spelling of the target. Even /robots.txt can be disallowed. The groups of
	// several agents are merged.
	GoogleExact bool

	// AgentPatterns adds patterns of the crawler's token, such as foo* for FooBot, if no group
	// names the exact token. The longest pattern comes first, and the group "*" last. The crawler
	// then obeys such a group instead of "*", although by RFC 9309 the group isn't its own.
	// GoogleExact overrides it.
	AgentPatterns bool

	// LenientAgents is AgentPatterns with two more matches, after all patterns. One is a name that
	// is a part of the token, such as foo (the recommendation of 1994). Of several such names the
	// longest is taken. The other is a name that contains the token, such as FooBot-Images. Of
	// several such names the shortest is taken.
	LenientAgents bool
}

// A Verdict says whether a crawler may fetch one target, and by which rule.
type Verdict struct {
	Allowed bool   // whether the target may be fetched
	Matched bool   // whether a rule decided, false if the target is allowed by default
	Rule    string // the rule as written, with its key, empty if there is none, see Rules.Test
	Line    int    // its line in the file, from 1, 0 if none
	Group   string // the product token in the file (or "*") whose group decided, empty if no group applies

	// Reason is why no rule could decide. politeness.Transport.Check sets it while robots.txt is
	// unreachable. Test leaves it empty.
	Reason string

	// Preferences are the site's statements in robots.txt about the use of an allowed target.
	// politeness.Transport.Check sets them. Test leaves them empty. See Rules.Preferences.
	Preferences Preferences
}
