package proxy

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// loginSite is a site that authenticates connections, as IIS does with NTLM: a second request with
// credentials on one connection logs that in.
func loginSite(t *testing.T, scheme string, secure bool) *httptest.Server {
	t.Helper()
	var mu sync.Mutex
	said := map[string]int{} // messages of the login, by connection
	site := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if strings.HasPrefix(r.Header.Get("Authorization"), scheme) {
			said[r.RemoteAddr]++
		}
		if said[r.RemoteAddr] < 2 {
			w.Header().Set("WWW-Authenticate", scheme+" TlRMTVNTUA==")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, "for members")
	}))
	if secure {
		site.StartTLS()
	} else {
		site.Start()
	}
	t.Cleanup(site.Close)
	return site
}

// A caller sends requests by one connection to the proxy.
type caller struct {
	t    *testing.T
	conn net.Conn
	read *bufio.Reader
}

func (c *caller) ask(target, credentials string) (status int, body string) {
	c.t.Helper()
	fmt.Fprintf(c.conn, "GET %s HTTP/1.1\r\nHost: x\r\n", target)
	if credentials != "" {
		fmt.Fprintf(c.conn, "Authorization: %s\r\n", credentials)
	}
	fmt.Fprint(c.conn, "\r\n")
	resp, err := http.ReadResponse(c.read, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

func call(t *testing.T, proxy string) *caller {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(proxy, "http://"))
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	return &caller{t, conn, bufio.NewReader(conn)}
}

// TestALoginIsOnePrograms: what a program has logged in for no other one gets, and it keeps it
// itself, on every kind of connection.
func TestALoginIsOnePrograms(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"NTLM", "Negotiate", "Kerberos", "X-Unheard-Of"} {
		for _, way := range []string{"in the open", "in a tunnel", "https in the open", "https in a tunnel"} {
			t.Run(scheme+" "+way, func(t *testing.T) {
				t.Parallel()
				secure := strings.HasPrefix(way, "https")
				site := loginSite(t, scheme, secure)
				base := Base()
				if secure {
					base.TLSClientConfig = &tls.Config{RootCAs: x509.NewCertPool()}
					base.TLSClientConfig.RootCAs.AddCert(site.Certificate())
				}
				a, trust := authority(t)
				proxy := serveBase(t, ByProgram(base), a)
				host := site.Listener.Addr().String()
				target := site.URL + "/page"
				newcomer := func() *caller {
					switch way {
					case "in a tunnel":
						conn := plainly(t, proxy, host)
						return &caller{t, conn, bufio.NewReader(conn)}
					case "https in a tunnel":
						return tlsCaller(t, proxy, trust, host)
					}
					return call(t, proxy)
				}
				member := newcomer()
				for i, want := range []int{401, 200} {
					if status, body := member.ask(target, scheme+" TlRMTVNTUAAB"); status != want {
						t.Fatalf("message %d of the login: %d %s", i+1, status, body)
					}
				}
				if status, body := newcomer().ask(target, ""); status != http.StatusUnauthorized {
					t.Errorf("somebody without credentials got %d %s", status, body)
				}
				if status, body := newcomer().ask(target, "Basic eDp5"); status != http.StatusUnauthorized {
					t.Errorf("somebody with other credentials got %d %s", status, body)
				}
				if status, body := member.ask(target, ""); status != http.StatusOK {
					t.Errorf("the one who is logged in got %d %s", status, body)
				}
			})
		}
	}
}

func tlsCaller(t *testing.T, proxy string, trust *x509.CertPool, host string) *caller {
	t.Helper()
	name, _, _ := net.SplitHostPort(host)
	conn, err := tunnelTo(t, proxy, trust, host, name)
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	return &caller{t, conn, bufio.NewReader(conn)}
}

// TestALoginAtASiteOfHTTP2: its other pages come by HTTP/2, and a login by HTTP/1.1.
func TestALoginAtASiteOfHTTP2(t *testing.T) {
	t.Parallel()
	site := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Proto) }))
	site.EnableHTTP2 = true
	site.StartTLS()
	t.Cleanup(site.Close)
	base := Base()
	base.TLSClientConfig.RootCAs = x509.NewCertPool()
	base.TLSClientConfig.RootCAs.AddCert(site.Certificate())
	proxy := serveBase(t, ByProgram(base), nil)
	for range 2 { // the second one finds a connection of the first
		caller := call(t, proxy)
		for _, credentials := range []string{"", "NTLM TlRMTVNTUAAB", ""} {
			want := "HTTP/2.0"
			if credentials != "" {
				want = "HTTP/1.1"
			}
			status, body := caller.ask(site.URL+"/page", credentials)
			if status != http.StatusOK || body != want && credentials != "" {
				t.Errorf("credentials %q: %d %s, not %s", credentials, status, body, want)
			}
		}
	}
}

// TestALoginOfAnUnknownProgramIsDropped: where connections have no program, none stays logged in.
func TestALoginOfAnUnknownProgramIsDropped(t *testing.T) {
	t.Parallel()
	site := loginSite(t, "NTLM", false)
	client := &http.Client{Transport: ByProgram(Base())}
	for range 3 {
		req, err := http.NewRequest(http.MethodGet, site.URL+"/page", http.NoBody)
		must(t, err)
		req.Header.Set("Authorization", "NTLM TlRMTVNTUAAB")
		resp, err := client.Do(req)
		must(t, err)
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("status %d: the connection before stayed open", resp.StatusCode)
		}
	}
}
