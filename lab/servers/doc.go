// Package servers crawls real web servers, each with one of the protections that people switch on,
// and judges the crawlers by the servers' own access logs.
//
// A [Server] is nginx, HAProxy, Apache or Varnish with one protection, in a private directory, on a
// free port of a loopback address. A [Crawler] is a preset through package crawl, workers of one's
// own over a politeness.Transport, or a program that knows nothing of politeness, for comparison.
// Each crawler has a source address of its own, so that no limit counts two of them together. A
// [Cell] is what one server's log has on one crawler; [ReadLog] and [Judge] derive it, from the log
// and the server's configuration alone, with nothing of the library.
//
// Two tables hang on it. [Always] is what holds in every cell and fails the tests: no request
// inside a Retry-After, none that robots.txt disallows, delays, slots. [Goals] is what the
// library is to reach: most refusals, least share of the allowed rate, no page lost. NOT ALL GOALS
// ARE REACHED TODAY: the tests report those that are missed, and fail for them under -strict only.
//
//	POLITENESS_SERVERS=1 go test .             # the short form: a minute a cell, all side by side
//	POLITENESS_SERVERS=1 go test -v . -strict  # the goals count as well
//	make servers SERVERS=15m                   # the long form, which writes docs/real-servers.md
package servers
