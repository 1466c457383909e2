package robots_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/go-politeness/politeness/internal/robotsgen"
	"github.com/go-politeness/politeness/robots"
)

// The cost of a check is bounded in steps, which are the same on every machine. A check compares
// each pattern's beginning once, which costs no more than to read the file. The rest of a pattern
// costs a search of the path for each stretch between two stars.
//
//   - The first 256 searches of a check, and all in paths of up to 256 bytes, read the path.
//   - The others use its sorted suffixes: a dozen comparisons, and the bytes that Steps counts.
//
// BenchmarkWorst and BenchmarkWorstPreferences measure the time.

// TestChecksOfCostlyFilesAreBounded: with the costliest files known, a check searches for each
// stretch about once, and looks at 40 bytes for each of the file at most. The worst file needs 29.
func TestChecksOfCostlyFilesAreBounded(t *testing.T) {
	const most = 40
	largest := 0
	for _, w := range worst {
		body, path := w.make()
		rules := robots.Parse(body).Agent("FooBot")
		searches, scanned := rules.Steps(path)
		checkSteps(t, w.name, body, most, searches, scanned)
		largest = max(largest, searches)
	}
	if largest < 50_000 {
		t.Errorf("%d searches of the costliest file: are they counted?", largest)
	}
}

// TestPreferencesOfCostlyFilesAreBounded: lines of Content-Usage cost no more than rules do, which
// shows for the longest paths.
func TestPreferencesOfCostlyFilesAreBounded(t *testing.T) {
	const most = 4
	for _, w := range worstUsages {
		body, target := w.makeUsages()
		rules := robots.Parse(body).Agent("FooBot")
		searches, scanned := rules.UsageSteps(target)
		checkSteps(t, w.name, body, most, searches, scanned)
	}
}

// checkSteps reports if there are more searches than one for each star of the file, if many of them
// do without sorted suffixes, or if they look at more bytes than most times its length.
func checkSteps(t *testing.T, name string, body []byte, most, searches, scanned int) {
	t.Helper()
	// A search for a stretch with bytes beyond ASCII counts twice, and those before the suffixes
	// are sorted are repeated.
	stretches := 2*bytes.Count(body, []byte("*")) + 256
	t.Logf("%s: %d searches, %.1f bytes for each of the file", name, searches, float64(scanned)/float64(len(body)))
	if searches > stretches {
		t.Errorf("%s: %d searches, want %d at most", name, searches, stretches)
	}
	if searches > 1000 && scanned == 0 {
		t.Errorf("%s: %d searches without sorted suffixes", name, searches)
	}
	if scanned > most*len(body) {
		t.Errorf("%s: %d bytes are looked at, the file has %d", name, scanned, len(body))
	}
}

// TestChecksOfLargeFilesAreQuick: a usual file has an index, whatever its length. A check looks at
// a few of its 12,600 rules, and does without sorted suffixes.
func TestChecksOfLargeFilesAreQuick(t *testing.T) {
	body := robotsgen.File(robotsgen.Shapes[len(robotsgen.Shapes)-1]) // 450 KB
	rules := robots.Parse(body).Agent("FooBot")
	if n := rules.LongestTry(); n > 16 {
		t.Errorf("%d rules are tried one after another", n)
	}
	for _, path := range robotsgen.Paths(body, 200) {
		if searches, scanned := rules.Steps(path); searches > 64 || scanned > 0 {
			t.Errorf("%s: %d searches, %d bytes scanned", path, searches, scanned)
		}
	}
}

// worstUsages are files of Content-Usage lines, made from those of rules, that cost Preferences
// much.
var worstUsages = []worstFile{
	{"nearly everywhere", func(_ *rand.Rand, i int) string { return fmt.Sprintf("/*aaaaa%05d", i) }, letters("a")},
	{"random ab, 64", func(r *rand.Rand, i int) string { return "/" + abPattern(64, 1)(r, i) }, letters("ab")},
}

// makeUsages makes the file, with a Content-Usage line for each rule, and a path of 64 KB.
func (w worstFile) makeUsages() (body []byte, target string) {
	lines, path := w.make()
	body = bytes.ReplaceAll(lines, []byte("\nallow:"), []byte(" bots=n\ncontent-usage:"))
	body = append([]byte("user-agent:*"), body[bytes.IndexByte(body, '\n'):500<<10]...)
	return body, "/" + strings.Repeat(path[1:], 32)
}

func BenchmarkWorstPreferences(b *testing.B) {
	for _, w := range worstUsages {
		body, target := w.makeUsages()
		rules := robots.Parse(body).Agent("FooBot")
		b.Run(w.name, func(b *testing.B) {
			for b.Loop() {
				rules.Preferences(target)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/1000/float64(b.N), "ms/op")
		})
	}
}
