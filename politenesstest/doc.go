// Package politenesstest is a fake web for the unit tests of crawlers. It has sites with pages,
// robots.txt, latencies and failures, behind an [http.RoundTripper]. It records every request, and
// a checker finds the impolite ones.
//
// There are no sockets. Inside a [testing/synctest] bubble all waiting is virtual, so that a crawl
// of a week takes milliseconds and each start has its exact time. Outside of a bubble the same web
// works in real time.
//
//	synctest.Test(t, func(t *testing.T) {
//		web := politenesstest.NewWeb()
//		web.Site("https://example.com").
//			Robots("User-agent: *\nCrawl-delay: 2\nDisallow: /private\n").
//			Page("/", "hello").
//			Latency(50 * time.Millisecond)
//
//		crawl(t.Context(), web) // a crawler whose transport ends at web
//
//		web.Check(t, politenesstest.Rules{Delay: 500 * time.Millisecond, Concurrency: 2})
//	})
//
// A [Site] is scripted by its methods, which can be called again at any time, also while the crawl
// runs. Examples are a robots.txt that changes, a site that is [Site.Down], and a [Site.Storm] of
// 429. A single path is scripted by an [http.Handler]. Beside the ones of net/http
// (http.RedirectHandler and the like) there are [Text], [Status], [Bytes], [Drip], [Slow], [InTurn]
// and [Drop], which can be put into one another and serve in an httptest.Server too:
//
//	site.Handle("/flaky", politenesstest.InTurn(
//		politenesstest.Drop(),                          // a network error,
//		politenesstest.Status(503, "Retry-After", "5"), // an overloaded server,
//		politenesstest.Slow(time.Minute, politenesstest.Text("hello")), // then a slow answer, for ever
//	))
//
// # What is like http.Transport
//
// If an [http.Transport] would refuse a request, a Web refuses it too, and doesn't count it.
// Examples are a request without a host, with another scheme, or with a malformed header. The
// request's body is read and closed on every path. A response has its Request, Date, Content-Type
// and Content-Length. HEAD, 204 and 304 have no body. If the context is done, the exchange ends,
// even in the middle of a body. There are no redirects, no cookies and no decompression. The first
// two are http.Client's, and the third isn't imitated.
//
// Connections are simulated as well. [Site.Dial] delays new ones, free ones are used again,
// [Site.HangUp] has the site close them, and the hooks of net/http/httptrace are called.
// Request.Start is when a request goes out on its connection, which is what the site sees.
//
// # Handlers and goroutines
//
// Handlers run as in a server, each in a separate goroutine. Output is sent when the handler
// flushes, has written 4 KiB, or returns. The request context is done once the client has gone.
// That is when the client's context is done, or when the body was closed or read to its end. Writes
// then fail. The goroutine ends when the handler returns, so a handler that waits should watch its
// request's context, as all of this package do. A bubble doesn't end before a handler that sleeps.
// If a crawler neither reads a body to its end nor closes it, a handler with more than 64 KiB left
// to write blocks. A bubble reports that as a deadlock. The End of such a Request stays zero.
package politenesstest
