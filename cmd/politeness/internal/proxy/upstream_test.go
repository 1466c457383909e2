package proxy

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/go-politeness/politeness/internal/localsite"
)

// TestTargetsPassAnUpstreamProxyByteForByte: it reads the host in front of the path, for http.
func TestTargetsPassAnUpstreamProxyByteForByte(t *testing.T) {
	t.Parallel()
	upstream := newLineSite(t, "", false) // answers for any site, and notes what it is asked for
	base := Base()
	Upstream(base, &url.URL{Scheme: "http", Host: upstream.address})
	const host = "http://site.example"
	upstream.robots = host + "/robots.txt"
	proxy := serveBase(t, ByProgram(base), nil)
	for _, target := range append(oddTargets, plainTargets...) {
		resp := raw(t, proxy, "GET "+host+target+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		if asked := upstream.asked(); len(asked) != 1 || asked[0] != host+target {
			t.Errorf("%q: %s, the other proxy was asked for %q", target, resp.Status, asked)
		}
	}
	resp := raw(t, proxy, "OPTIONS "+host+" HTTP/1.1\r\nHost: x\r\n\r\n")
	if asked := upstream.asked(); len(asked) != 1 || asked[0] != host {
		t.Errorf("OPTIONS: %s, the other proxy was asked for %q", resp.Status, asked)
	}
}

// TestADeadUpstreamProxyIsNoDeadSite: the words say which of the two doesn't answer.
func TestADeadUpstreamProxyIsNoDeadSite(t *testing.T) {
	t.Parallel()
	refusing := newLineSite(t, "", false)
	refusing.status = "407 Proxy Authentication Required"
	for name, test := range map[string]struct{ upstream, words string }{
		"nobody listens": {strings.TrimPrefix(localsite.Closed(t), "http://"), "the other proxy behind this one can't be reached"},
		"a login":        {refusing.address, "the other proxy behind this one has refused: 407 Proxy Authentication Required"},
	} {
		base := Base()
		Upstream(base, &url.URL{Scheme: "http", Host: test.upstream})
		proxy := serveBase(t, ByProgram(base), nil)
		for _, site := range []string{"http://site.example/", "https://site.example/"} {
			resp := raw(t, proxy, "GET "+site+" HTTP/1.1\r\nHost: x\r\n\r\n")
			said, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != http.StatusBadGateway || !strings.Contains(string(said), test.words) {
				t.Errorf("%s, %s: %s\n%s", name, site, resp.Status, said)
			}
		}
	}
}
