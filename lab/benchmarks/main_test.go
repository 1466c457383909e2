package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if os.Getenv(serverEnv) != "" {
		serveScale()
		return
	}
	os.Exit(m.Run())
}

// Everything runs once: each rival has its row, all figures are well-formed, and politeness breaks
// none of its promises. Speed isn't asserted.
func TestShort(t *testing.T) {
	for _, s := range sections() {
		t.Run(s.name, func(t *testing.T) {
			b := shortBench()
			r, err := s.run(b)
			if err != nil {
				t.Fatal(err)
			}
			if r.broken > 0 {
				t.Errorf("politeness broke %d promises", r.broken)
			}
			for _, by := range s.rivals {
				if !hasRow(r.tables, by) {
					t.Errorf("no row for %s", by)
				}
			}
			var text bytes.Buffer
			s.write(&text, r)
			if r.what == "" || r.read == "" || r.limits == "" {
				t.Error("it isn't said what is measured, how to read it, or where it doesn't hold")
			}
			if len(r.plots) == 0 {
				t.Error("no figure")
			}
			for _, f := range r.plots {
				wellFormed(t, f)
				if !strings.Contains(text.String(), "](plots/"+f.name+".svg)") {
					t.Errorf("figure %s isn't shown", f.name)
				}
			}
			for line := range strings.Lines(b.lines.String()) {
				if f := strings.Fields(line); len(f) != 8 || !strings.HasPrefix(f[0], "Benchmark") {
					t.Errorf("benchstat can't read %q", line)
				}
			}
		})
	}
}

func hasRow(tables []table, by string) bool {
	for _, t := range tables {
		for _, row := range t.rows {
			if row[0] == by && len(row) > 1 {
				return true
			}
		}
	}
	return false
}

func wellFormed(t *testing.T, f figure) {
	t.Helper()
	svg := f.plot.SVG()
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%s.svg: %v", f.name, err)
		}
	}
	if bytes.Contains(svg, []byte("NaN")) || bytes.Contains(svg, []byte("Inf")) {
		t.Errorf("%s.svg has a number that is none", f.name)
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		x    []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{5, 1, 3}, 3}, {[]float64{4, 1, 2, 3}, 2.5}} {
		if got := median(c.x); got != c.want {
			t.Errorf("median(%v) = %v, want %v", c.x, got, c.want)
		}
	}
}

// A site opens one window at its first refusal, counts what comes into it, and not what was on its
// way, and opens the next after its end.
func TestSiteWindows(t *testing.T) {
	s := &site{blocks: retryAfter}
	s.arrive(time.Now)
	s.arrive(time.Now)
	if s.starts[1].into {
		t.Error("a request that started before the first refusal counts")
	}
	s.refuse(true)
	into := func(afterRefusal time.Duration) bool {
		s.arrive(func() time.Time { return s.windows[0].from.Add(afterRefusal) })
		return s.starts[len(s.starts)-1].into
	}
	if !into(retryAfter/10) || !into(retryAfter) {
		t.Error("a request into the window doesn't count")
	}
	if into(retryAfter+1) || into(retryAfter+2) {
		t.Error("a request after the window's end counts")
	}
	if len(s.windows) != 2 {
		t.Errorf("%d windows, want 2", len(s.windows))
	}
}

func TestReplaceSection(t *testing.T) {
	const report = "# Results\n\n## A\n\na\n\n## B\n\nb\n\n## All timings, by benchstat\n\nx\n"
	for heading, want := range map[string]string{
		"## A":   "# Results\n\n## A\n\nnew\n\n## B\n\nb\n\n## All timings, by benchstat\n\nx\n",
		"## B":   "# Results\n\n## A\n\na\n\n## B\n\nnew\n\n## All timings, by benchstat\n\nx\n",
		"## New": "# Results\n\n## A\n\na\n\n## B\n\nb\n\n## New\n\nnew\n\n## All timings, by benchstat\n\nx\n",
	} {
		got := replaceSection([]byte(report), []byte(heading), []byte(heading+"\n\nnew\n\n"))
		if string(got) != want {
			t.Errorf("%s: %q, want %q", heading, got, want)
		}
	}
}
