package hostlimit

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestAdaptive(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	for _, c := range []struct {
		a                  Adaptive
		old, latency, want time.Duration
	}{
		{Learned, 0, 5 * s, 0},
		{Fixed, 0, 5 * s, 0},
		{Squared, 0, 500 * ms, 250 * ms},
		{Squared, 9 * s, 3 * s, 9 * s},
		{Squared, 9 * s, s, s},
		{Squared, 0, 10 * ms, 200 * ms}, // never below Min
		{Squared, 0, 8 * s, 60 * s},     // never above Ceiling
		{Squared, 0, math.MaxInt64, 60 * s},
		{Squared, 0, -s, 200 * ms},
		{Proportional(5), 4 * s, 0, 2 * s},
		{Proportional(5), 0, s, 2600 * ms},            // half the way from Min up,
		{Proportional(5), 5 * s, 500 * ms, 3750 * ms}, // and down
		{Longest(Squared, Proportional(2)), s, 3 * s, 9 * s},
		{Longest(Squared, Proportional(2)), 9 * s, s, 5500 * ms},
		{Longest(Learned, Proportional(2)), 9 * s, s, 5500 * ms},
		{Proportional(math.MaxFloat64), 0, math.MaxInt64, 60 * s},
		{Throttle(1), 0, 4 * s, 4 * s},       // up at once
		{Throttle(2), 4 * s, 4 * s, 3 * s},   // (4 + 4/2) / 2
		{Throttle(1), 4 * s, s, 2500 * ms},   // down by halves
		{Throttle(1), 0, 300 * ms, 300 * ms}, // an unknown delay is Min
		{Throttle(1), 0, 100 * ms, 200 * ms}, // (0.2 + 0.1) / 2, but never below Min
		{Throttle(math.SmallestNonzeroFloat64), 0, s, 60 * s},
	} {
		l := Delay{Adaptive: c.a, Min: 200 * ms, Ceiling: 60 * s}
		if got := l.Adapt(c.old, 0, Outcome{Status: 200, Latency: c.latency}); got != c.want {
			t.Errorf("%v: %v after %v became %v, want %v", c.a, c.old, c.latency, got, c.want)
		}
	}
}

// The longest delay and the longest ceiling don't overflow.
func TestNoDelayIsLongerThanTheLongest(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for _, a := range []Adaptive{Learned, Squared, Proportional(1), Proportional(2), Throttle(1), Proportional(math.MaxFloat64)} {
		l := Delay{Min: time.Second, Ceiling: math.MaxInt64, Adaptive: a}
		if got := l.Adapt(year, 0, Outcome{Status: 503, Latency: math.MaxInt64}); a != Learned && got < 146*year {
			t.Errorf("%v: a latency of 292 years made it %v", a, got)
		}
		var s Refusals
		if s.teach(&Turn{Delay: &l, Gap: 250 * year}, half); a == Learned && s.Learned != math.MaxInt64 {
			t.Errorf("%v: a refusal of a host that is asked every 250 years taught %v", a, s.Learned)
		}
	}
}

func TestAdaptivePrintsAsItsExpression(t *testing.T) {
	for want, a := range map[string]Adaptive{
		"Learned": {}, "Fixed": Fixed, "Squared": Squared, "Proportional(5)": Proportional(5), "Throttle(1.5)": Throttle(1.5), "Slower(1)": Slower(1),
		"Longest(Learned, Proportional(1))":               Longest(Proportional(1), Learned),
		"Longest(Learned, Longest(Squared, Throttle(2)))": Longest(Longest(Throttle(2), Squared), Longest(Throttle(3), Learned)),
	} {
		if got := fmt.Sprint(a); got != want {
			t.Errorf("printed as %s, want %s", got, want)
		}
	}
}

// TestLongestIsOneValue: however it was put together, it compares equal.
func TestLongestIsOneValue(t *testing.T) {
	for _, c := range []struct{ a, b Adaptive }{
		{Longest(Squared, Throttle(2)), Longest(Throttle(2), Squared)},
		{Longest(Squared, Fixed), Squared},
		{Longest(Fixed, Learned), Learned},
		{Longest(Proportional(1), Proportional(2)), Proportional(2)},
		{Longest(Proportional(2), Proportional(1)), Proportional(2)},
		{Longest(Slower(1), Slower(2)), Slower(2)},
		{Longest(Throttle(1), Throttle(2)), Throttle(1)},
		{Longest(Throttle(2), Throttle(1)), Throttle(1)},
	} {
		if c.a != c.b {
			t.Errorf("%v isn't %v", c.a, c.b)
		}
	}
}

// TestSlowerCountsWhatIsSlowerThanUsual: as far as it is more than half slower.
func TestSlowerCountsWhatIsSlowerThanUsual(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	l := Delay{Min: 200 * ms, Ceiling: 60 * s, Adaptive: Slower(1)}
	for _, c := range []struct{ usual, latency, want time.Duration }{
		{0, 5 * s, 200 * ms}, // the first one is usual
		{600 * ms, 600 * ms, 200 * ms},
		{600 * ms, 900 * ms, 200 * ms},
		{800 * ms, 1600 * ms, 495312500},
		{800 * ms, 2400 * ms, 1290625 * time.Microsecond}, // the usual time has grown a little
		{800 * ms, 3 * s, 1600 * ms},
		{s, math.MaxInt64, 60 * s},
	} {
		if got := l.Adapt(0, c.usual, Outcome{Status: 200, Latency: c.latency}); got != c.want {
			t.Errorf("%v, usually %v: delay %v, want %v", c.latency, c.usual, got, c.want)
		}
	}
	if got := l.Adapt(0, 0, Outcome{Status: 503, Latency: 2 * s}); got != 1100*ms {
		t.Errorf("a host that has served nothing fails in 2 s: delay %v, want 1.1 s", got)
	}
}

// TestUsualFollowsThePagesServed: quickly down, slowly up.
func TestUsualFollowsThePagesServed(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		before time.Duration
		o      Outcome
		want   time.Duration
	}{
		{0, Outcome{Status: 200, Latency: 600 * ms}, 600 * ms},
		{600 * ms, Outcome{Status: 200, Latency: 200 * ms}, 550 * ms},
		{600 * ms, Outcome{Status: 200, Latency: 856 * ms}, 601 * ms},
		{600 * ms, Outcome{Status: 200, Latency: ms, Aside: true}, 600 * ms},
		{600 * ms, Outcome{Status: 404, Latency: ms}, 600 * ms},
		{600 * ms, Outcome{Status: 301, Latency: ms}, 600 * ms},
		{600 * ms, Outcome{Err: io.EOF, Latency: ms}, 600 * ms},
		{600 * ms, Outcome{Status: 200, Latency: -1}, 600 * ms},
	} {
		if got := c.o.Usual(c.before); got != c.want {
			t.Errorf("%v after %+v: %v, want %v", c.before, c.o, got, c.want)
		}
	}
}

// TestErrorAnswerNeverLowersTheDelay: a host that fails fast isn't asked faster.
func TestErrorAnswerNeverLowersTheDelay(t *testing.T) {
	l := Delay{Min: time.Second, Ceiling: time.Minute, Adaptive: Proportional(5)}
	for _, c := range []struct {
		status  int
		latency time.Duration
		want    time.Duration
	}{
		{200, time.Second, 7500 * time.Millisecond},
		{399, time.Second, 7500 * time.Millisecond},
		{400, time.Second, 10 * time.Second},
		{503, time.Second, 10 * time.Second},
		{503, 4 * time.Second, 15 * time.Second},
	} {
		if got := l.Adapt(10*time.Second, 0, Outcome{Status: c.status, Latency: c.latency}); got != c.want {
			t.Errorf("status %d in %v: 10s became %v, want %v", c.status, c.latency, got, c.want)
		}
	}
}

// TestTimeWithoutAnAnswerCounts: a server that hangs isn't asked again at once.
func TestTimeWithoutAnAnswerCounts(t *testing.T) {
	l := Delay{Min: time.Second, Ceiling: time.Hour, Adaptive: Squared}
	for _, c := range []struct {
		name    string
		err     error
		latency time.Duration
		want    time.Duration
	}{
		{"no answer", io.ErrUnexpectedEOF, 30 * time.Second, 15 * time.Minute},
		{"no answer, quickly", io.ErrUnexpectedEOF, time.Second, 10 * time.Second},
		{"the caller's timeout", context.DeadlineExceeded, 30 * time.Second, 15 * time.Minute},
		{"the caller's timeout, quickly", context.DeadlineExceeded, time.Second, 10 * time.Second},
		{"the caller left", fmt.Errorf("get: %w", context.Canceled), 30 * time.Second, 10 * time.Second},
		{"nothing", nil, 30 * time.Second, 10 * time.Second},
	} {
		if got := l.Adapt(10*time.Second, 0, Outcome{Err: c.err, Latency: c.latency}); got != c.want {
			t.Errorf("%s: 10s became %v, want %v", c.name, got, c.want)
		}
	}
}

// TestAnOverrideEndsWhatWasAdapted: new limits hold from the next answer on, for a delay by response
// times and for one that was learned.
func TestAnOverrideEndsWhatWasAdapted(t *testing.T) {
	for _, before := range []Adaptive{Squared, Learned} {
		synctest.Test(t, func(t *testing.T) {
			delay := Delay{Min: time.Second, Adaptive: before}
			m := mustNew(t, Config{Concurrency: 1, Override: func(string) (Limits, bool) { return Limits{Delay: delay}, true }})
			exchange := func(status int, latency time.Duration) time.Duration {
				l := acquire(t, m, "a", 0)
				l.Observe(Outcome{Status: status, Latency: latency})
				l.Release()
				return l.Grant.Delay
			}
			exchange(429, 7*time.Second)
			if d := exchange(200, 7*time.Second); d <= time.Second {
				t.Errorf("%v: %v after 7 s and a 429", before, d)
			}
			delay.Adaptive = Fixed
			exchange(200, time.Millisecond) // after what was promised
			if d := exchange(200, time.Millisecond); d != time.Second {
				t.Errorf("%v, then fixed: %v", before, d)
			}
		})
	}
}

// TestRefusalsTeachAHostWithoutADelay: DangerouslyNone is no Fixed.
func TestRefusalsTeachAHostWithoutADelay(t *testing.T) {
	var s Refusals
	last := time.Duration(0)
	for range 3 {
		s.teach(&Turn{Delay: &Delay{Ceiling: time.Minute}, Gap: s.Learned, Since: time.Hour}, half)
		if s.Learned <= last {
			t.Errorf("lesson %d: %v after %v", s.Lessons, s.Learned, last)
		}
		last = s.Learned
	}
}

// TestRetryAfterOfBeforeAnIdleTimeIsForgotten, as the pages served before it are: they count for
// nothing in what the next lesson teaches.
func TestRetryAfterOfBeforeAnIdleTimeIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, Config{Concurrency: 1, MaxWait: 2 * time.Hour, Delay: Delay{Min: time.Second, Max: time.Second}})
		exchange := func(o Outcome) {
			l := acquire(t, m, "a", 0)
			l.Observe(o)
			l.Release()
		}
		exchange(Outcome{Status: 429, RetryAfter: time.Hour})
		exchange(Outcome{Status: 200})
		time.Sleep(10 * time.Minute)
		for range 10 { // a page in ten seconds
			exchange(Outcome{Status: 200})
			time.Sleep(10 * time.Second)
		}
		before := learnedOf(t, m)
		exchange(Outcome{Status: 429})
		if after := learnedOf(t, m); after != 4*before {
			t.Errorf("from %v to %v, want the time per page, at most four times the delay", before, after)
		}
	})
}

func learnedOf(t *testing.T, m *Memory) time.Duration {
	for st := range states(t, m) {
		return st.Learned
	}
	return 0
}

// TestWhatALessonTeaches is the larger of 1.5 times the delay in force and the time per page served
// since the last one, at most four times the delay; a ban twice the delay.
func TestWhatALessonTeaches(t *testing.T) {
	l := Delay{Min: 200 * time.Millisecond, Max: 200 * time.Millisecond, Ceiling: time.Minute}
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
	l := Delay{Min: 200 * time.Millisecond, Max: 600 * time.Millisecond, Ceiling: time.Minute}
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
	r, err := NewRules(Config{Delay: Delay{Min: 200 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	l, _ := r.Limits("example.com")
	var s Refusals
	turn := Turn{Delay: &l.Delay, Gap: 200 * time.Millisecond, Probe: true, Served: 10}
	for range 2 { // refused, away for 10 s, served, and refused again
		turn.Number, turn.Last = turn.Number+1, turn.Number+1
		s.Observe(r, Outcome{Status: 429, RetryAfter: 10 * time.Second}, turn)
		turn.Number, turn.Now, turn.Since, turn.Gap = turn.Number+1, turn.Now+10*time.Second, 10*time.Second, s.Learned
		s.Observe(r, Outcome{Status: 200}, turn)
	}
	if s.Learned != 450*time.Millisecond {
		t.Errorf("two refusals have taught %v, want 450ms", s.Learned)
	}
}

// TestABanByTheMinuteTeachesMore: who refuses for a minute, which each request begins anew, is met by
// a dozen refusals, once.
func TestABanByTheMinuteTeachesMore(t *testing.T) {
	r, err := NewRules(Config{Delay: Delay{Min: 200 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	l, _ := r.Limits("example.com")
	for refusals, want := range map[int]time.Duration{9: 294 * time.Millisecond, 10: 1200 * time.Millisecond, 13: 1200 * time.Millisecond, 14: 294 * time.Millisecond} {
		var s Refusals
		turn := Turn{Delay: &l.Delay, Gap: 200 * time.Millisecond, Probe: true, Served: 1}
		for range refusals {
			turn.Number, turn.Last, turn.Now = turn.Number+1, turn.Number+1, s.Until
			s.Observe(r, Outcome{Status: 429}, turn)
		}
		turn.Number, turn.Now, turn.Since, turn.Gap = turn.Number+1, s.Until, s.Until, s.Learned
		s.Observe(r, Outcome{Status: 200}, turn)
		if s.Learned != want {
			t.Errorf("%d refusals in a row have taught %v, want %v", refusals, s.Learned, want)
		}
	}
}

// TestTheFifthRefusalTeaches where nobody asks again for a page that was refused; the second, where
// a delay was learned already and no page was found to be broken. Three pages served take one off.
func TestTheFifthRefusalTeaches(t *testing.T) {
	r, err := NewRules(Config{Delay: Delay{Min: 200 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	l, _ := r.Limits("example.com")
	for pages, wants := range map[string][]int{ // r: refused, s: served, each another page; Lessons after each
		"rrrrrr":                {0, 0, 0, 0, 1, 1},
		"rrrrs rrr":             {0, 0, 0, 0, 0, 0, 1, 1},
		"rrrrsss r r":           {0, 0, 0, 0, 0, 0, 0, 0, 1},
		"rrrrrs r r":            {0, 0, 0, 0, 1, 1, 1, 2},
		"rsss rsss rsss rsss r": {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
	} {
		var s Refusals
		turn := Turn{Delay: &l.Delay, Gap: 200 * time.Millisecond, Probe: true, Served: 1}
		for i, page := range strings.ReplaceAll(pages, " ", "") {
			turn.Number, turn.Last, turn.Now = turn.Number+1, turn.Number+1, turn.Now+time.Second
			o := Outcome{Status: 503, Resource: uint64(i + 1)}
			if page == 's' {
				o.Status = 200
			}
			if s.Observe(r, o, turn); s.Lessons != wants[i] {
				t.Errorf("%s: %d lessons after %d, want %d", pages, s.Lessons, i+1, wants[i])
			}
		}
	}
}

// A window may end or begin at midnight, and go over it; it is a part of a day.
func TestWindowsOfADay(t *testing.T) {
	const h = time.Hour
	for w, valid := range map[Window]bool{
		{0, 24 * h}: true, {0, 1}: true, {h, 24 * h}: true, {22 * h, 0}: true, {24*h - 1, 0}: true, {22 * h, 6 * h}: true,
		{24 * h, h}: false, {h, 24*h + 1}: false, {-1, h}: false, {h, -1}: false, {h, h}: false, {0, 0}: false,
	} {
		_, err := NewRules(Config{Windows: []Window{{0, h}, w}})
		if (err == nil) != valid || err != nil && !strings.Contains(err.Error(), "Windows[1]") {
			t.Errorf("from %v to %v: %v", w.From, w.To, err)
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

func TestLimitsThatMakeNoSense(t *testing.T) {
	slots := int64(math.MaxInt32)
	for _, c := range []struct {
		own   Limits
		wrong string
	}{
		{Limits{}, ""},
		{Limits{Concurrency: int(slots)}, ""},
		{Limits{Concurrency: int(slots + 1)}, "Concurrency"}, // negative, where an int has 32 bits
		{Limits{Concurrency: -1}, "Concurrency"},
		{Limits{Delay: Delay{Min: 5 * time.Second, Max: 5 * time.Second}}, ""},
		{Limits{Delay: Delay{Min: 5 * time.Second, Max: 4 * time.Second}}, "Delay.Max"},
		{Limits{Delay: Delay{Min: 5 * time.Second, Ceiling: 5 * time.Second}}, ""},
		{Limits{Delay: Delay{Min: 5 * time.Second, Ceiling: 4 * time.Second}}, "Delay.Ceiling"},
		{Limits{Delay: Delay{DangerouslyNone: true}}, ""},
		{Limits{Delay: Delay{DangerouslyNone: true, Min: 1}}, "contradicts"},
		{Limits{Delay: Delay{DangerouslyNone: true, Max: 1}}, "contradicts"},
		{Limits{Concurrency: 1, Delay: Delay{FromEnd: true}}, ""},
		{Limits{Concurrency: 2, Delay: Delay{FromEnd: true}}, "Concurrency 1"},
	} {
		_, err := NewRules(Config{Concurrency: c.own.Concurrency, Delay: c.own.Delay})
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%+v: %v", c.own, err)
		}
	}
}

// A delay is anything from Min to Max, both included.
func TestDrawnDelays(t *testing.T) {
	l := Delay{Min: 3, Max: 5}
	seen := map[time.Duration]int{}
	for range 1000 {
		seen[l.Draw()]++
	}
	if len(seen) != 3 || seen[3] == 0 || seen[4] == 0 || seen[5] == 0 {
		t.Errorf("drawn from 3 to 5: %v", seen)
	}
}

// What Override gives is checked once for each value, and kept only so far: it may give any number.
func TestOverridesAreKeptWithinBounds(t *testing.T) {
	asked := 0
	rules, err := NewRules(Config{Override: func(string) (Limits, bool) {
		asked++
		return Limits{Concurrency: 1 + asked/2}, true
	}})
	if err != nil {
		t.Fatal(err)
	}
	var before *Limits
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
	r, err := NewRules(Config{})
	if err != nil {
		t.Fatal(err)
	}
	for status, want := range map[int]Meaning{
		-1: Silent, 0: Silent, 100: Success, 200: Success, 304: Success, 400: Success, 401: Forbidden, 402: Forbidden, 403: Forbidden, 404: Success,
		407: Silent, 408: Unsure, 410: Success, 425: Unsure, 429: Refused, 451: Forbidden, 499: Success,
		500: Unsure, 503: Unsure, 599: Unsure, 600: Silent, 999: Silent, 1024: Silent, math.MaxInt: Silent,
	} {
		if got := r.Meaning(&Outcome{Status: status}); got != want {
			t.Errorf("status %d means %d, want %d", status, got, want)
		}
	}
}

// Own limits of a key that leave its delay to a Config which counts from the end need one slot, too;
// what holds for the key is told with nothing left out.
func TestOwnLimitsOfAKey(t *testing.T) {
	rules, err := NewRules(Config{
		Concurrency: 1, Delay: Delay{Min: time.Second, FromEnd: true},
		Override: func(key string) (Limits, bool) {
			switch key {
			case "one":
				return Limits{Concurrency: 1}, true
			case "two":
				return Limits{Concurrency: 2}, true
			case "none":
				return Limits{Delay: Delay{DangerouslyNone: true}}, true
			}
			return Limits{}, false
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if l, err := rules.Limits("one"); err != nil || *rules.Own(l) != (Limits{1, Delay{Min: time.Second, Max: time.Second, Ceiling: time.Minute, FromEnd: true}}) {
		t.Errorf("%+v, %v", l, err)
	}
	if l, err := rules.Limits("two"); err == nil {
		t.Errorf("two slots from the end: %+v", l)
	}
	if l, err := rules.Limits("none"); err != nil || *rules.Own(l) != (Limits{1, Delay{DangerouslyNone: true, Ceiling: time.Minute}}) {
		t.Errorf("%+v, %v", l, err)
	}
	if l, err := rules.Limits("other"); err != nil || rules.Own(l) != nil {
		t.Errorf("%+v, %v", l, err)
	}
}
