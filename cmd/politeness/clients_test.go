package main

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/internal/localsite"
)

// A client is somebody else's program, as it is. It gets the pages of a site, all at once where it
// can, and writes a line "STATUS URL" for each. Its code is run in a directory of its own.
type client struct {
	program string   // that must be there
	file    string   // name of code, if it has any
	code    string   // that is run
	args    []string // before the URLs; PROXY, CA and DIR stand for what they are
	each    []string // before each URL
}

var clients = map[string]client{
	"curl": {program: "curl", args: []string{
		"--disable", "--silent", "--noproxy", "", "--proxy", "PROXY", "--cacert", "CA", "--parallel",
		"--write-out", `%{http_code} %{url}\n`,
	}, each: []string{"--output", os.DevNull}},
	"urllib": {program: "/usr/bin/python3", file: "get.py", args: []string{"DIR/get.py"}, code: `
import concurrent.futures, sys, urllib.error, urllib.request

def get(url):
    try:
        with urllib.request.urlopen(url) as answer:
            answer.read()
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code

with concurrent.futures.ThreadPoolExecutor(16) as pool:
    for url, status in zip(sys.argv[1:], pool.map(get, sys.argv[1:])):
        print(status, url)
`},
	"requests": {program: "/usr/bin/python3", file: "get.py", args: []string{"DIR/get.py"}, code: `
import concurrent.futures, sys
try:
    import requests
except ImportError:
    print("not installed")
    sys.exit()

with requests.Session() as session, concurrent.futures.ThreadPoolExecutor(16) as pool:
    answers = pool.map(lambda url: session.get(url, allow_redirects=False).status_code, sys.argv[1:])
    for url, status in zip(sys.argv[1:], answers):
        print(status, url)
`},
	"node": {program: "node", file: "get.js", args: []string{"DIR/get.js"}, code: `
const http = require('node:http'), tls = require('node:tls'), fs = require('node:fs');
const proxy = new URL(process.env.https_proxy), ca = fs.readFileSync(process.env.CA);
for (const text of process.argv.slice(2)) {
  const url = new URL(text), host = url.host;
  const done = (answer) => { console.log(answer.statusCode + ' ' + text); answer.resume(); };
  if (url.protocol === 'http:') {
    http.get({host: proxy.hostname, port: proxy.port, path: text, headers: {host}}, done);
    continue;
  }
  const tunnel = http.request({host: proxy.hostname, port: proxy.port, method: 'CONNECT', path: host});
  tunnel.on('connect', (_, socket) => {
    const secure = tls.connect({socket, ca, host: url.hostname}, () => {
      http.get({createConnection: () => secure, path: url.pathname, headers: {host, connection: 'close'}}, done);
    });
  });
  tunnel.end();
}
`},
}

// TestClientsThroughTheProxy: real programs, each complete against the list of the site, and polite by
// the site's log. Those that a machine lacks are left out; scripts/setup.sh installs them.
func TestClientsThroughTheProxy(t *testing.T) {
	t.Parallel()
	for name, c := range clients {
		program, err := exec.LookPath(c.program)
		if err != nil {
			t.Log(err)
			continue
		}
		for _, kind := range []string{"http", "https"} {
			t.Run(name+" "+kind, func(t *testing.T) {
				t.Parallel()
				const delay = 300 * time.Millisecond
				var env []string
				s := localsite.New(t, delay)
				if kind == "https" {
					s = localsite.NewTLS(t, delay)
					env = []string{"SSL_CERT_FILE=" + s.Certificate}
				}
				dir := t.TempDir()
				log := filepath.Join(dir, "log.jsonl")
				ca := filepath.Join(dir, "ca")
				proxy, end := startProxy(t, env, "-private", "-ca", ca, "-evidence", log)
				c.get(t, program, dir, proxy, filepath.Join(ca, "authority.pem"), s)
				if status := end(); status != 0 {
					t.Errorf("the proxy ends with %d", status)
				}
				if found := s.Violations(); found != nil {
					t.Error(found)
				}
				polite(t, nil, "audit", log).expect(t, 0, "delays kept", "")
				t.Logf("%d requests, %d violations", len(s.Visits()), len(s.Violations()))
			})
		}
	}
}

// get runs c for pages of s, and fails t unless it has them all, and no disallowed one.
func (c client) get(t *testing.T, program, dir, proxy, authority string, s *localsite.Site) {
	t.Helper()
	want := []string{"200 " + s.URL + "/", "403 " + s.URL + "/private/diary"}
	for i := range 8 {
		want = append(want, fmt.Sprintf("200 %s/page%d", s.URL, i))
	}
	if c.code != "" {
		if err := os.WriteFile(filepath.Join(dir, c.file), []byte(c.code), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	place := strings.NewReplacer("PROXY", proxy, "CA", authority, "DIR", dir)
	var args []string
	for _, arg := range c.args {
		args = append(args, place.Replace(arg))
	}
	for _, line := range want {
		args = append(args, c.each...)
		args = append(args, line[len("200 "):])
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = dir
	cmd.Env = []string{
		"http_proxy=" + proxy, "https_proxy=" + proxy, "no_proxy=", "CA=" + authority, "PATH=" + os.Getenv("PATH"),
		"SSL_CERT_FILE=" + authority, "REQUESTS_CA_BUNDLE=" + authority, "HOME=" + dir,
	}
	said, err := cmd.CombinedOutput()
	if string(said) == "not installed\n" {
		t.Skip(c.program + " lacks a package")
	}
	for _, line := range want {
		if !strings.Contains(string(said), line+"\n") {
			t.Errorf("no %q in, %v\n%s", line, err, said)
			return
		}
	}
}

// TestProxyOverTLS: a program speaks TLS to the port of the proxy, and knows it by the authority.
func TestProxyOverTLS(t *testing.T) {
	t.Parallel()
	s := localsite.New(t, 0)
	ca := filepath.Join(t.TempDir(), "ca")
	address, _ := startProxy(t, nil, "-private", "-tls", "-ca", ca)
	if !strings.HasPrefix(address, "https://") {
		t.Fatalf("it says http_proxy=%s", address)
	}
	authority := filepath.Join(ca, "authority.pem")
	text, err := os.ReadFile(authority)
	if err != nil {
		t.Fatal(err)
	}
	trust := x509.NewCertPool()
	trust.AppendCertsFromPEM(text)
	proxy, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	through := &http.Transport{Proxy: http.ProxyURL(proxy), TLSClientConfig: &tls.Config{RootCAs: trust}}
	for path, want := range map[string]int{"/a": 200, "/a|b": 200, "/private/diary": 403} {
		resp, err := (&http.Client{Transport: through}).Get(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %s", path, resp.Status)
		}
	}
	resp, err := http.Get("http://" + proxy.Host + "/")
	if err == nil {
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			t.Errorf("without TLS: %s", resp.Status)
		}
	}
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Log(err)
		return
	}
	cmd := exec.CommandContext(t.Context(), curl, "--disable", "--silent", "--show-error", "--noproxy", "", "--proxy", address,
		"--proxy-cacert", authority, "--write-out", "%{http_code}", "--output", os.DevNull, s.URL+"/b")
	cmd.Env = []string{}
	if said, err := cmd.CombinedOutput(); string(said) != "200" || err != nil {
		t.Errorf("curl: %s, %v", said, err)
	}
}

// TestProxyShowsACertificate: a site that asks for one gets that of -cert, and is itself known by
// -roots alone.
func TestProxyShowsACertificate(t *testing.T) {
	t.Parallel()
	site := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/robots.txt" {
			fmt.Fprint(w, r.TLS.PeerCertificates[0].Subject.CommonName)
		}
	}))
	site.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	site.StartTLS()
	defer site.Close()
	dir := t.TempDir()
	roots := filepath.Join(dir, "roots.pem")
	cert := filepath.Join(dir, "client.pem")
	writePEM(t, roots, &pem.Block{Type: "CERTIFICATE", Bytes: site.Certificate().Raw})
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a crawler"}, NotAfter: time.Now().Add(time.Hour)}
	public, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, cert, &pem.Block{Type: "CERTIFICATE", Bytes: public}, &pem.Block{Type: "PRIVATE KEY", Bytes: secret})
	for _, test := range []struct {
		flags []string
		want  string
	}{
		{[]string{"-roots", roots, "-cert", cert}, "200 OK: a crawler"},
		{[]string{"-roots", roots}, "502 Bad Gateway, the site has refused the TLS connection"},
		{[]string{"-cert", cert}, "502 Bad Gateway, the certificate of the site isn't valid"},
	} {
		proxy, _ := startProxy(t, nil, append(test.flags, "-private")...)
		conn, err := net.Dial("tcp", strings.TrimPrefix(proxy, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "GET %s/page HTTP/1.1\r\nHost: x\r\n\r\n", site.URL) // https in the open
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		if said := resp.Status + ": " + string(body); !strings.HasPrefix(said, test.want) {
			t.Errorf("%q: %s", test.flags, said)
		}
	}
	polite(t, nil, "proxy", "-agent", agent, "-cert", roots).expect(t, 2, "", "-cert")
}

func writePEM(t *testing.T, name string, blocks ...*pem.Block) {
	t.Helper()
	var text []byte
	for _, block := range blocks {
		text = append(text, pem.EncodeToMemory(block)...)
	}
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestProxyBehindAProxy: requests go by -upstream, and -leave keeps off hosts.
func TestProxyBehindAProxy(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Proxy-Authorization") != "Basic eDp5" {
			w.WriteHeader(http.StatusProxyAuthRequired)
			return
		}
		w.Header().Set("X-Upstream", r.URL.Host)
	}))
	defer upstream.Close()
	leave := filepath.Join(t.TempDir(), "leave.txt")
	if err := os.WriteFile(leave, []byte("left.example\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	proxy, _ := startProxy(t, nil, "-leave", leave, "-upstream", strings.Replace(upstream.URL, "http://", "http://x:y@", 1))
	address, err := url.Parse(proxy)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(address)}}
	for host, want := range map[string]int{"site.example": 200, "left.example": 403} {
		resp, err := client.Get("http://" + host + "/")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want || (resp.Header.Get("X-Upstream") == host) != (want == http.StatusOK) {
			t.Errorf("%s: %s %v", host, resp.Status, resp.Header)
		}
	}
}
