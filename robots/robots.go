// Package robots parses robots.txt files and answers, for one crawler, what it may fetch.
package robots

// Options choose how a file is read. The zero value is RFC 9309 as Google reads it.
type Options struct {
	// GoogleExact compares as Google's open-source matcher does, bit for bit: no
	// decoding of escapes, no exemption of /robots.txt.
	GoogleExact bool
	// LenientAgents adds older conventions of naming a crawler, in the order exact token, pattern, substring, *.
	LenientAgents bool
}

// A Verdict is the answer to one question.
type Verdict struct {
	Allowed bool
	Matched bool   // whether a rule decided; false: allowed by default
	Rule    string // the rule as written, "Disallow: /private"; empty if none matched
	Line    int    // its line in the file, from 1; 0 if none
	Group   string // the product token (or "*") whose group decided; empty if no group applies
	// Reason says why where no rule could decide: politeness.Transport.Check sets it
	// while robots.txt can't be had. Test leaves it empty.
	Reason string
}
