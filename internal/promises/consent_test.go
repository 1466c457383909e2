package promises_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/politenesstest"
	"github.com/go-politeness/politeness/robots"
)

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// TestReservedInRobotsIsNotFetched: a page whose purpose robots.txt reserves takes no turn, and
// every way to ask says so.
func TestReservedInRobotsIsNotFetched(t *testing.T) {
	const text = "User-agent: *\nContent-Signal: search=yes, ai-train=no\nContent-Usage: /open/ train-ai=y\nDisallow: /private\n"
	for _, c := range []struct {
		purposes []robots.Purpose
		refused  bool
	}{
		{[]robots.Purpose{robots.Train}, true},
		{[]robots.Purpose{robots.Search, robots.Train}, true},
		{[]robots.Purpose{robots.Search}, false},
		{[]robots.Purpose{robots.Ground}, false}, // nothing is stated about it
		{nil, false},
	} {
		virtually(t, politeness.Config{Purposes: c.purposes}, func(b *bubble) {
			b.site.Robots(text).Page("/", "home").Page("/open/a", "open")
			status, err := b.get("https://example.com/")
			v, checked := b.t.Check(b.Context(), "https://example.com/")
			const stated = "train refused (Content-Signal, line 2), search granted (Content-Signal, line 2)"
			if checked != nil || v.Allowed == c.refused || v.Preferences.String() != stated {
				b.Errorf("%v: Check: %+v, %v", c.purposes, v, checked)
			}
			list, _ := b.t.Filter(b.Context(), []string{"https://example.com/", "https://example.com/open/a"})
			_, next := b.t.Next(b.Context(), "https://example.com/")
			if !c.refused {
				if err != nil || status != 200 || len(list) != 2 || next != nil {
					b.Errorf("%v: status %d, %v; %q, %v", c.purposes, status, err, list, next)
				}
				if d := b.log.Decisions(evidence.RobotsAllowed)[0]; d.Preferences != stated || d.SHA256 != hashOf(text) {
					b.Errorf("%v: recorded %q of %s", c.purposes, d.Preferences, d.SHA256)
				}
				if d := b.log.Decisions(evidence.Fetched)[1]; d.Preferences != stated || d.SHA256 != hashOf(text) {
					b.Errorf("%v: of the page %q of %s", c.purposes, d.Preferences, d.SHA256)
				}
				return
			}
			refused(b.T, err, politeness.StageRobots, politeness.ErrReserved)
			refused(b.T, next, politeness.StageRobots, politeness.ErrReserved)
			if want := "reserved by the site: train: Content-Signal, line 2"; v.Reason != want || !strings.HasSuffix(err.Error(), want) {
				b.Errorf("%v: %v; Check says %q", c.purposes, err, v.Reason)
			}
			if asked := b.asked(); len(asked) != 1 {
				b.Errorf("%v: asked for %q", c.purposes, asked)
			}
			d := b.log.Decisions(evidence.Reserved)[0]
			if d.Allowed || d.Preferences != stated || d.SHA256 != hashOf(text) || d.URL != "https://example.com/" || d.Reason != v.Reason {
				b.Errorf("%v: %+v", c.purposes, d)
			}
			// The grant for a path doesn't lift the refusal for the site; what is disallowed stays that.
			if len(list) != 0 {
				b.Errorf("%v: Filter: %q", c.purposes, list)
			}
			_, err = b.get("https://example.com/private")
			refused(b.T, err, politeness.StageRobots, politeness.ErrDisallowed)
		})
	}
}

// TestReservedInHeadersIsNotRead: the body of a page whose headers reserve its purpose stays unread,
// and the slot is free again.
func TestReservedInHeadersIsNotRead(t *testing.T) {
	for _, header := range [][2]string{
		{"Content-Usage", "train-ai=n"},
		{"Tdm-Reservation", "1"},
		{"X-Robots-Tag", "noai"},
		{"X-Robots-Tag", "auditbot: noml"},
		{"Content-Signal", "use=reference"},
	} {
		cfg := politeness.Config{Purposes: []robots.Purpose{robots.Train}, Hosts: hostlimit.Config{Concurrency: 1}}
		virtually(t, cfg, func(b *bubble) {
			b.site.Robots("User-agent: *\nContent-Usage: train-ai=y\n").Page("/next", "next").
				Handle("/", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set(header[0], header[1])
					_, _ = io.WriteString(w, strings.Repeat("x", 1000))
				}))
			_, err := b.get("https://example.com/")
			refused(b.T, err, politeness.StageResponse, politeness.ErrReserved)
			b.mustGet("https://example.com/next", 200)
			d := b.one(evidence.Reserved)
			if !strings.HasPrefix(d.Preferences, "train refused ("+http.CanonicalHeaderKey(header[0])) && header[0] != "Tdm-Reservation" ||
				d.Status != 200 || d.Purposes != "train" {
				b.Errorf("%v: %+v", header, d)
			}
			page := b.log.Decisions(evidence.Fetched)[1]
			if page.Bytes != 0 || !strings.Contains(page.Err, "reserved by the site") || page.Preferences != d.Preferences {
				b.Errorf("%v: %+v", header, page)
			}
		})
	}
}

// TestReservedInPageEndsItsBody: what a page reserves by its <meta> elements is an error of its
// body, as soon as its head is over, or at its end; PreferencesOf tells more at each moment.
func TestReservedInPageEndsItsBody(t *testing.T) {
	head := `<html><head><meta name="tdm-reservation" content="1"></head>`
	const html = "text/html"
	for name, c := range map[string]struct {
		first, second string
		most          int // bytes that may be read
		contentType   string
		limit         int64 // ResponseLimits.MaxBytes
	}{
		"head":                   {head, strings.Repeat("x", 1000), 0, html, 0},
		"split":                  {head[:30], head[30:] + strings.Repeat("x", 1000), 30, html, 0},
		"only a head":            {head[:53], "<title>x</title>", -69, html, 0},
		"only a head, no longer": {head[:53], "<title>x</title>", -69, html, 69},
		"no head":                {`<meta name="robots" content="noai"><p>`, "text", 1 << 10, html, 0},
		// Browsers show all of these as pages.
		"parameter twice": {head, "x", 0, "text/html; charset=utf-8; charset=utf-8", 0},
		"type twice":      {head, "x", 0, "text/html, text/html", 0},
		"no type":         {head, "x", 0, "", 0},
	} {
		cfg := politeness.Config{Purposes: []robots.Purpose{robots.Train}, Response: politeness.ResponseLimits{MaxBytes: c.limit}}
		virtually(t, cfg, func(b *bubble) {
			b.site.Robots("User-agent: *\nContent-Signal: search=yes\n").
				Handle("/", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.Header()["Content-Type"] = []string{c.contentType}
					if c.contentType == "" {
						w.Header()["Content-Type"] = nil
					}
					_, _ = io.WriteString(w, c.first)
					_ = http.NewResponseController(w).Flush()
					time.Sleep(time.Second) // virtual
					_, _ = io.WriteString(w, c.second)
				}))
			req, _ := http.NewRequestWithContext(b.Context(), http.MethodGet, "https://example.com/", nil)
			resp, err := b.client.Do(req)
			if err != nil {
				b.Fatal(name, err)
			}
			defer resp.Body.Close()
			if got := politeness.PreferencesOf(resp).String(); got != "search granted (Content-Signal, line 2)" {
				b.Errorf("%s: before the body: %q", name, got)
			}
			read, err := io.ReadAll(resp.Body)
			refused(b.T, err, politeness.StageBody, politeness.ErrReserved)
			if len(read) > c.most && len(read) != -c.most {
				b.Errorf("%s: read %q", name, read)
			}
			if _, again := resp.Body.Read(make([]byte, 1)); again == nil || again == io.EOF {
				b.Errorf("%s: read on: %v", name, again)
			}
			if got := politeness.PreferencesOf(resp); got.Train.Preference != robots.Refused || got.Search.Preference != robots.Granted {
				b.Errorf("%s: after it: %v", name, got)
			}
			if d := b.one(evidence.Reserved); !strings.Contains(d.Preferences, "train refused (meta ") {
				b.Errorf("%s: %+v", name, d)
			}
			time.Sleep(time.Minute) // virtual: the handler ends
		})
	}
}

// TestNoPurposeRefusesNothing: what a site states is recorded all the same; noai by itself is on
// record where pages are looked at.
func TestNoPurposeRefusesNothing(t *testing.T) {
	for _, looked := range []bool{false, true} {
		virtually(t, politeness.Config{Response: politeness.ResponseLimits{CheckIndexing: looked}}, func(b *bubble) {
			b.site.Robots("Content-Signal: ai-train=no\nLicense: https://example.com/terms\n").
				Handle("/", politenesstest.Status(200, "Tdm-Reservation", "1", "Content-Type", "text/html")).
				Handle("/noai", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "text/html")
					_, _ = io.WriteString(w, "<meta name=robots content=noai>")
				}))
			req, _ := http.NewRequestWithContext(b.Context(), http.MethodGet, "https://example.com/", nil)
			resp, err := b.client.Do(req)
			if err != nil {
				b.Fatal(err)
			}
			resp.Body.Close()
			const stated = "train refused (Content-Signal, line 1), ground refused (tdm-reservation header), license https://example.com/terms"
			of := politeness.PreferencesOf(resp).String()
			if !looked {
				of += stated // nobody looks for it: the zero value
			}
			if of != stated {
				b.Errorf("PreferencesOf: %q", of)
			}
			if d := b.log.Decisions(evidence.Fetched)[1]; d.Preferences != stated || d.Purposes != "" {
				b.Errorf("%+v", d)
			}
			b.mustGet("https://example.com/noai", 200)
			if got := b.log.Decisions(evidence.NoIndex); looked != (len(got) == 1 && got[0].Directives == "noai") {
				b.Errorf("looked at %t: %+v", looked, got)
			}
			if d := b.log.Decisions(evidence.Fetched)[2]; looked != strings.Contains(d.Preferences, "ground refused (meta noai)") {
				b.Errorf("looked at %t: %+v", looked, d)
			}
		})
	}
}

// TestReservationThatComesDuringTheWait: a robots.txt that is fetched while a request waits for its
// turn counts for that request.
func TestReservationThatComesDuringTheWait(t *testing.T) {
	cfg := politeness.Config{
		Purposes: []robots.Purpose{robots.Ground},
		Hosts:    hostlimit.Config{Delay: hostlimit.Delay{Min: 40 * time.Minute, Max: 40 * time.Minute}},
	}
	virtually(t, cfg, func(b *bubble) {
		b.site.Robots("User-agent: *\n").Page("/a", "a").Page("/b", "b").Page("/c", "c")
		b.mustGet("https://example.com/a", 200)
		b.mustGet("https://example.com/b", 200) // 80 minutes after the fetch of robots.txt
		b.site.Robots("Content-Signal: ai-input=no\n")
		_, err := b.get("https://example.com/c")
		refused(b.T, err, politeness.StageRobots, politeness.ErrReserved)
	})
}

// TestPagesOfReservedPurposesAreNeverHandedOver: random sites, random purposes. What comes through
// whole is what a model of the six places lets through, and what robots.txt reserves isn't asked for.
func TestPagesOfReservedPurposesAreNeverHandedOver(t *testing.T) {
	rounds := 60
	for seed := range rounds {
		rnd := rand.New(rand.NewPCG(uint64(seed), 21))
		var purposes []robots.Purpose
		for p := robots.Train; p.Valid(); p++ {
			if rnd.IntN(2) == 0 {
				purposes = append(purposes, p)
			}
		}
		// Each place says one thing, about purposes by number: 0 training, 1 grounding, 2 search.
		type place struct {
			text string
			no   []int
		}
		pick := func(of ...place) place { return of[rnd.IntN(len(of))] }
		usage := pick(place{"", nil}, place{"train-ai=n", []int{0}}, place{"train-ai=y, search=n;x", []int{2}}, place{"train-ai=n, Bad=y", nil})
		signal := pick(place{"", nil}, place{"ai-input=no", []int{1}}, place{"use=immediate", []int{0, 2}}, place{"ai-train=yes", nil})
		virtually(t, politeness.Config{Purposes: purposes}, func(b *bubble) {
			b.site.Robots("User-agent: *\nContent-Usage: " + usage.text + "\nContent-Signal: " + signal.text + "\n")
			type page struct {
				url    string
				robots bool // reserved by robots.txt
				whole  bool
			}
			var pages []page
			for i := range 12 {
				header := pick(place{"", nil}, place{"search=n", []int{2}}, place{"ai-use=n, search=y", []int{1}})
				tdm := pick(place{"", nil}, place{"0", nil}, place{"1", []int{0, 1}})
				tags := pick(place{"", nil}, place{"noindex", nil}, place{"noml", []int{0}})
				meta := pick(place{"", nil}, place{"<meta name=robots content=noai>", []int{0, 1}}, place{"<meta name=robots content=nofollow>", nil})
				path := fmt.Sprintf("/%d", i)
				b.site.Handle(path, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					for name, text := range map[string]string{"Content-Usage": header.text, "Tdm-Reservation": tdm.text, "X-Robots-Tag": tags.text} {
						if text != "" {
							w.Header().Set(name, text)
						}
					}
					w.Header().Set("Content-Type", "text/html")
					_, _ = io.WriteString(w, "<head>"+meta.text+"</head><p>text")
				}))
				hit := func(places ...place) bool {
					for _, p := range places {
						for _, n := range p.no {
							if slices.Contains(purposes, robots.Purpose(n)) {
								return true
							}
						}
					}
					return false
				}
				pages = append(pages, page{"https://example.com" + path, hit(usage, signal), !hit(usage, signal, header, tdm, tags, meta)})
			}
			for _, p := range pages {
				_, err := b.get(p.url)
				if (err == nil) != p.whole {
					b.Errorf("seed %d, %v, %s: %v; want whole: %t", seed, purposes, p.url, err, p.whole)
				}
				if asked := slices.Contains(b.asked(), p.url); asked == p.robots {
					b.Errorf("seed %d, %v, %s: asked for: %t", seed, purposes, p.url, asked)
				}
			}
			b.web.Check(b.T, politenesstest.Rules{})
		})
	}
}

// TestUnaskedConsentCostsNothing: without Purposes and evidence a site that states preferences costs
// no allocation more than one that doesn't.
func TestUnaskedConsentCostsNothing(t *testing.T) {
	cost := func(robotsTxt string, header http.Header) float64 {
		cfg := everything(t, stating{robotsTxt, header})
		cfg.Evidence = nil
		polite := mustNew(t, cfg)
		req, buf := pageRequest(t, true), make([]byte, 512)
		return testing.AllocsPerRun(200, func() { roundTrip(t, polite, req, buf) })
	}
	silent := cost("User-agent: *\nDisallow: /x\n", http.Header{})
	stating := cost("User-agent: *\nContent-Usage: train-ai=n\nContent-Signal: search=yes\n", http.Header{"Content-Usage": {"train-ai=n"}})
	if stating > silent {
		t.Errorf("%v allocations where preferences are stated, %v where not", stating, silent)
	}
}

// stating answers at once, with a robots.txt and a header.
type stating struct {
	robotsTxt string
	header    http.Header
}

func (s stating) RoundTrip(req *http.Request) (*http.Response, error) {
	body := http.NoBody
	resp := &http.Response{StatusCode: http.StatusOK, Header: s.header, Body: body, Request: req}
	if strings.HasSuffix(req.URL.Path, "/robots.txt") {
		resp.Body = io.NopCloser(strings.NewReader(s.robotsTxt))
	}
	return resp, nil
}

func TestPurposesThatAreNone(t *testing.T) {
	_, err := politeness.New(politeness.Config{UserAgent: agent, Purposes: []robots.Purpose{robots.Search, 9}})
	const want = "politeness: Config.Purposes: [1] is Purpose(9): use robots.Train, robots.Ground or robots.Search"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
