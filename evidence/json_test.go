package evidence_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/internal/logtest"
)

// fullPolicy returns a Policy with every field set, none to a value of another.
func fullPolicy() *evidence.Policy {
	var p evidence.Policy
	v := reflect.ValueOf(&p).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			f.SetString(fmt.Sprint("\"", i))
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Float64:
			f.SetFloat(0.1 + float64(i))
		case reflect.Int: // which may have 32 bits
			f.SetInt(1_000_000_001 + int64(i))
		default:
			f.SetInt(1_000_000_001 * int64(i))
		}
	}
	return &p
}

// full returns a Decision with every field set, none to a value of another.
func full(tb testing.TB) evidence.Decision {
	tb.Helper()
	var d evidence.Decision
	v := reflect.ValueOf(&d).Elem()
	for i := range v.NumField() {
		f := v.Field(i)
		switch f.Interface().(type) {
		case string, evidence.Type:
			f.SetString("v\"\\\n\x01é\u2028😀 " + v.Type().Field(i).Name)
		case bool:
			f.SetBool(true)
		case int, int64:
			f.SetInt(int64(1000 + i))
		case uint64:
			f.SetUint(math.MaxUint64 - uint64(i))
		case time.Duration:
			f.SetInt(1_000_000_001 * int64(i))
		case *evidence.Policy:
			f.Set(reflect.ValueOf(fullPolicy()))
		case time.Time:
			f.Set(reflect.ValueOf(time.Date(2026, 11, 21, 3, 4, 5, 1000+i, time.UTC)))
		default:
			tb.Fatalf("field %s of unknown kind", v.Type().Field(i).Name)
		}
	}
	return d
}

func TestDecisionRoundTrip(t *testing.T) {
	want := full(t)
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]any
	if err := json.Unmarshal(b, &members); err != nil {
		t.Fatal(err)
	}
	if n := reflect.TypeFor[evidence.Decision]().NumField(); len(members) != n {
		t.Errorf("%d members for %d fields", len(members), n)
	}
	var got evidence.Decision
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestDecisionZeroFieldsAreAbsent(t *testing.T) {
	b, err := json.Marshal(evidence.Decision{})
	if err != nil || string(b) != `{"allowed":false}` {
		t.Fatalf("%s, %v", b, err)
	}
}

func TestDecisionDurationsAreExact(t *testing.T) {
	for _, tc := range []struct {
		d    time.Duration
		json string
	}{
		{1, "0.000000001"},
		{time.Second, "1"},
		{2500 * time.Millisecond, "2.5"},
		{86400 * time.Second, "86400"},
		{-1500 * time.Millisecond, "-1.5"},
		{math.MaxInt64, "9223372036.854775807"},
		{math.MinInt64, "-9223372036.854775808"},
		{1<<53 + 1, "9007199.254740993"},
	} {
		b := evidence.Decision{CrawlDelay: tc.d}.AppendJSON(nil)
		if want := `{"allowed":false,"crawlDelay":` + tc.json + `}`; string(b) != want {
			t.Errorf("%d: got %s, want %s", tc.d, b, want)
		}
		var d evidence.Decision
		if err := json.Unmarshal(b, &d); err != nil || d.CrawlDelay != tc.d {
			t.Errorf("%d: came back as %d, %v", tc.d, d.CrawlDelay, err)
		}
	}
	for in, want := range map[string]time.Duration{
		"0": 0, "1.0": time.Second, "1e-9": 1, "2.5E1": 25 * time.Second, "0.1000000000": 100 * time.Millisecond,
	} {
		var d evidence.Decision
		if err := json.Unmarshal([]byte(`{"delay":`+in+`}`), &d); err != nil || d.Delay != want {
			t.Errorf("%s: got %v, %v; want %v", in, d.Delay, err, want)
		}
	}
}

func TestDecisionTimesAreRFC3339InUTC(t *testing.T) {
	at := time.Date(2026, 3, 1, 1, 2, 3, 40, time.FixedZone("", 3600))
	b := evidence.Decision{Time: at}.AppendJSON(nil)
	if want := `{"timestamp":"2026-03-01T00:02:03.00000004Z","allowed":false}`; string(b) != want {
		t.Errorf("got %s, want %s", b, want)
	}
	// A year that RFC 3339 can't write still gives a record that can be read.
	for _, at := range []time.Time{time.Unix(1<<60, 0), time.Unix(-1<<60, 0)} {
		var d evidence.Decision
		if err := json.Unmarshal(evidence.Decision{Until: at}.AppendJSON(nil), &d); err != nil {
			t.Errorf("%v: %v", at, err)
		}
	}
}

func TestDecisionBytesThatAreNotUTF8ComeBack(t *testing.T) {
	for _, s := range []string{"\xff", "a\x80b", "\xed\xb2\x80", "\xe2\x82", "Disallow: /caf\xe9", "\ufffd"} {
		b := evidence.Decision{MatchedRule: s}.AppendJSON(nil)
		if !json.Valid(b) || !utf8.Valid(b) {
			t.Errorf("%q: invalid JSON %s", s, b)
		}
		var d evidence.Decision
		if err := json.Unmarshal(b, &d); err != nil || d.MatchedRule != s {
			t.Errorf("%q came back as %q, %v", s, d.MatchedRule, err)
		}
	}
}

func TestDecisionUnmarshalErrors(t *testing.T) {
	for _, in := range []string{
		``, `{`, `[]`, `{"allowed":true`, `{"allowed":1}`, `{"status":"200"}`, `{"status":1.5}`, `{"url":1}`,
		`{"timestamp":"yesterday"}`, `{"delay":1e300}`, `{"delay":NaN}`, `{"delay":9223372036.854775808}`, `{"trip":-1}`,
		`{"allowed":false,"allowed":true}`, `{"url":"a","url":"b"}`, `{"url":"\ud8"}`, `{"url":"\x"}`,
		`{"x":`, `{"x":[`, `{"x":{"a"`, `{"x":{"a":`, `{} {}`, `{"allowed":true,}`, `{"x":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`, "{\"url\":\"a\nb\"}",
	} {
		var d evidence.Decision
		if err := d.UnmarshalJSON([]byte(in)); err == nil {
			t.Errorf("%s: no error", in)
		}
	}
}

func TestDecisionUnmarshalRefusesAMemberThatOccursTwice(t *testing.T) {
	for _, in := range []string{
		`{"status":0,"status":404}`, `{"status":404,"status":0}`, `{"status":null,"status":404}`, `{"status":null,"status":null}`,
		`{"url":"","url":"x"}`, `{"robotsTxt":false,"robotsTxt":true}`, `{"allowed":null,"allowed":true}`, `{"delay":0,"delay":5}`,
		`{"timestamp":"0001-01-01T00:00:00Z","timestamp":"2026-11-21T03:04:05Z"}`, `{"trip":0,"trip":1}`, `{"n":0,"n":1}`, `{"hash":"","hash":"x"}`,
	} {
		var d evidence.Decision
		if err := d.UnmarshalJSON([]byte(in)); err == nil {
			t.Errorf("%s: no error", in)
		}
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[evidence.LogLine]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		member := fmt.Sprintf("%q:null", name)
		var e evidence.LogLine
		if err := e.UnmarshalJSON([]byte("{" + member + "," + member + "}")); err == nil && !f.Anonymous {
			t.Errorf("%s twice: no error", name)
		}
	}
	// Every member has a bit of its own.
	for _, in := range []evidence.Decision{full(t), started} {
		var d evidence.Decision
		if err := d.UnmarshalJSON(in.AppendJSON(nil)); err != nil {
			t.Error(err)
		}
	}
}

func TestDecisionUnmarshalReadsTheNumbersOfJSONOnly(t *testing.T) {
	for _, number := range []string{
		"0", "-0", "7", "10", "1.5", "-1.05", "1e2", "1E+2", "2.5e-3", "+404", "0404", "00", "-", "-01", "1.", ".5", "-.5", "1.e2", "1e", "1e+", "0x1", "1_0", "e1", "",
	} {
		for _, in := range []string{`{"delay":` + number + `}`, `{"unknown":[` + number + ` ]}`} {
			if number == "" && strings.Contains(in, "unknown") {
				continue // an empty list
			}
			var d evidence.Decision
			if err := d.UnmarshalJSON([]byte(in)); (err == nil) != json.Valid([]byte(in)) {
				t.Errorf("%s: %v", in, err)
			}
		}
	}
	for _, in := range []string{`{"status":+404}`, `{"status":0404}`, `{"status":404.}`, `{"trip":01}`, `{"bytes":-01}`} {
		var d evidence.Decision
		if err := d.UnmarshalJSON([]byte(in)); err == nil {
			t.Errorf("%s: no error", in)
		}
	}
}

func TestDecisionUnmarshalReadsAnyEscape(t *testing.T) {
	in := `{"url":"\"\\\/\b\f\n\r\t\u0041\u00e9\ud83d\ude00\ud800x\ud800\u0041\uDC80"}`
	want := "\"\\/\b\f\n\r\tA\u00e9\U0001f600\ufffdx\ufffdA\x80"
	var d evidence.Decision
	if err := json.Unmarshal([]byte(in), &d); err != nil || d.URL != want {
		t.Errorf("got %q, %v; want %q", d.URL, err, want)
	}
	for _, in := range []string{"null", " null "} {
		d = evidence.Decision{Host: "kept"}
		if err := d.UnmarshalJSON([]byte(in)); err != nil || d.Host != "kept" {
			t.Errorf("%q: %+v, %v", in, d, err)
		}
	}
}

func TestDecisionUnmarshalPassesOverUnknownMembers(t *testing.T) {
	in := ` { "new" : {"a":[1,-2.5e3,"x\"}",null,true,{}],"b":[]} , "status" : 200 , "url" : null , "\u0068ost":"h" } `
	var d evidence.Decision
	if err := json.Unmarshal([]byte(in), &d); err != nil || d != (evidence.Decision{Status: 200, Host: "h"}) {
		t.Fatalf("%+v, %v", d, err)
	}
	if err := json.Unmarshal([]byte(" { } "), &d); err != nil || d != (evidence.Decision{}) {
		t.Fatalf("of an object without members: %+v, %v", d, err)
	}
}

func TestAppendJSONDoesNotAllocate(t *testing.T) {
	d := full(t)
	d.Policy = nil
	buf := make([]byte, 0, 64<<10)
	if n := testing.AllocsPerRun(100, func() { buf = d.AppendJSON(buf[:0]) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAppendJSON(b *testing.B) {
	d := started
	buf := make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		buf = d.AppendJSON(buf[:0])
	}
	b.SetBytes(int64(len(buf)))
}

func BenchmarkUnmarshal(b *testing.B) {
	in := started.AppendJSON(nil)
	b.ReportAllocs()
	b.SetBytes(int64(len(in)))
	var d evidence.Decision
	for b.Loop() {
		if err := d.UnmarshalJSON(in); err != nil {
			b.Fatal(err)
		}
	}
}

// started is a typical record.
var started = evidence.Decision{
	Type: evidence.Started, Time: time.Date(2026, 11, 21, 3, 4, 5, 123456789, time.UTC),
	Trip: 17, Attempt: 1, Method: "GET", URL: "https://shop.example/a/b?c=d", Host: "shop.example",
	Allowed: true, Seq: 12, Start: time.Date(2026, 11, 21, 3, 4, 5, 123456000, time.UTC),
	WaitSlot: 3 * time.Millisecond, WaitDelay: 250 * time.Millisecond, Delay: 2 * time.Second, DelaySource: "random", Slot: 1, Slots: 2,
}

// TestReadingCostsWhatItKeeps: the strings of a record, and nothing to find them.
func TestReadingCostsWhatItKeeps(t *testing.T) {
	in := started.AppendJSON(nil)
	var d evidence.Decision
	if n := testing.AllocsPerRun(100, func() { _ = d.UnmarshalJSON(in) }); n > 4 { // type, url, host, and the Decision
		t.Errorf("%v allocations", n)
	}
}

func FuzzDecision(f *testing.F) {
	f.Add([]byte(`{"type":"fetched","allowed":true,"status":200,"crawlDelay":1.5,"timestamp":"2026-11-21T03:04:05.1Z"}`))
	f.Add([]byte(`{"url":"\ud83d\ude00\udc80\u2028","x":[{}]}`))
	f.Add(full(f).AppendJSON(nil))
	f.Fuzz(func(t *testing.T, in []byte) {
		var d, again evidence.Decision
		if d.UnmarshalJSON(in) != nil {
			return
		}
		if !json.Valid(d.AppendJSON(nil)) {
			t.Fatalf("invalid JSON from %s", in)
		}
		// What was read may hold userinfo; what was written doesn't any more.
		if err := d.UnmarshalJSON(d.AppendJSON(nil)); err != nil {
			t.Fatal(err)
		}
		if err := again.UnmarshalJSON(d.AppendJSON(nil)); err != nil || !reflect.DeepEqual(d, again) {
			t.Fatalf("%+v came back as %+v, %v", d, again, err)
		}
	})
}

func TestEntryIsALineOfALog(t *testing.T) {
	var out bytes.Buffer
	log := logtest.New(t, &out, evidence.LogConfig{Chained: true})
	log.Record(t.Context(), full(t))
	log.Record(t.Context(), started)
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	n := uint64(0)
	for line := range bytes.Lines(out.Bytes()) {
		n++
		line = bytes.TrimSpace(line)
		var e evidence.LogLine
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		if e.N != n || len(e.Hash) != 43 && n != 2 || n == 2 && e.Decision != started {
			t.Errorf("line %d: %+v", n, e)
		}
		if again, err := e.MarshalJSON(); err != nil || !bytes.Equal(again, line) {
			t.Errorf("line %d: %v\n got %s\nwant %s", n, err, again, line)
		}
	}
	if n != 3 {
		t.Errorf("%d lines", n)
	}
}

// TestALineSaysWhatItLeavesOut: a line is shorter where one value tells another, and says the same.
func TestALineSaysWhatItLeavesOut(t *testing.T) {
	const s = time.Second
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, typ := range []evidence.Type{
		evidence.Started, evidence.Resent, evidence.Fetched, evidence.Failed, evidence.HostBlocked, evidence.RobotsUnreachable, evidence.RobotsAllowed,
	} {
		for _, d := range []evidence.Decision{
			{},
			{URL: "https://a/", Method: "GET"},
			{URL: "https://a/", Method: "HEAD", Trip: 1, Attempt: 1},
			{Trip: 1, Attempt: 2, Seq: 1},
			{Attempt: 1},
			{Start: at},
			{Start: at.Add(-2 * s), Duration: 2 * s},
			{Start: at, Seq: 1, DelaySource: "random"},
			{Start: at.Add(-s), Seq: 1, DelaySource: "learned"},
			{Start: at.Add(-2 * s), Seq: 1, Latency: s, Duration: 2 * s},
			{Start: at.Add(-2 * s), Seq: 1, Latency: 2 * s, Duration: 2 * s},
			{Start: at.Add(-3 * s), Seq: 1, Latency: s, Duration: 2 * s},
			{RetryAt: at.Add(s), Until: at.Add(s)},
			{RetryAt: at.Add(2 * s), Until: at.Add(s)},
		} {
			d.Type, d.Time = typ, at
			switch typ { // as they are recorded
			case evidence.Started, evidence.Resent, evidence.Fetched:
				if d.Start.IsZero() {
					d.Start = at.Add(-d.Duration)
				}
			}
			switch typ {
			case evidence.Started, evidence.Resent:
				if d.DelaySource == "" {
					d.DelaySource = "random"
				}
			}
			if typ == evidence.Failed && d.Seq != 0 && d.Start.IsZero() {
				d.Start = at
			}
			var out bytes.Buffer
			log := evidence.JSONLines(&out)
			log.Record(t.Context(), d)
			if err := log.Close(); err != nil {
				t.Fatal(err)
			}
			var got evidence.Decision
			if err := json.Unmarshal(out.Bytes(), &got); err != nil || !reflect.DeepEqual(got, d) {
				t.Errorf("%s became %+v, want %+v; %v", out.Bytes(), got, d, err)
			}
		}
	}
}

// TestALineLeavesOutWhatTheRestTells, as AppendJSON has it.
func TestALineLeavesOutWhatTheRestTells(t *testing.T) {
	const s = time.Second
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	until := at.Add(s)
	for _, d := range []evidence.Decision{
		{Type: evidence.RobotsAllowed, Trip: 1, Attempt: 1, URL: "https://a/", Method: "GET"},
		{Type: evidence.Started, Start: at, DelaySource: "random"},
		{Type: evidence.Resent, Start: at, DelaySource: "random"},
		{Type: evidence.Fetched, Start: at.Add(-s), Latency: s, Duration: s},
		{Type: evidence.Failed, Seq: 1, Start: at.Add(-s), Latency: s, Duration: s},
		{Type: evidence.HostBlocked, Until: until, RetryAt: until},
		{Type: evidence.RobotsUnreachable, Until: until, RetryAt: until},
	} {
		d.Time = at
		line := string(d.AppendJSON(nil))
		for _, member := range []string{"attempt", "method", "start", "delaySource", "duration", "retryAt"} {
			if strings.Contains(line, `"`+member+`":`) {
				t.Errorf("%s is in %s", member, line)
			}
		}
	}
}

// TestAPartOfALineIsNoRecord, wherever it was cut, and the error says how far it could be read.
func TestAPartOfALineIsNoRecord(t *testing.T) {
	d := full(t)
	line := d.AppendJSON(nil)
	for i := range len(line) {
		var e evidence.LogLine
		if err := e.UnmarshalJSON(line[:i:i]); err == nil {
			t.Fatalf("the first %d bytes are read", i)
		}
	}
	var e evidence.LogLine
	if err := e.UnmarshalJSON([]byte(`{"type":"started","seq":x}`)); err == nil || !strings.Contains(err.Error(), "column 25:") {
		t.Errorf("the 25th byte is wrong: %v", err)
	}
}

// TestTheEndsOfWhatALineCanSay, the last year and the longest durations, are read as they are written.
func TestTheEndsOfWhatALineCanSay(t *testing.T) {
	want := evidence.Decision{
		Type: evidence.HostBlocked, Time: time.Date(9999, 1, 2, 3, 4, 5, 0, time.UTC),
		Until: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), RetryAt: time.Date(0, 1, 1, 0, 0, 0, 1, time.UTC),
	}
	var got evidence.Decision
	if err := json.Unmarshal(want.AppendJSON(nil), &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v; %v", got, want, err)
	}
	for number, want := range map[string]time.Duration{
		"-9.223372036854775808e9": math.MinInt64,
		"9.223372036854774784e9":  9223372036854774784,
	} {
		var d evidence.Decision
		if err := json.Unmarshal([]byte(`{"type":"fetched","latency":`+number+`}`), &d); err != nil || d.Latency != want {
			t.Errorf("%s: %d, %v", number, d.Latency, err)
		}
	}
	for _, number := range []string{"9.223372036854775808e9", "-9.3e9", "1e300", "9223372037", "1844674407370955162", "36028797018963968", "-36028797018963968"} {
		var d evidence.Decision
		if err := json.Unmarshal([]byte(`{"type":"fetched","latency":`+number+`}`), &d); err == nil {
			t.Errorf("%s: %d", number, d.Latency)
		}
	}
}
