package audit_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/evidence/audit/bundle"
)

// signedLinesOf returns the lines of a signed log, and its checkpoints.
func signedLinesOf(t *testing.T, text string) (lines []string, checkpoints [][]byte) {
	t.Helper()
	lines = linesOf(t, text, evidence.LogConfig{Signed: &evidence.SignConfig{
		Key:     testKey,
		Origin:  testOrigin,
		Publish: func(c []byte) { checkpoints = append(checkpoints, c) },
	}})
	return lines, checkpoints
}

// TestVerdictsOnSignedLogs: which lines a fault of a checkpoint is told of, and what logs in one file are leaves
// of.
func TestVerdictsOnSignedLogs(t *testing.T) {
	const crawl = usual + `
		1 page 1
		2 page 2
		3 page 3
	`
	lines, checkpoints := signedLinesOf(t, crawl)                                             // 17, with checkpoints in lines 8, 15, 17
	next, _ := signedLinesOf(t, strings.Replace(crawl, "policy", "policy by=W limiter=M", 1)) // of another process
	other, _ := signedLinesOf(t, crawl+"4 page 4\n")
	one, _ := signedLinesOf(t, "policy by=V")
	with := func(lines []string, line int, old, now string) []string {
		lines = slices.Clone(lines)
		changed := strings.Replace(lines[line-1], old, now, 1)
		if changed == lines[line-1] {
			t.Fatalf("no %s in %s", old, changed)
		}
		lines[line-1] = changed
		return lines
	}
	without := func(lines []string, from, to int) []string { return slices.Delete(slices.Clone(lines), from-1, to) }
	id := strings.Join(strings.Split(trusted.Key, "+")[:2], "+")
	// Whoever has the key may sign a checkpoint that says what no tree is.
	signer, err := note.NewSigner("PRIVATE+KEY+" + id + "+" + base64.StdEncoding.EncodeToString(append([]byte{1}, testKey.Seed()...)))
	if err != nil {
		t.Fatal(err)
	}
	checkpoint := func(size, root string) string {
		signed, err := note.Sign(&note.Note{Text: testOrigin + "\n" + size + "\n" + root + "\n"}, signer)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(string(signed))
		if err != nil {
			t.Fatal(err)
		}
		return regexp.MustCompile(`"text":"[^"]*"`).ReplaceAllLiteralString(lines[7], `"text":`+string(text))
	}
	empty := sha256.Sum256(nil)
	nothing := checkpoint("0", base64.StdEncoding.EncodeToString(empty[:]))
	boast := checkpoint("8", strings.Split(string(checkpoints[0]), "\n")[2])
	for _, c := range []struct {
		name  string
		lines []string
		trust audit.Trust
		want  string
		of    audit.Signed
		proof string
	}{
		{"a signed log", lines, trusted, ``, audit.Signed{Checkpoints: 3, Records: 14, Key: id}, "lines, 14 records signed by " + id},
		{"without a key", lines, audit.Trust{}, `
			open, log whole: the log is signed, but no key was given
		`, audit.Signed{Checkpoints: 3, Records: 14}, "lines, 14 records signed by a key that wasn't given"},
		{"a log that nobody has signed", linesOf(t, crawl, evidence.LogConfig{Chained: true}), trusted, `
			open, log whole: a key was given, and nothing in the log is signed with it
		`, audit.Signed{After: 14, Key: id}, "lines, numbered and chained"},
		{"cut off behind a checkpoint", lines[:10], trusted, `
			open, every start ended: the log stops while requests are under way, as after a kill, or where bodies are never closed: these have no end
			open, log whole: the log isn't sealed: its end was cut off, or the process was killed, or Close never called
			open, log whole: the records after the last checkpoint aren't signed
		`, audit.Signed{Checkpoints: 1, Records: 7, After: 2, Key: id}, "lines, 7 records signed by " + id},
		{"a line changed before the first checkpoint", with(lines, 3, `"bytes":100`, `"bytes":101`), trusted, `
			line 8: signature: the 7 lines before this checkpoint aren't the 7 that were signed
		`, audit.Signed{Checkpoints: 2, Records: 7, Key: id}, "lines, 7 records signed by " + id},
		{"and the edge of its tree with it", with(with(lines, 3, `"bytes":100`, `"bytes":101`), 8, `"edge":"`, `"edge":"AAAA`), trusted, `
			line 8: signature: the 7 lines before this checkpoint aren't the 7 that were signed
			lines 8 and 15: signature: the 14 lines before this checkpoint aren't the 14 that were signed
		`, audit.Signed{Checkpoints: 1, Records: 1, Key: id}, ""},
		{"an edge of another tree", with(with(lines, 3, `"bytes":100`, `"bytes":101`), 8, lines[7][strings.Index(lines[7], `"edge":"`):][:20], `"edge":"AAAAAAAAAAAA`), trusted, `
			line 8: signature: the 7 lines before this checkpoint aren't the 7 that were signed
			lines 8 and 15: signature: the 14 lines before this checkpoint aren't the 14 that were signed
		`, audit.Signed{Checkpoints: 1, Records: 1, Key: id}, ""},
		{"a line changed before the second", with(lines, 14, `"bytes":100`, `"bytes":101`), trusted, `
			lines 8 and 15: signature: the 14 lines before this checkpoint aren't the 14 that were signed
		`, audit.Signed{Checkpoints: 2, Records: 8, Key: id}, "lines, 8 records signed by " + id},
		{"a line taken out", without(lines, 4, 4), trusted, `
			lines 3 and 4: line: record 4 is missing
			line 7: signature: the 6 lines before this checkpoint aren't the 7 that were signed
			open, allowed by robots.txt: the verdict can't be decided again
			open, verdicts right: the log doesn't have the text of robots.txt (robotscache.Config.RecordText)
		`, audit.Signed{Checkpoints: 2, Records: 7, Key: id}, "lines, 7 records signed by " + id},
		{"a line put in", slices.Insert(slices.Clone(lines), 4, "x\n"), trusted, `
			line 5: unreadable: not a record, column 1: malformed JSON
			lines 5 and 6: line: record 5 comes after record 5
			line 9: signature: the 8 lines before this checkpoint aren't the 7 that were signed
		`, audit.Signed{Checkpoints: 2, Records: 7, Key: id}, ""},
		{"one log after the other", slices.Concat(lines, next), trusted, `
		`, audit.Signed{Checkpoints: 6, Records: 28, Key: id}, ""},
		{"a signed log behind one that nobody has signed", slices.Concat(one[:1], lines), trusted, `
			open, log whole: the records after the last checkpoint aren't signed
		`, audit.Signed{Checkpoints: 3, Records: 14, After: 1, Key: id}, ""},
		{"a signed log behind one whose last lines nobody has signed", slices.Concat(lines[:10], next), trusted, `
			open, every start ended: the log stops while requests are under way, as after a kill, or where bodies are never closed: these have no end
			open, log whole: the log isn't sealed: its end was cut off, or the process was killed, or Close never called
			open, log whole: the records after the last checkpoint aren't signed
		`, audit.Signed{Checkpoints: 4, Records: 21, After: 2, Key: id}, ""},
		{"a line changed in the second log", slices.Concat(lines, with(next, 3, `"bytes":100`, `"bytes":101`)), trusted, `
			lines 17 and 25: signature: the 24 lines before this checkpoint aren't the 7 that were signed
		`, audit.Signed{Checkpoints: 5, Records: 21, Key: id}, ""},
		{"a line taken out of the second log", slices.Concat(lines, without(next, 4, 4)), trusted, `
			lines 17 and 24: signature: the 23 lines before this checkpoint aren't the 7 that were signed
			lines 20 and 21: line: record 4 is missing
			open, allowed by robots.txt: the verdict can't be decided again
			open, verdicts right: the log doesn't have the text of robots.txt (robotscache.Config.RecordText)
		`, audit.Signed{Checkpoints: 5, Records: 21, Key: id}, ""},
		{"another log's checkpoint", append(slices.Clone(lines[:7]), other[len(other)-1]), trusted, `
			lines 7 and 8: line: records 8 to 19 are missing
			line 8: signature: the 7 lines before this checkpoint aren't the 19 that were signed
			open, log whole: the log isn't sealed: its end was cut off, or the process was killed, or Close never called
		`, audit.Signed{Key: id}, ""},
		{"a checkpoint of no lines", append(slices.Clone(lines[:7]), nothing), trusted, `
			line 8: signature: the 7 lines before this checkpoint aren't the 0 that were signed
			open, log whole: the log isn't sealed: its end was cut off, or the process was killed, or Close never called
		`, audit.Signed{Key: id}, ""},
		{"a checkpoint that counts too many lines, behind another log", slices.Concat(next, lines[:7], []string{boast}), trusted, `
			lines 17 and 25: signature: the 24 lines before this checkpoint aren't the 8 that were signed
			open, log whole: the log isn't sealed: its end was cut off, or the process was killed, or Close never called
		`, audit.Signed{Checkpoints: 3, Records: 14, Key: id}, ""},
	} {
		r, err := c.trust.Check(strings.NewReader(strings.Join(c.lines, "")))
		if err != nil {
			t.Fatal(err)
		}
		r.Signed.Latest = ""
		if got := strings.Join(verdictOf(r), "\n"); got != trimLines(c.want) || r.Signed != c.of {
			t.Errorf("%s: got\n%s\n%+v\nwant\n%s\n%+v", c.name, got, r.Signed, trimLines(c.want), c.of)
		}
		if got := r.Promise("log whole").Proof; c.proof != "" && got != c.proof {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}

func TestVerdictsOnOlderCheckpointsThatCannotBeRead(t *testing.T) {
	_, checkpoints := signedLinesOf(t, usual)
	_, err := audit.Trust{Checkpoints: [][]byte{checkpoints[0], []byte("x")}}.Check(strings.NewReader(""))
	if err == nil || err.Error() != "audit: checkpoint 2 to hold the log against: malformed note" {
		t.Error(err)
	}
}

// TestVerdictsOnBundles: what goes into a bundle is counted, nothing that names another host is in it, and what
// is no bundle is said to be none.
func TestVerdictsOnBundles(t *testing.T) {
	const crawl = usual + `
		site "" host=az09.test at=-50
		1  page 1
		2  page 2 location=https://az09.test/
		3  failed 3 error="dial tcp az09.test: refused"
		4  failed 4 error="dial . refused"
		5  page 5 url=/5?next=https%253A%252F%252FAZ09.test
		6  page 6 url=/6%zz%41
		7  page 7 url=https://az09.test/7 host=az09.test
		8  page 8
		9  block hand=true host=a.example until=@10 status=0
		10 block hand=true host=az09.test until=@11 status=0
		11 page 9
	`
	lines, checkpoints := signedLinesOf(t, crawl)
	cut := strings.Join(lines[:len(lines)-4], "") // the last page is after the last checkpoint
	log := strings.Join(lines, "")
	extract := func(trust audit.Trust, log string, hosts ...string) (string, bundle.Extracted) {
		t.Helper()
		var out bytes.Buffer
		e, err := bundle.Extract(&out, strings.NewReader(log), trust, hosts...)
		if err != nil {
			t.Fatal(err)
		}
		return out.String(), e
	}
	text, e := extract(trusted, log, "a.example")
	if want := (bundle.Extracted{Records: 25, Withheld: 5, Omitted: 12}); e != want {
		t.Errorf("got %+v, want %+v", e, want)
	}
	if strings.Contains(strings.ToLower(text), "az09") {
		t.Error(text)
	}
	_, e = extract(trusted, cut, "a.example")
	if want := (bundle.Extracted{Records: 20, Withheld: 5, Omitted: 10, After: 2}); e != want {
		t.Errorf("got %+v, want %+v", e, want)
	}
	single, _ := signedLinesOf(t, "policy by=V")
	_, e = extract(trusted, single[0]+log, "a.example")
	if want := (bundle.Extracted{Records: 25, Withheld: 5, Omitted: 12, After: 1}); e != want {
		t.Errorf("behind a log of one line: got %+v, want %+v", e, want)
	}
	older := audit.Trust{Key: trusted.Key, Checkpoints: checkpoints}
	long, _ := extract(older, log, "a.example")
	b, err := bundle.Verify(strings.NewReader(long), older)
	if err != nil || b.Signed.Older != len(checkpoints) {
		t.Errorf("%+v, %v", b, err)
	}
	want := "25 records on a.example stand in the log, signed by " + strings.Join(strings.Split(trusted.Key, "+")[:2], "+") + "; 17 others are left out\n" +
		"the log extends 6 older checkpoints\n\n25 records, 1 host, "
	if told := b.String(); !strings.HasPrefix(told, want) {
		t.Error(told)
	}
	if b, err = bundle.Verify(strings.NewReader(text), audit.Trust{}); err != nil {
		t.Fatal(err)
	}
	want = "25 records on a.example stand in the log, signed with an unknown key: give the crawler's key to know whose log it is; 17 others are left out\n\n25 records, "
	if told := b.String(); !strings.HasPrefix(told, want) {
		t.Error(told)
	}
	for i := range checkpoints {
		older.Checkpoints = checkpoints[i : i+1]
		long, _ := extract(older, log, "az09.test")
		if b, err := bundle.Verify(strings.NewReader(long), older); err != nil || b.Signed.Older != 1 {
			t.Errorf("checkpoint %d: %+v, %v", i, b, err)
		}
	}
	whole := strings.SplitAfter(text, "\n")
	for name, c := range map[string]struct {
		lines []string
		want  string
	}{
		"empty":                {nil, "not a bundle: it is empty"},
		"no first line":        {whole[1:], "line 1: not a bundle"},
		"no version":           {slices.Concat([]string{"{\"hosts\":[\"a.example\"]}\n"}, whole[1:]), "line 1: not a bundle"},
		"two things in a line": {slices.Concat(whole[:1], []string{"{\"omitted\":1} 1\n"}, whole[1:]), "line 2: neither a record nor another line of a bundle"},
		"an unknown member":    {slices.Concat(whole[:1], []string{"{\"unknown\":1}\n"}, whole[1:]), "line 2: neither a record nor another line of a bundle"},
		"nothing in a line":    {slices.Concat(whole[:1], []string{"{}\n"}, whole[1:]), "line 2: neither a record nor another line of a bundle"},
		"another version":      {slices.Concat([]string{"{\"bundle\":2}\n"}, whole[1:]), "line 1: a bundle of version 2, and this program knows 1"},
		"without its end":      {whole[:len(whole)-2], "it ends without a checkpoint: it was cut off"},
	} {
		if _, err := bundle.Verify(strings.NewReader(strings.Join(c.lines, "")), trusted); !errors.Is(err, bundle.ErrNotProved) || err.Error() != "audit: the bundle proves nothing: "+c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The first line is no leaf of the tree, so that nothing in it is a record.
	forged := strings.Replace(text, `{"bundle":1,`, `{"type":"fetched","url":"https://a.example/never","host":"a.example","status":200,"bundle":1,`, 1)
	if b, err := bundle.Verify(strings.NewReader(forged), trusted); err == nil && b.Report.Lines != b.Records {
		t.Errorf("%d records are judged, and %d in the log", b.Report.Lines, b.Records)
	}
}
