package politeness

import (
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
)

// TestNetHTTPShowsWhatIsBuffered: a short body that has come with its headers is known to be there.
func TestNetHTTPShowsWhatIsBuffered(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "5")
		switch r.URL.Path {
		case "/whole":
			_, _ = io.WriteString(w, "whole")
		case "/stalls":
			_, _ = io.WriteString(w, "st")
			w.(http.Flusher).Flush()
			<-release
			_, _ = io.WriteString(w, "all")
		}
	}))
	defer server.Close()
	defer close(release)
	for path, want := range map[string]bool{"/whole": true, "/stalls": false} {
		resp, err := server.Client().Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		if got := isBuffered(resp.Body, 5); got != want {
			t.Errorf("%s is buffered: %t, want %t. If net/http of %s keeps its bodies in another way, isBuffered must follow; "+
				"until then short bodies are read ahead only while a request waits for their host, which loses nothing", path, got, want, runtime.Version())
		}
		resp.Body.Close()
	}
	for _, body := range []io.ReadCloser{http.NoBody, io.NopCloser(strings.NewReader("other")), nil, (*sentinel)(nil)} {
		if isBuffered(body, 1) {
			t.Errorf("%T is buffered", body)
		}
	}
}
