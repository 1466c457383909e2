package robots_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"os"
	"testing"

	"github.com/go-politeness/politeness/robots"
)

// verdictCase is a line of testdata/robots-verdicts.jsonl.gz: what Google's matcher answered
// for one file.
type verdictCase struct {
	Body    []byte `json:"body"`
	Queries []struct {
		Agent   string `json:"agent"`
		Target  []byte `json:"target"`
		Allowed bool   `json:"allowed"`
		Line    int    `json:"line"`  // 0: none
		Plain   bool   `json:"plain"` // RFC 9309's normalisation can't change the verdict
	} `json:"queries"`
}

func verdictCases(t testing.TB) []verdictCase {
	t.Helper()
	f, err := os.Open("testdata/robots-verdicts.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var all []verdictCase
	s := bufio.NewScanner(z)
	s.Buffer(nil, 16<<20)
	for s.Scan() {
		var c verdictCase
		if err := json.Unmarshal(s.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestVerdictsOfGooglesMatcher holds verdict and line of all 37,000 recorded answers under
// GoogleExact, and of the plain ones in the default mode.
func TestVerdictsOfGooglesMatcher(t *testing.T) {
	checks := 0
	plain := 0
	failed := 0
	for _, c := range verdictCases(t) {
		exact := robots.ParseWith(c.Body, robots.Options{GoogleExact: true})
		file := robots.Parse(c.Body)
		for _, q := range c.Queries {
			checks++
			v := exact.Agent(q.Agent).Test(string(q.Target))
			if v.Allowed != q.Allowed || v.Line != q.Line {
				failed++
				t.Errorf("GoogleExact: %q\n%s %q: got %v line %d, want %v line %d", c.Body, q.Agent, q.Target, v.Allowed, v.Line, q.Allowed, q.Line)
			}
			if q.Plain {
				plain++
				v := file.Agent(q.Agent).Test(string(q.Target))
				if v.Allowed != q.Allowed || v.Line != q.Line {
					failed++
					t.Errorf("default: %q\n%s %q: got %v line %d, want %v line %d", c.Body, q.Agent, q.Target, v.Allowed, v.Line, q.Allowed, q.Line)
				}
			}
			if failed > 20 {
				t.FailNow()
			}
		}
	}
	if checks < 37000 || plain < 800 {
		t.Errorf("read %d verdicts, %d of them plain", checks, plain)
	}
}
