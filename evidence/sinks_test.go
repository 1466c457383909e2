package evidence_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/internal/cputime"
	"github.com/go-politeness/politeness/internal/logtest"
)

func TestMultiReachesAllInOrder(t *testing.T) {
	var got []string
	name := func(s string) evidence.Func {
		return func(context.Context, evidence.Decision) { got = append(got, s) }
	}
	evidence.Multi(name("a"), nil, name("b")).Record(t.Context(), started)
	if strings.Join(got, " ") != "a b" {
		t.Errorf("got %v", got)
	}
}

func TestMultiReachesAllWhenOnePanics(t *testing.T) {
	var r evidence.Recorder
	bad := evidence.Func(func(context.Context, evidence.Decision) { panic("boom") })
	g := evidence.Safe(evidence.Multi(bad, &r, bad))
	g.Record(t.Context(), started)
	if n := len(r.Decisions()); n != 1 {
		t.Errorf("%d records", n)
	}
	if err := g.Err(); err == nil || !strings.Contains(err.Error(), "boom") {
		t.Errorf("Err: %v", err)
	}
}

func TestMultiPanicsWithTheFirst(t *testing.T) {
	defer func() {
		if p := recover(); p == nil || !strings.Contains(fmt.Sprint(p), "first") {
			t.Errorf("panicked with %v", p)
		}
	}()
	bad := func(s string) evidence.Func { return func(context.Context, evidence.Decision) { panic(s) } }
	evidence.Multi(bad("first"), bad("second")).Record(t.Context(), started)
}

func TestSampleNeverDropsRefusals(t *testing.T) {
	var r evidence.Recorder
	s := evidence.Sample(10, &r)
	types := []evidence.Type{
		evidence.BlockedByRobots, evidence.RobotsFetched, evidence.RobotsRevalidated, evidence.RobotsUnreachable,
		evidence.BlockedByRule, evidence.BudgetWarning, evidence.BudgetExceeded, evidence.SlotTimeout, evidence.Failed,
		evidence.Retried, evidence.HostBlocked, evidence.HostCleared, evidence.LeaseExpired, evidence.ResponseRejected, evidence.NoIndex,
	}
	for trip := range uint64(100) {
		for _, typ := range append(types, evidence.RobotsAllowed, evidence.Started) {
			s.Record(t.Context(), evidence.Decision{Type: typ, Trip: trip + 1})
		}
		s.Record(t.Context(), evidence.Decision{Type: evidence.Fetched, Trip: trip + 1, Status: 399})
		s.Record(t.Context(), evidence.Decision{Type: evidence.Fetched, Trip: trip + 1, Status: 400})
	}
	for _, typ := range types {
		if n := len(r.Decisions(typ)); n != 100 {
			t.Errorf("%s: %d of 100", typ, n)
		}
	}
	for typ, want := range map[evidence.Type]int{evidence.RobotsAllowed: 10, evidence.Started: 10, evidence.Fetched: 110} {
		if n := len(r.Decisions(typ)); n != want {
			t.Errorf("%s: %d, want %d", typ, n, want)
		}
	}
	for _, d := range r.Decisions(evidence.Fetched) {
		if d.Status < 400 && d.Trip%10 != 1 {
			t.Errorf("a page of trip %d was kept", d.Trip)
		}
	}
	// Of a trip that is kept, all records are kept.
	for _, d := range r.Decisions(evidence.Started) {
		if d.Trip%10 != 1 {
			t.Errorf("trip %d was kept in part", d.Trip)
		}
	}
}

func TestSamplePassesOnRecordsWithoutATrip(t *testing.T) {
	for _, every := range []int{-1, 0, 1, 3, 1000} {
		var r evidence.Recorder
		s := evidence.Sample(every, &r)
		for trip := range uint64(2) {
			s.Record(t.Context(), evidence.Decision{Type: evidence.Fetched, Status: 200, Trip: trip})
		}
		if n := len(r.Decisions()); n != 2 {
			t.Errorf("n = %d: %d records, want 2", every, n)
		}
	}
}

func TestRecorder(t *testing.T) {
	var r evidence.Recorder
	r.Record(t.Context(), evidence.Decision{Type: evidence.Started, URL: "http://u:p@h/"})
	r.Record(t.Context(), evidence.Decision{Type: evidence.Fetched})
	if got := r.Decisions(evidence.Started); len(got) != 1 || got[0].URL != "http://h/" {
		t.Errorf("got %+v", got)
	}
	got := r.Decisions()
	got[0].Host = "changed"
	if again := r.Decisions(); len(again) != 2 || again[0].Host != "" {
		t.Errorf("got %+v", again)
	}
	r.Reset()
	if n := len(r.Decisions()); n != 0 {
		t.Errorf("%d records after Reset", n)
	}
}

func TestSlogHasTheAttributesOfTheJSON(t *testing.T) {
	d := full(t)
	var out bytes.Buffer
	evidence.Slog(slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))).Record(t.Context(), d)
	var logged, want map[string]any
	if err := json.Unmarshal(out.Bytes(), &logged); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(d.AppendJSON(nil), &want); err != nil {
		t.Fatal(err)
	}
	if logged["msg"] != want["type"] {
		t.Errorf("message %q", logged["msg"])
	}
	for name := range want {
		if _, ok := logged[name]; !ok && name != "type" {
			t.Errorf("no attribute %q", name)
		}
	}
}

func TestSlogLevels(t *testing.T) {
	for _, tc := range []struct {
		d    evidence.Decision
		want string
	}{
		{evidence.Decision{Type: evidence.RobotsAllowed}, "DEBUG"},
		{evidence.Decision{Type: evidence.Started}, "DEBUG"},
		{evidence.Decision{Type: evidence.Fetched, Status: 399}, "INFO"},
		{evidence.Decision{Type: evidence.Fetched, Status: 400}, "WARN"},
		{evidence.Decision{Type: evidence.RobotsFetched}, "INFO"},
		{evidence.Decision{Type: evidence.BlockedByRobots}, "WARN"},
		{evidence.Decision{Type: evidence.HostBlocked}, "WARN"},
		{evidence.Decision{Type: evidence.SlotTimeout}, "WARN"},
	} {
		var out bytes.Buffer
		evidence.Slog(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))).Record(t.Context(), tc.d)
		if !strings.Contains(out.String(), "level="+tc.want) {
			t.Errorf("%s: %s", tc.d.Type, &out)
		}
	}
}

func TestSlogDoesNotAllocateWhenDisabled(t *testing.T) {
	s := evidence.Slog(slog.New(slog.DiscardHandler))
	if n := testing.AllocsPerRun(100, func() { s.Record(context.Background(), started) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestRedactURL(t *testing.T) {
	for in, want := range map[string]string{
		"":                                    "",
		"https://h/a?b=c":                     "https://h/a?b=c",
		"https://user:pass@h/a":               "https://h/a",
		"https://user@h":                      "https://h",
		"https://@h/":                         "https://h/",
		"https://@//u:p@h/":                   "https://h/",
		"https://u@//v@h/":                    "https://h/",
		"https://h/a//b@c":                    "https://h/a//b@c",
		"https://a:b@c:d@h:8080/@x":           "https://h:8080/@x",
		"https://o'brien:o'pass@h/":           "https://h/",
		"//user:pass@h/x":                     "//h/x",
		"/relative/@x":                        "/relative/@x",
		"mailto:bot@example.com":              "mailto:bot@example.com",
		"https://medium.example/@user":        "https://medium.example/@user",
		"https://h?to=http://u:p@i/":          "https://h?to=http://i/",
		`Get "http://u:p@h/": EOF, ftp://u@i`: `Get "http://h/": EOF, ftp://i`,

		// What browsers take for a URL, and http.Client for another one.
		"https:/u:p@h/":          "https:/h/",
		"https:///u:p@h/":        "https:///h/",
		`HTTPS:\\u:p@h/`:         `HTTPS:\\h/`,
		"https:u:p@h":            "https:h",
		`\/u:p@h`:                `\/h`,
		"see http: bob@h":        "see http: bob@h",
		"a: b, http:/u:p@h":      "a: b, http:/h",
		"mailto:bot@h https:u@h": "mailto:bot@h https:h",
		"@home: http://u:p@h/":   "@home: http://h/",

		// In a parameter, in the ways in which programs escape it.
		"https://h/?next=https%3A%2F%2Fu%3Apw%40i%2Fx&y=1":                   "https://h/?next=https%3A%2F%2Fi%2Fx&y=1",
		"https://h/?next=https%3a//u%3apw%40i/x":                             "https://h/?next=https%3a//i/x",
		"https://h/?next=https://u:pw%40i":                                   "https://h/?next=https://i",
		"https://h/?next=https:%2F%2Fu:pw@i":                                 "https://h/?next=https:i",
		"https://h/?next=ftp%3A%2F%2Fu%40i&to=http%3A%2F%2Fv%40j#x":          "https://h/?next=ftp%3A%2F%2Fi&to=http%3A%2F%2Fj#x",
		"https://h/?a=https%3A%2F%2Fi%2F%3Fb%3Dhttps%253A%252F%252Fu%2540j":  "https://h/?a=https%3A%2F%2Fi%2F%3Fb%3Dhttps%253A%252F%252Fj",
		"https://h/?a=https%253A%252F%252Fu%253Ap%25252Fw%2540j%252Fx%2540y": "https://h/?a=https%253A%252F%252Fj%252Fx%2540y",
		"https://h/?next=https%3A%2F%2Fu%26v%3Apw%40i":                       "https://h/?next=https%3A%2F%2Fi",
		"https://h/?next=https:%2F%2Fu:pw%40i":                               "https://h/?next=https:%2F%2Fi",
		"https://h/login/https%3A%2F%2Fu%3Apw%40i":                           "https://h/login/https%3A%2F%2Fi",
		"see https://h/?n=https%3A%2F%2Fu%3Apw%40i today, bot%40h":           "see https://h/?n=https%3A%2F%2Fi today, bot%40h",
		"https://h/?n=https%3A%2F%2Fi&mail=a%40b":                            "https://h/?n=https%3A%2F%2Fi&mail=a%40b",
		"https://h/?n=https://i&mail=a%40b":                                  "https://h/?n=https://i&mail=a%40b",
		"https://h/?n=https%3A%2F%2Fi%2F%40user":                             "https://h/?n=https%3A%2F%2Fi%2F%40user",
		"https://h/?n=mailto%3Abot%40i&m=bot%40i":                            "https://h/?n=mailto%3Abot%40i&m=bot%40i",
		"https://h/a%40b?c=%40":                                              "https://h/a%40b?c=%40",
		"https://a%40b/":                                                     "https://a%40b/",
		"https://h/?next=https://a%2540b/":                                   "https://h/?next=https://a%2540b/",
		"%20https%3A%2F%2Fu%40h":                                             "%20https%3A%2F%2Fh",

		// Errors quote what can't be parsed.
		`parse "https://us er:p w@h/": net/url: invalid userinfo`: `parse "https://h/": net/url: invalid userinfo`,
		`parse "https://u:\"p@h/": EOF; "c@d"`:                    `parse "https://h/": EOF; "c@d"`,
		`parse "https://h": EOF, "c@d"`:                           `parse "https://h": EOF, "c@d"`,
	} {
		if got := evidence.RedactURL(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	if n := testing.AllocsPerRun(100, func() { evidence.RedactURL("https://example.com/@a?b=c%40&d=%3A%2F%2F") }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestRedactURLFindsTheEndOfAQuotedURL: in errors of net/url and net/http a URL is quoted, and its
// password may hold quotes and backslashes.
func TestRedactURLFindsTheEndOfAQuotedURL(t *testing.T) {
	passwords := []string{""}
	for range 4 {
		for _, p := range passwords {
			for _, c := range []string{`\`, `"`, "'", "n"} {
				passwords = append(passwords, p+c)
			}
		}
	}
	for _, scheme := range []string{"https", "az09+-."} {
		for _, p := range passwords {
			in := fmt.Sprintf(`Get %q: "%s" @ %q`, scheme+"://u:"+p+"S3CRET@h/", "a", p)
			want := fmt.Sprintf(`Get %q: "%s" @ %q`, scheme+"://h/", "a", p)
			if got := evidence.RedactURL(in); got != want {
				t.Errorf("%s: got %s, want %s", in, got, want)
			}
			in = fmt.Sprintf(`Get %q: nothing @ %q`, scheme+"://h"+p, p)
			if got := evidence.RedactURL(in); got != in {
				t.Errorf("%s: got %s", in, got)
			}
		}
	}
	for _, in := range []string{`see bot@h: "https://u\`, `see bot@h: "https://u`} { // which was cut
		if got := evidence.RedactURL(in); got != in {
			t.Errorf("%s: got %s", in, got)
		}
	}
}

func TestRedactReplacesNamedParameters(t *testing.T) {
	var r evidence.Recorder
	e := evidence.Redact(&r, "token", "session_id", "50%", "user name")
	for in, want := range map[string]string{
		"https://u:p@h/a?x=1&token=abc&y=2":                 "https://h/a?x=1&token=REDACTED&y=2",
		"https://h/?TOKEN=abc":                              "https://h/?TOKEN=REDACTED",
		"https://h/?%74oken=abc":                            "https://h/?%74oken=REDACTED",
		"https://h/?a=b;session_id=d":                       "https://h/?a=b;session_id=REDACTED",
		"https://h/#token=abc":                              "https://h/#token=REDACTED",
		"https://h/?token=a=b&token=c#token=d":              "https://h/?token=REDACTED&token=REDACTED#token=REDACTED",
		"https://h/?a?token=x":                              "https://h/?a?token=REDACTED",
		"https://h/?tokens=abc&xtoken=1&token":              "https://h/?tokens=abc&xtoken=1&token",
		"https://h/?token=&token&token=&b=c":                "https://h/?token=&token&token=&b=c",
		"https://h/?token=a&token=b":                        "https://h/?token=REDACTED&token=REDACTED",
		"https://h/token=abc":                               "https://h/token=abc",
		"/token=abc":                                        "/token=abc",
		"token=abc":                                         "token=abc",
		"https://h/?50%=abc&50%25=d":                        "https://h/?50%=REDACTED&50%25=REDACTED",
		"https://h/?user+name=abc&b=c":                      "https://h/?user+name=REDACTED&b=c",
		"https://h/?user name=abc&b=c":                      "https://h/?user name=REDACTED&b=c",
		"/?a=b/token=abc":                                   "/?a=b/token=abc",
		"https://h/?token[]=a&Token%5B0%5D=b&user[token]=c": "https://h/?token[]=REDACTED&Token%5B0%5D=REDACTED&user[token]=REDACTED",
		"https://h/?token%255B%255D=a&tokens[]=b&[]=c":      "https://h/?token%255B%255D=REDACTED&tokens[]=b&[]=c",

		// A URL in a parameter of another.
		"https://h/?next=%2Fa%3Ftoken%3Dabc%26y%3D2&token=d": "https://h/?next=%2Fa%3Ftoken%3DREDACTED%26y%3D2&token=REDACTED",
		"https://h/?n=%252Fa%253Ftoken%253Dabc%26y=2":        "https://h/?n=%252Fa%253Ftoken%253DREDACTED%26y=2",
		"https://h/?token=abc%26def&y=2":                     "https://h/?token=REDACTED&y=2",
		"https://h/?n=%3F%74oken%3Dabc":                      "https://h/?n=%3F%74oken%3DREDACTED",
		"https://h/?n=%3F%2574oken%3Dabc%":                   "https://h/?n=%3F%2574oken%3DREDACTED",
		"https://h/?n=%3Ftoken%3Dabc%26":                     "https://h/?n=%3Ftoken%3DREDACTED%26",
		"https://h/?n=%3Ftoken%3Dabc%2":                      "https://h/?n=%3Ftoken%3DREDACTED",
	} {
		r.Reset()
		e.Record(t.Context(), evidence.Decision{URL: in, Location: in, Err: in, Reason: in})
		if got := r.Decisions()[0]; !reflect.DeepEqual(got, evidence.Decision{URL: want, Location: want, Err: want, Reason: want}) {
			t.Errorf("%q: got %+v, want %q", in, got, want)
		}
	}
}

// A value may hold anything but & and #, whatever it would end in a text.
func TestRedactReplacesWholeValues(t *testing.T) {
	var r evidence.Recorder
	e := evidence.Redact(&r, "email", "next")
	for _, secret := range []string{"o'brien", `o"brien`, "<o>brien", "o;brien", "o;x=brien", "o brien", "o?brien=brien", "%22brien", "=brien"} {
		in := "https://h/?a=1&email=" + secret + "&b=2"
		want := "https://h/?a=1&email=REDACTED&b=2"
		r.Reset()
		e.Record(t.Context(), evidence.Decision{URL: in, Location: in, Reason: "no " + in + " today", Err: "Get " + in + ": EOF"})
		if got := r.Decisions()[0]; got.URL != want || got.Location != want || got.Reason != "no "+want+" today" || got.Err != "Get "+want+": EOF" {
			t.Errorf("%q: got %+v", in, got)
		}
	}
	for in, want := range map[string]string{
		`Get "https://h/?email=abc": EOF`:             `Get "https://h/?email=REDACTED": EOF`,
		"see https://h/?email=o'brien&next=a;b today": "see https://h/?email=REDACTED&next=REDACTED today",
	} {
		r.Reset()
		e.Record(t.Context(), evidence.Decision{URL: "https://i/", Err: in, Reason: in})
		if got := r.Decisions()[0]; got.Err != want || got.Reason != want {
			t.Errorf("%q: got %+v, want %q", in, got, want)
		}
	}
}

// TestRecordsAreClipped: a record without Text is at most 8 KB long whatever its strings are, says
// where something is missing, and stays as it is when it is read and written again.
func TestRecordsAreClipped(t *testing.T) {
	for _, piece := range []string{"x", "\x00", "\xff", "é", "\u202e", "\U000e0001", `"`} {
		d := full(t)
		v := reflect.ValueOf(&d).Elem()
		for i := range v.NumField() {
			if f := v.Field(i); f.Kind() == reflect.String {
				f.SetString(strings.Repeat(piece, 1<<20))
			}
		}
		d.Text, d.Policy = "", nil // a policy record has nothing else
		var log bytes.Buffer
		sink := logtest.New(t, &log, evidence.LogConfig{Chained: true})
		sink.Record(t.Context(), d)
		if err := sink.Flush(); err != nil {
			t.Fatal(err)
		}
		if log.Len() > 8<<10 || log.Len() < 4<<10 {
			t.Errorf("%q: a line of %d bytes", piece, log.Len())
		}
		var e evidence.LogLine
		if err := e.UnmarshalJSON(log.Bytes()); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(e.URL, evidence.Clipped) || !strings.HasPrefix(e.URL, strings.Repeat(piece, 160)) {
			t.Errorf("%q: %.100q", piece, e.URL)
		}
		if again := e.AppendJSON(nil); string(again) != strings.TrimSuffix(log.String(), "\n") {
			t.Errorf("%q: %s is not %s", piece, again, log.String())
		}
		if err := sink.Close(); err != nil {
			t.Fatal(err)
		}
	}
	// Where many strings are just short enough, or a policy has long ones, that is no different.
	for _, piece := range []string{"x", "\x00", `"`, `\`, "\x7f", "a\"", "é"} {
		for n := 8; n <= 16<<10; n += n / 3 {
			d := full(t)
			for _, v := range []reflect.Value{reflect.ValueOf(&d).Elem(), reflect.ValueOf(d.Policy).Elem()} {
				for i := range v.NumField() {
					if f := v.Field(i); f.Kind() == reflect.String {
						f.SetString(strings.Repeat(piece, n/len(piece)))
					}
				}
			}
			d.Text = ""
			policy := evidence.Decision{Policy: d.Policy}
			d.Policy = nil
			for _, d := range []evidence.Decision{d, policy} {
				var log bytes.Buffer
				sink := evidence.JSONLines(&log)
				sink.Record(t.Context(), d)
				if err := sink.Close(); err != nil || log.Len() > 8<<10 {
					t.Errorf("%q, %d bytes of it: a line of %d bytes; %v", piece, n, log.Len(), err)
				}
			}
		}
	}
	text := strings.Repeat("x", 500<<10)
	var r evidence.Recorder
	r.Record(t.Context(), evidence.Decision{Text: text, URL: text[:1000]})
	if d := r.Decisions()[0]; d.Text != text || d.URL != text[:1000] {
		t.Error("what has room was clipped")
	}
}

// TestStringsAreClippedToTheRoomThatTheyHave, which their field's tag tells, and not to less.
func TestStringsAreClippedToTheRoomThatTheyHave(t *testing.T) {
	for piece, size := range map[string]int{"x": 1, "é": 2, `"`: 2} {
		for i, f := range reflect.VisibleFields(reflect.TypeFor[evidence.Decision]()) {
			most, err := strconv.Atoi(f.Tag.Get("most"))
			if err != nil {
				continue
			}
			clipped := func(s string) string {
				var d evidence.Decision
				reflect.ValueOf(&d).Elem().Field(i).SetString(s)
				var r evidence.Recorder
				r.Record(t.Context(), d)
				return reflect.ValueOf(r.Decisions()[0]).Field(i).String()
			}
			fits := strings.Repeat(piece, most/size)
			if got := clipped(fits); got != fits {
				t.Errorf("%s: %d bytes became %s", f.Name, most, got)
			}
			kept, cut := strings.CutSuffix(clipped(fits+piece), evidence.Clipped)
			if n := len(kept)/len(piece)*size + len(evidence.Clipped); !cut || n > most || n <= most-size {
				t.Errorf("%s: clipped to %d bytes of %d", f.Name, n, most)
			}
		}
	}
}

// TestClippingChangesNobodysPolicy: a Policy is shared by all sinks, and by whoever made it.
func TestClippingChangesNobodysPolicy(t *testing.T) {
	long := strings.Repeat("x", 1<<10)
	p := evidence.Policy{UserAgent: long, ID: long, Robots: long, Pages: 7}
	given := p
	var r evidence.Recorder
	r.Record(t.Context(), evidence.Decision{Type: evidence.PolicyStated, Policy: &p})
	if p != given {
		t.Errorf("changed to %+v", p)
	}
	got := r.Decisions()[0].Policy
	for _, s := range []string{got.UserAgent, got.ID, got.Robots} {
		if !strings.HasSuffix(s, evidence.Clipped) {
			t.Errorf("not clipped: %q", s)
		}
	}
	if got.Pages != 7 {
		t.Errorf("%d pages", got.Pages)
	}
}

// TestLinesCanBePrinted: a log that is looked at on a terminal can't harm it.
func TestLinesCanBePrinted(t *testing.T) {
	d := evidence.Decision{Reason: "\x1b[2J\u202egpj\u2028\x7f\u009b\U000e0001\xff é漢🤖"}
	line := d.AppendJSON(nil)
	if i := strings.IndexFunc(string(line), func(r rune) bool { return !strconv.IsPrint(r) }); i >= 0 {
		t.Errorf("%q", line)
	}
	var again evidence.Decision
	if err := again.UnmarshalJSON(line); err != nil || again != d {
		t.Errorf("%+v, %v", again, err)
	}
	var standard struct{ Reason string }
	if err := json.Unmarshal(line, &standard); err != nil || !strings.HasSuffix(standard.Reason, "\U000e0001\ufffd é漢🤖") {
		t.Errorf("%q, %v", standard.Reason, err)
	}
}

// TestLossesPassThrough each sink that passes records on.
func TestLossesPassThrough(t *testing.T) {
	log := evidence.JSONLines(io.Discard)
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	for name, sink := range map[string]evidence.Evidence{
		"Multi": evidence.Multi(log), "Sample": evidence.Sample(1, log), "Redact": evidence.Redact(log, "token"),
	} {
		g := evidence.Safe(sink)
		g.Record(t.Context(), evidence.Decision{Type: evidence.Failed})
		if g.Err() == nil {
			t.Errorf("%s keeps to itself what the log has lost", name)
		}
	}
}

func BenchmarkSlog(b *testing.B) {
	sink := evidence.Slog(slog.New(slog.NewJSONHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelDebug})))
	b.ReportAllocs()
	for b.Loop() {
		sink.Record(b.Context(), started)
	}
}

// TestLongTextsCostLittle: a Location or an error may have megabytes, and is read before it is
// clipped. A text of 64 KB takes about as long as 64 texts of 1 KB; before an end was looked for
// once, it took 64 times as long.
func TestLongTextsCostLittle(t *testing.T) {
	sink := evidence.Redact(new(evidence.Recorder), "token")
	for _, part := range []string{`"http:"@`, `"http:\@`, `"http://`, "http:", "http://a@", "//@", "@", `\\@`, "a:", "https://u:p@h/?token=x&", "?token%3D", "=a"} {
		took := func(size, times int) (least time.Duration) {
			text := strings.Repeat(part, size/len(part))
			least = time.Hour
			for range 3 { // a collection of garbage counts, too
				least = min(least, cputime.Of(func() {
					for range times {
						evidence.RedactURL(text)
						evidence.RedactURL(text + "@")
						sink.Record(t.Context(), evidence.Decision{URL: text, Location: text, Reason: text, Err: text})
					}
				}))
			}
			return least
		}
		if short, long := took(1<<10, 64), took(64<<10, 1); long > 16*short {
			t.Errorf("%q: %v for 64 times 1 KB, %v for 64 KB", part, short, long)
		}
	}
}

// FuzzRedactURL holds that no password of a URL passes, whatever stands around it.
func FuzzRedactURL(f *testing.F) {
	for _, s := range []string{"", "user", `Get "`, "//", "http://a@", "http:/", `\`, "https://us er:p@", "see ", "%40", "mailto:"} {
		f.Add(s, s, s)
	}
	f.Fuzz(func(t *testing.T, before, user, after string) {
		const secret = "S3CRET"
		if strings.Contains(before+user+after, secret) {
			return
		}
		for _, slashes := range []string{"//", "/", "///", `\\`} {
			text := before + "https:" + slashes + url.UserPassword(user, secret).String() + "@h/" + after
			nested := url.QueryEscape(text)
			for _, text := range []string{text, "https://h/?n=" + nested, "https://h/?n=" + url.QueryEscape("https://i/?n="+nested)} {
				if clean := evidence.RedactURL(text); strings.Contains(clean, secret) {
					t.Errorf("%q became %q", text, clean)
				}
			}
		}
	})
}

// FuzzRedact holds that no value of a named parameter passes, whatever stands around it.
func FuzzRedact(f *testing.F) {
	for _, s := range []string{"", "a=b", "next=%2F%3F", "token=", "%74oken=", ";", "?", "#", "%2525", "x&", "=", "next=%3Ftoken%3D"} {
		f.Add(s, s)
	}
	var r evidence.Recorder
	e := evidence.Redact(&r, "token")
	f.Fuzz(func(t *testing.T, before, after string) {
		const secret = "S3CRET"
		if strings.Contains(before+after, secret) {
			return
		}
		plain := "https://h/?" + before + "&token=" + secret + "&" + after
		nested := "https://h/?n=" + url.QueryEscape(plain)
		for _, u := range []string{plain, nested, "https://h/?n=" + url.QueryEscape(nested)} {
			r.Reset()
			e.Record(t.Context(), evidence.Decision{URL: u, Location: u, Err: `Get "` + u + `": EOF`})
			if line := r.Decisions()[0].AppendJSON(nil); bytes.Contains(line, []byte(secret)) {
				t.Errorf("%q became %s", u, line)
			}
		}
	})
}
