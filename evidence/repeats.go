package evidence

import (
	"fmt"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/go-politeness/politeness/internal/printable"
)

const (
	maxRepeats   = 4096           // number of URLs that are counted
	repeatWindow = 24 * time.Hour // time in which they are
)

// An askedURL is a URL that a Transport asks for.
type askedURL struct{ transport, url string }

// An asking is how often a URL was asked for within repeatWindow.
type asking struct {
	since time.Time // of the first time
	times int
	same  int    // answers that were the response before once more
	etag  string // of the last answer that was a page; empty: it had none
	bytes int64  // of that
}

// repeats counts the requests for each URL.
type repeats struct {
	urls *simplelru.LRU[askedURL, *asking]
}

func newRepeats() repeats {
	urls, _ := simplelru.NewLRU[askedURL, *asking](maxRepeats, nil) // an error is for 0 and less
	return repeats{urls}
}

// count counts the response d. At the 10th, the 100th and so on for a URL it returns the line about
// it.
func (r repeats) count(d *Decision) string {
	// Tries and redirects are no repeats, because no caller asked for them.
	isGet := d.Method == "" || d.Method == "GET"
	if d.Type != Fetched || d.RobotsTxt || !isGet || d.Attempt > 1 || d.Redirects > 0 {
		return ""
	}
	key := askedURL{d.Transport, d.URL}
	a, ok := r.urls.Get(key)
	if !ok || d.Time.Sub(a.since) > repeatWindow {
		a = &asking{since: d.Time}
		r.urls.Add(key, a)
	}
	a.add(d)
	if !isRound(a.times) {
		return ""
	}
	line := fmt.Sprintf("%s%-13s %d times in %s: %s", d.Time.Format("15:04:05 "), "asked",
		a.times, printable.Duration(d.Time.Sub(a.since)), printable.Text(d.URL))
	if a.same > 0 {
		line += fmt.Sprintf("; %d responses were the same (304, or their ETag and bytes)", a.same)
	}
	return line
}

// add counts the response d.
func (a *asking) add(d *Decision) {
	a.times++
	isUnchanged := d.Status == 304
	isSame := d.Status == 200 && d.ETag != "" && d.ETag == a.etag && d.Bytes == a.bytes
	if isUnchanged || isSame {
		a.same++
	}
	if d.Status == 200 {
		a.etag = d.ETag
		a.bytes = d.Bytes
	}
}

// isRound reports whether n is 10, 100, 1000 and so on.
func isRound(n int) bool {
	for n%10 == 0 && n > 10 {
		n /= 10
	}
	return n == 10
}
