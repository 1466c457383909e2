package audit_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/internal/logtest"
)

// exchangesOf returns the logs of n processes that share one limiter and one host in turn: start i
// is the process's i % n.
func exchangesOf(tb testing.TB, n, starts int) []io.Reader {
	base := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	bufs := make([]bytes.Buffer, n)
	logs := make([]*evidence.Log, n)
	for i := range logs {
		logs[i] = logtest.New(tb, &bufs[i], evidence.LogConfig{Chained: true})
		logs[i].Record(context.Background(), evidence.Decision{
			Type: evidence.PolicyStated, Time: base, Allowed: true, Transport: fmt.Sprint("T", i),
			Policy: &evidence.Policy{ID: fmt.Sprint("T", i), Limiter: "L", Process: fmt.Sprint("P", i), Slots: 2, DelayMin: time.Second, DelayMax: time.Second, Adaptive: "Fixed", HostKey: "host"},
		})
	}
	for i := range starts {
		start := base.Add(time.Duration(i) * time.Second)
		d := evidence.Decision{
			Type: evidence.RobotsAllowed, Time: start, Trip: uint64(i/n + 1), Attempt: 1, Method: "GET", URL: "https://example.com/",
			Host: "example.com", Agent: "Bot", Allowed: true, Transport: fmt.Sprint("T", i%n),
		}
		log := logs[i%n]
		log.Record(context.Background(), d)
		d.Type, d.Seq, d.Start, d.Delay, d.Slot, d.Slots = evidence.Started, uint64(i/n+1), start, time.Second, 1, 2
		if d.At = start; i > 0 {
			d.Prev = start.Add(-time.Second)
		}
		log.Record(context.Background(), d)
		d.Type, d.Status, d.Latency, d.Duration = evidence.Fetched, 200, 100*time.Millisecond, 200*time.Millisecond
		d.Time = start.Add(d.Duration)
		d.Delay, d.Slot, d.Slots, d.NoDate, d.At, d.Prev = 0, 0, 0, true, time.Time{}, time.Time{}
		log.Record(context.Background(), d)
	}
	readers := make([]io.Reader, n)
	for i := range logs {
		_ = logs[i].Close()
		readers[i] = &bufs[i]
	}
	return readers
}

func TestLogsOfAFleetProveThemselvesTogether(t *testing.T) {
	report, err := audit.Check(exchangesOf(t, 4, 40)...)
	if err != nil || !report.OK() || report.Records[evidence.Started] != 40 || report.Logs != 4 || !report.Chained {
		t.Errorf("%v\n%s", err, report)
	}

	one, err := audit.Check(exchangesOf(t, 4, 40)[0])
	if err != nil || one.OK() {
		t.Errorf("the log of one of four is whole: %v\n%s", err, one)
	}
}

// A violation between two logs names both, and what one log has lost is found in it.
func TestViolationsOfAFleetNameTheLog(t *testing.T) {
	logs := exchangesOf(t, 2, 6)
	text, err := io.ReadAll(logs[1])
	if err != nil {
		t.Fatal(err)
	}
	whole := string(text)
	check := func(second, want string, kind audit.Kind) {
		t.Helper()
		report, err := audit.Check(exchangesOf(t, 2, 6)[0], strings.NewReader(second))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(report.Violations, func(v audit.Violation) bool { return v.Kind == kind && strings.HasPrefix(v.String(), want) }) {
			t.Errorf("no %q in\n%s", want, report)
		}
	}
	// Start 2, of the second log, one nanosecond nearer to start 1, of the first.
	check(strings.ReplaceAll(whole, "12:00:01Z", "12:00:00.999999999Z"), "log 1, line 3 and log 2, line 3: gap: example.com: ", audit.BrokenGap)
	lines := strings.SplitAfter(whole, "\n")
	check(strings.Join(slices.Delete(lines, 3, 4), ""), "log 2, line 3 and log 2, line 4: line: record 4 is missing", audit.MissingLine)
	check(whole+"{\n", "log 2, line 12: unreadable: ", audit.Unreadable)
}

func TestCheckOfNothing(t *testing.T) {
	for _, logs := range [][]io.Reader{nil, {strings.NewReader("")}, {strings.NewReader(""), strings.NewReader("\n\n")}} {
		if report, err := audit.Check(logs...); err != nil || !report.OK() || report.Logs != 0 || len(report.Records) != 0 {
			t.Errorf("%v, %+v", err, report)
		}
	}
}

// The records before a line that can't be read, and those of the other logs, are judged all the same.
func TestCheckNamesTheLogThatCantBeRead(t *testing.T) {
	good := `{"type":"fetched","timestamp":"2026-11-21T12:00:00Z","allowed":true}` + "\n"
	broken := errors.New("disk gone")
	report, err := audit.Check(strings.NewReader(good), io.MultiReader(strings.NewReader(good), iotest.ErrReader(broken)))
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "log 2, line 1") || report.Records[evidence.Fetched] != 2 {
		t.Errorf("got %v, %v", err, report)
	}
}

// TestCheckReadsLogsWithAHashInEachLine: such were written before a hash was for several lines.
func TestCheckReadsLogsWithAHashInEachLine(t *testing.T) {
	plain := logtest.Lines(logtest.Write(t, logtest.Crawl(1, 10)))
	write := func() (log []byte) {
		prev := make([]byte, sha256.Size)
		seal := fmt.Appendf(nil, `{"type":"log_closed","timestamp":"2026-11-21T04:00:00Z","allowed":true,"n":%d}`, len(plain)+1)
		for _, line := range append(slices.Clone(plain), seal) {
			body := bytes.TrimSuffix(bytes.TrimSpace(line), []byte("}"))
			sum := sha256.Sum256(slices.Concat(prev, body))
			prev = sum[:]
			log = fmt.Appendf(append(log, body...), ",\"hash\":%q}\n", base64.RawURLEncoding.EncodeToString(prev))
		}
		return log
	}
	log := write()
	if r := check(t, log); !r.OK() || !r.Chained {
		t.Error(r)
	}
	if r := check(t, bytes.Replace(log, []byte(`"delay":0.5`), []byte(`"delay":0.4`), 1)); r.Broken[audit.BrokenChain] != 1 {
		t.Error(r)
	}
}

// TestCheckFindsAHashThatWasTakenOut: the lines before the next one aren't what was hashed then.
func TestCheckFindsAHashThatWasTakenOut(t *testing.T) {
	log := logtest.WriteWith(t, logtest.Crawl(1, 10), evidence.LogConfig{Chained: true})
	hashes := regexp.MustCompile(`,"hash":"[^"]*"`).FindAllIndex(log, -1)
	if len(hashes) < 3 {
		t.Fatalf("%d hashes", len(hashes))
	}
	for _, at := range hashes {
		if r := check(t, slices.Concat(log[:at[0]], log[at[1]:])); r.Broken[audit.BrokenChain] == 0 {
			t.Errorf("%s: %v", log[at[0]:at[1]], r)
		}
	}
}
