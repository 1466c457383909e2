// Package limiters crawls behind rate limiters that other people wrote: the middlewares of npm and
// of the Go module proxy, and the servers of Debian. Each one stands before small pages that link
// to each other, all of which exist. Judge is the limiter's own log.
//
// make limiters runs it. RESULTS.md has the table, and what the rows mean.
package limiters
