// Package robots parses robots.txt files and answers, for one crawler, what it may fetch.
//
//	rules := robots.Parse(body).Agent("FooBot")
//	verdict := rules.Test("/private/page?id=1")
//	fmt.Println(verdict.Allowed, verdict.Rule, verdict.Line)
//
// It reads the files as RFC 9309 has it, and where that leaves something open as Google's
// open-source matcher does, with its leniency towards typos, missing colons and byte order
// marks. Options.GoogleExact gives the verdicts and lines of that matcher itself, bit for bit.
//
// Beside rules there is what else sites say to crawlers: Crawl-delay, Request-rate and Visit-time,
// Sitemap, Host and License; and what pages say, by X-Robots-Tag (ParseTags) and <meta
// name="robots"> (ReadMeta, MetaScanner). What a site states about the use of a page, wherever it
// does, is brought together as Preferences. File.Lint is for those who write the files.
//
// Compiled rules take about 1.5 times the length of a usual file, and at most three times that of
// one with very short lines. A check allocates nothing for targets of up to 2,048 bytes. It takes
// 100 to 300 ns with usual files and 2 to 4 µs with 12,900 rules, 3,000 of them wildcards. The cost
// of a hostile file is bounded: the worst of 500 KB known takes 6 ms for a path of 2,000 bytes, 0.8
// ms for one of 60 and 100 ms for one of 64 KB. Parsing never fails, and takes time and memory in
// proportion to the file. The package fetches nothing; package robotscache does.
package robots

// Options choose how a file is read. The zero value is RFC 9309 as Google reads it, both sides
// normalised before they are compared.
type Options struct {
	// GoogleExact compares as Google's open-source matcher does, bit for bit: escapes aren't
	// decoded, and targets not normalised, so that it depends on how they are written;
	// /robots.txt isn't exempt; agents are taken as they are, several of them united. For those
	// who have to predict Googlebot, or to compare.
	GoogleExact bool

	// LenientAgents adds, where no group names the crawler's exact token, looser ways to name it: a
	// pattern ("User-agent: foo*"), then a part of the token ("User-agent: foo" for FooBot, the
	// recommendation of 1994), the longest first, then a name that holds the token ("User-agent:
	// FooBot-Images"), the shortest first; only then "*". The crawler obeys groups of which RFC 9309
	// says that they aren't its own, and "*" no more where there is one. GoogleExact overrides it.
	LenientAgents bool
}

// A Verdict is the answer to one question.
type Verdict struct {
	Allowed bool   // whether the target may be fetched
	Matched bool   // whether a rule decided; false: allowed by default
	Rule    string // the rule as written, "Disallow: /private"; empty if none matched
	Line    int    // its line in the file, from 1; 0 if none
	Group   string // the product token in the file (or "*") whose group decided; empty if no group applies

	// Reason says why where no rule could decide: politeness.Transport.Check sets it while
	// robots.txt can't be had. Test leaves it empty.
	Reason string

	// Preferences are what the site states in robots.txt about the use of the target, so far as it
	// may be fetched. politeness.Transport.Check sets them; Test leaves them empty, as
	// Rules.Preferences tells them.
	Preferences Preferences
}
