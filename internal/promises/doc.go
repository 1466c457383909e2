// Package promises holds the tests of what package politeness promises. They know nothing of the
// inside of the library: each of them makes a Transport and looks at what a site sees, what the
// caller gets and what the log says.
//
// A file is named by its promise. The first word is the promise, the second one a part of it:
//
//	pipeline     the stages come in one order, and each request passes all of them
//	rules        no page is fetched that robots.txt or the user's own rules forbid
//	consent      no page is handed over whose purpose the site has reserved
//	budget       no page, byte or second is spent past the limits
//	wire         starts are paced and counted where the request is on the wire
//	refusals     an answer that refuses slows down or blocks its host, and no other
//	retries      a page is asked for again only if the answer may be another one, in its own turn
//	lost         each slot, page, token and body is given back on every path, a panic included
//	state        a restart at any instant forgets no block, delay or copy of robots.txt
//	transparency apart from the refusals, the Transport behaves as its Base does
//	evidence     each decision is on record, and an honest log proves itself
//	status       the status page shows what a host waits for, and why
//	hostile      bad input costs bounded time and memory
//	presets      each preset and each variable of the environment does what its comment says
//	config       New names each mistake in a Config
//	cost         a request costs a bounded number of allocations
//	oneline      a program that got its one line, and nothing else, has all its pages
//	house        the import graph, the modules and their dependencies stay small
//
// promises_test.go plays random crawls against the promises that hold everywhere. bubble_test.go
// has the fake web in virtual time that most tests use, loopback_test.go the benchmark on sockets.
package promises
