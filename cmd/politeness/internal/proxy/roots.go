package proxy

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
)

// rootsVariable names the file of the roots of many programs, this one included.
const rootsVariable = "SSL_CERT_FILE"

// errOwn is why a site's certificate isn't accepted if an authority of this program has made it.
var errOwn = errors.New("the certificate is by the authority of this proxy, which no site is checked by")

// CheckSites lets base check sites by the roots of this machine and those of the files, but never
// by a, whatever the environment says: that authority is made for programs. A nil a is none. It
// returns a word for the user if SSL_CERT_FILE names the authority.
func CheckSites(base *http.Transport, a *Authority, files ...string) (word string, err error) {
	var roots *x509.CertPool // nil: those of this machine
	if a != nil {
		roots, word = a.rootsWithoutIt(os.Getenv(rootsVariable))
		base.TLSClientConfig.VerifyConnection = a.verify
	}
	if len(files) > 0 && roots == nil {
		roots, err = x509.SystemCertPool()
		if err != nil {
			return word, err
		}
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return word, err
		}
		if !roots.AppendCertsFromPEM(text) {
			return word, fmt.Errorf("%s has no certificate in PEM", name)
		}
	}
	base.TLSClientConfig.RootCAs = roots
	return word, nil
}

// rootsWithoutIt returns the roots of the file called name without a, and a word for the user if it
// holds a. If nothing else is in the file, the variable is unset, and the roots are the machine's.
func (a *Authority) rootsWithoutIt(name string) (roots *x509.CertPool, word string) {
	if name == "" {
		return nil, ""
	}
	rest, err := os.ReadFile(name)
	if err != nil {
		return nil, "" // crypto/x509 says so when it reads it
	}
	var others []*x509.Certificate
	isIn := false
	for {
		var block *pem.Block
		block, rest = pem.Decode(rest)
		if block == nil {
			break
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		switch {
		case err != nil:
		case a.is(cert):
			isIn = true
		default:
			others = append(others, cert)
		}
	}
	if !isIn {
		return nil, ""
	}
	word = rootsVariable + " names " + name + ", which is for programs: sites aren't checked by it"
	if len(others) == 0 {
		os.Unsetenv(rootsVariable)
		return nil, word
	}
	roots = x509.NewCertPool()
	for _, cert := range others {
		roots.AddCert(cert)
	}
	return roots, word
}

func (a *Authority) is(cert *x509.Certificate) bool { return bytes.Equal(cert.Raw, a.cert.Raw) }

// verify is a tls.Config.VerifyConnection: a chain of certificates that doesn't lead to a is
// needed.
func (a *Authority) verify(state tls.ConnectionState) error {
	for _, chain := range state.VerifiedChains {
		if !slices.ContainsFunc(chain, a.is) {
			return nil
		}
	}
	return errOwn
}
