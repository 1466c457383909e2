// Package limiters crawls behind rate limiters that other people wrote: the middlewares of npm and
// of the Go module proxy, and the servers of Debian. Each one stands before small pages that link
// to each other, all of which exist. The limiter's own log judges the crawl.
//
// make limiters runs it. RESULTS.md has the table and explains its rows.
package limiters
