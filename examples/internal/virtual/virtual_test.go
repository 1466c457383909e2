package virtual_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/go-politeness/politeness/examples/internal/virtual"
	"github.com/go-politeness/politeness/internal/localsite"
)

// A handler that sleeps takes its time for the client, and none of the test's.
func TestRun(t *testing.T) {
	t.Setenv("POLITENESS_LONG", "")
	began := time.Now()
	virtual.Run(t, func(t *testing.T) {
		server := localsite.Serve(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(time.Hour) }))
		defer server.Close()
		asked := time.Now()
		resp, err := http.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if took := time.Since(asked); took != time.Hour {
			t.Errorf("the answer came after %v", took)
		}
		server.Close()
		if resp, err := http.Get(server.URL); err == nil {
			resp.Body.Close()
			t.Error("a closed server answers")
		}
	})
	if took := time.Since(began); took >= time.Hour {
		t.Errorf("it took %v", took)
	}
}

// In a bubble the clock begins with the year 2000.
func TestLongRunsInRealTimeToo(t *testing.T) {
	t.Setenv("POLITENESS_LONG", "1")
	var virtually []bool
	virtual.Run(t, func(t *testing.T) {
		virtually = append(virtually, time.Now().Year() == 2000)
		server := localsite.Serve(http.NotFoundHandler())
		defer server.Close()
		resp, err := http.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	})
	if !slices.Equal(virtually, []bool{true, false}) {
		t.Errorf("runs in virtual time: %v", virtually)
	}
}
