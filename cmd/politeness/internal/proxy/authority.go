package proxy

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"
)

// An Authority makes certificates for the names of sites, which the programs that trust it take for
// the sites' own. Its key never leaves its directory. It is safe for concurrent use.
type Authority struct {
	// Certificate is the file that programs have to trust.
	Certificate string

	key    *ecdsa.PrivateKey
	cert   *x509.Certificate
	config *tls.Config

	leafKey *ecdsa.PrivateKey // of all leaves of this process
	mu      sync.Mutex
	leaves  map[string]*tls.Certificate // by name, at most maxLeaves
}

// The files of an authority. The one with the key also holds the certificate, so that the two can't
// be of different authorities.
const (
	keyFile         = "authority-key.pem"
	certificateFile = "authority.pem"
)

const (
	authorityLife = 5 * 365 * 24 * time.Hour
	leafLife      = 7 * 24 * time.Hour
	skew          = 24 * time.Hour // of the programs' clocks; certificates begin that much earlier
	maxLeaves     = 1000
)

// OpenAuthority opens the authority in dir, and makes one if there is none: an ECDSA key, in a file
// that only its owner can read, and a certificate beside it.
//
// The directory and the key must belong to the user of this process, and be no symbolic links:
// whoever else owns them could exchange the key. On Windows owners and modes aren't looked at.
func OpenAuthority(dir string) (*Authority, error) {
	return openAuthority(filepath.Clean(dir), os.Geteuid()) // without a final slash, which would follow a link
}

func openAuthority(dir string, user int) (*Authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return nil, err
	case !info.IsDir():
		return nil, fmt.Errorf("%s is a symbolic link: name the directory that it leads to", dir)
	case !ownedBy(info, user):
		return nil, fmt.Errorf("%s belongs to another user, who could put another key there: "+
			"use a directory of your own", dir)
	case allows(info, 0o022):
		return nil, fmt.Errorf("%s can be written to by others (mode %#o), who could put another key there: "+
			"use a directory of your own, or chmod 700 %[1]s", dir, info.Mode().Perm())
	}
	name := filepath.Join(dir, keyFile)
	if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		if err := createAuthority(dir, name); err != nil {
			return nil, fmt.Errorf("making a certificate authority: %w", err)
		}
	}
	a, err := loadAuthority(name, user)
	if err != nil {
		return nil, err
	}
	a.Certificate = filepath.Join(dir, certificateFile)
	return a, writeCertificate(a.Certificate, a.cert.Raw)
}

// allows reports whether the mode of a file has one of the bits of mode. On Windows modes say
// nothing.
func allows(info fs.FileInfo, mode fs.FileMode) bool {
	return info.Mode()&mode != 0 && runtime.GOOS != "windows"
}

// writeCertificate replaces the file called name, whatever that is, so that no reader sees half of
// it, and nothing is written through a link.
func writeCertificate(name string, cert []byte) error {
	file, err := os.CreateTemp(filepath.Dir(name), certificateFile+".*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	err = errors.Join(
		pem.Encode(file, &pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		file.Chmod(0o644), // it is public
		file.Sync(),
		file.Close(),
	)
	if err != nil {
		return err
	}
	return os.Rename(file.Name(), name)
}

// createAuthority makes a key and its certificate in the file called name. If two processes do so
// at the same time, one wins, and the file of the other is removed.
func createAuthority(dir, name string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	owner, err := os.Hostname()
	if err != nil {
		owner = "this machine"
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: cut("politeness proxy on "+owner, 64)},
		NotBefore:             time.Now().Add(-skew),
		NotAfter:              time.Now().Add(authorityLife),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	cert, err := sign(template, template, &key.PublicKey, key)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(dir, keyFile+".*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	err = errors.Join(
		pem.Encode(file, &pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
		pem.Encode(file, &pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		file.Sync(),
		file.Close(),
	)
	if err != nil {
		return err
	}
	if err := os.Link(file.Name(), name); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func cut(s string, n int) string { return s[:min(len(s), n)] }

// loadAuthority reads the file with the key and the certificate.
func loadAuthority(name string, user int) (*Authority, error) {
	info, err := os.Lstat(name)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file: remove it, and a new authority is made", name)
	case !ownedBy(info, user):
		return nil, fmt.Errorf("%s belongs to another user, "+
			"who can pretend to be any site for programs that trust it: "+
			"remove it with its directory and let a new one be made", name)
	case allows(info, 0o077):
		return nil, fmt.Errorf("%s can be read by others (mode %#o): "+
			"with it they can pretend to be any site for programs that trust it. "+
			"Remove it with its directory, so that a new one is made. If nobody has read it: chmod 600 %[1]s",
			name, info.Mode().Perm())
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	bad := func(err error) (*Authority, error) {
		return nil, fmt.Errorf("%s is no certificate authority of this program (%w): "+
			"remove it, and a new one is made", name, err)
	}
	pair, err := tls.X509KeyPair(text, text)
	if err != nil {
		return bad(err)
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok || !pair.Leaf.IsCA {
		return bad(errors.New("no ECDSA key of an authority"))
	}
	if time.Now().After(pair.Leaf.NotAfter) {
		return bad(fmt.Errorf("expired on %s", pair.Leaf.NotAfter.Format(time.DateOnly)))
	}
	leafKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	a := &Authority{key: key, cert: pair.Leaf, leafKey: leafKey, leaves: make(map[string]*tls.Certificate)}
	a.config = &tls.Config{GetCertificate: a.certificateFor, NextProtos: []string{"http/1.1"}}
	return a, nil
}

// Listener returns a listener whose connections speak TLS, with a certificate by a for the name
// that a program asks for, or for the address that it has reached.
func (a *Authority) Listener(l net.Listener) net.Listener {
	return tls.NewListener(l, &tls.Config{
		NextProtos: []string{"http/1.1"},
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			name := hello.ServerName
			if name == "" {
				host, _, err := net.SplitHostPort(hello.Conn.LocalAddr().String())
				if err != nil {
					return nil, err
				}
				name = host
			}
			if net.ParseIP(name) == nil && !isDomain(name) {
				return nil, fmt.Errorf("%q is no name of a host", name)
			}
			return a.leaf(name)
		},
	})
}

// leaf returns a certificate for a name or an IP address.
func (a *Authority) leaf(name string) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if leaf, ok := a.leaves[name]; ok && now.Before(leaf.Leaf.NotAfter.Add(-skew)) {
		return leaf, nil
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: cut(name, 64)},
		NotBefore:   now.Add(-skew),
		NotAfter:    now.Add(leafLife),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	ip := net.ParseIP(name)
	if ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{name}
	}
	der, err := sign(template, a.cert, &a.leafKey.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	for old := range a.leaves { // any of them: making one takes less than a TLS handshake
		if len(a.leaves) < maxLeaves {
			break
		}
		delete(a.leaves, old)
	}
	leaf := &tls.Certificate{Certificate: [][]byte{der, a.cert.Raw}, PrivateKey: a.leafKey, Leaf: parsed}
	a.leaves[name] = leaf
	return leaf, nil
}

// sign returns a certificate with a random serial number.
func sign(template, parent *x509.Certificate, public *ecdsa.PublicKey, key *ecdsa.PrivateKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	return x509.CreateCertificate(rand.Reader, template, parent, public, key)
}
