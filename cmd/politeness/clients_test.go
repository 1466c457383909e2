package main

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
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
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-politeness/politeness/internal/browsertest"
	"github.com/go-politeness/politeness/internal/localsite"
)

// A client is somebody else's program, as it is, with its defaults. It gets the pages of a site,
// eight or all at once where it can. Its code, if it has any, is in testdata/clients.
type client struct {
	program string            // that must be there
	module  string            // of Python; empty: none
	args    []string          // before the URLs; PROXY, CA, DIR and CODE stand for what they are
	each    []string          // before each URL
	env     map[string]string // besides that of all
	flags   []string          // of the proxy
	npm     bool              // it needs the packages of testdata/clients
	silent  bool              // it writes no line "STATUS URL" for each URL: the site's log has to do
	mute    bool              // it writes no such line for a refusal
	rare    bool              // it runs with POLITENESS_CLIENTS alone
	plain   bool              // it speaks no https here
	browser bool              // it is that of package browsertest
	lonely  bool              // it reads no URLs but the first, and follows links
	loses   string            // what it loses at a long delay, and is known to; empty: nothing
}

// goClients is the program of lab/goclients, which is built for the test.
const goClients = "goclients"

var clients = map[string]client{
	"curl": {
		program: "curl",
		args: []string{
			"--disable", "--silent", "--noproxy", "", "--proxy", "PROXY", "--cacert", "CA", "--parallel", "--parallel-max", "8",
			"--write-out", `%{http_code} %{url}\n`,
		},
		each: []string{"--output", os.DevNull},
	},
	"wget": {
		program: "wget",
		args:    []string{"--no-config", "--quiet", "--ca-certificate=CA", "--execute=robots=off", "--directory-prefix=DIR"},
		silent:  true,
	},
	"aria2": {
		program: "aria2c",
		args: []string{
			"--no-conf", "--quiet", "--all-proxy=PROXY", "--ca-certificate=CA", "--force-sequential", "--max-concurrent-downloads=8", "--dir=DIR",
		},
		silent: true, rare: true,
	},
	"lftp": {
		program: "lftp",
		args:    []string{"-c", "set http:proxy PROXY; set https:proxy PROXY; set ssl:ca-file CA; mget -O DIR URLS"},
		silent:  true, rare: true,
	},
	"LWP":           {program: "perl", args: []string{"CODE/lwp.pl"}, env: map[string]string{"PERL_LWP_SSL_CA_FILE": "CA"}, rare: true},
	"PHP curl":      {program: "php", args: []string{"CODE/curl.php"}, rare: true},
	"PHP streams":   {program: "php", args: []string{"CODE/streams.php"}, rare: true, plain: true},
	"Ruby":          {program: "ruby", args: []string{"CODE/get.rb"}, rare: true},
	"Java":          {program: "javac", args: []string{"CODE/Get.java"}},
	"urllib":        {program: "/usr/bin/python3", args: []string{"CODE/with_urllib.py"}},
	"requests":      {program: "/usr/bin/python3", module: "requests", args: []string{"CODE/with_requests.py"}},
	"aiohttp":       {program: "/usr/bin/python3", module: "aiohttp", args: []string{"CODE/with_aiohttp.py"}, rare: true},
	"httpx":         {program: "/usr/bin/python3", module: "httpx", args: []string{"CODE/with_httpx.py"}, loses: "pages that take longer than 5 s"},
	"httpx, 60 s":   {program: "/usr/bin/python3", module: "httpx", args: []string{"CODE/with_httpx.py"}, env: map[string]string{"HTTPX_TIMEOUT": "60"}},
	"Node http":     {program: "node", args: []string{"CODE/http.mjs"}},
	"Node got":      {program: "node", npm: true, args: []string{"node.mjs", "got"}},
	"Node undici":   {program: "node", npm: true, args: []string{"node.mjs", "undici"}},
	"Node axios":    {program: "node", npm: true, args: []string{"node.mjs", "axios"}},
	"Node fetch v3": {program: "node", npm: true, args: []string{"node.mjs", "node-fetch"}, rare: true},
	"crawlee":       {program: "node", npm: true, args: []string{"crawlee.mjs"}, mute: true},
	"Scrapy": {
		program: "scrapy",
		args:    []string{"runspider", "CODE/spider.py", "-a", "urls=URLS", "-L", "ERROR", "-s", "ROBOTSTXT_OBEY=False", "-s", "TELNETCONSOLE_ENABLED=False"},
		flags:   []string{"-max-wait", "170s"},
		rare:    true,
	},
	"linkchecker": {
		program: "linkchecker",
		args:    []string{"--no-status", "--no-robots", "--threads=8", "--timeout=60"},
		silent:  true, rare: true, plain: true, lonely: true,
	},
	"Chromium": {
		program: "chromium",
		args: []string{
			"--headless", "--no-first-run", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking",
			"--disable-component-update", "--disable-sync", "--user-data-dir=DIR/profile", "--proxy-server=PROXY",
			"--proxy-bypass-list=<-loopback>", "--ignore-certificate-errors-spki-list=SPKI", "--dump-dom",
		},
		flags:  []string{"-max-wait", "170s"}, // for a page with 18 pictures of a site that is asked each 5 s
		silent: true, browser: true, lonely: true,
	},
	"Go net/http": {program: goClients, args: []string{"net/http"}, rare: true, plain: true},
	"colly":       {program: goClients, args: []string{"colly"}, rare: true, plain: true, loses: "pages that take longer than 10 s"},
	"colly, 60 s": {
		program: goClients,
		args:    []string{"colly"},
		env:     map[string]string{"COLLY_TIMEOUT": "60s"},
		rare:    true, plain: true,
	},
	"httrack": {
		program: "httrack",
		args:    []string{"--robots=0", "--quiet", "--proxy", "ADDRESS", "--path", "DIR", "--sockets=8"},
		silent:  true, rare: true, plain: true, lonely: true,
	},
}

// TestClientsThroughTheProxy: real programs, each complete against the list of the site, and polite by
// the site's log. Those that a machine lacks are left out; scripts/setup.sh installs them.
func TestClientsThroughTheProxy(t *testing.T) {
	t.Parallel()
	npm := clientsOfNPM(t)
	for name, c := range clients {
		program, ok := c.find(t, npm)
		if !ok || c.rare && os.Getenv("POLITENESS_CLIENTS") != "1" {
			continue
		}
		for _, kind := range []string{"http", "https"} {
			if kind == "https" && c.plain {
				continue
			}
			t.Run(name+" "+kind, func(t *testing.T) {
				t.Parallel()
				const delay = 300 * time.Millisecond
				var env []string
				s := localsite.New(t, delay)
				if kind == "https" {
					s = localsite.NewTLS(t, delay)
					env = []string{"SSL_CERT_FILE=" + s.Certificate}
				}
				got := c.visit(t, program, npm, s, env, 5)
				if len(got.lost) > 0 {
					t.Errorf("lost: %q\n%s", got.lost, got.said)
				}
			})
		}
	}
}

// TestTableOfClients prints a line for each program: pages had, requests for the page that is answered
// with 429 first, violations by the site's log, and seconds. The site has a Crawl-delay that is longer
// than programs expect. docs/proxy.md has what came of it. It takes three minutes.
func TestTableOfClients(t *testing.T) {
	if os.Getenv("POLITENESS_CLIENTS") != "1" {
		t.Log("POLITENESS_CLIENTS=1 (make clients) runs it")
		return
	}
	npm := clientsOfNPM(t)
	for name, c := range clients {
		program, ok := c.find(t, npm)
		if !ok {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := localsite.New(t, 5*time.Second)
			var once sync.Once
			s.Handle("/limited", func(w http.ResponseWriter, _ *http.Request) {
				isFirst := false
				once.Do(func() { isFirst = true })
				if isFirst {
					s.Block(w, 5*time.Second)
				}
			})
			began := time.Now()
			got := c.visit(t, program, npm, s, nil, 16, "/limited")
			t.Logf("| %s | %d of %d | %d | %d | %.0f |", name,
				len(got.pages)-len(got.lost), len(got.pages), len(s.Visits("/limited")), len(s.Violations()), time.Since(began).Seconds())
			if len(got.lost) > 0 && c.loses == "" {
				t.Errorf("lost: %q\n%s", got.lost, got.said)
			}
		})
	}
}

// find returns the program of c, if this machine has all that it needs.
func (c client) find(t *testing.T, npm string) (program string, ok bool) {
	t.Helper()
	switch {
	case c.browser:
		program = browsertest.Find(t)
		return program, program != ""
	case c.program == goClients && os.Getenv("POLITENESS_CLIENTS") == "1":
		return buildGoClients(t), true
	}
	program, err := exec.LookPath(c.program)
	if err != nil {
		t.Log(err)
		return "", false
	}
	if c.npm && npm == "" {
		return "", false
	}
	if c.program == "javac" {
		return "java", true // which runs a source as it is, where there is a compiler
	}
	if c.module == "" {
		return program, true
	}
	if err := exec.CommandContext(t.Context(), program, "-c", "import "+c.module).Run(); err != nil {
		t.Logf("%s lacks %s", program, c.module)
		return "", false
	}
	return program, true
}

func buildGoClients(t *testing.T) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), goClients)
	build := exec.CommandContext(t.Context(), "go", "build", "-C", filepath.FromSlash("../../lab"), "-o", program, "./goclients")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build, err, said)
	}
	return program
}

// keyOf returns the hash of a certificate's key, as Chromium wants it.
func keyOf(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		t.Fatalf("%s holds no PEM", file)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	return base64.StdEncoding.EncodeToString(sum[:])
}

// A got is what a client has of a site.
type got struct {
	pages []string // that it asked for and may have
	lost  []string // of them
	said  string
}

// visit runs c for n pages of s and further paths. It fails t unless c is polite.
func (c client) visit(t *testing.T, program, npm string, s *localsite.Site, env []string, n int, further ...string) got {
	t.Helper()
	dir := t.TempDir()
	log := filepath.Join(dir, "log.jsonl")
	ca := filepath.Join(dir, "ca")
	proxy, end := startProxy(t, env, append(c.flags, "-private", "-ca", ca, "-evidence", log)...)
	code, err := filepath.Abs("testdata/clients")
	if err != nil {
		t.Fatal(err)
	}
	pages := []string{"/"}
	for i := range n {
		pages = append(pages, fmt.Sprintf("/page%d", i))
	}
	paths := slices.Concat(pages, further, []string{"/private/diary"})
	if c.lonely {
		links := paths
		s.Handle("/links", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			for _, path := range links {
				fmt.Fprintf(w, "<a href=%q><img src=%[1]q></a>\n", path)
			}
		})
		paths = []string{"/links"}
	}
	authority := filepath.Join(ca, "authority.pem")
	var urls, last []string
	for _, path := range paths {
		urls = append(urls, s.URL+path)
		last = append(append(last, c.each...), s.URL+path)
	}
	place := strings.NewReplacer("PROXY", proxy, "ADDRESS", strings.TrimPrefix(proxy, "http://"), "CA", authority,
		"SPKI", keyOf(t, authority), "DIR", dir, "CODE", code, "URLS", strings.Join(urls, " "))
	var args []string
	for _, arg := range c.args {
		args = append(args, place.Replace(arg))
		if strings.Contains(arg, "URLS") {
			last = nil
		}
	}
	args = append(args, last...)
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = dir
	if c.npm {
		cmd.Dir = npm
	}
	cmd.Env = []string{
		"http_proxy=" + proxy, "https_proxy=" + proxy, "no_proxy=", "CA=" + authority, "PATH=" + os.Getenv("PATH"),
		"SSL_CERT_FILE=" + authority, "REQUESTS_CA_BUNDLE=" + authority, "NODE_EXTRA_CA_CERTS=" + authority, "HOME=" + dir,
		"PYTHONDONTWRITEBYTECODE=1",
	}
	for name, value := range c.env {
		cmd.Env = append(cmd.Env, name+"="+place.Replace(value))
	}
	said, _ := cmd.CombinedOutput() // its status tells of the refusal, too
	if status := end(); status != 0 {
		t.Errorf("the proxy ends with %d", status)
	}
	if found := s.Violations(); found != nil {
		t.Error(found)
	}
	polite(t, nil, "audit", log).expect(t, 0, "delays kept", "")
	has := func(path, status string) bool {
		return c.silent && len(s.Visits(path)) > 0 || strings.Contains(string(said), status+" "+s.URL+path+"\n")
	}
	result := got{pages: pages, said: string(said)}
	for _, path := range pages {
		if !has(path, "200") {
			result.lost = append(result.lost, path)
		}
	}
	if !c.silent && !c.mute && !has("/private/diary", "403") {
		t.Errorf("no refusal of /private/diary in\n%s", said)
	}
	return result
}

// TestProxyWaitsForASlotOfAnyPreset: -max-wait says how long, and no preset less. A program that
// repeats at once would use up its tries.
func TestProxyWaitsForASlotOfAnyPreset(t *testing.T) {
	t.Parallel()
	s := localsite.New(t, 0)
	begun := make(chan bool)
	s.Handle("/slow", func(http.ResponseWriter, *http.Request) {
		close(begun)
		time.Sleep(11 * time.Second) // the preset gives up after 10 s
	})
	address, _ := startProxy(t, nil, "-private", "-preset", "audit", "-per-host", "1")
	proxy, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy)}}
	get := func(path string) {
		resp, err := client.Get(s.URL + path)
		if err != nil {
			t.Error(err)
			return
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s %v", path, resp.Status, resp.Header)
		}
	}
	var both sync.WaitGroup
	both.Go(func() { get("/slow") })
	<-begun
	get("/a")
	both.Wait()
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
	if err != nil {
		t.Fatal(err)
	}
	said, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusBadRequest || !strings.Contains(resp.Header.Get("Proxy-Status"), "politeness") || !strings.Contains(string(said), "https://") {
		t.Errorf("without TLS: %s %v %s", resp.Status, resp.Header, said)
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
		{[]string{"-roots", roots}, "502 Bad Gateway, the site refused the TLS connection"},
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
