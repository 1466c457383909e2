// Package ports has the examples of colly, rewritten with package crawl, for readers who know
// colly. RESULTS.md compares their numbers of lines with those of the originals. Each is a function
// in place of a main, so that a test can run it.
package ports

// agent says who crawls in all of them.
const agent = "PortBot/1.0 (+https://example.com/bot; bot@example.com)"
