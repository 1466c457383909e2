package crawl

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// A step is an answer, and the verdict on pages that it leads to. The page is "good" where one that
// was served before is asked for, and "x!" where x was asked for before the trouble.
type step struct {
	page   string
	status int           // 0: no answer
	after  time.Duration // since the step before
	want   string
}

// stepsOf reads steps such as "a 503; good 200 1m = done a": a page, its status, the time since the
// step before unless that is a second, and the verdict unless there is none.
func stepsOf(t *testing.T, text string) (steps []step) {
	t.Helper()
	for part := range strings.SplitSeq(text, ";") {
		s := step{after: time.Second}
		answer, want, _ := strings.Cut(part, "=")
		s.want = strings.TrimSpace(want)
		fields := strings.Fields(answer)
		var err error
		if len(fields) == 3 {
			s.after, err = time.ParseDuration(fields[2])
		}
		if n, scanned := fmt.Sscan(answer, &s.page, &s.status); n != 2 || err != nil {
			t.Fatalf("%q is no step: %v, %v", part, scanned, err)
		}
		steps = append(steps, s)
	}
	return steps
}

// TestRefusals walks through the table of states.
func TestRefusals(t *testing.T) {
	for name, tt := range map[string]struct {
		tries int    // 0: 5
		steps string // see stepsOf
		next  string // request: the page, "good", or "any"
		alone bool
	}{
		"served":                           {0, "a 200 = done a", "any", false},
		"refused":                          {0, "a 503", "a", true},
		"served then":                      {0, "a 503; a 200 = done a", "any", false},
		"one try":                          {1, "a 503 = over a", "any", true},
		"two tries":                        {2, "g 200 = done g; a 503; a 503 = over a", "any", true},
		"a quarter of an hour uses no try": {2, "a 503; a 429; a 429 14m; a 429 2m; a 429 = over a", "any", true},
		"suspect, nothing to ask":          {0, "a 503; a 0", "any", true},
		"suspect":                          {0, "g 200 = done g; a 503; a 503", "good", true},
		"own trouble":                      {0, "g 200 = done g; a 500; a 500; good 200 = drop a; a 500; good 200 = done a", "any", false},
		"told by the next":                 {0, "a 0; a 0; b 404 = done b, drop a; a 0; good 200 = done a", "any", false},
		"a window's end":                   {0, "g 200 = done g; a 503; a 503; good 200 = drop a; a 200 = done a", "any", false},
		"told by a later one":              {0, "g 200 = done g; a 503; a 503; good 200 1m = drop a", "a", false},
		"the host's trouble":               {0, "g 200 = done g; a 503; a 503; good 503 = last a", "any", true},
		"the host's, still":                {0, "g 200 = done g; a 503; a 503; good 503 = last a; b 503", "good", true},
		"the host's, over":                 {0, "g 200 = done g; a 503; a 503; good 503 = last a; b 503; good 200", "b", false},
		"second chance":                    {0, "g 200 = done g; x 503; x 200 = done x; a 503; a 503; good 200 = last a; b 200 = done b; a 503; a 503; good 200 = done a", "any", false},
		"each third request is served":     {0, "g 200 = done g; a 503; a 503; good 200 = drop a; a 503; good 200 = done a; b 503; b 503; b 200 = done b", "any", false},
		"two broken pages in a row":        {0, "g 200 = done g; a 503; a 503; good 200 = drop a; a 503; good 200 = done a; b 503; b 503; b 503; good 200 = done b", "any", false},
		"two pages, nothing served":        {0, "a 503; a 503; b 503 = last a", "b", true},
		"429 is the host's":                {0, "g 200 = done g; a 429; a 429", "a", true},
		"the third 429":                    {0, "g 200 = done g; a 429; a 429; a 429", "good", true},
		"an earlier one":                   {0, "a 503; b! 503 = first b; c! 200 = done c", "a", true},
		"403":                              {0, "g 200 = done g; a 403", "any", false},
		"403 and served":                   {0, "a 403; b 451; c 200 = calm a, done c; a 403; d 200 = done d a, last b; b 451; e 200 = done e b", "any", false},
		"403 and served before":            {0, "a 403; b! 200 = done b; c 200 = calm a, done c", "any", false},
		"a few 403 are asked for again":    {0, "a 403; g 200 = calm a, done g; a 403; b 403; c 403; g 200 = done g a, last b c; d 403; g 200 = done g d", "any", false},
		"a limit that answers 403":         {0, "a 403; b 403; c 403; g 200 = calm a, done g; a 200 = done a, last b c; d 403; g 200 = done g, last d", "any", false},
		"others wait for a trial":          {0, "a 403; g 200 = calm a, done g; b 403; g 200 = done g; c 403 1m; g 200 2m = done g, last b c", "any", false},
		"403 with one try":                 {1, "a 403 = done a", "any", false},
		"five 403":                         {0, "g 200 = done g; a 403; b 403; c 403; d 403; e 403", "good", true},
		"forbidden":                        {0, "g 200 = done g; a 403; b 403; c 403; d 403; e 403; good 200 = calm a; a 403; good 200 = done b c d e a", "any", false},
		"a page that is served when a ban would be over": {
			0, "g 200 = done g; a 403; b 403; c 403; d 403; e 403; good 200 1m = last a b c d e; a 403; f 200 = done f a",
			"any", false,
		},
		"a page that a limit took first, and a ban then": {
			0, "a 403; g 200 = calm a, done g; a 403; b 403; c 403; d 403; e 403; good 200 1m = last a b c d e; a 200 = done a",
			"any", false,
		},
		"banned":                 {0, "g 200 = done g; a 403; b 403; c 403; d 403; e 403; good 403 = last a b c d e", "good", true},
		"ban over":               {0, "g 200 = done g; a 503; a 503; good 403 = last a; good 403; good 200", "any", false},
		"banned, nothing served": {0, "a 403; b 403; c 403; d 403; e 403; f 403 = last a b c d e f", "any", true},
	} {
		t.Run(name, func(t *testing.T) {
			var s refusals
			now, tries := time.Unix(0, 0), tt.tries
			if tries == 0 {
				tries = 5
			}
			requests := map[string]Request{}
			for i, st := range stepsOf(t, tt.steps) {
				url, earlier := strings.CutSuffix(st.page, "!")
				p := &Page{request: Request{URL: url}, good: url == "good"}
				if again, ok := requests[url]; ok {
					p.request = again
				}
				if st.status != 0 {
					p.Response = &http.Response{StatusCode: st.status}
				}
				if p.good != s.asksGood() {
					t.Fatalf("step %d: asks for good: %v", i, s.asksGood())
				}
				if s.again.URL == url {
					p.request, p.again, s.again = s.again, true, Request{}
				}
				now = now.Add(st.after)
				if p.ended = now; !earlier {
					p.began = now.Add(-time.Millisecond)
				}
				v := s.observe(p, !earlier && s.alone(), tries, now)
				for _, p := range slices.Concat(v.last, v.calm) {
					requests[p.request.URL] = Request{URL: p.request.URL, own: p.request.own, single: p.request.single}
				}
				if got := v.String(); got != st.want {
					t.Errorf("step %d: %q, want %q", i, got, st.want)
				}
			}
			next := "any"
			switch {
			case s.asksGood():
				next = "good"
			case s.again.URL != "":
				next = s.again.URL
			}
			if next != tt.next || s.alone() != tt.alone {
				t.Errorf("next is %q, alone %v, want %q, %v", next, s.alone(), tt.next, tt.alone)
			}
		})
	}
}

// String returns the fields that aren't empty, with their pages.
func (v verdict) String() string {
	var parts []string
	for name, pages := range map[string][]*Page{"done": v.done, "over": v.over, "first": v.first, "last": v.last, "calm": v.calm, "later": v.later, "drop": v.drop} {
		var urls []string
		for _, p := range pages {
			urls = append(urls, p.request.URL)
		}
		if len(urls) > 0 {
			parts = append(parts, name+" "+strings.Join(urls, " "))
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// TestDryHosts: where a host has nothing else to ask for, pages don't wait for what nothing tells.
func TestDryHosts(t *testing.T) {
	page := func() *Page { return &Page{request: Request{URL: "a"}} }
	good := Request{URL: "good"}
	for name, tt := range map[string]struct {
		refusals
		want     string
		asksGood bool
		size     int
	}{
		"nothing":             {refusals{good: good}, "", false, 0},
		"again":               {refusals{again: good}, "", false, 1},
		"suspect":             {refusals{suspect: page()}, "later a", false, 1},
		"suspect and good":    {refusals{suspect: page(), good: good}, "", true, 1},
		"held":                {refusals{held: []*Page{page()}, serves: true}, "done a", false, 1},
		"held, none served":   {refusals{held: []*Page{page()}}, "later a", false, 1},
		"held, asked twice":   {refusals{held: []*Page{page()}, knocks: 2}, "over a", false, 1},
		"held and good":       {refusals{held: []*Page{page()}, good: good}, "", true, 1},
		"checking":            {refusals{held: []*Page{page()}, checking: true, serves: true}, "done a", false, 1},
		"held and a suspect":  {refusals{held: []*Page{page()}, suspect: page()}, "later a", false, 2},
		"checking, with good": {refusals{held: []*Page{page()}, checking: true, good: good}, "", true, 1},
	} {
		s := tt.refusals
		if n := s.size(); n != tt.size {
			t.Errorf("%s: %d pages wait, want %d", name, n, tt.size)
		}
		if got := fmt.Sprint(s.dry()); got != tt.want || s.asksGood() != tt.asksGood {
			t.Errorf("%s: %q, asks for good %v; want %q, %v", name, got, s.asksGood(), tt.want, tt.asksGood)
		}
		now := time.Unix(0, 0)
		s.observe(&Page{good: tt.asksGood, Response: &http.Response{StatusCode: 429}}, true, 5, now)
		if s.closed(now, time.Hour, 5) {
			t.Errorf("%s: given up at the first refusal", name)
		}
	}
}

// TestOneOfTwoRefusedPagesIsNotForgotten: while a page that was refused waits to be asked for next, a
// second one is refused, or goes back: it waits as well.
func TestOneOfTwoRefusedPagesIsNotForgotten(t *testing.T) {
	now := time.Unix(0, 0)
	refused := func(url string) *Page { return &Page{request: Request{URL: url}, ended: now} }
	t.Run("refused", func(t *testing.T) {
		s := refusals{again: Request{URL: "waits"}}
		v := s.observe(refused("late"), false, 5, now) // it was in flight all the time
		if got := v.String(); s.again.URL != "waits" || got != "first late" {
			t.Errorf("%q waits, and %q", s.again.URL, got)
		}
	})
	t.Run("served", func(t *testing.T) {
		s := refusals{again: Request{URL: "waits"}, suspect: refused("suspect"), row: 1}
		v := s.observe(&Page{good: true, Response: &http.Response{StatusCode: 200}}, true, 5, now)
		if got := v.String(); s.again.URL != "waits" || got != "first suspect" {
			t.Errorf("%q waits, and %q", s.again.URL, got)
		}
	})
	t.Run("put back", func(t *testing.T) {
		h := &host{refusals: refusals{again: Request{URL: "waits"}}}
		r := &run{frontier: frontier{hosts: map[string]*host{}}}
		r.putBack(&flight{h: h, request: Request{URL: "late"}, again: true})
		if h.refusals.again.URL != "waits" || len(h.urls) != 1 {
			t.Errorf("%q waits, and %v", h.refusals.again.URL, h.urls)
		}
	})
}

// TestGood: the page that tells a refusal of the host from one of a page is the last one that was
// served, of those that cost little to ask for. Where there is none, a page that is gone will do.
func TestGood(t *testing.T) {
	for steps, want := range map[string]string{
		"a 200": "a", "a 304": "a", "a 404": "a", "a 404; b 200": "b", "a 404; b 404": "a", "a 301": "", "a 200 large": "a", "a 200 large; b 200 large": "a",
		"a 200; b 200": "b", "a 200; b 200 large": "a", "a 200; b 404": "a", "a 200 large; b 200": "b",
	} {
		var s refusals
		for step := range strings.SplitSeq(steps, "; ") {
			fields := append(strings.Fields(step), "")
			p := &Page{request: Request{URL: fields[0], Tries: 3}, Response: new(http.Response)}
			if _, err := fmt.Sscan(fields[1], &p.Response.StatusCode); err != nil {
				t.Fatal(err)
			}
			p.Body = make([]byte, smallBody)
			if fields[2] == "large" {
				p.Body = append(p.Body, 0)
			}
			s.observe(p, false, 5, time.Unix(0, 0))
		}
		if s.good.URL != want || s.good.Tries != 0 {
			t.Errorf("%s: %q after %d tries, want %q", steps, s.good.URL, s.good.Tries, want)
		}
	}
}

// TestWhenAHostIsGivenUp: after more than patience, or after a ban before it has served anything, in
// that many tries; and where nothing else is left, after a silence of a quarter of an hour.
func TestWhenAHostIsGivenUp(t *testing.T) {
	began, good := time.Unix(0, 0), Request{URL: "good"}
	for name, tt := range map[string]struct {
		refusals
		after        time.Duration
		closed, dead bool
	}{
		"nothing refused":             {refusals{good: good}, 2 * time.Hour, false, false},
		"refused":                     {refusals{good: good, row: 9, status: 503, since: began}, 59 * time.Minute, false, false},
		"refused for long":            {refusals{good: good, row: 1, status: 503, since: began}, 61 * time.Minute, true, false},
		"silent":                      {refusals{good: good, row: 1, since: began}, 14 * time.Minute, false, false},
		"silent for long":             {refusals{good: good, row: 1, since: began}, 16 * time.Minute, false, true},
		"silent, it has answered 503": {refusals{good: good, row: 2, since: began, heard: began.Add(5 * time.Minute)}, 16 * time.Minute, false, false},
		"banned":                      {refusals{good: good, row: 5, status: 403, banned: true, since: began}, 0, false, false},
		"banned, nothing was served":  {refusals{row: 5, status: 403, banned: true, since: began}, 0, true, false},
		"banned, a try is left":       {refusals{row: 4, status: 403, banned: true, since: began}, 0, false, false},
		"refused, nothing was served": {refusals{row: 5, status: 503, since: began}, 0, false, false},
	} {
		now := began.Add(tt.after)
		if closed, dead := tt.refusals.closed(now, time.Hour, 5), tt.refusals.dead(now); closed != tt.closed || dead != tt.dead {
			t.Errorf("%s: closed %v, dead %v", name, closed, dead)
		}
	}
}

// TestKeptBodies: pages that may have to wait keep 64 KiB each, and 64 MiB all together.
func TestKeptBodies(t *testing.T) {
	for _, tt := range []struct {
		kept, body, want int
	}{
		{0, 1000, 1000}, {0, keptBody, keptBody}, {0, keptBody + 1, keptBody}, {keptBodies - 10, 10, 10}, {keptBodies - 10, 11, 10}, {keptBodies, 1, 0},
	} {
		r, released := &run{kept: tt.kept}, 0
		p := &Page{Body: make([]byte, tt.body), release: func() { released++ }}
		r.keep(p)
		p.release()
		if len(p.Body) != tt.want || p.Truncated != (tt.want < tt.body) || r.kept != tt.kept+tt.want || released != 1 {
			t.Errorf("%d kept and %d bytes: %d are kept, truncated %v, %d kept in all, released %d times", tt.kept, tt.body, len(p.Body), p.Truncated, r.kept, released)
		}
	}
}

// TestAChallengeIsNamed as the reason of a wait.
func TestAChallengeIsNamed(t *testing.T) {
	var s refusals
	s.observe(&Page{refused: "cf-mitigated: challenge", Response: &http.Response{StatusCode: 403}}, true, 5, time.Unix(0, 0))
	if got, want := s.String(), "it has refused (cf-mitigated: challenge), which is waited for and never solved"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
