package promises_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/hostname"
	"github.com/go-politeness/politeness/politenesstest"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// A request that net/http has sent: the address that it dialed, and what stood in the head.
type sentRequest struct{ address, host, path string }

// A network answers on every address that net/http dials, and keeps what was sent there.
type network struct {
	mu   sync.Mutex
	sent []sentRequest
}

// transport returns an http.Transport on n.
func (n *network) transport() *http.Transport {
	dial := func(_ context.Context, _, address string) (net.Conn, error) {
		client, server := net.Pipe()
		go n.serve(server, address)
		return client, nil
	}
	return &http.Transport{DialContext: dial, DialTLSContext: dial}
}

const noPrivatePages = "User-agent: *\nDisallow: /private\n"

func (n *network) serve(conn net.Conn, address string) {
	defer conn.Close()
	req, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return
	}
	n.mu.Lock()
	n.sent = append(n.sent, sentRequest{address, req.Host, req.URL.Path})
	n.mu.Unlock()
	fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(noPrivatePages), noPrivatePages)
}

// FuzzHostsAreSpelledAlike holds everybody who compares hosts against net/http. A URL and the one
// that is made of the address that net/http dials for it are the same host for all: one host key,
// one robots.txt, fetched from there, one origin for the audit, and one host for the checker of
// politenesstest.
func FuzzHostsAreSpelledAlike(f *testing.F) {
	for _, host := range []string{
		"example.com", "EXAMPLE.com", "example.com.", "example.com:80", "example.com:443", "example.com:", "example.com:0080",
		"example.com.:08080", "example.com:0", "example.com%E3%80%82", "example\u3002com", "example\uff0ecom\uff61:8080",
		"\uff45x\u00adample.com", "b\u00fccher.example", "B\u00dcCHER.Example:443", "b%C3%BCcher.example", "XN--Bcher-KVA.example",
		"under_score.example", "127.0.0.1:8080", "127.0.0.1.", "\uff11\uff12\uff17.0.0.1", "[::1]", "[::1]:80",
		"[2001:DB8:0::01]:443", "[fe80:0::1%25en0]", "[fe80::1%2525en0]", "[fe80::1%25EN0]:8080", "[::ffff:127.0.0.1]", "user:secret@example.com",
		"example.com..", "xn--.example", "a%20b", "!$&'()*+,;=.example",
	} {
		f.Add("http://" + host + "/")
		f.Add("https://" + host + "/private")
	}
	f.Fuzz(func(t *testing.T, rawURL string) {
		u, err := url.Parse(rawURL)
		if err != nil {
			return
		}
		spelled := &url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/"}
		var web network
		var log bytes.Buffer
		sink := evidence.JSONLines(&log)
		hosts := limiter(t, hostlimit.Config{Delay: hostlimit.Delay{Min: time.Microsecond, Max: time.Microsecond}})
		transport := mustNew(t, politeness.Config{
			UserAgent: agent, Base: web.transport(), Limiter: hosts, Evidence: sink, Robots: robotscache.Config{RecordText: true},
		})
		client := &http.Client{Transport: transport}
		if _, err := fetch(t.Context(), client, spelled.String()); err != nil {
			return // it can't be sent
		}
		if len(web.sent) != 2 || web.sent[0].path != "/robots.txt" {
			t.Fatalf("sent for %v: %+v", spelled, web.sent)
		}
		page := web.sent[1]
		if len(page.address) > hostname.MaxLen {
			return // a name that no resolver knows, and one port too long
		}
		dialed := &url.URL{Scheme: u.Scheme, Host: page.address, Path: "/"}
		if _, err := fetch(t.Context(), client, dialed.String()); err != nil {
			t.Fatalf("%v is dialed as %v: %v", spelled, dialed, err)
		}
		if len(web.sent) != 3 {
			t.Fatalf("%v and %v have a robots.txt each: %+v", spelled, dialed, web.sent)
		}
		for _, sent := range web.sent {
			if hostname.Key(sent.address) != hostname.Key(page.address) {
				t.Errorf("%v: sent to %+v", spelled, web.sent)
			}
		}
		// The Host of an international name that isn't spelled well is punycode of no known name.
		ascii := !strings.ContainsFunc(u.Host, func(r rune) bool { return r >= 0x80 })
		if ascii && hostname.Authority(u.Scheme, web.sent[0].host) != hostname.Authority(u.Scheme, page.host) {
			t.Errorf("%v: robots.txt of another host: %+v", spelled, web.sent)
		}

		if err := sink.Close(); err != nil {
			t.Fatal(err)
		}
		report, err := audit.Check(&log)
		if err != nil || !report.OK() || len(report.Hosts) != 1 || report.Hosts[0].Host != hostname.Key(page.address) ||
			report.Promise("verdicts right").Proved != 2 || report.Promise("verdicts right").Open != 0 {
			t.Errorf("the audit of %v and %v: %v, %+v", spelled, dialed, err, report)
		}
		checked(t, spelled, dialed)
	})
}

// checked holds the checker of politenesstest to it that a and b are URLs of one host.
func checked(t *testing.T, a, b *url.URL) {
	web := politenesstest.NewWeb()
	web.Site((&url.URL{Scheme: a.Scheme, Host: a.Host}).String()).Robots(noPrivatePages).Page("/private", "secret")
	client := &http.Client{Transport: web}
	for _, u := range []*url.URL{a, b} {
		if status, err := fetch(t.Context(), client, u.JoinPath("private").String()); status != 200 {
			t.Errorf("%v and %v are two sites of the web: %d, %v", a, b, status, err)
		}
	}
	var kinds []politenesstest.Kind
	for _, v := range web.Violations(politenesstest.Rules{Delay: time.Hour}) {
		kinds = append(kinds, v.Kind)
	}
	if want := []politenesstest.Kind{politenesstest.Disallowed, politenesstest.Disallowed, politenesstest.Gap}; !slices.Equal(kinds, want) {
		t.Errorf("%v and %v: violations %v, want %v", a, b, kinds, want)
	}
}
