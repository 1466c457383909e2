package audit_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/logtest"
	"github.com/go-politeness/politeness/politenesstest"
	"github.com/go-politeness/politeness/revisit"
)

const dueKept = "pages asked again only when due"

// revisited is the log of a program that asks for three pages for some days, through a
// revisit.Transport.
func revisited(t *testing.T) []evidence.Decision {
	t.Helper()
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		began := time.Now()
		// A page that changes each day, one that is gone for a while, and one without validators.
		web.Site("https://a.example").Handle("/daily", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			tag := fmt.Sprintf(`"%d"`, int(time.Since(began).Hours()/24))
			w.Header().Set("ETag", tag)
			w.Header().Set("Cache-Control", "max-age=7200")
			if r.Header.Get("If-None-Match") == tag {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			fmt.Fprint(w, strings.Repeat(tag, 1000))
		})).Handle("/gone", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if hours := time.Since(began).Hours(); hours > 20 && hours < 30 {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			w.Header().Set("Last-Modified", began.Add(-time.Hour).UTC().Format(http.TimeFormat))
			fmt.Fprint(w, "a page")
		})).Page("/plain", "x")
		log := logtest.New(t, &out, evidence.LogConfig{Chained: true})
		polite, err := politeness.New(politeness.Config{
			UserAgent: "ExampleBot/1.0 (bot@example.com)", Base: web, Evidence: log,
			Hosts: hostlimit.Config{Concurrency: 1, Delay: hostlimit.Delay{Min: time.Second}},
		})
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: &revisit.Transport{Base: polite, Schedule: revisit.Schedule{Min: time.Hour}}}
		for range 100 {
			for _, path := range []string{"/daily", "/gone", "/plain"} {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://a.example"+path, http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				if resp, err := client.Do(req); err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			}
			time.Sleep(time.Hour)
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	})
	return parse(t, out.Bytes())
}

// again returns the n-th start of a page that came due.
func (f *forger) again(path string, n int) *evidence.Decision {
	f.t.Helper()
	for i := range f.ds {
		d := &f.ds[i]
		if d.Type == evidence.Started && strings.HasSuffix(d.URL, path) && !d.Due.IsZero() {
			if n--; n < 0 {
				return d
			}
		}
	}
	f.t.Fatalf("no start of %s that came due", path)
	return nil
}

// TestRevisits: the log of an honest program is proved, and what its lies lead to.
func TestRevisits(t *testing.T) {
	for _, c := range []struct {
		name, want string
		lie        func(f *forger)
	}{
		{"nothing", "", func(*forger) {}},
		{"asked for before it was due", caught, func(f *forger) {
			d := f.again("/daily", 3)
			d.Due = d.Start.Add(10 * time.Minute)
		}},
		{"due moved before the last answer", leftOpen, func(f *forger) {
			d := f.again("/daily", 3)
			d.Due = d.Due.Add(-12 * time.Hour)
		}},
		{"asked for while its last answer was fresh", caught, func(f *forger) {
			for i := range f.ds {
				if d := &f.ds[i]; d.Type == evidence.Fetched && strings.HasSuffix(d.URL, "/daily") {
					d.Fresh = 10 * time.Hour
				}
			}
		}},
		{"without its conditions", caught, func(f *forger) { f.again("/daily", 3).Conditional = false }},
		{"without conditions, by Last-Modified alone", caught, func(f *forger) { f.again("/gone", 3).Conditional = false }},
		{"conditions that weren't needed", missed, func(f *forger) { f.again("/plain", 3).Conditional = true }},
		{"due taken out: one more repeat, and nothing promised", missed, func(f *forger) { f.again("/daily", 3).Due = time.Time{} }},
		{"a lower freshness: only the site knows", missed, func(f *forger) {
			for i := range f.ds {
				f.ds[i].Fresh = min(f.ds[i].Fresh, time.Minute)
			}
		}},
		{"a 304 that nobody had asked for", caught, func(f *forger) {
			for i := range f.ds {
				if strings.HasSuffix(f.ds[i].URL, "/daily") {
					f.ds[i].Conditional = false
				}
			}
		}},
		// Its asker, which has no memory of the page, isn't bound by the freshness of the answer.
		{"the first visit was a proof", leftOpen, func(f *forger) {
			second := f.again("/daily", 0).Time
			for i := range f.ds {
				d := &f.ds[i]
				if d.Time.Before(second) && strings.HasSuffix(d.URL, "/daily") {
					d.Proof = d.Type == evidence.Started
					d.Fresh *= 100
				}
			}
		}},
		{"the first visits withheld", leftOpen, func(f *forger) {
			first := f.ds[0]
			cut := f.again("/daily", 0).Time
			f.drop(func(d *evidence.Decision) bool { return d.Type != evidence.PolicyStated && d.Time.Before(cut) })
			f.ds[0] = first
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &forger{t: t, ds: revisited(t)}
			c.lie(f)
			f.renumber()
			r := f.check()
			p := r.Promise(dueKept)
			switch c.want {
			case caught:
				if p.Broken == 0 {
					t.Errorf("%+v", p)
				}
			case leftOpen:
				if p.Broken > 0 || p.Open == 0 {
					t.Errorf("%+v", p)
				}
			default:
				if p.Broken+p.Open > 0 || p.Proved < 100 {
					t.Errorf("%+v\n%v", p, r)
				}
			}
			if c.name == "nothing" {
				h := r.Hosts[0]
				if h.Conditional < 100 || h.NotModified < 40 || h.Spared < 100_000 || h.Repeats > 0 {
					t.Errorf("%+v", h)
				}
				if !strings.Contains(r.String(), "answered 304") {
					t.Error(r)
				}
			}
		})
	}
}

// TestRepeats: a program that asks for what it had, and promises nothing, is told of it.
func TestRepeats(t *testing.T) {
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		web.Site("https://a.example").Page("/list", "x").Page("/other", "x")
		log := logtest.New(t, &out, evidence.LogConfig{Chained: true})
		polite, err := politeness.New(politeness.Config{UserAgent: "ExampleBot/1.0 (bot@example.com)", Base: web, Evidence: log})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 30 {
			path := []string{"/list", "/list", "/other"}[i%3]
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://a.example"+path, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := polite.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	})
	log := slices.Clone(out.Bytes())
	r, err := audit.Check(&out)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := r.Hosts[0].RepeatWarning(), "a.example was asked 28 times for 2 pages it had given before"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	made := r.Promise("pages asked again only when due").Name != ""
	if made || !strings.Contains(r.String(), "was asked 28 times") {
		t.Errorf("%v", r)
	}
	// That they were proofs is refuted by a host that has never refused.
	f := &forger{t: t, ds: parse(t, log)}
	for i := range f.ds {
		f.ds[i].Proof = f.ds[i].Type == evidence.Started
	}
	if h := f.check().Hosts[0]; h.Repeats != 28 || h.Proofs > 0 {
		t.Errorf("with a lie, %d repeats and %d proofs", h.Repeats, h.Proofs)
	}
}

// check returns what the judge says of the records.
func (f *forger) check() *audit.Report {
	f.t.Helper()
	var out bytes.Buffer
	log := logtest.New(f.t, &out, evidence.LogConfig{Chained: true})
	for _, d := range f.ds {
		log.Record(f.t.Context(), d)
	}
	if err := log.Close(); err != nil {
		f.t.Fatal(err)
	}
	r, err := audit.Check(&out)
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}
