package crawl

import "context"

// A Request is a URL that is to be visited.
type Request struct {
	URL      string // normalised, see [Normalize]
	Host     string // key by which its turns are counted: politeness.Transport.HostKey
	From     string // URL of the page with the link to it; empty: a start URL, or Discover's
	Via      string // URL at which the redirects to this one began; empty: none
	Hops     int    // redirects since Via
	Depth    int    // links from a start URL; redirects are none
	Priority int    // higher ones first; 0 is ordinary; clipped to 32 bits
	Tries    int    // refusals so far, see Config.Tries; a Queue need not keep it

	// Data is your own: a label, a date from the list that led here, an ETag. It is in Page.Data and
	// in the Result, after redirects and after a kill too. At most MaxData bytes, of any values; a
	// URL with more is Invalid. Of two Requests for a URL the first one's is kept.
	Data string

	cookie bool // it was asked for again after a redirect to itself, see run.wantsCookie
	asked  bool // it was asked at the end of the crawl whether a rule still refuses it, see aside
	own    bool // its refusals seem to be its own trouble, see refusals
}

// MaxData is the most bytes of Request.Data.
const MaxData = 64 << 10

// A Result is the end of a Request. If the Outcome is Invalid, its URL is as it was found. A URL of
// more than 2,048 bytes is cut.
type Result struct {
	Request
	Outcome Outcome
	Status  int   // of the last answer; 0: there was none
	Err     error // why it isn't Visited: of Visit, the Transport or the network; nil if Outcome and Status say all
}

// A Queue keeps the URLs of a crawl. The one that nil stands for keeps them in memory. Package
// crawl/sqlitequeue keeps them on a disk, so that a crawl goes on where it ended, and crawl/pgqueue
// in Postgres, for many processes; both are modules of their own. Test one of your own with
// crawl/queuetest. Its methods are called one at a time, never during another one, and may take
// their time: a slow Queue slows the crawl, it doesn't break it. An error ends the crawl.
//
// A request is waiting, lent or done. Add makes it waiting, Take lends it, Done ends it, or makes
// it waiting again for the outcome [Left]. A request lent to a process that was killed is waiting
// again for the process that opens the Queue next or, if several share it, for the others after a
// while. The URLs that a page has led to are added before the page is done, and those that
// Discover has found before the URL with which it was called is done. So a kill at any instant
// loses no URL, but a page may be visited twice.
type Queue interface {
	// Add takes in those of reqs whose URL is new. It returns their number, and the number of those
	// for which there is no room. The rest is known.
	Add(ctx context.Context, reqs []Request) (added, noRoom int, err error)

	// Take lends waiting requests of the given hosts, at most n of each, those of the highest
	// Priority first and of these the longest waiting. A host that has none left, or that belongs
	// to another process, yields none.
	Take(ctx context.Context, hosts []string, n int) ([]Request, error)

	// Done ends requests that were lent, or makes them wait again where the Outcome is Left. A host
	// of which nothing is lent any more may go to another process.
	Done(ctx context.Context, results []Result) error

	// Hosts returns at most n of the hosts that have waiting requests and none that is lent to
	// this process. n, which may be 0, is the number of hosts for which there is room. open
	// reports whether other programs may still make requests waiting, or let go of a host.
	// Requests lent to this process don't count. The crawl doesn't end while the Queue is open,
	// asks hosts that don't answer again, and calls Hosts each second. It also does so at its
	// beginning, at its end and, once n hosts were returned, whenever half of the room is free, or
	// some for a second.
	Hosts(ctx context.Context, n int) (hosts []string, open bool, err error)
}

// An Owner is a Queue whose hosts belong to one of several processes for a while. The crawl calls
// its Hosts each second, which may renew a lease. A process that has lost a host asks for no URL
// of that host any more. Its lent requests of the host are given back to Done as Left, uncounted.
type Owner interface {
	Queue

	// Owns reports whether a host of which something is lent still belongs to this process. It is
	// called before each request, from several goroutines at once and during other methods, and
	// mustn't wait.
	Owns(host string) bool
}
