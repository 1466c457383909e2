package interop

import (
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bartventer/httpcache"
	_ "github.com/bartventer/httpcache/store/memcache" // registers memcache://

	"github.com/go-politeness/politeness/internal/caching"
)

// Further traits in which bartventer/httpcache differs.
const (
	capital trait = "RFC 9111, 5.2: Max-Age is max-age; the cache doesn't know it"
	quoted  trait = `RFC 9111, 5.2: max-age="600" counts, too; the cache takes it for none`
	zero    trait = "RFC 9111, 5.3: max-age=0 goes before Expires; the cache goes by Expires"
)

// An origin answers each request with the same header, and counts them.
type origin struct {
	header http.Header
	asked  int
}

func (o *origin) RoundTrip(req *http.Request) (*http.Response, error) {
	o.asked++
	return &http.Response{
		StatusCode:    http.StatusOK,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        o.header.Clone(),
		Body:          io.NopCloser(strings.NewReader("text")),
		ContentLength: 4,
		Request:       req,
	}, nil
}

// isKept reports whether a cache of bartventer/httpcache answers by itself some time after an answer
// with the header.
func isKept(t *testing.T, header http.Header, after time.Duration) bool {
	t.Helper()
	o := &origin{header: header}
	cache := httpcache.NewTransport("memcache://", httpcache.WithUpstream(o))
	get := func() {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.com/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := cache.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	get()
	time.Sleep(after)
	before := o.asked
	get()
	return o.asked == before
}

// TestLifetimeByACache holds how long an answer lasts against what a cache does: it answers by itself
// just before that, and asks just after it. Where the two differ, the header has a trait that the
// cache reads otherwise than the RFC has it.
func TestLifetimeByACache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(62, 62))
		differ := map[trait]int{}
		same := 0
		for range 6000 {
			date := time.Now().UTC().Truncate(time.Second)
			g := generate(r, date)
			life, _ := caching.Lifetime(g.header)
			isBefore := life > 2*time.Second && r.IntN(2) == 0
			after := life + 2*time.Second
			if isBefore {
				after = life - 2*time.Second
			}
			isSame := isKept(t, g.header, after) == isBefore
			if isSame {
				same++
				continue
			}
			directives := strings.Join(g.header["Cache-Control"], ",")
			if strings.Contains(directives, `="600"`) {
				g.traits[quoted] = true
			}
			if strings.Contains(directives, "Max-Age") {
				g.traits[capital] = true
			}
			if strings.Contains(directives, "max-age=0") && g.header.Get("Expires") != "" {
				g.traits[zero] = true
			}
			if len(g.traits) != 1 {
				if len(g.traits) == 0 {
					t.Fatalf("Lifetime(%v) = %v; the cache differs", g.header, life)
				}
				continue
			}
			for one := range g.traits {
				differ[one]++
			}
		}
		for _, one := range []trait{
			capital, quoted, zero, hasAge, badDirective, anotherDate, repeated, twoLines,
		} {
			if differ[one] == 0 {
				t.Errorf("no header shows the difference %q", one)
			}
		}
		t.Logf("%d of 6000 alike; alone in a header: %v", same, differ)
	})
}
