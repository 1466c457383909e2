package reach_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-politeness/politeness/examples/internal/reach"
	"github.com/go-politeness/politeness/publicnet"
)

func TestBaseReachesOwnMachinesOnlyIfTheyAreNamed(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	for _, c := range []struct {
		urls   []string
		public bool
	}{
		{nil, false},
		{[]string{"https://example.com/"}, true},
		{[]string{"https://example.com/", "http://localhost:8080/"}, false},
		{[]string{"http://LOCALHOST"}, false},
		{[]string{"http://127.0.0.1/"}, false},
		{[]string{"http://[::1]:80/"}, false},
		{[]string{"https://127.0.0.1.example/", "https://localhost.example/", "%"}, true},
	} {
		client := &http.Client{Transport: reach.Base(c.urls)}
		resp, err := client.Get("http://127.0.0.1:" + port)
		if err == nil {
			resp.Body.Close()
		}
		if errors.Is(err, publicnet.ErrPrivate) != c.public {
			t.Errorf("%q: %v", c.urls, err)
		}
		client.CloseIdleConnections()
	}
}
