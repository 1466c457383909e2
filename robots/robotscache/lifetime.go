package robotscache

import (
	"net/http"
	"time"

	"github.com/go-politeness/politeness/internal/caching"
)

const (
	minTTL   = 5 * time.Minute     // whatever a server asks for
	maxTTL   = 24 * time.Hour      // RFC 9309, section 2.4
	maxStale = 30 * 24 * time.Hour // RFC 9309, section 2.3.1.4
)

// lifetime returns how long a robots.txt with header h may be used by Cache-Control, within
// [5 min, 24 h]. ok is false without such a directive. Expires doesn't count, because many servers
// send one for every file.
func lifetime(h http.Header) (d time.Duration, ok bool) {
	d, ok = caching.MaxAge(h)
	if !ok {
		return 0, false
	}
	// Without minTTL a slow host with a lifetime of seconds would get a request of robots.txt for each
	// page.
	return min(max(d, minTTL), maxTTL), true
}
