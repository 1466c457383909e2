package botauth

import (
	"crypto"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-politeness/politeness/internal/hostname"
)

// lifetime is how long a signature holds.
const lifetime = time.Minute

// tag is what signatures of Web Bot Auth are for.
const tag = "web-bot-auth"

// A component is a part of a request that a signature covers (RFC 9421, section 2).
type component struct {
	name string // "@authority", or a field name in lower case
	key  string // of the member that is covered, if the field is a dictionary; empty: the whole field
}

func (c component) String() string {
	s := quoted(c.name)
	if c.key != "" {
		s += ";key=" + quoted(c.key)
	}
	return s
}

const signatureAgent = "signature-agent"

// A demand is the form that a signature is to have.
type demand struct {
	label      string
	components []component
	nonce      string // empty: one of our own
}

// standard returns the form of signatures for sites that have asked for none.
func (s *Signer) standard() demand {
	d := demand{label: "sig1", components: []component{{name: "@authority"}, {name: signatureAgent}}}
	if s.profile == Draft {
		d.components[1].key = d.label
	}
	return d
}

// agentField returns the value of Signature-Agent, as the demand covers it.
func (s *Signer) agentField(d *demand) string {
	for _, c := range d.components {
		if c.name == signatureAgent && c.key != "" {
			return c.key + "=" + quoted(s.agent)
		}
	}
	return quoted(s.agent)
}

// sign puts a signature into the header of req, which is the Signer's own. If it fails, the header
// stays unchanged.
func (s *Signer) sign(req *http.Request, d *demand, now time.Time) error {
	nonce := d.nonce
	if nonce == "" {
		var random [64]byte
		_, _ = rand.Read(random[:]) // never fails
		nonce = base64.StdEncoding.EncodeToString(random[:])
	}
	input, err := signatureInput(req, d.components, s.agent, s.params(now, lifetime, nonce, tag))
	if err != nil {
		return err
	}
	signature, err := s.signText(input)
	if err != nil {
		return err
	}
	req.Header["Signature-Agent"] = []string{s.agentField(d)}
	req.Header["Signature-Input"] = []string{d.label + "=" + input.params}
	req.Header["Signature"] = []string{d.label + "=:" + signature + ":"}
	return nil
}

// signText returns the signature of a base, in base64.
func (s *Signer) signText(in input) (string, error) {
	signature, err := s.key.Sign(rand.Reader, []byte(in.base), crypto.Hash(0))
	if err != nil {
		return "", fmt.Errorf("botauth: key %s: %w", s.id, err)
	}
	return base64.StdEncoding.EncodeToString(signature), nil
}

// params returns the parameters of a signature in the order in which cloudflare/web-bot-auth has
// them; an empty nonce is left out.
func (s *Signer) params(created time.Time, lifetime time.Duration, nonce, tag string) string {
	p := fmt.Sprintf(`;created=%d;keyid=%s;alg="ed25519";expires=%d`,
		created.Unix(), quoted(s.id), created.Add(lifetime).Unix())
	if nonce != "" {
		p += ";nonce=" + quoted(nonce)
	}
	return p + ";tag=" + quoted(tag)
}

// An input is what is signed.
type input struct {
	params string // the value of Signature-Input: components and parameters
	base   string // the text (RFC 9421, section 2.5)
}

// signatureInput returns what is signed of req, on behalf of agent.
func signatureInput(req *http.Request, components []component, agent, params string) (input, error) {
	var base strings.Builder
	names := make([]string, len(components))
	for i, c := range components {
		value := quoted(agent)
		if c.name != signatureAgent {
			var ok bool
			value, ok = valueOf(req, c.name)
			if !ok {
				return input{}, fmt.Errorf("botauth: the request has no %s", c)
			}
		}
		names[i] = c.String()
		base.WriteString(names[i] + ": " + value + "\n")
	}
	in := input{params: "(" + strings.Join(names, " ") + ")" + params}
	in.base = base.String() + `"@signature-params": ` + in.params
	return in, nil
}

// valueOf returns the value of a component without parameters; ok is false if req doesn't have it.
func valueOf(req *http.Request, name string) (value string, ok bool) {
	host := req.Host
	if host == "" {
		host = req.URL.Host
	}
	target := req.URL.RequestURI()
	path, query, _ := strings.Cut(target, "?")
	derived := strings.HasPrefix(target, "/")
	switch name {
	case "@authority":
		return authority(host), host != ""
	case "@method":
		if req.Method == "" {
			return http.MethodGet, true
		}
		return req.Method, true
	case "@scheme":
		return req.URL.Scheme, true
	case "@target-uri":
		return req.URL.Scheme + "://" + authority(host) + target, derived
	case "@request-target":
		return target, derived
	case "@path":
		return path, derived
	case "@query":
		return "?" + query, derived
	}
	lines := req.Header[http.CanonicalHeaderKey(name)]
	if len(lines) == 0 || strings.HasPrefix(name, "@") {
		return "", false
	}
	if name == "user-agent" {
		lines = lines[:1] // net/http sends no other
	}
	trimmed := make([]string, len(lines))
	for i, line := range lines {
		if strings.ContainsAny(line, "\r\n") {
			return "", false
		}
		trimmed[i] = strings.Trim(line, " \t")
	}
	return strings.Join(trimmed, ", "), true
}

// authority returns a host as signatures have it: in lower case, without the port of https or an
// empty one, and otherwise as net/http sends it.
func authority(host string) string {
	host = strings.TrimSuffix(strings.ToLower(hostname.ASCII(host)), ":443")
	return strings.TrimSuffix(host, ":") // as in "Location: https://example.com:/"
}

// quoted returns s as a String of RFC 9651. It is printable ASCII: a key id, a nonce that was
// parsed or made here, or a name.
func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
