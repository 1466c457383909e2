package revisit_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/politenesstest"
	"github.com/go-politeness/politeness/revisit"
)

// A feedServer scores a reader, as owners of feeds do who look at their logs: it counts requests that
// are early, unconditional for the second time, or have values that it didn't send last.
type feedServer struct {
	asked     map[string]time.Time // last answer, by path
	notBefore map[string]time.Time
	etag      map[string]string // that were sent last
	modified  map[string]string
	version   int
	touched   time.Time
	faults    []string
	unchanged int
	whole     int
	busy      int // answers 503 that are left to be given
}

func (s *feedServer) fault(r *http.Request, format string, args ...any) {
	s.faults = append(s.faults, time.Now().Format("02 15:04:05 ")+r.URL.Path+": "+fmt.Sprintf(format, args...))
}

// ServeHTTP implements http.Handler.
func (s *feedServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	path := r.URL.Path
	for _, name := range []string{"Cookie", "Referer"} {
		if r.Header.Get(name) != "" {
			s.fault(r, "sent %s", name)
		}
	}
	if r.URL.RawQuery != "" {
		s.fault(r, "a query")
	}
	if last, ok := s.asked[path]; ok && now.Sub(last) < time.Hour {
		s.fault(r, "%v after the last answer", now.Sub(last))
	}
	if now.Before(s.notBefore[path]) {
		s.fault(r, "%v before it may be asked", s.notBefore[path].Sub(now))
	}
	none := r.Header.Get("If-None-Match")
	since := r.Header.Get("If-Modified-Since")
	if none != s.etag[path] || since != s.modified[path] {
		s.fault(r, "conditions %q and %q, want %q and %q", none, since, s.etag[path], s.modified[path])
	}
	if s.busy > 0 {
		s.busy--
		w.Header().Set("Retry-After", "5400")
		w.WriteHeader(http.StatusServiceUnavailable)
		s.notBefore[path] = now.Add(90 * time.Minute)
		return
	}
	s.asked[path] = now
	s.notBefore[path] = now.Add(2 * time.Hour)
	w.Header().Set("Cache-Control", "max-age=7200")
	etag := fmt.Sprintf(`W/"%d"`, s.version)
	modified := s.touched.UTC().Format(http.TimeFormat)
	s.etag[path] = etag
	s.modified[path] = modified
	w.Header().Set("ETag", etag)
	w.Header().Set("Last-Modified", modified)
	if none == etag && since == modified {
		s.unchanged++
		w.WriteHeader(http.StatusNotModified)
		return
	}
	s.whole++
	fmt.Fprintf(w, "<rss>%d</rss>\n", s.version)
}

// TestFeedReadersScore: a reader that would poll each ten minutes asks as owners of feeds wish, for a
// month and over twenty restarts: once unconditionally, never early, with the values of the last
// answer, and along a redirect.
func TestFeedReadersScore(t *testing.T) {
	state := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		server := &feedServer{
			asked: map[string]time.Time{}, notBefore: map[string]time.Time{},
			etag: map[string]string{}, modified: map[string]string{}, touched: time.Now().Add(-240 * time.Hour),
		}
		web := politenesstest.NewWeb()
		web.Site("https://example.com").Handle("/feed.xml", server).
			Handle("/old.xml", http.RedirectHandler("/feed.xml", http.StatusMovedPermanently))
		start := func() *http.Client {
			cfg := politeness.Config{UserAgent: "FeedBot/1.0 (me@example.com)", Base: web}.WithState(state)
			polite, err := politeness.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			return &http.Client{Transport: &revisit.Transport{
				Base: polite, Schedule: revisit.Schedule{Min: time.Hour}, Store: revisit.Dir(state + "/feeds"),
				Failed: func(err error) { t.Error(err) },
			}}
		}
		client := start()
		r := rand.New(rand.NewPCG(61, 61))
		const polls = 30 * 24 * 6
		versions := map[string]bool{}
		for i := range polls {
			url := "https://example.com/feed.xml"
			if i%7 == 0 {
				url = "https://example.com/old.xml"
			}
			if i%(polls/20) == polls/40 {
				client = start()
			}
			switch r.IntN(400) {
			case 0:
				server.version++
				server.touched = time.Now()
			case 1: // touch feed.xml
				server.touched = time.Now()
			case 2:
				server.busy = 1
			}
			body, err := read(t, client, url)
			switch {
			case err == nil && body != "":
				versions[body] = true
			case err != nil && !errors.Is(err, revisit.ErrFresh) && !errors.Is(err, politeness.ErrBlocked):
				t.Fatal(err)
			}
			time.Sleep(10*time.Minute - time.Duration(r.IntN(60))*time.Second)
		}
		for _, fault := range server.faults {
			t.Error(fault)
		}
		if server.version < 5 || len(versions) < server.version {
			t.Errorf("%d of %d versions", len(versions), server.version+1)
		}
		t.Logf("%d polls: %d answers, %d of them whole, for %d versions", polls, server.unchanged+server.whole, server.whole, server.version+1)
	})
}

// read returns the body of an answer 200, and "" of any other.
func read(t *testing.T, client *http.Client, url string) (body string, err error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return "", err
	}
	return strconv.Quote(string(text)), nil
}
