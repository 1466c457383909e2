package interop

import (
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/cachecontrol/cacheobject"

	"github.com/go-politeness/politeness/internal/caching"
)

// A trait is what a generated header has in which pquerna/cachecontrol reads it otherwise, and why
// ours is right.
type trait string

const (
	hasAge       trait = "RFC 9111, 4.2.3: the Age that an answer has is taken off; the oracle leaves that to its caller"
	mustAsk      trait = "RFC 9111, 5.2.2.4 and 5.2.2.5: no-cache and no-store allow no use; the oracle tells them beside the time"
	badDirective trait = "RFC 9111, 4.2.1: what can't be read isn't there; the oracle reads nothing more of the header"
	badExpires   trait = "RFC 9111, 5.3: an Expires that is no date is in the past; the oracle takes it for none"
	twoLines     trait = "RFC 9110, 5.3: two lines are one list; the oracle reads the first"
	repeated     trait = "RFC 9111, 4.2.1: of two values the more restrictive one is allowed; the oracle takes the first or fails"
	inThePast    trait = "RFC 9111, 4.2: a lifetime isn't below zero"
	anotherDate  trait = "RFC 9110, 5.6.7: a date is in GMT"
)

// A cachingHeader is a header and its traits.
type cachingHeader struct {
	header http.Header
	traits map[trait]bool
}

// pick returns one of the choices.
func pick[T any](r *rand.Rand, choices ...T) T { return choices[r.IntN(len(choices))] }

// generate makes a header, mostly of values as servers send them.
func generate(r *rand.Rand, date time.Time) cachingHeader {
	g := cachingHeader{http.Header{}, map[trait]bool{}}
	var directives []string
	ages := 0
	for range r.IntN(4) {
		directive := pick(r, "public", "private", "must-revalidate", "max-age=3600", "max-age=60", "Max-Age=7200", `max-age="600"`,
			"s-maxage=5", "max-age=0", "no-cache", "no-store", `no-cache="Set-Cookie"`, `ext="a, b"`, "max-age=x", "max-age=-1", "max-age=1.5")
		name, value, _ := strings.Cut(strings.ToLower(directive), "=")
		switch {
		case value == "x" || value == "-1" || value == "1.5":
			g.traits[badDirective] = true
		case name == "max-age":
			ages++
		case directive == "no-cache" || directive == "no-store":
			g.traits[mustAsk] = true
		}
		directives = append(directives, directive)
	}
	if ages > 1 {
		g.traits[repeated] = true
	}
	if len(directives) > 1 && r.IntN(8) == 0 {
		g.traits[twoLines] = true
		g.header.Add("Cache-Control", directives[0])
		directives = directives[1:]
	}
	if len(directives) > 0 {
		g.header.Add("Cache-Control", strings.Join(directives, pick(r, ", ", ",")))
	}
	g.header.Set("Date", date.Format(http.TimeFormat))
	if r.IntN(2) == 0 {
		g.expire(r, date)
	}
	if r.IntN(5) == 0 {
		g.traits[hasAge] = true
		g.header.Set("Age", pick(r, "0", "30", "abc", "99999999999999999999"))
	}
	return g
}

// expire gives g an Expires.
func (g *cachingHeader) expire(r *rand.Rand, date time.Time) {
	after := pick(r, time.Hour, 24*time.Hour, 365*24*time.Hour, -time.Hour)
	expires := date.Add(after)
	switch r.IntN(6) {
	case 0:
		g.traits[badExpires] = true
		g.header.Set("Expires", pick(r, "0", "-1", "never", "Sun, 06 Nov 94 08:49:37 GMT"))
		return
	case 1:
		g.traits[anotherDate] = true
		g.header.Set("Expires", expires.Format("Monday, 02-Jan-06 15:04:05 CET"))
		return
	case 2:
		g.header.Set("Expires", expires.Format("Monday, 02-Jan-06 15:04:05 GMT"))
	case 3:
		g.header.Set("Expires", expires.Format(time.ANSIC))
	default:
		g.header.Set("Expires", expires.Format(http.TimeFormat))
	}
	if after < 0 {
		g.traits[inThePast] = true
	}
}

// TestLifetimeOracle holds how long an answer lasts against pquerna/cachecontrol. They agree on each
// generated header but those with a trait, of which each must show.
func TestLifetimeOracle(t *testing.T) {
	const seed = 61
	r := rand.New(rand.NewPCG(seed, seed))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.com/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	shown := map[trait]int{}
	same := 0
	for range 200_000 {
		date := time.Now().UTC().Truncate(time.Second).Add(time.Duration(r.IntN(7200)-3600) * time.Second)
		g := generate(r, date)
		got, ok := caching.Lifetime(g.header)
		_, expires, _, object, err := cacheobject.UsingRequestResponseWithObject(request, http.StatusOK, g.header, true)
		known := err == nil && !expires.IsZero()
		var want time.Duration
		if known {
			want = expires.Sub(object.NowUTC)
		}
		if known == ok && (!ok || want == got) {
			same++
			continue
		}
		if len(g.traits) == 0 {
			t.Fatalf("Lifetime(%v) = %v, %v; the oracle says %v, %v (%v)", g.header, got, ok, want, known, err)
		}
		// Of several traits nobody knows which one it was.
		if len(g.traits) == 1 {
			for one := range g.traits {
				shown[one]++
			}
		}
	}
	for _, one := range []trait{hasAge, mustAsk, badDirective, badExpires, twoLines, repeated, inThePast, anotherDate} {
		if shown[one] == 0 {
			t.Errorf("no header shows the difference %q", one)
		}
	}
	t.Logf("%d of 200000 alike; alone in a header: %v", same, shown)
}
