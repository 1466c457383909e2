package audit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/internal/logtest"
)

// linesOf returns the lines of a log that evidence.JSONLines makes of a row's records, ten seconds each.
func linesOf(t *testing.T, text string, cfg evidence.LogConfig) (lines []string) {
	t.Helper()
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		log := logtest.New(t, &out, cfg)
		for line := range strings.Lines(write(t, text)[0]) {
			var d evidence.Decision
			if err := json.Unmarshal([]byte(line), &d); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
			log.Record(context.Background(), d)
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	})
	return slices.Collect(strings.Lines(out.String()))
}

// TestVerdictsOnLines: no line of a log can be taken out, changed, or put in.
func TestVerdictsOnLines(t *testing.T) {
	const crawl = usual + `
		1 page 1
		2 page 2
	`
	plain := linesOf(t, crawl, evidence.LogConfig{}) // 10 lines and the seal
	chained := linesOf(t, crawl, evidence.LogConfig{Chained: true})
	after := strings.Replace(crawl, "policy", "policy by=W limiter=M", 1) // of another process
	plainAfter, chainedAfter := linesOf(t, after, evidence.LogConfig{}), linesOf(t, after, evidence.LogConfig{Chained: true})
	without := func(lines []string, from, to int) []string { return slices.Delete(slices.Clone(lines), from-1, to) }
	with := func(lines []string, line int, old, now string) []string {
		lines = slices.Clone(lines)
		changed := strings.Replace(lines[line-1], old, now, 1)
		if changed == lines[line-1] {
			t.Fatalf("no %s in %s", old, changed)
		}
		lines[line-1] = changed
		return lines
	}
	hash := regexp.MustCompile(`,"hash":"[^"]*"`)
	numbers := regexp.MustCompile(`,"n":[0-9]+`)
	unnumbered := slices.Clone(plain)
	for i := range unnumbered {
		unnumbered[i] = numbers.ReplaceAllString(unnumbered[i], "")
	}
	for _, c := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"a chained log", chained, ``},
		{"a log", plain, `open, log whole: not chained`},
		{"a log without numbers", unnumbered, `
			open, log whole: not chained
			open, log whole: not numbered
		`},
		{"without its seal", plain[:10], `open, log whole: not chained`},
		{"chained, without its seal", chained[:10], `open, log whole: the log isn't sealed: its end was cut off, or the process was killed, or Close never called`},
		{"the first line taken out", without(plain, 1, 1)[3:], `
			line 1: line: records 1 to 4 are missing
		` + unsaid + `
			open, log whole: not chained
		`},
		{"one line taken out", without(plain, 4, 4), `
			lines 3 and 4: line: record 4 is missing
			open, allowed by robots.txt: the verdict can't be decided again
			open, verdicts right: the log doesn't have the text of robots.txt (robotscache.Config.RecordText)
			open, log whole: not chained
		`},
		{"three lines taken out", without(plain, 5, 7), `
			lines 4 and 5: line: records 5 to 7 are missing
			open, log whole: numbers of starts are missing, as those of requests without a response are in a log that was cut off
			open, log whole: a start that the limiter knew of and no log has, as one that was cut off may have had it
			open, log whole: not chained
		`},
		{"a line twice", slices.Insert(slices.Clone(plain), 4, plain[3]), `
			lines 4 and 5: line: record 4 comes after record 4
			line 5: verdict: robots_fetched without the exchange that it came of
			open, log whole: not chained
		`},
		{"a line without a number", with(plain, 5, `,"n":5`, ``), `
			line 5: line: some lines have a number and some haven't
			lines 5 and 6: line: record 5 is missing
			open, log whole: not chained
		`},
		{"a line with a number", slices.Concat(unnumbered[:4], plain[4:5], unnumbered[5:]), `
			line 5: line: some lines have a number and some haven't
			open, log whole: not chained
			open, log whole: not numbered
		`},
		{"a line that can't be read", with(plain, 4, `"type"`, `"type`), `
			line 4: unreadable: not a record, column 9: malformed JSON
			open, allowed by robots.txt: the verdict can't be decided again
			open, verdicts right: the log doesn't have the text of robots.txt (robotscache.Config.RecordText)
			open, log whole: not chained
		`},
		{"a line without a number that can't be read", slices.Insert(slices.Clone(unnumbered), 5, "x\n"), `
			line 6: unreadable: not a record, column 1: malformed JSON
			open, log whole: not chained
			open, log whole: not numbered
		`},
		{"a line that can't be read before all others", slices.Insert(slices.Clone(chained), 0, "x\n"), `
			line 1: unreadable: not a record, column 1: malformed JSON
		`},
		{"blank lines", slices.Insert(slices.Clone(chained), 3, "\n", " \r\n"), ``},
		{"lines that end as they do in Windows", strings.SplitAfter(strings.ReplaceAll(strings.Join(chained, ""), "\n", "\r\n"), "\n"), ``},
		{"a line changed", with(chained, 7, `"bytes":100`, `"bytes":101`), `lines 2 and 9: chain: these lines aren't what was hashed, or don't follow the line before them`},
		{"the first line changed", with(chained, 1, `"slots":2`, `"slots":3`), `line 1: chain: these lines aren't what was hashed, or don't follow the line before them`},
		{"a line without its hash", with(chained, 9, hash.FindString(chained[8]), ``), `lines 2 and 11: chain: these lines aren't what was hashed, or don't follow the line before them`},
		{"a hash that is too long", with(chained, 9, hash.FindString(chained[8]), strings.Replace(hash.FindString(chained[8]), `:"`, `:"AAAA`, 1)), `
			lines 2 and 9: chain: these lines aren't what was hashed, or don't follow the line before them
			lines 10 and 11: chain: these lines aren't what was hashed, or don't follow the line before them
		`},
		{"a hash where there is no chain", with(plain, 7, `}`+"\n", `,"hash":"AAAA"}`+"\n"), `
			line 7: chain: a hash in a log that isn't chained
			open, log whole: not chained
		`},
		{"a line after the seal", slices.Concat(chained, chained[9:10]), `
			lines 11 and 12: line: record 10 comes after record 11
			lines 11 and 12: chain: a line after the end of the log
			line 12: end: fetched without a start
		`},
		{"a line in the middle that claims to be a log's first", with(plain, 7, `}`+"\n", `,"after":"AAAA"}`+"\n"), `
			line 7: chain: a line in the middle of a log that says which log comes before
			open, log whole: not chained
		`},
		{"a first line that names another log", with(plain, 1, `}`+"\n", `,"after":"AAAA"}`+"\n"), `
			open, log whole: a log whose first line names one before it, which isn't in the file
			open, log whole: not chained
		`},
		{"two logs in one file that aren't linked", slices.Concat(chained, chainedAfter), `
			open, log whole: a log that doesn't say which one is before it in the file (evidence.OpenFile does)
		`},
		{"a log without numbers, and one with them", slices.Concat(unnumbered, plainAfter), `
			open, log whole: not chained
			open, log whole: not numbered
		`},
		{"a line with half of another before it", with(plain, 6, `{"type"`, `{"typ{"type"`), `
			line 6: unreadable: not a record, column 8: malformed JSON
			line 7: end: fetched without a start
			open, log whole: numbers of starts are missing, as those of requests without a response are in a log that was cut off
			open, log whole: a start that the limiter knew of and no log has, as one that was cut off may have had it
			open, log whole: not chained
		`},
		{"a log, and another one, without seals", slices.Concat(plain[:10], plainAfter[:10]), `
			open, log whole: not chained
		`},
	} {
		r, err := audit.Check(strings.NewReader(strings.Join(c.lines, "")))
		if err != nil {
			t.Fatal(err)
		}
		got := verdictOf(r)
		if r.Complete() != (c.want == "") {
			t.Errorf("%s: complete: %t", c.name, r.Complete())
		}
		if want := moment("-60"); slices.Contains([]string{"a log", "a chained log"}, c.name) && (!r.First.Equal(want) || !r.Last.Equal(moment("2.2"))) {
			t.Errorf("from %v to %v", r.First, r.Last)
		}
		if !r.Chained {
			got = append(got, "open, log whole: not chained")
		}
		if !r.Numbered {
			got = append(got, "open, log whole: not numbered")
		}
		if got, want := strings.Join(got, "\n"), trimLines(c.want); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, got, want)
		}
	}
}

// A log of several is numbered, or chained, only if each of them is.
func TestVerdictsOnLogsOfWhichOneIsNumbered(t *testing.T) {
	const bare = `{"type":"waiting","allowed":true}` + "\n"
	chained := strings.Join(linesOf(t, usual, evidence.LogConfig{Chained: true}), "")
	for _, logs := range [][2]string{{bare, chained}, {chained, bare}, {chained, chained}} {
		r, err := audit.Check(strings.NewReader(logs[0]), strings.NewReader(logs[1]))
		if want := logs[0] == logs[1]; err != nil || r.Numbered != want || r.Chained != want {
			t.Errorf("%v, %v", r, err)
		}
	}
}

// TestVerdictsOnFleets: the records of several logs are put in the order of their times, and named with their
// logs.
func TestVerdictsOnFleets(t *testing.T) {
	const two = `
		policy
		site ""
		1   page 1 seq=3
		3   page 3 seq=5
		9   closed
		file
		policy by=U
		site "" at=-50 seq=2
	`
	checkRows(t, two, []row{
		{"two machines that share a limiter", `2 page 2 seq=4`, ``},
		{"too close to the start before, in the other log", `1.4 page 2 seq=4`, `log 1, line 6 and log 2, line 6: gap: 400ms between two starts, delay in force 500ms`},
		{"too close to the start after it", `2.6 page 2 seq=4`, `log 1, line 9 and log 2, line 6: gap: 400ms between two starts, delay in force 500ms`},
		{"into a block that the other was told of", `
			1.5 block hand=true until=@9
			2   page 2 seq=4
		`, `
			log 1, line 9 and log 2, line 5: block: started 6s before the end of a block
			log 2, line 5 and log 2, line 7: block: started 7s before the end of a block
		`},
		{"a start that neither has", "4 page 2 seq=6\n9 closed", `log 1, line 6 and log 1, line 9: sequence: start 4 is missing`},
	})
}

// A process of a fleet that begins anew may have forgotten a start, but not one that is owed more than a
// minute.
func TestVerdictsOnAProcessThatBeginsAnew(t *testing.T) {
	before := func(page string) string { return "policy\nsite \"\"\n" + page + "\nfile\npolicy by=U limiter=M" }
	checkRows(t, before("1 page 1"), []row{
		{"not too soon", `site "" at=1.5 seq=1 prev=-`, ``},
		{"too soon", `site "" at=1.4 seq=1 prev=-`, `open, delays kept: 2 limiters asked a.example, 400 ms apart together; neither promised that`},
	})
	checkRows(t, before("1 page 1 delay=61"), []row{{"too soon after a delay of about a minute", `site "" at=30 seq=1 prev=-`, `open, delays kept: 2 limiters asked a.example, 29 s apart together; neither promised that`}})
	checkRows(t, before("1 page 1 delay=61.000000001"), []row{
		{"too soon after a longer one", `site "" at=30 seq=1 prev=-`, `open, delays kept: 2 limiters asked a.example, 29 s apart together; neither promised that`},
	})
	checkRows(t, before("1 page 1 seq=0"), []row{
		{"numbered, where the start before isn't", `site "" at=1.4 seq=1 prev=-`, `
			open, delays kept: 2 limiters asked a.example, 400 ms apart together; neither promised that
			open, log whole: starts without numbers: whether some are missing isn't known
		`},
	})
}

// Trips of several logs are told apart, though each log numbers its own.
func TestVerdictsOnTripsOfAFleet(t *testing.T) {
	checkRows(t, usual, []row{
		{"a verdict of another log's trip", `
			1   page 1 url=/x
			file
			policy by=U limiter=M
			2   start 1 seq=1 url=/x prev=-
			2.2 end 1
		`, `log 2, line 2: robots: fetch of a URL without a verdict: https://a.example/x`},
	})
	checkRows(t, "policy\nsite \"\"\nfile\npolicy by=U\nsite \"\" at=-50", []row{
		{"a block by the first trip of the second log", `
			1   refused 1 status=429 until=@2.1
			3   cleared 2
		`, ``},
	})
}

// TestVerdictsOnOneHost: a site's owner gets what the log says of that host, and nothing else.
func TestVerdictsOnOneHost(t *testing.T) {
	log := write(t, eventful+`
		21 page 11 url=https://b.example/11 host=b.example
		21.1 page 12 url=https://b.example/12 host=b.example
		22 page 13 url=https://a.example/13 host=a.example
		22.1 page 14 url=https://a.example/14 host=a.example
		log
		policy pages=9 bytes=9000 maxTime=3600
		site "" host=b.example at=30
	`)[0]
	r, err := audit.CheckSite(strings.NewReader(log), "b.example")
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(verdictOf(r), "\n")
	want := "lines 41 and 44: gap: b.example: 100ms between two starts, delay in force 500ms\n" +
		"open, log whole: only the records of some hosts were judged"
	if got != want || r.Lines != 20 || r.Logs != 2 || len(r.Hosts) != 1 || r.Promise("log whole").Proof != "lines of it" || r.Promise("log whole").Proved != 0 || r.Promise("log whole").Open != 1 || r.Numbered {
		t.Errorf("got\n%s\n%+v", got, r)
	}
	plain := regexp.MustCompile(`,?"n":[0-9]+`).ReplaceAllString(log[:strings.LastIndex(log, `{"allowed":true,"by":"T'","n":1`)], "")
	if r, err := audit.CheckSite(strings.NewReader(plain), "a.example"); err != nil || r.Broken[audit.MissingEnd] > 0 || r.Logs != 1 {
		t.Errorf("without numbers: %v, %v", r, err)
	}
	for _, c := range []struct{ end, want string }{
		{"", "open, every start ended: the log stops while requests are under way, as after a kill, or where bodies are never closed: these have no end\n"},
		{"\n9 closed", "line 9: end: a start without an end\n"},
	} {
		stopped := write(t, usual+"1 page 1\n3 allow 2\n3 start 2"+c.end)[0]
		r, err := audit.CheckSite(strings.NewReader(stopped), "a.example")
		if want := c.want + "open, log whole: only the records of some hosts were judged"; err != nil || strings.Join(verdictOf(r), "\n") != want {
			t.Errorf("a request without an end, %q: got %q, want %q, %v", c.end, verdictOf(r), want, err)
		}
	}
	one := write(t, "log\npolicy\nlog\npolicy")[0]
	if r, err := audit.CheckSite(strings.NewReader(one), "a.example"); err != nil || r.Logs != 2 {
		t.Errorf("two logs of one line: %v, %v", r, err)
	}
	if _, err := audit.CheckSite(strings.NewReader(log)); err == nil || err.Error() != "audit: no host to extract" {
		t.Errorf("no host: %v", err)
	}
	broken := errors.New("disk gone")
	if r, err := audit.CheckSite(io.MultiReader(strings.NewReader(log), iotest.ErrReader(broken)), "b.example"); !errors.Is(err, broken) || r.Lines != 20 {
		t.Errorf("%v, %v", r, err)
	}
}
