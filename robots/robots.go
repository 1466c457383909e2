// Package robots parses robots.txt files and answers, for one crawler, what it may fetch.
package robots

import "time"

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
}

// A File is a parsed robots.txt. It is immutable.
type File struct{}

// Rules are a file's rules for one crawler, compiled. They are immutable and
// safe for concurrent use.
type Rules struct{}

func Parse(body []byte) *File                      { return ParseWith(body, Options{}) }
func ParseWith(body []byte, o Options) *File       { return &File{} }
func (f *File) Agent(product ...string) *Rules     { return &Rules{} }
func (f *File) Sitemaps() []string                 { return nil }
func (r *Rules) Test(target string) Verdict        { return Verdict{Allowed: true} }
func (r *Rules) CrawlDelay() (time.Duration, bool) { return 0, false }

// Floor reports the gap between two starts that the file asks for at time t: the longer of
// crawl-delay and request-rate in force; 0 for none.
func (r *Rules) Floor(t time.Time) time.Duration { return 0 }

// ProductToken extracts the product token of a User-Agent header.
func ProductToken(userAgent string) string { return "" }
