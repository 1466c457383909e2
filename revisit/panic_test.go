package revisit

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A mined is a Base, a Store and a Failed, of which one panics once.
type mined struct{ boom string }

func (m *mined) may(name string) {
	if m.boom == name {
		m.boom = ""
		panic(name)
	}
}

func (m *mined) RoundTrip(req *http.Request) (*http.Response, error) {
	m.may("Base")
	return &http.Response{
		StatusCode: http.StatusOK,
		Header:     http.Header{"Etag": {`"1"`}},
		Body:       io.NopCloser(strings.NewReader("text")),
		Request:    req,
	}, nil
}

func (m *mined) Load(context.Context, string) (p Page, ok bool, err error) {
	m.may("Load")
	return Page{}, false, errors.New("the disk is gone")
}

func (m *mined) Save(context.Context, string, Page) error {
	m.may("Save")
	return errors.New("the disk is gone")
}

func (m *mined) Failed(error) { m.may("Failed") }

// TestAPanicHoldsNoPage: whatever panics, it does so in its caller's goroutine, and the next request for
// the page is sent.
func TestAPanicHoldsNoPage(t *testing.T) {
	for _, name := range []string{"Base", "Load", "Save", "Failed"} {
		m := &mined{boom: name}
		transport := &Transport{Base: m, Schedule: Schedule{Min: time.Hour}, Store: m, Failed: m.Failed}
		get := func() (panicked any, err error) {
			defer func() { panicked = recover() }()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.com/", http.NoBody)
			if err != nil {
				return nil, err
			}
			resp, err := transport.RoundTrip(req)
			if err != nil {
				return nil, err
			}
			defer resp.Body.Close()
			_, err = io.ReadAll(resp.Body)
			return nil, err
		}
		if panicked, err := get(); panicked != name {
			t.Errorf("%s: panicked with %v, %v", name, panicked, err)
		}
		if panicked, err := get(); panicked != nil || err != nil {
			t.Errorf("%s: the next request ended with %v, %v", name, panicked, err)
		}
	}
}
