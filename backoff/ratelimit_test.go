package backoff_test

import (
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/backoff"
)

func TestRateLimitWithNothingLeft(t *testing.T) {
	for value, want := range map[string]time.Duration{
		`"default";r=0;t=30`:                             30 * s,
		`"p";r=0;t=3600`:                                 time.Hour,
		`"p"; r=0; t=7`:                                  7 * s,
		`"a";r=0;t=10, "b";r=0;t=20`:                     20 * s,
		`"a";r=0;t=10,"b";r=5;t=99`:                      10 * s,
		`"a" ;r=0;t=10`:                                  -1,
		`"p";r=0;t=3;pk=:Y29uc3VtZXI=:`:                  3 * s,
		`"p";x;r=0;t=3;y=?1;z="a;r=9\",";w=1.5;v=@12345`: 3 * s,
		`  "p";r=0;t=3  `:                                3 * s,
		`"p";r=0;t=999999999999999`:                      time.Hour,
		`limit=60, remaining=0, reset=30`:                30 * s,
		`limit=60;remaining=0;reset=30`:                  30 * s,
		`limit=60, Remaining=0, Reset=2.5`:               3 * s,
		`limit=60, remaining=0, reset=86400`:             time.Hour,
		`"p";r=0;t=0`:                                    0,
		`"p";r=-00;t=3`:                                  3 * s,

		`"p";r=1;t=30`:                    -1, // something is left
		`"p";r=0`:                         -1, // no reset
		`"p";t=30`:                        -1,
		`"p"`:                             -1,
		``:                                -1,
		`"p";r=0;t=-3`:                    -1,
		`"p";r=0.0;t=3`:                   -1, // not an integer
		`"p";r="0";t=3`:                   -1,
		`limit=10, remaining=0`:           -1, // no reset
		`limit=60, remaining=1, reset=30`: -1,
		`remaining=0, reset=soon`:         -1,
		`"p";r=0;t=3,`:                    -1,
		`"p";r=0;t=3 "q"`:                 -1,
		`"p;r=0;t=3`:                      -1,
		`"p";R=0;t=3`:                     -1,
		`"p";r=0;t=`:                      -1,
		`"p";r=0;t=1234567890123456`:      -1, // 16 digits
		`"p";r=0;t=3;`:                    -1,
		"\"p\x00\";r=0;t=3":               -1,
		`:abc;r=0;t=3`:                    -1,
		`(a;r=0;t=3`:                      -1,
		`("a" b);r=0;t=3`:                 -1, // an item that isn't a string
		`default;t=5;r=0`:                 -1,
	} {
		d, ok := backoff.RateLimit(value)
		if ok != (want >= 0) || ok && d != want {
			t.Errorf("%s: %v, %v; want %v", value, d, ok, want)
		}
	}
}

// What RFC 9651 allows beside r and t doesn't keep them from being read; a field that it doesn't
// allow is ignored as a whole.
func TestRateLimitIsAStructuredField(t *testing.T) {
	for item, valid := range map[string]bool{
		`"p"`:                   true,
		`"\"a\\b\""`:            true,
		`" ~"`:                  true,
		`"p\`:                   false,
		`"p\n"`:                 false,
		"\"p\x1f\"":             false,
		"\"p\x7f\"":             false,
		`azAZ`:                  true,
		`*`:                     true,
		"a0!#$%&'*+-.^_`|~:/zZ": true,
		`!a`:                    false,
		`_a`:                    false,
		`(a b)`:                 true,
		`( a  b )`:              true,
		`()`:                    true,
		`(a"b")`:                false,
		`(a;x=1 b;y)`:           true,
		`a;az09_-.*=1`:          true,
		`a;*=1`:                 true,
		`a;z`:                   true,
		`a;0=1`:                 false,
		`a;_=1`:                 false,
		`a;A=1`:                 false,
		`999999999999999`:       true,
		`-999999999999999`:      true,
		`1000000000000000`:      false,
		`999999999999.999`:      true,
		`1000000000000.9`:       false,
		`1.`:                    false,
		`1.2345`:                false,
		`-`:                     false,
		`:azAZ09+/==:`:          true,
		`:a_:`:                  false,
		`?0`:                    true,
		`?1`:                    true,
		`?2`:                    false,
		`@-1`:                   true,
		`@1.5`:                  false,
		`@`:                     false,
		`%"a%c3%bc"`:            true,
		`%a`:                    false,
	} {
		for _, value := range []string{item + ";r=0;t=3", `"p";r=0;t=3, ` + item, `"p";r=0;t=3;x=` + item} {
			if strings.HasPrefix(value, `"`) && strings.HasPrefix(item, "(") && strings.Contains(value, "x=") {
				continue // a parameter isn't a list
			}
			want := valid && value[0] == '"' // what isn't a string names no quota
			if d, ok := backoff.RateLimit(value); ok != want || ok && d != 3*s {
				t.Errorf("%s: %v, %v", value, d, ok)
			}
		}
		if d, ok := backoff.RateLimit(item + `, "p";r=0;t=3`); ok != valid || ok && d != 3*s {
			t.Errorf("%s before a quota: %v, %v", item, d, ok)
		}
	}
}

func TestXRateLimitWithNothingLeft(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	const sent = "Sat, 21 Nov 2026 11:59:00 GMT" // the server's clock is a minute slow
	for _, c := range []struct {
		remaining, reset, date string
		want                   time.Duration // negative: not said
	}{
		{"0", "30", "", 30 * s},
		{" 0 ", "30", sent, 30 * s},
		{"0.0", "345.5", "", 346 * s},
		{"0", "999999999", "", time.Hour},
		{"0", "600000", "", time.Hour},     // milliseconds to go, perhaps
		{"0", "1795262460", "", 60 * s},    // 12:01:00
		{"0", "1795262460", sent, 120 * s}, // by the server's own clock
		{"0", "1795262460000", "", 60 * s}, // in milliseconds
		{"0", "99999999999999999999", "", time.Hour},
		{"0", "1795262459.5", "", 60 * s}, // rounded up
		{"0", "2026-11-21T12:00:30Z", "", 30 * s},
		{"0", "Sat Nov 21 2026 12:00:30 GMT+0000 (Coordinated Universal Time)", "", 30 * s},
		{"0", "6m0s", "", 6 * time.Minute},
		{"0, 5", "30, 40", "", 40 * s},
		{"0;w=60", "", "", 60 * s},
		{"0;w=60", "30", "", 30 * s},
		{"0;w=21600", "", "", time.Hour},
		{"0", "1000000000", "Sun, 09 Sep 2001 01:46:00 GMT", 40 * s},    // the first time that is one
		{"0", "1000000000000", "Sun, 09 Sep 2001 01:46:00 GMT", 40 * s}, // and the first in milliseconds

		{"1", "30", "", -1},
		{"0", "0", "", -1},
		{"0", "1795262400", "", -1}, // now
		{"0", "1000000000", "", -1}, // long ago
		{"", "30", "", -1},
		{"0", "", "", -1},
		{"-1", "30", "", -1},
		{"NaN", "30", "", -1},
		{"0", "Inf", "", -1},
		{"0", "1e3", "", -1},
		{"none", "30", "", -1},
		{"5;w=60", "30", "", -1},
		{"0;w=soon", "", "", -1},
	} {
		d, ok := backoff.XRateLimit(c.remaining, c.reset, c.date, now)
		if ok != (c.want >= 0) || ok && d != c.want {
			t.Errorf("%+v: %v, %v", c, d, ok)
		}
	}
}

func FuzzRateLimit(f *testing.F) {
	for _, seed := range []string{`"p";r=0;t=30, ("a" b);r=0`, `a;b=:YQ==:;c=?0;d=-1.5;e=@3`, `"\"";`, `%"x"`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		d, ok := backoff.RateLimit(value)
		if d < 0 || !ok && d != 0 {
			t.Errorf("%q: %v, %v", value, d, ok)
		}
		if d, _ := backoff.XRateLimit("0", value, value, time.Now()); d < 0 {
			t.Errorf("%q: %v", value, d)
		}
	})
}
