package audit_test

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/internal/logtest"
)

func TestARealCrawlIsProved(t *testing.T) {
	log := logtest.Real(t)
	if r := check(t, log); !r.OK() {
		t.Error(r)
	}
	if bytes.Contains(log, []byte("hunter2")) {
		t.Error("a password is in the log")
	}
}

func TestARealLogThatIsTamperedWithIsFound(t *testing.T) {
	log := logtest.Lines(logtest.Real(t))
	for i := range log {
		without := bytes.Join(append(append([][]byte{}, log[:i]...), log[i+1:]...), nil)
		if i < len(log)-1 && check(t, without).OK() { // without its last line it is cut off, which is open
			t.Errorf("line %d removed: not found: %s", i+1, log[i])
		}
		for _, change := range [][2]string{{`"allowed":true`, `"allowed":false`}, {`"allowed":false`, `"allowed":true`}, {`T0`, `T1`}} {
			changed := bytes.Clone(bytes.Join(log, nil))
			from := len(bytes.Join(log[:i], nil))
			at := bytes.Index(log[i], []byte(change[0]))
			if at < 0 {
				continue
			}
			changed = bytes.Join([][]byte{changed[:from+at], []byte(change[1]), changed[from+at+len(change[0]):]}, nil)
			if check(t, changed).OK() {
				t.Errorf("line %d, %s to %s: not found", i+1, change[0], change[1])
			}
		}
	}
}

// TestTheLongestTimesOfAPolicyAreNoLimit: whoever writes math.MaxInt64 for "no limit" breaks nothing.
func TestTheLongestTimesOfAPolicyAreNoLimit(t *testing.T) {
	verdict := func(set func(p *evidence.Policy)) string {
		records := logtest.Crawl(2, 30)
		policy := logtest.Policy
		set(&policy)
		records[0].Policy = &policy
		return strings.Join(verdictOf(check(t, logtest.Write(t, records))), "\n")
	}
	want := verdict(func(*evidence.Policy) {})
	for name, set := range map[string]func(p *evidence.Policy){
		"MaxTime":       func(p *evidence.Policy) { p.MaxTime = math.MaxInt64 },
		"MaxWait":       func(p *evidence.Policy) { p.MaxWait = math.MaxInt64 },
		"LeaseTTL":      func(p *evidence.Policy) { p.LeaseTTL = math.MaxInt64 },
		"Forgive":       func(p *evidence.Policy) { p.Forgive = math.MaxInt64 },
		"BackoffCap":    func(p *evidence.Policy) { p.BackoffCap = math.MaxInt64 },
		"MaxRetryAfter": func(p *evidence.Policy) { p.MaxRetryAfter = math.MaxInt64 },
		"RobotsTTL":     func(p *evidence.Policy) { p.RobotsTTL = math.MaxInt64 },
		"Ceiling":       func(p *evidence.Policy) { p.Ceiling = math.MaxInt64 },
	} {
		if got := verdict(set); got != want {
			t.Errorf("%s:\n%s\nwithout it:\n%s", name, got, want)
		}
	}
}
