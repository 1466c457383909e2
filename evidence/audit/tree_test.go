package audit_test

import (
	"bytes"
	"crypto/ed25519"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/internal/logtest"
)

const testOrigin = logtest.Origin

var (
	testKey  = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	otherKey = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{8}, ed25519.SeedSize))
	trusted  = audit.Trust{Key: logtest.VerifierKey(testKey)}
)

func mustCheck(t *testing.T, trust audit.Trust, log []byte) *audit.Report {
	t.Helper()
	report, err := trust.Check(bytes.NewReader(log))
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// signatureFaults returns what the report says of signatures.
func signatureFaults(r *audit.Report) (out []string) {
	for _, v := range r.Violations {
		if v.Kind == audit.BrokenSignature {
			out = append(out, v.Detail)
		}
	}
	return out
}

func TestSignedLogIsProved(t *testing.T) {
	for name, cfg := range map[string]evidence.LogConfig{"signed": {}, "signed and chained": {Chained: true}} {
		log, checkpoints := logtest.SignedWith(t, 100, testKey, cfg)
		report := mustCheck(t, trusted, log)
		if !report.OK() {
			t.Errorf("%s: %v", name, report)
		}
		want := audit.Signed{
			Checkpoints: len(checkpoints), Records: 301, Key: strings.Join(strings.Split(trusted.Key, "+")[:2], "+"),
			Latest: string(checkpoints[len(checkpoints)-1]),
		}
		if report.Signed != want {
			t.Errorf("%s: %+v, want %+v", name, report.Signed, want)
		}
	}
}

func TestSignatureWithoutAKeyStaysOpen(t *testing.T) {
	log, _ := logtest.Signed(t, 20, testKey)
	report := mustCheck(t, audit.Trust{}, log)
	if !report.OK() || report.Signed.Key != "" || !strings.Contains(report.String(), "61 records signed by a key that wasn't given") {
		t.Errorf("%v", report)
	}
}

// TestForgedSignedLogs does to a signed log what its owner may do without the key, and what anybody may.
func TestForgedSignedLogs(t *testing.T) {
	log, checkpoints := logtest.Signed(t, 100, testKey)
	lines := bytes.SplitAfter(bytes.TrimSuffix(log, []byte("\n")), []byte("\n"))
	lines[len(lines)-1] = append(lines[len(lines)-1], '\n')
	var signed []int // indices of checkpoints
	for i, line := range lines {
		if bytes.HasPrefix(line, []byte(`{"type":"checkpoint"`)) {
			signed = append(signed, i)
		}
	}
	other, _ := logtest.Signed(t, 100, otherKey)
	within := signed[3] + 2 // between two checkpoints
	for name, c := range map[string]struct {
		forge func(lines [][]byte) [][]byte
		trust audit.Trust
		want  []string // parts of the faults, in order
		after int      // records that are open
	}{
		"honest": {want: nil},
		"a line changed": {
			forge: func(l [][]byte) [][]byte {
				l[within] = bytes.Replace(l[within], []byte("example.com"), []byte("example.org"), 1)
				return l
			},
			want: []string{"that were signed"},
		},
		"two lines changed, far apart": {
			forge: func(l [][]byte) [][]byte {
				for _, i := range []int{within, signed[7] + 1} {
					l[i] = bytes.Replace(l[i], []byte("example.com"), []byte("example.org"), 1)
				}
				return l
			},
			want: []string{"that were signed", "that were signed"},
		},
		"a line removed": {
			forge: func(l [][]byte) [][]byte { return slices.Delete(l, within, within+1) },
			want:  []string{"that were signed"},
		},
		"three lines added": {
			forge: func(l [][]byte) [][]byte { return slices.Insert(l, within, l[1], l[2], l[3]) },
			want:  []string{"that were signed"},
		},
		"two lines reordered": {
			forge: func(l [][]byte) [][]byte { l[within], l[within+1] = l[within+1], l[within]; return l },
			want:  []string{"that were signed"},
		},
		"a checkpoint removed": {
			forge: func(l [][]byte) [][]byte { return slices.Delete(l, signed[3], signed[3]+1) },
			want:  []string{"that were signed"},
		},
		"the edge of a checkpoint changed": {
			forge: func(l [][]byte) [][]byte {
				i := bytes.Index(l[signed[3]], []byte(`"edge":"`)) + 10
				l[signed[3]][i] ^= 1
				return l
			},
			want: []string{"that were signed"},
		},
		"a checkpoint that says something else": {
			forge: func(l [][]byte) [][]byte {
				l[signed[3]] = bytes.Replace(l[signed[3]], []byte(testOrigin+`\n`), []byte(testOrigin+`\n1`), 1)
				return l
			},
			want: []string{"invalid signature for key example.com/crawler", "that were signed"},
		},
		"everything signed with another key": {
			forge: func([][]byte) [][]byte { return bytes.SplitAfter(other, []byte("\n")) },
			want:  slices.Repeat([]string{"signed with another key than example.com/crawler+"}, len(signed)),
		},
		"the end cut off at a checkpoint": {
			forge: func(l [][]byte) [][]byte { return l[:signed[3]+1] },
		},
		"the end cut off after a checkpoint": {
			forge: func(l [][]byte) [][]byte { return l[:signed[3]+4] },
			after: 3,
		},
		"the end cut off, but a later checkpoint was mailed": {
			forge: func(l [][]byte) [][]byte { return l[:signed[3]+1] },
			trust: audit.Trust{Checkpoints: checkpoints[4:5]},
			want:  []string{"the log was cut off"},
			after: 0,
		},
		"no checkpoint": {
			forge: func(l [][]byte) [][]byte {
				return slices.DeleteFunc(l, func(line []byte) bool { return bytes.HasPrefix(line, []byte(`{"type":"checkpoint"`)) })
			},
			after: 301,
		},
		"no checkpoint, but one was mailed": {
			forge: func(l [][]byte) [][]byte {
				return slices.DeleteFunc(l, func(line []byte) bool { return bytes.HasPrefix(line, []byte(`{"type":"checkpoint"`)) })
			},
			trust: audit.Trust{Checkpoints: checkpoints[2:3]},
			want:  []string{"the log was rewritten"},
			after: 301,
		},
		"empty": {
			forge: func([][]byte) [][]byte { return nil },
			trust: audit.Trust{Checkpoints: checkpoints[:1]},
			want:  []string{"the log was cut off"},
		},
		"every mailed checkpoint is extended": {trust: audit.Trust{Checkpoints: checkpoints}},
	} {
		forged := make([][]byte, len(lines))
		for i, line := range lines {
			forged[i] = bytes.Clone(line)
		}
		if c.forge != nil {
			forged = c.forge(forged)
		}
		c.trust.Key = trusted.Key
		report := mustCheck(t, c.trust, bytes.Join(forged, nil))
		faults := signatureFaults(report)
		if !slices.EqualFunc(faults, c.want, strings.Contains) {
			t.Errorf("%s: %q, want %q", name, faults, c.want)
		}
		if report.Signed.After != c.after {
			t.Errorf("%s: %d records after the last checkpoint, want %d", name, report.Signed.After, c.after)
		}
		if c.want == nil && report.Signed.Older != len(c.trust.Checkpoints) {
			t.Errorf("%s: extends %d checkpoints", name, report.Signed.Older)
		}
	}
}

// TestOwnerCanNotRewriteWhatSomebodyHasACheckpointOf has the owner of the key make the log anew.
func TestOwnerCanNotRewriteWhatSomebodyHasACheckpointOf(t *testing.T) {
	_, mailed := logtest.Signed(t, 50, testKey)
	rewritten, _ := logtest.Signed(t, 70, testKey) // other salts, if nothing else
	for i := range mailed {
		report := mustCheck(t, audit.Trust{Key: trusted.Key, Checkpoints: mailed[i : i+1]}, rewritten)
		if got := signatureFaults(report); len(got) != 1 || !strings.Contains(got[0], "was rewritten") {
			t.Errorf("checkpoint %d: %q", i, got)
		}
	}
}

func TestSignedLogsOfOneFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "crawl.jsonl")
	synctest.Test(t, func(t *testing.T) {
		for range 3 {
			log, err := evidence.OpenFile(name, evidence.LogConfig{Signed: &evidence.SignConfig{Key: testKey, Origin: testOrigin}})
			if err != nil {
				t.Fatal(err)
			}
			logtest.Visit(t, log, 20)
			if err := log.Close(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
		}
	})
	grown, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	one, _ := logtest.Signed(t, 20, testKey)
	two, _ := logtest.Signed(t, 30, testKey)
	for what, log := range map[string][]byte{
		"one tree": grown, "two trees": slices.Concat(one, two), "a tree of three logs and one of its own": slices.Concat(grown, one),
	} {
		report := mustCheck(t, trusted, log)
		if !report.OK() || report.Signed.After != 0 || report.Signed.Records == 0 {
			t.Errorf("%s: %v", what, report)
		}
	}
	// A whole log taken out of the middle of a tree is missed.
	var from, to int
	for i, line := range bytes.SplitAfter(grown, []byte("\n")) {
		_ = i
		if bytes.Contains(line, []byte(`"n":1,`)) && from == 0 && to > 0 {
			from = to
		} else if bytes.Contains(line, []byte(`"n":1,`)) && from > 0 {
			break
		}
		to += len(line)
	}
	report := mustCheck(t, trusted, slices.Concat(grown[:from], grown[to:]))
	if got := signatureFaults(report); len(got) == 0 || !strings.Contains(got[0], "that were signed") {
		t.Errorf("a log taken out: %q", got)
	}
}

func TestTrustRefusesWhatItCanNotRead(t *testing.T) {
	_, checkpoints := logtest.Signed(t, 10, testKey)
	for want, trust := range map[string]audit.Trust{
		`the key "nonsense"`:    {Key: "nonsense"},
		"malformed note":        {Checkpoints: [][]byte{[]byte("nonsense")}},
		"signed with another":   {Key: logtest.VerifierKey(otherKey), Checkpoints: checkpoints[:1]},
		"invalid signature for": {Key: trusted.Key, Checkpoints: [][]byte{bytes.Replace(checkpoints[0], []byte("\n"), []byte("\n1"), 1)}},
		"not a checkpoint":      {Checkpoints: [][]byte{[]byte("hello\n\n— a AAAAAAA=\n")}},
	} {
		if _, err := trust.Check(strings.NewReader("")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func FuzzCheckpoints(f *testing.F) {
	var out bytes.Buffer
	log := logtest.New(f, &out, evidence.LogConfig{Chained: true, Signed: &evidence.SignConfig{Key: testKey, Origin: testOrigin}})
	log.Record(f.Context(), evidence.Decision{Type: evidence.RobotsAllowed, Allowed: true})
	if err := log.Close(); err != nil {
		f.Fatal(err)
	}
	f.Add(out.Bytes(), []byte("a\n1\nAAAA\n\n— a AAAAAAA=\n"))
	f.Fuzz(func(t *testing.T, log, checkpoint []byte) {
		for _, trust := range []audit.Trust{trusted, {Checkpoints: [][]byte{checkpoint}}, {}} {
			report, err := trust.Check(bytes.NewReader(log))
			if err != nil {
				continue
			}
			if s := report.Signed; s.Key != "" && s.Records+s.After > report.Lines {
				t.Errorf("%+v of %d lines", s, report.Lines)
			}
			_ = report.String()
		}
	})
}
