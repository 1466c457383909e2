// Package servers crawls real web servers, each with one of the usual protections, and judges the
// crawlers by the servers' own access logs.
//
// A [Server] is nginx, HAProxy, Apache or Varnish with one protection, in a private directory, on a
// free port of a loopback address. A [Crawler] is a preset through package crawl, custom workers
// over a politeness.Transport, or, for comparison, a program without politeness. Each crawler has a
// separate source address, so that no limit counts two of them together. A [Cell] has the figures
// of one crawler on one server. [ReadLog] and [Judge] derive them from the server's log and
// configuration alone, with no code of the library.
//
// Two lists judge a cell. [Always] applies to every cell, and the tests fail without it: no request
// inside a Retry-After, none that robots.txt disallows, delays and slots kept. [Goals] are the aims
// of the library: a limit on refusals, a least share of the allowed rate, no page lost. NOT ALL
// GOALS ARE REACHED TODAY. The tests report the missed ones, and fail for them only under -strict.
//
//	POLITENESS_SERVERS=1 go test .             # the short form: a minute a cell, all side by side
//	POLITENESS_SERVERS=1 go test -v . -strict  # the goals count as well
//	make servers SERVERS=15m                   # the long form, which writes RESULTS.md
package servers
