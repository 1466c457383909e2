package localsite_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/internal/localsite"
)

func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func TestSite(t *testing.T) {
	s := localsite.Start()
	defer s.Close()
	if _, body := get(t, s.URL+"/"); !strings.Contains(body, `href="/private/diary"`) {
		t.Errorf("index without its links:\n%s", body)
	}
	for i, want := range []int{http.StatusTooManyRequests, http.StatusOK} {
		if status, _ := get(t, s.URL+"/busy"); status != want {
			t.Errorf("answer %d of /busy is %d, not %d", i+1, status, want)
		}
	}
	get(t, s.URL+"/trap?x=1")
	if n := len(s.Visits()); n != 5 {
		t.Errorf("%d visits, not 5: %v", n, s.Visits())
	}
	if n := len(s.Visits("/busy", "/private*")); n != 3 {
		t.Errorf("%d visits to /busy and /private/diary, not 3", n)
	}
	if n := s.MostInFlight(); n != 1 {
		t.Errorf("%d in flight, though one asked after the other", n)
	}
}

// TestABlockCountsOnceItsClientKnows: requests that cross the answer that asks to stay away are no violation, however
// many a busy machine sends before it reads that; those of a client that doesn't stay away are.
func TestABlockCountsOnceItsClientKnows(t *testing.T) {
	s := localsite.Start()
	defer s.Close()
	for _, stay := range []time.Duration{time.Hour, 2 * time.Second} {
		s.Handle("/"+stay.String(), func(w http.ResponseWriter, _ *http.Request) { s.Block(w, stay) })
	}
	get(t, s.URL+"/1h0m0s")
	for range 3 {
		get(t, s.URL+"/a")
	}
	if found := s.Violations(); found != nil {
		t.Error(found)
	}
	get(t, s.URL+"/2s")
	for end := time.Now().Add(2 * time.Second); s.Violations() == nil; get(t, s.URL+"/a") {
		if time.Now().After(end) {
			t.Fatal("no request in the second half is found")
		}
	}
}

func TestMostInFlight(t *testing.T) {
	s := localsite.Start()
	defer s.Close()
	met := make(chan bool)
	s.Handle("/meet", func(http.ResponseWriter, *http.Request) {
		select { // each waits for the other
		case met <- true:
		case <-met:
		}
	})
	done := make(chan bool)
	go func() {
		defer close(done)
		get(t, s.URL+"/meet")
	}()
	get(t, s.URL+"/meet")
	<-done
	if n := s.MostInFlight(); n != 2 {
		t.Errorf("%d in flight, not 2", n)
	}
}

// TestNobodyListensOnAClosedSite, and nobody can.
func TestNobodyListensOnAClosedSite(t *testing.T) {
	url := localsite.Closed(t)
	resp, err := http.Get(url)
	if err == nil {
		resp.Body.Close()
		t.Errorf("it answers: %s", resp.Status)
	}
	l, err := net.Listen("tcp", strings.TrimPrefix(url, "http://"))
	if err == nil {
		l.Close()
		t.Error("another program may have its port")
	}
}
