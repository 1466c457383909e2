package audit_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/politenesstest"
	"github.com/go-politeness/politeness/robots"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// consentLog is the log of a crawl for training of a site that reserves some of its pages, in every
// place.
func consentLog(t *testing.T, keepText bool) string {
	t.Helper()
	var out strings.Builder
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		web.Site("https://a.example").
			Robots("User-agent: *\nContent-Usage: /mine train-ai=n\nContent-Signal: search=yes\n").
			Page("/free", "x").Page("/mine", "x").
			Handle("/header", politenesstest.Status(200, "Tdm-Reservation", "1")).
			Handle("/meta", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				_, _ = io.WriteString(w, "<head><meta name=robots content=noai></head>")
			}))
		log := evidence.JSONLines(&out)
		polite, err := politeness.New(politeness.Config{
			UserAgent: "ExampleBot/1.0 (+https://example.com/bot; bot@example.com)", Base: web, Evidence: log,
			Purposes: []robots.Purpose{robots.Train},
			Robots:   robotscache.Config{RecordText: keepText},
		})
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: polite}
		for _, path := range []string{"/free", "/mine", "/header", "/meta", "/free"} {
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://a.example"+path, nil)
			if resp, err := client.Do(req); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	})
	return out.String()
}

func TestReservationsAreProved(t *testing.T) {
	for _, keepText := range []bool{true, false} {
		r, err := audit.Check(strings.NewReader(consentLog(t, keepText)))
		if err != nil || !r.OK() || r.Records[evidence.Reserved] != 3 {
			t.Fatalf("%v, %v", r, err)
		}
		proved, open := 5, 0
		if !keepText {
			proved, open = open, proved
		}
		if r.Promise("reservations kept").Proved != proved || r.Promise("reservations kept").Open != open {
			t.Errorf("text kept: %t: %d decided again, %d open", keepText, r.Promise("reservations kept").Proved, r.Promise("reservations kept").Open)
		}
		i := slices.IndexFunc(r.Promises, func(p audit.Promise) bool { return p.Name == "reservations kept" })
		if p := r.Promises[i]; p.Proved != proved || p.Open != open || p.Broken != 0 {
			t.Errorf("text kept: %t: %+v", keepText, p)
		}
	}
}

// TestReservationsThatAreLiedAbout: each lie that the log itself refutes is found.
func TestReservationsThatAreLiedAbout(t *testing.T) {
	honest := consentLog(t, true)
	var numbered []string // without numbers, which a liar would write anew
	for line := range strings.Lines(honest) {
		i := strings.LastIndex(line, `,"n":`)
		numbered = append(numbered, line[:i]+"}\n")
	}
	honest = strings.Join(numbered, "")
	for name, lie := range map[string]func(line string) string{
		"a refusal left out of the verdict": func(line string) string {
			return strings.Replace(line, `"type":"reserved",`, `"type":"robots_allowed",`, 1)
		},
		"an allowed page that is reserved": func(line string) string {
			if strings.Contains(line, "/mine") && strings.Contains(line, `"reserved"`) {
				line = strings.Replace(line, `"type":"reserved"`, `"type":"robots_allowed"`, 1)
				return strings.Replace(line, `"allowed":false`, `"allowed":true`, 1)
			}
			return line
		},
		"a page handed over without its refusal": func(line string) string {
			if strings.Contains(line, `"reserved"`) && strings.Contains(line, "/header") {
				return ""
			}
			return line
		},
		"preferences that robots.txt doesn't state": func(line string) string {
			return strings.Replace(line, "search granted (Content-Signal, line 3)", "search granted (Content-Signal, line 2)", 1)
		},
		"purposes hidden": func(line string) string {
			return strings.Replace(line, `,"purposes":"train","preferences"`, `,"preferences"`, 1)
		},
		"preferences hidden": func(line string) string {
			if strings.Contains(line, `"robots_allowed"`) {
				i, j := strings.Index(line, `,"preferences":`), strings.LastIndex(line, "}")
				return line[:i] + line[j:]
			}
			return line
		},
		"a page refused that isn't reserved": func(line string) string {
			if strings.Contains(line, `"robots_allowed"`) && strings.Contains(line, "/free") {
				line = strings.Replace(line, `"type":"robots_allowed"`, `"type":"reserved"`, 1)
				return strings.Replace(line, `"allowed":true`, `"allowed":false`, 1)
			}
			return line
		},
	} {
		var log strings.Builder
		for line := range strings.Lines(honest) {
			log.WriteString(lie(line))
		}
		r, err := audit.Check(strings.NewReader(log.String()))
		if err != nil || r.Broken[audit.BrokenConsent] == 0 {
			t.Errorf("%s: %v\n%v", name, err, r)
		}
	}
}
