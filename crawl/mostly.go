package crawl

import (
	"fmt"
	"net/http"
)

// A tally finds the status of most responses of a host. It has one status at a time, and changes it
// when as many responses had others. So it needs no map for each host.
type tally struct {
	status int
	lead   int // answers of status, less those of others, since status is held
	alike  int // answers of status since then
	all    int
	warned bool // once is enough
}

// The number of responses after which a verdict about a host is possible. At the usual pace this
// takes less than a minute. A host that seems to have banned the crawler gets no requests for a
// while.
const (
	enoughMixed = 10
	enoughAlike = 5 // if all of them are alike
)

func (t *tally) add(status int) {
	t.all++
	switch {
	case status == t.status:
		t.lead++
		t.alike++
	case t.lead == 0:
		t.status = status
		t.lead = 1
		t.alike = 1
	default:
		t.lead--
	}
}

// warning returns a sentence for the user, once, if most answers of the host named key are alike
// and no pages.
func (t *tally) warning(key string) string {
	isPage := t.status == http.StatusOK || t.status == http.StatusNotModified
	areAll := t.alike == t.all && t.all >= enoughAlike
	areMost := 2*t.alike > t.all && t.all >= enoughMixed
	if t.warned || isPage || !areAll && !areMost {
		return ""
	}
	t.warned = true
	const text = "%s has answered %d to %d of its first %d requests, so it may refuse you. Look at such a page."
	return fmt.Sprintf(text, key, t.status, t.alike, t.all)
}
