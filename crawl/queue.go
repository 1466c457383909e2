package crawl

import (
	"context"
	"fmt"
	"time"

	"github.com/go-politeness/politeness/revisit"
)

// A Request is a URL that is to be visited. Give it to Page.AddRequest, or yield it from
// Config.Discover.
type Request struct {
	URL      string // normalised, see [Normalize]
	Host     string // key of its host, by politeness.Transport.HostKey
	From     string // URL of the page with the link to it, empty for a start URL or Discover's
	Via      string // URL at which the redirects to this one began, or empty
	Hops     int    // redirects since Via
	Depth    int    // links from a start URL, without redirects
	Priority int    // higher ones first, by default 0, clipped to 32 bits
	Tries    int    // refusals so far (see Config.Tries); a Queue need not keep this field

	// Data is for you, such as a label, a date from the list that led here, or an ETag. It is in
	// Page.Data and in the Result, after redirects and after a kill too. It may have any bytes, at
	// most MaxData of them. A URL with more is Invalid. Of two Requests for a URL the first one's
	// is kept.
	Data string

	// Later is the level to which the request is postponed, from 0 (not postponed) to 3. See
	// Config.Traps. Mark is the crawl's number for the reason. URLs of a host that are postponed
	// for the same reason have the same Mark. The crawl sets both for a Postponer. Leave them as
	// they are.
	Later int
	Mark  uint32

	// State is the crawl's memory of the page for the next fetch, some 40 bytes. A Recurring keeps
	// the State of the last Done with the URL, unchanged. It passes the State to Hinted, and uses
	// it for nothing else. Only the crawl sets it.
	State string

	// Modified is when the page was modified, as a sitemap or feed says. Set it in Config.Discover.
	// A Recurring makes a known URL due if it was modified after its last visit. See Hinted. A
	// Queue doesn't keep Modified. Zero means that the time isn't known.
	Modified time.Time

	back   bool   // it was taken before, so it is the next one of its host
	number uint64 // by which memory keeps its place; 0: it has none yet
	cookie bool   // it was asked for again after a redirect to itself, see run.wantsCookie
	asked  bool   // it was asked at the end of the crawl whether a rule still refuses it, see aside
	own    bool   // only this URL seems to fail, not its host, see refusals
	single kind   // of its answer, if that was a single one between pages that were served
}

// MaxData is the most bytes of Request.Data.
const MaxData = 64 << 10

// A Result is the end of a Request. If the Outcome is Invalid, its URL is as it was found. A URL of
// more than 2,048 bytes is cut. Config.Done gets it, and a Queue stores it.
type Result struct {
	Request
	Outcome Outcome
	Status  int   // of the last response, 0 without a response
	Err     error // why it isn't Visited, nil if Outcome and Status show all

	// Why is the reason, as text for people, for which the URL was postponed (Request.Later). It is
	// empty if the URL wasn't postponed.
	Why string

	// Change is the change since the last fetch of the page, as Page.Change, or revisit.Same or
	// Moved.
	Change revisit.Change
	// If Change is set, Since is the time of the fetch before this one. At the first fetch Since is
	// zero. To is the URL to which this URL redirects, or empty.
	Since time.Time
	To    string

	// Again is when the URL is due again. A Recurring lends the URL from that time on. If Again is
	// zero, the URL is due only by a hint.
	Again time.Time

	waits bool // Left, and it is still a URL of this Run: it was given back, postponed
}

// A Queue keeps the URLs of a crawl. If Config.Queue is nil, a Queue in memory keeps them. Package
// crawl/sqlitequeue keeps them on a disk, so that a crawl continues where it ended. Package
// crawl/pgqueue keeps them in Postgres, for many processes. Both are separate modules. Test one of
// your own with crawl/queuetest. Its methods are called one at a time, never during another one,
// and may take long. A slow Queue slows the crawl, but doesn't break it. An error ends the crawl.
//
// A request is waiting, lent or done. Add makes it waiting, Take lends it, Done ends it, or makes
// it waiting again for the outcome [Left]. A request lent to a process that was killed is waiting
// again for the process that opens the Queue next or, if several share it, for the others after a
// while. The crawl calls Add for all links of a page before it calls Done for the page. Likewise it
// adds all URLs of Discover before it calls Done for the URL with which Discover was called. So a
// kill at any instant loses no URL, but a page may be visited twice.
type Queue interface {
	// Add makes the new URLs of reqs waiting. It returns the number of URLs added, and the number of
	// new URLs for which there is no room. All other URLs of reqs are known already.
	Add(ctx context.Context, reqs []Request) (added, noRoom int, err error)

	// Take lends waiting requests of the given hosts, at most n of each, those of the highest
	// Priority first and of these the longest waiting. A host that has none left, or that belongs
	// to another process, yields none.
	Take(ctx context.Context, hosts []string, n int) ([]Request, error)

	// Done ends requests that were lent, or makes them wait again if the Outcome is Left. A host of
	// which nothing is lent any more may go to another process.
	Done(ctx context.Context, results []Result) error

	// Hosts returns hosts that have waiting requests, but no request that is lent to this process.
	// It returns at most n hosts. The crawl has room for n hosts, and n may be 0. The result open
	// reports whether another process may still add a request or release a host. Requests lent to
	// this process don't make open true.
	//
	// The crawl calls Hosts at its beginning and at its end. While the Queue is open, the crawl
	// doesn't end. In that time it calls Hosts each second, and continues to try hosts that don't
	// respond. If n hosts were returned, the crawl calls Hosts again when half of its room is free, or
	// when a part of its room has been free for a second.
	Hosts(ctx context.Context, n int) (hosts []string, open bool, err error)
}

// A Postponer is a Queue that keeps how far requests are postponed, as Config.Traps wants it. If
// the Queue isn't a Postponer, nothing is postponed. Implement it if you write a Queue for crawls
// of sites that you don't know. Three methods of a Postponer do more than those of a Queue:
//
//   - Add keeps Later and Mark of a request. If room is short, it may first reject requests whose
//     Later is above 0.
//   - Take lends requests by Priority, the highest first. Of equal ones it lends the lowest Later
//     first, and then the longest waiting.
//   - Done stores Later and Mark of a request that is [Left]. The request keeps its place by the
//     time of waiting.
type Postponer interface {
	Queue

	// TakeLater is Take for one host. It lends only requests with Later >= least.
	TakeLater(ctx context.Context, host string, least, n int) ([]Request, error)

	// Lift sets Request.Later to the argument later. It does so for the waiting requests of host that
	// have this mark and a higher Later. Each request keeps its Mark, and its place by the time of
	// waiting. Requests that are lent may be lifted or not. For Mark 0 Lift does nothing.
	//
	// A Queue on a disk lifts some thousand requests, and reports more if there are others. The crawl
	// then calls Lift again, with other calls in between.
	Lift(ctx context.Context, host string, mark uint32, later int) (more bool, err error)

	// Postponed counts the waiting requests with a Later above 0, of all hosts. It returns their
	// number, and the n largest groups of one host and Mark, the largest first. Those that are lent
	// may count or not. Postponed may take long. If it does, the crawl calls it less often.
	Postponed(ctx context.Context, n int) (largest []PostponedGroup, all int, err error)
}

// A PostponedGroup is the postponed requests of a host that have one Mark. A Postponer returns it.
type PostponedGroup struct {
	Host   string
	Mark   uint32
	URL    string // of one of them, from which the crawl makes the reason in Summary.Postponed
	Number int
}

// A Recurring is a Queue that lends done URLs again, when they are due. Take returns only URLs that
// are due by time.Now. Hosts returns only hosts that have such a URL. A URL of Add is due
// immediately. Of URLs with equal Priority, Take lends the URL first that has been due for longest.
//
// Done with a Result whose Again isn't zero makes the URL wait until then, and keeps its State. If
// Again is zero, the URL has no due time, but the State is kept for a later hint. If Add gets a
// known URL that is neither lent nor due, and its Request has Modified, Add calls Hinted. If ok is
// true, Add makes the URL due at the returned time, unless it is due earlier. Add doesn't count
// that URL as added.
//
// Implement it for a Queue that keeps URLs for long. The Queue in memory is one, and so are those
// of crawl/sqlitequeue and crawl/pgqueue.
type Recurring interface {
	Queue

	// Next returns when the next URL is due, zero if there is none.
	Next(ctx context.Context) (time.Time, error)
}

// Hinted is for implementers of Recurring. A sitemap may say that a page was modified after the
// crawl's last visit. Hinted then returns the time from which the URL is to be fetched again. See
// revisit.Page.Hinted. The argument state is that of Result.State, and modified is that of the
// sitemap. If the hint changes nothing, ok is false. Recurring says when Add calls Hinted.
func Hinted(state string, modified time.Time) (due time.Time, ok bool) {
	if state == "" || modified.IsZero() {
		return time.Time{}, false
	}
	page, err := pageOf(state)
	if err != nil {
		return time.Time{}, false // it is asked for when it is due
	}
	return page.Hinted(modified)
}

// LentState is for implementers of Recurring. It returns the Request.State with which Take lends a
// URL, from the kept State and the time at which the URL was due. Call it in Take if a URL can be
// due earlier than its Result.Again for another reason than Hinted. Such a reason is a method of
// the Queue that makes URLs due, as Again of sqlitequeue does. Without LentState, such a fetch
// counts as a wrong hint of a sitemap if the page is unchanged. After two of them the crawl would
// ignore the page's hints. Call LentState too if processes with different clocks share the Queue.
func LentState(state string, due time.Time) string {
	page, err := pageOf(state)
	if err != nil || state == "" || isHinted(page, due) {
		return state
	}
	// A fetch that isn't before Due is caused by no hint.
	page.Due = page.Earliest
	return stateOf(page)
}

// isHinted reports whether a hint has made a page due at the given time: Hinted returns Earliest,
// in whole seconds.
func isHinted(page revisit.Page, due time.Time) bool {
	return due.Sub(page.Earliest).Abs() < time.Second
}

// pageOf returns the page that a Request.State remembers. A state that can't be read is an error,
// and the zero Page.
func pageOf(state string) (revisit.Page, error) {
	var page revisit.Page
	if state == "" {
		return page, nil
	}
	if err := page.UnmarshalBinary([]byte(state)); err != nil {
		return revisit.Page{}, fmt.Errorf("crawl: Request.State: %w", err)
	}
	return page, nil
}

// stateOf returns the Request.State that remembers a page.
func stateOf(page revisit.Page) string {
	state, _ := page.AppendBinary(nil) // the error is always nil
	return string(state)
}

// An Owner is a Queue whose hosts belong to one of several processes for a while. Implement it for
// a Queue that several processes share. See Queue for lent and done. The crawl calls the Hosts of
// an Owner each second. Hosts may use the call to renew the process's claim to its hosts. If a
// process has lost a host, it requests no further URL of the host. Requests of the host that are
// still lent to the process go to Done as Left, and the Summary leaves them out.
type Owner interface {
	Queue

	// Owns reports whether a host still belongs to this process. The crawl asks only about hosts
	// whose requests are lent to the process. Owns is called before each request, from several
	// goroutines, and during other methods. It must not wait.
	Owns(host string) bool
}
