package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/internal/localsite"
)

// TestMemoryIsBounded: attacks by a site on the memory of a crawl, each against the command itself:
// few compressed bytes that fill all that is kept of answers.
func TestMemoryIsBounded(t *testing.T) {
	const most = 300 << 10 // KB
	for name, attack := range map[string]func(w http.ResponseWriter, r *http.Request){
		"sitemaps":    attackBySitemaps(packed(longSitemap)),
		"large pages": attackByPages(packed(func(b *bytes.Buffer) { b.WriteString(strings.Repeat("<p>a", 3<<20)) })),
		"pages of long links": attackByPages(packed(func(b *bytes.Buffer) {
			b.WriteString(`<base href="/` + strings.Repeat("a", 1900) + `/">`)
			for i := range 9000 {
				fmt.Fprintf(b, "<a href=%d>", i)
			}
		})),
		"names of a domain": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			for i := range 65_000 {
				fmt.Fprintf(w, "<a href=http://n%d.hostile.invalid/>", i) // a name that nobody has
			}
		},
		"headers": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/robots.txt" {
				for i := range 6 {
					w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("a", 40_000))
				}
			}
			attackByPages(nil)(w, r)
		},
		"early hints": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/robots.txt" {
				w.Header().Set("Link", strings.Repeat("a", 100_000))
				for range 50 {
					w.WriteHeader(http.StatusEarlyHints)
				}
				w.Header().Del("Link")
			}
			attackByPages(nil)(w, r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			site := httptest.NewServer(http.HandlerFunc(attack))
			defer site.Close()
			cmd := prepare(t, nil, "crawl", "-agent", agent, "-delay", "1ms", "-per-host", "64", "-private", "-q", "-sitemaps", "-follow", "all",
				"-time", "8s", "-o", filepath.Join(t.TempDir(), "pages.jsonl"), site.URL+"/")
			var said bytes.Buffer
			cmd.Stdout = &said
			cmd.Stderr = &said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_ = cmd.Wait() // its status is that of the pages, which doesn't matter here
			}()
			peak := peakOf(cmd.Process.Pid, ended)
			t.Logf("%d MB: %.200s", peak>>10, said.String())
			if peak == 0 || peak > most {
				t.Errorf("%d MB", peak>>10)
			}
		})
	}
}

// peakOf returns the most memory that a process has had in RAM until it ended, in KB. That of
// getrusage is no less than its parent's.
func peakOf(pid int, ended <-chan struct{}) (peak int) {
	for {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		_, rest, _ := strings.Cut(string(text), "VmHWM:")
		kB, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
		n, err := strconv.Atoi(kB)
		if err == nil {
			peak = max(peak, n)
		}
		select {
		case <-ended:
			return peak
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// packed returns a text as gzip.
func packed(write func(*bytes.Buffer)) []byte {
	var text, out bytes.Buffer
	write(&text)
	w := gzip.NewWriter(&out)
	_, _ = w.Write(text.Bytes())
	_ = w.Close()
	return out.Bytes()
}

// longSitemap writes 46 MB of URLs.
func longSitemap(b *bytes.Buffer) {
	fill := strings.Repeat("a", 1900)
	b.WriteString("<urlset>")
	for i := range 24_000 {
		fmt.Fprintf(b, "<url><loc>%d-%s</loc></url>", i, fill)
	}
	b.WriteString("</urlset>")
}

// attackBySitemaps serves an index of twenty sitemaps.
func attackBySitemaps(sitemap []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/robots.txt":
			fmt.Fprintf(w, "Sitemap: http://%s/index.xml\n", r.Host)
		case r.URL.Path == "/index.xml":
			fmt.Fprint(w, "<sitemapindex>")
			for i := range 20 {
				fmt.Fprintf(w, "<sitemap><loc>http://%s/%d/s.xml.gz</loc></sitemap>", r.Host, i)
			}
			fmt.Fprint(w, "</sitemapindex>")
		case strings.HasSuffix(r.URL.Path, ".gz"):
			_, _ = w.Write(sitemap) // URLs are relative to it, so each has its own
		default:
			fmt.Fprint(w, "a page")
		}
	}
}

// attackByPages serves any number of pages of a compressed text, each with links to further ones.
func attackByPages(text []byte) http.HandlerFunc {
	var links strings.Builder
	for i := range 100 {
		fmt.Fprintf(&links, "<a href=/%d>", i)
	}
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			return
		}
		w.Header().Set("Content-Type", "text/html")
		if text == nil || r.URL.Path == "/" {
			fmt.Fprint(w, links.String())
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(text)
	}
}

// TestProxyInACrowd: idle tunnels and programs that wait for slow sites take little memory, and a
// program at work beside them has its pages. POLITENESS_CLIENTS=1 (make clients) makes it 10,000
// tunnels.
func TestProxyInACrowd(t *testing.T) {
	t.Parallel()
	const (
		most    = 160 << 10 // KB
		waiting = 2000
	)
	tunnels := 1000
	if os.Getenv("POLITENESS_CLIENTS") == "1" {
		tunnels = 10_000
	}
	quick := localsite.New(t, 0)
	var slow []string
	for range 4 { // each has room for 512
		slow = append(slow, localsite.New(t, 30*time.Second).URL)
	}
	ca := filepath.Join(t.TempDir(), "ca")
	cmd, proxy, _ := launchProxy(t, nil, "-private", "-ca", ca, "-delay", "1ms", "-max-wait", "1h")
	address := strings.TrimPrefix(proxy, "http://")
	dial := func(request string) net.Conn {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		fmt.Fprint(conn, request)
		return conn
	}
	work := func(when string) {
		conn := dial("")
		r := bufio.NewReader(conn)
		for range 20 {
			fmt.Fprintf(conn, "GET %s/a HTTP/1.1\r\nHost: x\r\n\r\n", quick.URL)
			resp, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatal(when, err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			if resp.StatusCode != http.StatusOK {
				t.Fatal(when, resp.Status)
			}
		}
		t.Logf("%s: %d MB", when, memoryOf(cmd.Process.Pid)>>10)
	}
	work("alone")
	for range tunnels {
		conn := dial("CONNECT site.example:443 HTTP/1.1\r\nHost: site.example:443\r\n\r\n")
		if _, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil {
			t.Fatal(err)
		}
		// The proxy closes the one that has been idle for longest, and this one's handshake may be cut off.
		_ = tls.Client(conn, &tls.Config{ServerName: "site.example", InsecureSkipVerify: true}).Handshake()
	}
	work(fmt.Sprint(tunnels, " tunnels"))
	for i := range waiting {
		dial(fmt.Sprintf("GET %s/%d HTTP/1.1\r\nHost: x\r\n\r\n", slow[i%len(slow)], i))
	}
	work(fmt.Sprint("and ", waiting, " that wait"))
	if memory := memoryOf(cmd.Process.Pid); memory == 0 || memory > most {
		t.Errorf("%d MB", memory>>10)
	}
}

// memoryOf returns how much memory a process has in RAM, in KB.
func memoryOf(pid int) (kilobytes int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	_, _ = fmt.Sscan(rest, &kilobytes)
	return kilobytes
}
