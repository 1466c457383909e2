package proxy

import (
	"crypto/tls"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSitesAreNotCheckedByTheAuthority: SSL_CERT_FILE is what programs are told of it by.
func TestSitesAreNotCheckedByTheAuthority(t *testing.T) {
	a, _ := authority(t)
	honest := httptest.NewTLSServer(http.NotFoundHandler())
	defer honest.Close()
	leaf, err := a.leaf("127.0.0.1")
	must(t, err)
	liar := httptest.NewUnstartedServer(http.NotFoundHandler())
	liar.TLS = &tls.Config{Certificates: []tls.Certificate{*leaf}}
	liar.StartTLS()
	defer liar.Close()
	own, err := os.ReadFile(a.Certificate)
	must(t, err)
	other := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: honest.Certificate().Raw}))
	both := filepath.Join(t.TempDir(), "both.pem")
	must(t, os.WriteFile(both, []byte(string(own)+other), 0o600))
	extra := filepath.Join(t.TempDir(), "extra.pem")
	must(t, os.WriteFile(extra, []byte(other), 0o600))
	for _, test := range []struct {
		name, variable string
		files          []string
		word, honest   bool
	}{
		{"the authority alone", a.Certificate, nil, true, false},
		{"the authority and further roots of a flag", a.Certificate, []string{extra}, true, true},
		{"with another root", both, nil, true, true},
		{"the authority by a flag", "", []string{a.Certificate}, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv(rootsVariable, test.variable)
			base := Base()
			word, err := CheckSites(base, a, test.files...)
			must(t, err)
			if (word != "") != test.word {
				t.Errorf("says %q", word)
			}
			proxy := serveBase(t, base, a)
			if resp := raw(t, proxy, "GET "+liar.URL+"/ HTTP/1.1\r\nHost: x\r\n\r\n"); resp.StatusCode != http.StatusBadGateway {
				t.Errorf("a site with a certificate by the authority: %s", resp.Status)
			}
			resp := raw(t, proxy, "GET "+honest.URL+"/ HTTP/1.1\r\nHost: x\r\n\r\n")
			if (resp.StatusCode == http.StatusNotFound) != test.honest {
				t.Errorf("a site with the other root: %s %s", resp.Status, resp.Header.Get("Proxy-Status"))
			}
		})
	}
	if _, err := CheckSites(Base(), nil, filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), "none") {
		t.Error(err)
	}
}
