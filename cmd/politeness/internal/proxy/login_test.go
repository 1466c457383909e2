package proxy

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-politeness/politeness/internal/localsite"
	"github.com/go-politeness/politeness/statuspage"
)

// TestOnlyWhoLogsInIsAnswered, in the open, in tunnels and at the proxy's own page.
func TestOnlyWhoLogsInIsAnswered(t *testing.T) {
	t.Parallel()
	s := localsite.New(t, 0)
	transport := polite(t, nil, Base())
	p := New(transport, nil)
	p.Login = "x:y"
	p.Status = statuspage.Handler(transport)
	server := httptest.NewServer(p)
	defer server.Close()
	host := strings.TrimPrefix(s.URL, "http://")
	for _, test := range []struct {
		line, field  string
		right, wrong int
	}{
		{"GET " + s.URL + "/a HTTP/1.1\r\nHost: x\r\n", "Proxy-Authorization", 200, 407},
		{"CONNECT " + host + " HTTP/1.1\r\nHost: " + host + "\r\n", "Proxy-Authorization", 200, 407},
		{"GET / HTTP/1.1\r\nHost: localhost\r\n", "Authorization", 200, 401},
	} {
		for credentials, want := range map[string]int{
			"Basic eDp5": test.right, "basic eDp5": test.right, // x:y
			"": test.wrong, "Basic eDp6": test.wrong, "Basic x:y": test.wrong, "Bearer eDp5": test.wrong, "Basic": test.wrong,
		} {
			resp := raw(t, server.URL, test.line+test.field+": "+credentials+"\r\n\r\n")
			if resp.StatusCode != want {
				t.Errorf("%s %q: %s, not %d", test.line, credentials, resp.Status, want)
			}
			asks := resp.Header.Get("Proxy-Authenticate") + resp.Header.Get("WWW-Authenticate")
			if (want == test.wrong) != (asks != "") {
				t.Errorf("%s %q: asks for %q", test.line, credentials, asks)
			}
		}
	}
	if n := len(s.Visits("/a")); n != 2 {
		t.Errorf("%d visits", n)
	}
}

// TestTheOwnPageSaysWhoWaits, and no page of a stranger can read it.
func TestTheOwnPageSaysWhoWaits(t *testing.T) {
	t.Parallel()
	s := localsite.New(t, 0)
	transport := polite(t, nil, Base())
	p := New(transport, nil)
	p.Status = statuspage.Handler(transport)
	server := httptest.NewServer(p)
	defer server.Close()
	asked := make(chan bool)
	answer := make(chan bool)
	defer close(answer)
	s.Handle("/held", func(http.ResponseWriter, *http.Request) {
		close(asked)
		<-answer
	})
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	must(t, err)
	defer conn.Close()
	fmt.Fprintf(conn, "GET %s/held HTTP/1.1\r\nHost: x\r\n\r\n", s.URL)
	<-asked // a host of which no request is under way may be idle by now, and isn't named
	resp := raw(t, server.URL, "GET / HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n\r\n")
	if body, _ := io.ReadAll(resp.Body); !strings.Contains(string(body), strings.TrimPrefix(s.URL, "http://")) {
		t.Errorf("%s\n%s", resp.Status, body)
	}
	if resp := raw(t, server.URL, "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"); resp.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("under another name: %s", resp.Status)
	}
}
