package rules_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/hostlimit"

	"github.com/go-politeness/politeness/hostlimit/rules"
)

// TestPausesEndAtTheCap: who says how long a host may be left alone at most means pauses, too.
func TestPausesEndAtTheCap(t *testing.T) {
	for policy, want := range map[backoff.Policy]time.Duration{
		backoff.Fibonacci{Cap: 2 * time.Second}:       2 * time.Second,
		&backoff.Fibonacci{Cap: 2 * time.Second}:      2 * time.Second,
		backoff.Doubling{Cap: 4 * time.Second}:        4 * time.Second,
		backoff.Fibonacci{Cap: 10 * time.Millisecond}: time.Second, // a rest is a second
		backoff.Fibonacci{}:                           8 * time.Second,
	} {
		checked, err := rules.New(hostlimit.Config{Backoff: policy})
		if err != nil {
			t.Fatal(err)
		}
		for _, first := range []int{503, 429} { // refusals of which none, or one, counts
			var s rules.Refusals
			var now time.Duration
			for n := range uint64(6) {
				status := 503
				if n == 0 {
					status = first
				}
				s.Observe(checked, hostlimit.Outcome{Status: status, Resource: n + 1}, rules.Turn{
					Now: now, Number: n + 1, Last: n + 1, Probe: n > 0, Delay: &hostlimit.Delay{Min: time.Second}, Gap: time.Second,
				})
				if n == 5 && s.Until-now != want {
					t.Errorf("%+v, %d first: a pause of %v, want %v", policy, first, s.Until-now, want)
				}
				now = s.Until
			}
		}
	}
}

// TestStatesOfRefusals reads the table of Refusals row by row. A row is what happens to a key, one
// answer after the other, each of a request that starts when its turn comes: "503 a" is status 503 for
// page a, "late" one of a request that started before all others. The state after the last one is
// what is said: how many refusals are in a row, how long the pause is, whether requests go alone.
func TestStatesOfRefusals(t *testing.T) {
	checked, err := rules.New(hostlimit.Config{Backoff: backoff.Refusals{Policy: backoff.Doubling{Start: 10 * time.Second}}})
	if err != nil {
		t.Fatal(err)
	}
	delay := hostlimit.Delay{Min: time.Second, Max: time.Second, Ceiling: time.Minute}
	answers := map[string]hostlimit.Outcome{
		"200": {Status: 200}, "200-aside": {Status: 200, Aside: true}, "407": {Status: 407}, "left": {},
		"403": {Status: 403}, "503": {Status: 503}, "none": {Err: errors.New("connection reset")},
		"429": {Status: 429}, "429-30s": {Status: 429, RetryAfter: 30 * time.Second}, "challenge": {Status: 200, Refused: "a challenge"},
		"503-30s": {Status: 503, RetryAfter: 30 * time.Second}, "reset-30s": {Status: 200, Reset: 30 * time.Second},
	}
	const s = time.Second
	for _, c := range []struct {
		happens string
		row     int
		pause   time.Duration
		alone   bool
		learned time.Duration // 0: nothing
		own     bool
	}{
		{"200", 0, 0, false, 0, false},
		{"429", 1, 10 * s, true, 1500 * time.Millisecond, false},
		{"429 429", 2, 20 * s, true, 1500 * time.Millisecond, false},
		{"429-30s", 1, 30 * s, true, 1500 * time.Millisecond, false},
		{"challenge", 1, 10 * s, true, 1500 * time.Millisecond, false},
		{"503-30s", 1, 30 * s, true, 0, false},
		{"reset-30s", 0, 30 * s, false, 0, false},
		{"429 200", 0, 0, false, 1500 * time.Millisecond, false},
		{"429 200-aside", 1, 0, true, 1500 * time.Millisecond, false},
		{"429 407", 1, 0, true, 1500 * time.Millisecond, false},
		{"429 left", 1, 0, true, 1500 * time.Millisecond, false},
		{"429 403", 2, 20 * s, true, 1500 * time.Millisecond, false},
		{"429 503", 2, s, true, 1500 * time.Millisecond, false},
		{"429 late-200", 1, 10 * s, true, 1500 * time.Millisecond, false},
		{"429 late-429", 1, 10 * s, true, 1500 * time.Millisecond, false},
		{"429 late-429-30s", 1, 30 * s, true, 1500 * time.Millisecond, false},
		{"429 late-503", 1, 10 * s, true, 1500 * time.Millisecond, false},
		{"503 a late-429", 1, 10 * s, true, 1500 * time.Millisecond, false}, // a pause is no block that it could be a part of
		{"503 a late-429 late-429", 1, 10 * s, true, 1500 * time.Millisecond, false},
		{"503 a late-429-30s 503 a", 2, s, true, 1500 * time.Millisecond, false},
		{"503 a 200 b late-429", 0, 0, false, 0, false}, // of a trouble that is over

		{"503 a", 1, s, true, 0, false},
		{"none a", 1, s, true, 0, false},
		{"503 a 200 b", 0, 0, false, 0, false},
		{"503 a 503 b 503 c 503 d", 4, 3 * s, true, 0, false},
		{"503 a late-503 b", 1, s, true, 0, false},
		{"503 a 503 a", 1, 0, true, 0, false},                                                                  // the next tells
		{"503 a 503 a 503 b", 3, 2 * s, true, 0, false},                                                        // the host's
		{"503 a 503 a 200 b", 0, 0, false, 0, false},                                                           // the page's own
		{"503 a 503 a 200 b 503 a", 0, 0, false, 0, true},                                                      // asked once more
		{"503 a 503 a 200 a 503 c 503 c 200 b 503 c", 0, 0, false, 1500 * time.Millisecond, true},              // it was served after all; the other is its own
		{"503 a 200 a", 0, 0, false, 1500 * time.Millisecond, false},                                           // the first proof of a host that never failed
		{"503 a 503 b 200 a", 0, 0, false, 0, false},                                                           // not after a second: an outage
		{"503 o 503 o 200 z 503 a 200 a", 0, 0, false, 0, false},                                               // it has failed before
		{"503 o 503 o 200 z 503 a 200 a 503 b 200 b", 0, 0, false, 0, false},                                   // two
		{"503 o 503 o 200 z 503 a 200 a 503 b 200 b 503 c 200 c", 0, 0, false, 1500 * time.Millisecond, false}, // three close together
		{"503 a 200 a 503 b 200 b", 0, 0, false, 1500 * time.Millisecond, false},                               // the delay is longer than what was refused
		{"503-30s a 200 a", 0, 0, false, 0, false},                                                             // maintenance
		{"503-30s a 200 a 503-30s b 200 b", 0, 0, false, 1500 * time.Millisecond, false},                       // the second within an hour
		{"503-30s a 503-30s a 200 z", 0, 0, false, 0, false},                                                   // the page's own
		{"503-30s a 503-30s a 200 z 503-30s a", 0, 30 * s, false, 0, true},                                     // whatever it is, it has asked for a rest
		{"429 429 429 429 200 429", 1, 75 * s, true, 2205 * time.Millisecond, false},                           // half of the last row
		{"429 429 429 429 200 429 429", 2, 37500 * time.Millisecond, true, 2205 * time.Millisecond, false},     // then a quarter
		{"429-30s 200 429", 1, 10 * s, true, 2205 * time.Millisecond, false},                                   // as long as the host has said
		{"429-30s 429-30s 200 429-30s 429-30s 429-30s 429-30s", 4, 30 * s, true, 2205 * time.Millisecond, false},
		{"429-30s 429-30s 429-30s 429-30s 200 429-30s", 1, 60 * s, true, 2205 * time.Millisecond, false},        // which wasn't true
		{"429-30s 429-30s 200 429", 1, 30 * s, true, 2205 * time.Millisecond, false},                            // which the host has asked for itself
		{"503 a 503 b 503 c 503 d 503 e", 5, 5 * s, true, 1500 * time.Millisecond, false},                       // five refusals of nothing served
		{"503 a 503 b 503 c 503 d 503 e 503 f 503 g 503 h", 8, 21 * s, true, 1500 * time.Millisecond, false},    // once a row
		{"503 a 503 a 503 b 503 b 503 c 503 c 503 d 503 d", 7, 0, true, 0, false},                               // pairs
		{"503 a " + strings.Repeat("503 b 503 c ", 20) + "503 d", math.MaxInt, 5 * time.Minute, true, 0, false}, // at most 5 min
		{strings.Repeat("503 a 200 b 200 b 200 b ", 6), 0, 0, false, 0, false},                                  // four pages served for each
		{"503 o 503 o 200 b 503 a 503 a 503 b 200 b 503 c 200 c", 0, 0, false, 1500 * time.Millisecond, false},  // one that was just served is refused: a proof more
		{"503 o 503 o 200 d 503 a 503 a 503 b 200 b 503 c 200 c", 0, 0, false, 0, false},
		{"503 a 503 a 200 z 503 b 503 b 200 z 503 c 503 c 200 z 503 d 503 d 200 z 503 e 200 z", 0, 0, false, 0, false},                                           // the pages' own
		{"503 o 503 o 200 z 503 a 200 a " + strings.Repeat("200 z ", 20) + "503 b 200 b " + strings.Repeat("200 z ", 20) + "503 c 200 c", 0, 0, false, 0, false}, // three far apart
		{strings.Repeat("503 _ 200 b ", 8), 0, 0, false, math.MaxInt64, false},                                                                                   // no hash: each a page of its own

		{"403 403 403 403", 0, 0, false, 0, false},
		{"403 403 403 403 403", 0, 0, true, 0, false},                                            // the next tells
		{"403 403 200 403 403 403 403", 0, 0, false, 0, false},                                   // not in a row
		{"403 403 403 403 403 late-403", 0, 0, true, 0, false},                                   // not the next
		{"403 403 403 403 403 late-429", 1, 10 * s, true, 1500 * time.Millisecond, false},        // no block, either
		{"403 403 403 403 403 403 late-429", 1, 60 * s, true, 2 * s, false},                      // a ban is one
		{"403 403 403 403 403 200", 0, 0, false, 0, false},                                       // forbidden pages
		{"403 403 403 403 403 403", 1, 60 * s, true, 2 * s, false},                               // a ban
		{"403 403 403 403 403 403 403 403", 3, 240 * s, true, 2 * s, false},                      // it goes on
		{"403 403 403 403 403 403 403 403 403 403 403", 6, 10 * time.Minute, true, 2 * s, false}, // at most 10 min
		{"403 403 403 403 403 403 200", 0, 0, false, 2 * s, false},                               // over
		{"403 403 403 403 403 403 200 403 403 403 403 403 403", 1, 60 * s, true, 4 * s, false},   // the next one
	} {
		var r rules.Refusals
		now, number, own := time.Duration(0), uint64(0), false
		words := strings.Fields(c.happens)
		for len(words) > 0 {
			name, late := strings.CutPrefix(words[0], "late-")
			words = words[1:]
			o, ok := answers[name]
			if !ok {
				t.Fatalf("%s: what is %q?", c.happens, name)
			}
			if len(words) > 0 && len(words[0]) == 1 {
				if words[0] != "_" {
					o.Resource = uint64(words[0][0])
				}
				words = words[1:]
			}
			turn := rules.Turn{Number: 1, Last: number + 1, Delay: &delay, Gap: max(delay.Min, r.Learned), Since: now, Served: 1000}
			if !late {
				now = max(now, r.Until) // the turn comes when the block is over
				number++
				turn.Number, turn.Last, turn.Probe = number+1, number+1, r.Alone
			}
			turn.Now = now
			own = r.Observe(checked, o, turn).Own
		}
		if c.row == math.MaxInt {
			c.row = r.InARow()
		}
		if c.learned == math.MaxInt64 && r.Learned > 0 {
			c.learned = r.Learned
		}
		if pause := max(0, r.Until-now); r.InARow() != c.row || pause != c.pause || r.Alone != c.alone || r.Learned != c.learned || own != c.own {
			t.Errorf("%s: %d in a row, %v, alone %v, learned %v, own %v, want %d, %v, %v, %v, %v",
				c.happens, r.InARow(), pause, r.Alone, r.Learned, own, c.row, c.pause, c.alone, c.learned, c.own)
		}
	}
}

func TestRefusalsByHand(t *testing.T) {
	checked, err := rules.New(hostlimit.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var r rules.Refusals
	if r.Clear(5) || r.Forgive(checked, math.MaxInt64) {
		t.Errorf("there was nothing to clear: %+v", r)
	}
	r.Block(10, "by hand: stop", 3)
	r.Block(8, "by hand: a while", 4)
	if r.Until != 10 || r.SetAt != 4 || r.Cause != "by hand: a while" || !r.Stopped(9) || r.Stopped(10) {
		t.Errorf("%+v", r)
	}
	if !r.Clear(9) || r.Blocks(9) || r.Clear(9) {
		t.Errorf("cleared: %+v", r)
	}
	delay := hostlimit.Delay{Ceiling: time.Minute}
	r.Observe(checked, hostlimit.Outcome{Status: 429}, rules.Turn{Number: 5, Last: 5, Delay: &delay})
	end := r.Until + 30*time.Minute // Forgive
	if r.Forgive(checked, end-1) || !r.Forgive(checked, end) || r.Alone || r.InARow() != 0 {
		t.Errorf("forgiven: %+v", r)
	}
}

// TestHalfASiteIsDown: from the 201st page in a row on that is in trouble of its own, with no new page
// served, the pauses grow again.
func TestHalfASiteIsDown(t *testing.T) {
	checked, err := rules.New(hostlimit.Config{})
	if err != nil {
		t.Fatal(err)
	}
	delay := hostlimit.Delay{Min: time.Second, Max: time.Second, Ceiling: time.Minute, Adaptive: hostlimit.Fixed}
	var r rules.Refusals
	number, now := uint64(1), time.Duration(0)
	say := func(status int, resource uint64) (pause time.Duration) {
		now = max(now, r.Until)
		number++
		r.Observe(checked, hostlimit.Outcome{Status: status, Resource: resource}, rules.Turn{
			Now: now, Number: number, Last: number, Probe: r.Alone, Delay: &delay, Gap: time.Second, Served: 1,
		})
		return max(0, r.Until-now)
	}
	say(200, 1)
	for page := range uint64(300) {
		first := say(503, page+2)
		say(503, page+2)
		say(200, 1) // a page that was served before
		switch {
		case page <= 200 && first != time.Second:
			t.Fatalf("page %d: a pause of %v", page, first)
		case page == 201 && first > 3*time.Second:
			t.Errorf("page %d: a pause of %v at once", page, first)
		case page == 299 && first < 30*time.Second:
			t.Errorf("page %d: a pause of %v only", page, first)
		}
	}
	say(200, 1000)
	if first := say(503, 1001); first != time.Second {
		t.Errorf("after a new page: a pause of %v", first)
	}
}

// TestAnEarlierSuccessConvictsNoPage: only the answer to a request that started after the page was
// refused twice shows that its trouble is its own.
func TestAnEarlierSuccessConvictsNoPage(t *testing.T) {
	checked, _ := rules.New(hostlimit.Config{})
	d := hostlimit.Delay{Min: time.Second, Max: time.Second, Ceiling: time.Minute}
	var r rules.Refusals
	say := func(number, last uint64, at int, status int, page uint64) hostlimit.Effect {
		return r.Observe(checked, hostlimit.Outcome{Status: status, Resource: page}, rules.Turn{
			Now: time.Duration(at) * time.Second, Number: number, Last: last, Probe: number > 2, Delay: &d, Gap: time.Second, Served: 1,
		})
	}
	say(1, 2, 0, 503, 'a') // number 2, for b, is in flight
	say(3, 3, 1, 503, 'a')
	say(2, 3, 2, 200, 'b')
	say(4, 4, 3, 503, 'c')
	if say(5, 5, 6, 503, 'a').Own {
		t.Error("convicted by a request from before the pause")
	}
}
