package main

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/examples/internal/program"
	"github.com/go-politeness/politeness/politenesstest"
)

func TestCrawl(t *testing.T) { program.Test(t, crawl) }

// TestTransport: requests and responses pass the adapter as they are, and refusals are found in its
// errors.
func TestTransport(t *testing.T) {
	web := politenesstest.NewWeb()
	site := web.Site("https://example.com").Robots("User-agent: *\nDisallow: /private/")
	site.Handle("/echo", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header()["X-Seen"] = []string{r.Method, r.Host, r.Header.Get("X-Sent"), string(body)}
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, "hello")
	}))
	site.Handle("/large", politenesstest.Bytes(1000))
	polite, err := politeness.New(politeness.Config{UserAgent: "FasthttpTest/1.0 (+https://example.com/bot)", Base: web})
	if err != nil {
		t.Fatal(err)
	}
	client := &fasthttp.Client{Transport: transport{polite}, MaxResponseBodySize: 100}
	ask := func(method, url, body string) (*fasthttp.Response, error) {
		var req fasthttp.Request
		var resp fasthttp.Response
		req.SetRequestURI(url)
		req.Header.SetMethod(method)
		req.Header.Set("X-Sent", "1")
		req.SetBodyString(body)
		err := client.Do(&req, &resp)
		return &resp, err
	}
	for method, body := range map[string]string{"GET": "", "HEAD": "", "POST": "x=1"} {
		resp, err := ask(method, "https://example.com/echo?a=b", body)
		if err != nil {
			t.Fatal(err)
		}
		want := "hello"
		if method == "HEAD" {
			want = ""
		}
		if resp.StatusCode() != http.StatusAccepted || string(resp.Body()) != want {
			t.Errorf("%s: status %d, %q", method, resp.StatusCode(), resp.Body())
		}
		var seen []string
		for _, value := range resp.Header.PeekAll("X-Seen") {
			seen = append(seen, string(value))
		}
		if got := strings.Join(seen, " "); got != strings.Join([]string{method, "example.com", "1", body}, " ") {
			t.Errorf("%s: the site saw %q", method, got)
		}
	}
	if _, err := ask("GET", "https://example.com/private/", ""); !errors.Is(err, politeness.ErrDisallowed) {
		t.Errorf("a disallowed page: %v", err)
	}
	if _, err := ask("GET", "https://example.com/large", ""); !errors.Is(err, fasthttp.ErrBodyTooLarge) {
		t.Errorf("a large page: %v", err)
	}
}
