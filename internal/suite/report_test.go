package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func read(t *testing.T, lines ...string) *report {
	t.Helper()
	r := new(report)
	r.read(bytes.NewBufferString(strings.Join(lines, "\n") + "\n"))
	return r
}

func TestReportCounts(t *testing.T) {
	r := read(t,
		`{"Action":"start","Package":"a"}`,
		`{"Action":"run","Package":"a","Test":"TestOne"}`,
		`{"Action":"output","Package":"a","Test":"TestOne","Output":"=== RUN   TestOne\n"}`,
		`{"Action":"output","Package":"a","Test":"TestOne","Output":"chatter\n"}`,
		`{"Action":"run","Package":"a","Test":"TestOne/part"}`,
		`{"Action":"pass","Package":"a","Test":"TestOne/part"}`,
		`{"Action":"pass","Package":"a","Test":"TestOne"}`,
		`{"Action":"run","Package":"a","Test":"TestTwo"}`,
		`{"Action":"output","Package":"a","Test":"TestTwo","Output":"    a_test.go:1: no loss here\n"}`,
		`{"Action":"output","Package":"a","Test":"TestTwo","Output":"--- SKIP: TestTwo (0.00s)\n"}`,
		`{"Action":"skip","Package":"a","Test":"TestTwo"}`,
		`{"Action":"output","Package":"a","Output":"PASS\n"}`,
		`{"Action":"output","Package":"a","Output":"ok  \ta\t0.1s\n"}`,
		`{"Action":"pass","Package":"a"}`,
		`{"Action":"start","Package":"b"}`,
		`{"Action":"output","Package":"b","Output":"?   \tb\t[no test files]\n"}`,
		`{"Action":"skip","Package":"b"}`,
		"a line of the go command",
	)
	if want := []string{"a TestTwo: a_test.go:1: no loss here"}; r.passed != 2 || !slices.Equal(r.skipped, want) || r.failed != nil {
		t.Errorf("%d passed, skipped %q, failed %q", r.passed, r.skipped, r.failed)
	}
	if got, want := r.text.String(), "ok  \ta\t0.1s\na line of the go command\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Of a package that fails, all is told that its tests have said, but for those that passed; also of
// those that have no end.
func TestReportTellsWhatFails(t *testing.T) {
	r := read(t,
		`{"Action":"build-output","ImportPath":"c","Output":"c.go:1: syntax error\n"}`,
		`{"Action":"start","Package":"c"}`,
		`{"Action":"output","Package":"c","Output":"FAIL\tc [build failed]\n"}`,
		`{"Action":"fail","Package":"c"}`,
		`{"Action":"start","Package":"d"}`,
		`{"Action":"run","Package":"d","Test":"TestGood"}`,
		`{"Action":"output","Package":"d","Test":"TestGood","Output":"chatter\n"}`,
		`{"Action":"pass","Package":"d","Test":"TestGood"}`,
		`{"Action":"run","Package":"d","Test":"TestBad"}`,
		`{"Action":"output","Package":"d","Test":"TestBad","Output":"    d_test.go:1: because\n"}`,
		`{"Action":"fail","Package":"d","Test":"TestBad"}`,
		`{"Action":"run","Package":"d","Test":"TestEndless"}`,
		`{"Action":"output","Package":"d","Test":"TestEndless","Output":"panic: test timed out\n"}`,
		`{"Action":"output","Package":"d","Output":"FAIL\td\t0.1s\n"}`,
		`{"Action":"fail","Package":"d"}`,
	)
	if want := []string{"c", "d TestBad", "d TestEndless"}; !slices.Equal(r.failed, want) {
		t.Errorf("failed %q, want %q", r.failed, want)
	}
	want := "c.go:1: syntax error\nFAIL\tc [build failed]\n    d_test.go:1: because\npanic: test timed out\nFAIL\td\t0.1s\n"
	if got := r.text.String(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
