package proxy

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/go-politeness/politeness/internal/browsertest"
	"github.com/go-politeness/politeness/internal/localsite"
)

// TestWordsBehindTheStatus are what wget, Scrapy and LWP show: those of a refusal, and the site's own.
func TestWordsBehindTheStatus(t *testing.T) {
	t.Parallel()
	s := localsite.New(t, 0)
	proxy := serveBase(t, Base(), nil)
	host := strings.TrimPrefix(s.URL, "http://")
	const message = "HTTP/1.1 200 Bad\r\n\r\nabcd"
	piece := fmt.Sprintf("%x\r\n%s\r\n", len(message), message)
	chunked := oddSite(t, "HTTP/1.1 200 Very Well\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"+piece+piece+"0\r\n\r\n")
	odd := oddSite(t, "HTTP/1.1 200 Very Well\r\nConnection: close\r\nContent-Length: 24\r\n\r\nHTTP/1.1 400 Bad\r\n\r\nabcd")
	for target, want := range map[string]string{
		s.URL + "/private/x":      "403 Disallowed by robots.txt",
		s.URL + "/a":              "200 OK",
		odd + "/odd":              "200 Very Well",
		chunked + "/odd":          "200 Very Well",
		localsite.Closed(t) + "/": "502 Bad Gateway, no server listens on this port of the site",
	} {
		conn := call(t, proxy)
		for range 2 { // the second one by the same connection
			_, _ = io.WriteString(conn.conn, "GET "+target+" HTTP/1.1\r\nHost: x\r\n\r\n")
			resp, err := http.ReadResponse(conn.read, nil)
			must(t, err)
			body, _ := io.ReadAll(resp.Body)
			if resp.Status != want {
				t.Errorf("%s: %q, not %q", target, resp.Status, want)
			}
			if strings.HasPrefix(target, chunked) && string(body) != message+message {
				t.Errorf("the pieces are %q", body)
			}
			if strings.Contains(target, "odd") && !strings.HasSuffix(string(body), "abcd") {
				t.Errorf("the body is %q", body)
			}
		}
	}
	conn := plainly(t, proxy, host)
	_, _ = io.WriteString(conn, "GET /private/x HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	must(t, err)
	if resp.Status != "403 Disallowed by robots.txt" {
		t.Errorf("in a tunnel: %s", resp.Status)
	}
}

// TestEveryAnswerOfTheProxySaysSo, those of the server below it included.
func TestEveryAnswerOfTheProxySaysSo(t *testing.T) {
	t.Parallel()
	s := localsite.New(t, 0)
	proxy := serveBase(t, Base(), nil)
	for name, request := range map[string]string{
		"431": "GET " + s.URL + "/a HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("a", 80<<10) + "\r\n\r\n",
		"501": "POST " + s.URL + "/a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: unheard-of\r\n\r\n",
		"400": "GET " + s.URL + "/a b HTTP/1.1\r\nHost: x\r\n\r\n",
		"505": "GET " + s.URL + "/a HTTP/3.0\r\nHost: x\r\n\r\n",
		"417": "GET " + s.URL + "/a HTTP/1.1\r\nHost: x\r\nExpect: wonders\r\n\r\n",
	} {
		resp := raw(t, proxy, request)
		if !strings.HasPrefix(resp.Status, name) || !ours(resp.Header) || len(resp.Header["Proxy-Status"]) != 1 {
			t.Errorf("%s: %s %v", name, resp.Status, resp.Header)
		}
	}
	if resp := raw(t, proxy, "GET "+s.URL+"/a HTTP/1.1\r\nHost: x\r\n\r\n"); ours(resp.Header) {
		t.Errorf("an answer of the site: %v", resp.Header)
	}
}

// TestARefusalIsReadable by a person with a browser, and by a program that asks for JSON.
func TestARefusalIsReadable(t *testing.T) {
	t.Parallel()
	s := localsite.New(t, 0)
	proxy := serveBase(t, Base(), nil)
	ask := func(accept string) (*http.Response, string) {
		resp := raw(t, proxy, "GET "+s.URL+"/private/<b>x HTTP/1.1\r\nHost: x\r\nAccept: "+accept+"\r\n\r\n")
		body, _ := io.ReadAll(resp.Body)
		return resp, string(body)
	}
	resp, body := ask("text/html,application/xhtml+xml,*/*;q=0.8")
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") || !strings.Contains(body, "robots.txt") || strings.Contains(body, "<b>x") {
		t.Errorf("%v\n%s", resp.Header, body)
	}
	resp, body = ask("application/json")
	var told map[string]any
	if err := json.Unmarshal([]byte(body), &told); err != nil || told["status"] != 403.0 || told["by"] != self {
		t.Errorf("%v %v\n%s", resp.Header, err, body)
	}
	if resp, body = ask("*/*"); !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") {
		t.Errorf("%v\n%s", resp.Header, body)
	}
}

// TestThePageOfTheProxyInABrowser fits a desk and a phone, light and dark, and has no obstacle.
func TestThePageOfTheProxyInABrowser(t *testing.T) {
	path := browsertest.Find(t)
	if path == "" {
		return
	}
	for _, after := range []string{"", "30"} {
		var page strings.Builder
		err := refusalHTML.Execute(&page, refusalPage{
			By:         self,
			Status:     http.StatusServiceUnavailable,
			Text:       http.StatusText(http.StatusServiceUnavailable),
			Reason:     "a-host-with-a-very-long-name.subdomain.of-a-very-long-domain.example: blocked (status 429) until 12:00:30",
			RetryAfter: after,
		})
		must(t, err)
		desk := browsertest.View{Width: 1280, Height: 600}
		phone := browsertest.View{Width: 390, Height: 600}
		browsertest.Check(t, path, browsertest.HTML(page.String()), "", desk, phone)
	}
}
