package rules

import (
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/hostlimit"
)

// The longest delay and the longest ceiling don't overflow.
func TestNoDelayIsLongerThanTheLongest(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for _, a := range []hostlimit.Adaptive{hostlimit.Learned, hostlimit.Squared, hostlimit.Proportional(1), hostlimit.Proportional(2), hostlimit.Throttle(1), hostlimit.Proportional(math.MaxFloat64)} {
		l := hostlimit.Delay{Min: time.Second, Ceiling: math.MaxInt64, Adaptive: a}
		if got := Adapt(&l, year, 0, &hostlimit.Outcome{Status: 503, Latency: math.MaxInt64}); a != hostlimit.Learned && got < 146*year {
			t.Errorf("%v: a latency of 292 years made it %v", a, got)
		}
		var s Refusals
		if s.teach(&Turn{Delay: &l, Gap: 250 * year}, half); a == hostlimit.Learned && s.Learned != math.MaxInt64 {
			t.Errorf("%v: a refusal of a host that is asked every 250 years taught %v", a, s.Learned)
		}
	}
}

// TestRefusalsTeachAHostWithoutADelay: DangerouslyNone is no Fixed.
func TestRefusalsTeachAHostWithoutADelay(t *testing.T) {
	var s Refusals
	last := time.Duration(0)
	for range 3 {
		s.teach(&Turn{Delay: &hostlimit.Delay{Ceiling: time.Minute}, Gap: s.Learned, Since: time.Hour}, half)
		if s.Learned <= last {
			t.Errorf("lesson %d: %v after %v", s.Lessons, s.Learned, last)
		}
		last = s.Learned
	}
}

// TestWhatALessonTeaches is the larger of 1.5 times the delay in force and the time per page served
// since the last one, at most four times the delay; a ban twice the delay.
func TestWhatALessonTeaches(t *testing.T) {
	l := hostlimit.Delay{Min: 200 * time.Millisecond, Max: 200 * time.Millisecond, Ceiling: time.Minute}
	for _, c := range []struct {
		part           time.Duration
		inForce, since time.Duration
		served         int
		want           time.Duration
	}{
		{half, 0, 0, 0, 300 * time.Millisecond},
		{whole, 0, 0, 0, 400 * time.Millisecond},
		{half, time.Second, time.Second, 10, 1500 * time.Millisecond},
		{half, time.Second, 20 * time.Second, 10, 2 * time.Second},
		{half, time.Second, time.Minute, 10, 4 * time.Second},
		{half, time.Second, time.Hour, 0, 4 * time.Second},
		{half, 50 * time.Second, 0, 1, time.Minute},
		{half, math.MaxInt64, math.MaxInt64, 1, time.Minute},
	} {
		var s Refusals
		if s.teach(&Turn{Delay: &l, Gap: c.inForce, Since: c.since, Served: c.served}, c.part); s.Learned != c.want || s.Lessons != 1 {
			t.Errorf("%v in force, %d pages in %v: %v, want %v", c.inForce, c.served, c.since, s.Learned, c.want)
		}
	}
}

// TestALessonDoesntDependOnLuck: of a delay that is drawn at random it lengthens the mean, whatever
// was drawn last.
func TestALessonDoesntDependOnLuck(t *testing.T) {
	l := hostlimit.Delay{Min: 200 * time.Millisecond, Max: 600 * time.Millisecond, Ceiling: time.Minute}
	for drawn, want := range map[time.Duration]time.Duration{
		200 * time.Millisecond: 600 * time.Millisecond, 600 * time.Millisecond: 600 * time.Millisecond,
		2 * time.Second: 3 * time.Second, // a crawl-delay
	} {
		var s Refusals
		if s.teach(&Turn{Delay: &l, Gap: drawn, Served: 1}, half); s.Learned != want {
			t.Errorf("after a delay of %v: %v, want %v", drawn, s.Learned, want)
		}
	}
}

// TestRetryAfterIsNoPace: how long a host wants to be left alone isn't the time that it takes for a
// page.
func TestRetryAfterIsNoPace(t *testing.T) {
	r, err := New(hostlimit.Config{Delay: hostlimit.Delay{Min: 200 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	l, _ := r.Limits("example.com")
	var s Refusals
	turn := Turn{Delay: &l.Delay, Gap: 200 * time.Millisecond, Probe: true, Served: 10}
	for range 2 { // refused, away for 10 s, served, and refused again
		turn.Number, turn.Last = turn.Number+1, turn.Number+1
		s.Observe(r, hostlimit.Outcome{Status: 429, RetryAfter: 10 * time.Second}, turn)
		turn.Number, turn.Now, turn.Since, turn.Gap = turn.Number+1, turn.Now+10*time.Second, 10*time.Second, s.Learned
		s.Observe(r, hostlimit.Outcome{Status: 200}, turn)
	}
	if s.Learned != 450*time.Millisecond {
		t.Errorf("two refusals have taught %v, want 450ms", s.Learned)
	}
}

// TestABanByTheMinuteTeachesMore: who refuses for a minute, which each request begins anew, is met by
// a dozen refusals, once.
func TestABanByTheMinuteTeachesMore(t *testing.T) {
	r, err := New(hostlimit.Config{Delay: hostlimit.Delay{Min: 200 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	l, _ := r.Limits("example.com")
	for refusals, want := range map[int]time.Duration{9: 294 * time.Millisecond, 10: 1200 * time.Millisecond, 13: 1200 * time.Millisecond, 14: 294 * time.Millisecond} {
		var s Refusals
		turn := Turn{Delay: &l.Delay, Gap: 200 * time.Millisecond, Probe: true, Served: 1}
		for range refusals {
			turn.Number, turn.Last, turn.Now = turn.Number+1, turn.Number+1, s.Until
			s.Observe(r, hostlimit.Outcome{Status: 429}, turn)
		}
		turn.Number, turn.Now, turn.Since, turn.Gap = turn.Number+1, s.Until, s.Until, s.Learned
		s.Observe(r, hostlimit.Outcome{Status: 200}, turn)
		if s.Learned != want {
			t.Errorf("%d refusals in a row have taught %v, want %v", refusals, s.Learned, want)
		}
	}
}

// TestTheFifthRefusalTeaches where nobody asks again for a page that was refused; the second, where
// a delay was learned already and no page was found to be broken. Three pages served take one off.
func TestTheFifthRefusalTeaches(t *testing.T) {
	r, err := New(hostlimit.Config{Delay: hostlimit.Delay{Min: 200 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	l, _ := r.Limits("example.com")
	for pages, wants := range map[string][]int{ // r: refused, s: served, each another page; Lessons after each
		"rrrrrr":                {0, 0, 0, 0, 1, 1},
		"rrrrrrrrr":             {0, 0, 0, 0, 1, 1, 1, 1, 1}, // once in a row
		"rrrrs rrr":             {0, 0, 0, 0, 0, 0, 1, 1},
		"rrrrsss r r":           {0, 0, 0, 0, 0, 0, 0, 0, 1},
		"rrrrrs r r":            {0, 0, 0, 0, 1, 1, 1, 2},
		"rsss rsss rsss rsss r": {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
	} {
		var s Refusals
		turn := Turn{Delay: &l.Delay, Gap: 200 * time.Millisecond, Probe: true, Served: 1}
		for i, page := range strings.ReplaceAll(pages, " ", "") {
			turn.Number, turn.Last, turn.Now = turn.Number+1, turn.Number+1, turn.Now+time.Second
			o := hostlimit.Outcome{Status: 503, Resource: uint64(i + 1)}
			if page == 's' {
				o.Status = 200
			}
			if s.Observe(r, o, turn); s.Lessons != wants[i] {
				t.Errorf("%s: %d lessons after %d, want %d", pages, s.Lessons, i+1, wants[i])
			}
		}
	}
}

// A block by hand names a host, says why, in at most 300 bytes, and ends in the future.
func TestWhatABlockByHandNeeds(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		key   string
		until time.Time
		why   string
		wrong string
	}{
		{"example.com", now.Add(1), strings.Repeat("x", 300), ""},
		{"example.com", now.Add(1), strings.Repeat("x", 301), "301 bytes"},
		{"example.com", now.Add(1), " \t", "why is empty"},
		{"example.com", now, "maintenance", "not in the future"},
		{"", now.Add(1), "maintenance", "key is empty"},
	} {
		if _, err := (*Rules)(nil).CheckBlock(c.key, c.until, now, c.why); (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%q: %v", c.why, err)
		}
	}
}

// What Override gives is checked once for each value, and kept only so far: it may give any number.
func TestOverridesAreKeptWithinBounds(t *testing.T) {
	asked := 0
	rules, err := New(hostlimit.Config{Override: func(string) (hostlimit.Limits, bool) {
		asked++
		return hostlimit.Limits{Concurrency: 1 + asked/2}, true
	}})
	if err != nil {
		t.Fatal(err)
	}
	var before *hostlimit.Limits
	for n := range 5000 {
		l, err := rules.Limits("a")
		if err != nil || l.Concurrency != 1+(n+1)/2 {
			t.Fatalf("the %d-th: %+v, %v", n, l, err)
		}
		if n%2 == 0 && n > 0 && l != before {
			t.Fatalf("the %d-th is checked again", n)
		}
		if before = l; rules.compiled.Len() > 1024 {
			t.Fatalf("%d are kept", rules.compiled.Len())
		}
	}
	if rules.compiled.Len() < 100 {
		t.Errorf("only %d are kept", rules.compiled.Len())
	}
}

// What a status means by itself, at the ends of each class.
func TestMeaningOfAStatus(t *testing.T) {
	r, err := New(hostlimit.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for status, want := range map[int]Meaning{
		-1: Silent, 0: Silent, 100: Success, 200: Success, 304: Success, 400: Silent, 401: Forbidden, 402: Forbidden, 403: Forbidden, 404: Success,
		405: Silent, 406: Forbidden, 407: Silent, 408: Unsure, 409: Silent, 410: Success, 411: Silent, 417: Silent, 418: Forbidden,
		420: Forbidden, 421: Silent, 422: Silent, 425: Unsure, 426: Silent, 427: Forbidden, 428: Silent, 429: Refused, 430: Forbidden,
		431: Silent, 451: Forbidden, 499: Forbidden, 500: Unsure, 501: Unsure, 503: Unsure, 599: Unsure, 600: Forbidden,
		999: Forbidden, 1024: Forbidden, math.MaxInt: Forbidden,
	} {
		if got := r.Meaning(&hostlimit.Outcome{Status: status}); got != want {
			t.Errorf("status %d means %d, want %d", status, got, want)
		}
	}
	for _, c := range []struct {
		outcome hostlimit.Outcome
		want    Meaning
	}{
		{hostlimit.Outcome{Status: 501, Method: "GET"}, Unsure},
		{hostlimit.Outcome{Status: 501, Method: "HEAD"}, Silent},
		{hostlimit.Outcome{Status: 500, Method: "HEAD"}, Unsure},
		{hostlimit.Outcome{Status: 405, Method: "GET", Page: true}, Forbidden},
		{hostlimit.Outcome{Status: 405, Method: "HEAD", Page: true}, Silent},
		{hostlimit.Outcome{Status: 400, Page: true}, Forbidden},
		{hostlimit.Outcome{Status: 400, Page: true, Conditional: true}, Silent},
		{hostlimit.Outcome{Status: 406, Method: "POST"}, Silent},
		{hostlimit.Outcome{Status: 403, Method: "POST", Conditional: true}, Forbidden},
		{hostlimit.Outcome{Status: 200, Aside: true}, Silent},
	} {
		if got := r.Meaning(&c.outcome); got != c.want {
			t.Errorf("%+v means %v, want %v", c.outcome, got, c.want)
		}
	}
}

// Own limits of a key that leave its delay to a Config which counts from the end need one slot, too;
// what holds for the key is told with nothing left out.
func TestOwnLimitsOfAKey(t *testing.T) {
	rules, err := New(hostlimit.Config{
		Concurrency: 1, Delay: hostlimit.Delay{Min: time.Second, FromEnd: true},
		Override: func(key string) (hostlimit.Limits, bool) {
			switch key {
			case "one":
				return hostlimit.Limits{Concurrency: 1}, true
			case "two":
				return hostlimit.Limits{Concurrency: 2}, true
			case "none":
				return hostlimit.Limits{Delay: hostlimit.Delay{DangerouslyNone: true}}, true
			}
			return hostlimit.Limits{}, false
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if l, err := rules.Limits("one"); err != nil || *rules.Own(l) != (hostlimit.Limits{Concurrency: 1, Delay: hostlimit.Delay{Min: time.Second, Max: time.Second, Ceiling: time.Minute, FromEnd: true}}) {
		t.Errorf("%+v, %v", l, err)
	}
	if l, err := rules.Limits("two"); err == nil {
		t.Errorf("two slots from the end: %+v", l)
	}
	if l, err := rules.Limits("none"); err != nil || *rules.Own(l) != (hostlimit.Limits{Concurrency: 1, Delay: hostlimit.Delay{DangerouslyNone: true, Ceiling: time.Minute}}) {
		t.Errorf("%+v, %v", l, err)
	}
	if l, err := rules.Limits("other"); err != nil || rules.Own(l) != nil {
		t.Errorf("%+v, %v", l, err)
	}
}

// TestABanThatEachRequestBeginsAnew: pauses that were refused twice at their longest go on doubling to
// 4 h, in whatever words the ban is, so a ban for an hour ends. A user who is offline, and one who has
// chosen a policy, waits no longer than before.
func TestABanThatEachRequestBeginsAnew(t *testing.T) {
	const s, minute = time.Second, time.Minute
	for name, tt := range map[string]struct {
		policy  backoff.Policy
		outcome hostlimit.Outcome
		first   int // answers before the first that is looked at
		want    []time.Duration
	}{
		"403": {
			nil,
			hostlimit.Outcome{Status: 403},
			5,
			[]time.Duration{1 * minute, 2 * minute, 4 * minute, 8 * minute, 10 * minute, 10 * minute, 20 * minute, 40 * minute, 80 * minute, 160 * minute, 240 * minute, 240 * minute},
		},
		"429": {
			nil,
			hostlimit.Outcome{Status: 429},
			12,
			[]time.Duration{233 * s, 377 * s, 10 * minute, 10 * minute, 20 * minute, 40 * minute, 80 * minute, 160 * minute, 240 * minute, 240 * minute},
		},
		"503": {
			nil,
			hostlimit.Outcome{Status: 503},
			12,
			[]time.Duration{233 * s, 5 * minute, 5 * minute, 10 * minute, 20 * minute, 40 * minute, 80 * minute, 160 * minute, 240 * minute, 240 * minute},
		},
		"no response": {
			nil,
			hostlimit.Outcome{Err: io.ErrUnexpectedEOF},
			12,
			[]time.Duration{233 * s, 5 * minute, 5 * minute, 5 * minute, 5 * minute, 5 * minute},
		},
		"a policy of one's own": {
			backoff.Fibonacci{Cap: 20 * s},
			hostlimit.Outcome{Status: 429},
			5,
			[]time.Duration{8 * s, 13 * s, 20 * s, 20 * s, 20 * s, 20 * s},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := New(hostlimit.Config{Backoff: tt.policy})
			if err != nil {
				t.Fatal(err)
			}
			l, _ := r.Limits("example.com")
			var refusals Refusals
			turn := Turn{Delay: &l.Delay, Probe: true}
			answer := func() time.Duration {
				turn.Number++
				turn.Last++
				turn.Now = refusals.Until
				tt.outcome.Resource++
				refusals.Observe(r, tt.outcome, turn)
				return refusals.Until - turn.Now
			}
			for range tt.first {
				answer()
			}
			for i, want := range tt.want {
				if got := answer(); got != want {
					t.Errorf("pause %d after %d lasts %v, want %v", i+1, tt.first, got, want)
				}
			}
		})
	}
}
