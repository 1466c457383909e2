// Package botauth signs a crawler's requests, so that a site can verify the crawler. It implements
// Web Bot Auth, which is HTTP Message Signatures (RFC 9421) by an Ed25519 key. The crawler
// publishes the public half of the key.
//
//	key, err := botauth.ParseKey(pem)
//	signer, err := botauth.New(botauth.Config{Key: key, Agent: "https://bot.example.com"})
//	transport, err := politeness.New(politeness.Config{
//		UserAgent: "ExampleBot/1.0 (+https://bot.example.com; bot@example.com)",
//		Base:      signer.Transport(http.DefaultTransport),
//	})
//	http.Handle(botauth.DirectoryPath, botauth.Directory(signer)) // at https://bot.example.com
//
// A signature says when it was made, and expires a minute later. So it is made when its request is
// sent, after the crawler has waited for the host. It is made once the request has its connection.
// It is made anew for each redirect, each further try, and each time that net/http sends a request
// again. Only https is signed. The package needs no politeness around it, and politeness doesn't
// need this package. It wraps the http.RoundTripper that connects.
package botauth

import (
	"cmp"
	"crypto"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"
)

// A Signer signs requests with one key, in the name of one agent. Make it with New. It is safe for
// concurrent use.
type Signer struct {
	key     crypto.Signer
	public  ed25519.PublicKey
	id      string
	agent   string // origin at which the key directory is: "https://bot.example.com"
	profile Profile
	maxAge  time.Duration // of the directory
}

// A Config sets how a Signer signs. Key and Agent are needed.
type Config struct {
	// Key is an ed25519.PrivateKey, such as ParseKey returns, or one that is kept elsewhere, as in a
	// key management service. In that case each request waits for the service, after the request has
	// started and has its connection.
	Key crypto.Signer

	// Agent is the origin at which the key directory is found, such as "https://bot.example.com".
	// See Directory.
	Agent string

	// Profile is the form of signatures. The zero value is Draft, which verifiers of the working
	// group's draft accept. Cloudflare and AWS WAF accept only the Profile Cloudflare, by their
	// documentation. Use it for a crawl of sites behind them. A Signer uses the form of its
	// Profile, unless a site asks for the other form by Accept-Signature. File docs/identity.md has
	// the table.
	Profile Profile

	// DirectoryMaxAge is how long verifiers may keep a copy of the Directory of the key, between a
	// second and 30 days. Make it short before keys are changed. The default is an hour.
	DirectoryMaxAge time.Duration
}

// A Profile is the form of the Signature-Agent field, about which verifiers differ.
type Profile uint8

// The profiles. A site that asks for one of them by Accept-Signature gets that, for any Profile of
// the Signer.
const (
	// Draft is the form of the working group's draft (draft-ietf-webbotauth-httpsig-protocol).
	// Signature-Agent is a dictionary, such as sig1="https://...". The signature covers its member
	// sig1.
	Draft Profile = iota
	// Cloudflare is the form that Cloudflare has verified since 2025, and that of earlier drafts.
	// Signature-Agent is a bare string, and the signature covers the whole field.
	Cloudflare
)

// New makes a Signer. The error joins all that is wrong with cfg.
func New(cfg Config) (*Signer, error) {
	s := &Signer{
		key:     cfg.Key,
		profile: cfg.Profile,
		maxAge:  cmp.Or(cfg.DirectoryMaxAge, time.Hour),
	}
	var errs []error
	if err := s.setKey(); err != nil {
		errs = append(errs, err)
	}
	agent, err := origin(cfg.Agent)
	if err != nil {
		errs = append(errs, err)
	}
	s.agent = agent
	if s.maxAge < time.Second || s.maxAge > longestMaxAge {
		errs = append(errs, fmt.Errorf("botauth: DirectoryMaxAge: %v isn't between a second and %d days",
			s.maxAge, longestMaxAge/(24*time.Hour)))
	}
	if s.profile > Cloudflare {
		errs = append(errs, fmt.Errorf("botauth: Profile(%d): use Draft or Cloudflare", s.profile))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return s, nil
}

func (s *Signer) setKey() error {
	v := reflect.ValueOf(s.key)
	isNil := v.Kind() == reflect.Pointer && v.IsNil() // as a nil *ed25519.PrivateKey is
	if s.key == nil || isNil {
		return errors.New("botauth: no key: ParseKey reads one")
	}
	if private, ok := s.key.(*ed25519.PrivateKey); ok {
		s.key = *private
	}
	if private, ok := s.key.(ed25519.PrivateKey); ok && len(private) != ed25519.PrivateKeySize {
		return fmt.Errorf("botauth: an Ed25519 key of %d bytes, instead of %d", len(private), ed25519.PrivateKeySize)
	}
	public, ok := s.key.Public().(ed25519.PublicKey)
	if !ok {
		return fmt.Errorf("botauth: the public key is %T: Web Bot Auth needs Ed25519", s.key.Public())
	}
	s.public = public
	s.id = KeyID(public)
	return nil
}

// origin checks the URL of an agent.
func origin(agent string) (string, error) {
	u, err := url.Parse(agent)
	if err != nil {
		return "", fmt.Errorf("botauth: agent: %w", err)
	}
	isOrigin := u.Scheme == "https" && u.Host != "" && u.User == nil
	more := strings.Trim(u.Path, "/") + u.RawQuery + u.Fragment
	if !isOrigin || more != "" {
		return "", fmt.Errorf("botauth: agent %q is not the origin of a key directory, such as %q",
			agent, "https://bot.example.com")
	}
	return "https://" + authority(u.Host), nil
}

// KeyID returns the id of the Signer's key, as KeyID does.
func (s *Signer) KeyID() string { return s.id }

// Transport returns a RoundTripper that signs the requests that it sends through base, which is
// best an *http.Transport itself. The default is http.DefaultTransport. Put other wrappers of a
// crawler outside. If a wrapper inside sends a copy of the request, as tracing does, the signature
// is made too early, before there is a connection.
//
// A request to http, and one that has a Signature-Input already, is sent as it is. If the key
// fails, the request fails. The caller's request is never changed, as the signature is set on a
// copy.
//
// A 401 or 403 may ask by Accept-Signature for another signature than was sent. If this key can
// make that signature, and the body can be sent again, the request is sent once more. Later
// requests to that origin are signed that way immediately. Under politeness such a repeat is a
// further start, which waits for the host. A 429 that asks so is returned as it is, since it asks
// to wait too. The next request then has that signature.
func (s *Signer) Transport(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return &transport{signer: s, base: base}
}
