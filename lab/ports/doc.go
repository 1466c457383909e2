// Package ports has the examples of colly, written again with package crawl: whoever knows colly
// finds here how each is said. RESULTS.md has their lines beside those of the originals. Each is a
// function in place of a main, so that a test can run it.
package ports

// agent says who crawls in all of them.
const agent = "PortBot/1.0 (+https://example.com/bot; bot@example.com)"
