package botauth

import (
	"net/http"
	"slices"
	"strings"

	"github.com/go-politeness/politeness/internal/sfv"
)

// Bounds of what a site may ask for, which is kept for as long as the transport is.
const (
	maxComponents = 16
	maxDemand     = 4 << 10 // bytes of Accept-Signature
	maxNonce      = 256     // bytes
)

// accept returns the first demand in the Accept-Signature of resp (RFC 9421, section 5.1) that the
// Signer can meet for req. It returns false if there is none, or if the signature that req was sent
// with, by sent, meets the demand already.
func (s *Signer) accept(resp *http.Response, req *http.Request, sent *demand) (demand, bool) {
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
	default:
		return demand{}, false
	}
	lines := resp.Header["Accept-Signature"]
	if len(lines) == 0 {
		return demand{}, false
	}
	field := strings.Join(lines, ", ")
	if len(field) > maxDemand {
		return demand{}, false
	}
	wanted, err := sfv.ParseDictionary(field)
	if err != nil {
		return demand{}, false
	}
	for i := range wanted {
		d, ok := s.parseDemand(&wanted[i])
		if !ok || !has(req, &d) {
			continue
		}
		alike := d.nonce == "" && slices.Equal(d.components, sent.components)
		return d, !alike
	}
	return demand{}, false
}

// madeByNetHTTP are fields that net/http sends in its own words, whatever the header has.
var madeByNetHTTP = []string{"host", "content-length", "transfer-encoding", "trailer"}

// has reports whether req has all that d covers, and will be sent with it.
func has(req *http.Request, d *demand) bool {
	for _, c := range d.components {
		if c.name == signatureAgent {
			continue
		}
		if _, ok := valueOf(req, c.name); !ok || slices.Contains(madeByNetHTTP, c.name) {
			return false
		}
	}
	return true
}

// parseDemand reads one member of Accept-Signature. It returns false for one that is malformed,
// asks for too much, or is for another tag, algorithm or key than the Signer's.
func (s *Signer) parseDemand(m *sfv.Member) (d demand, ok bool) {
	list, ok := m.Value.([]sfv.Item)
	if !ok || len(list) > maxComponents {
		return demand{}, false
	}
	d.label = m.Key
	for _, item := range list {
		c, ok := parseComponent(item)
		if !ok || d.covers(c) {
			return demand{}, false
		}
		d.components = append(d.components, c)
	}
	for _, p := range m.Params {
		if !s.meets(p) {
			return demand{}, false
		}
		if p.Key == "nonce" {
			d.nonce = p.Value.(string)
		}
	}
	return d.whole(s.standard()), true
}

// covers reports whether d has c already. Signature-Agent counts once, in either of its two forms.
func (d *demand) covers(c component) bool {
	return slices.ContainsFunc(d.components, func(other component) bool {
		return other == c || other.name == c.name && c.name == signatureAgent
	})
}

// meets reports whether the Signer can sign with the parameter p of a demand.
func (s *Signer) meets(p sfv.Member) bool {
	value, isString := p.Value.(string)
	switch p.Key {
	case "tag":
		return value == tag
	case "alg":
		return value == "ed25519"
	case "keyid":
		return value == s.id
	case "nonce":
		return isString && len(value) <= maxNonce
	}
	return true // created and expires, which each signature has, and unknown ones
}

// parseComponent reads a component identifier. It returns false if the Signer can't cover it.
func parseComponent(item sfv.Item) (c component, ok bool) {
	c.name, ok = item.Value.(string)
	if !ok || c.name == "" || c.name != strings.ToLower(c.name) {
		return c, false
	}
	for _, p := range item.Params {
		if c.key, ok = p.Value.(string); !ok || p.Key != "key" || c.name != signatureAgent {
			return c, false
		}
		if d, err := sfv.ParseDictionary(c.key); err != nil || len(d) != 1 || d[0].Key != c.key {
			return c, false
		}
	}
	return c, true
}

// whole returns d with what any signature of Web Bot Auth covers: where the request goes, and the
// agent that its header names.
func (d demand) whole(standard demand) demand {
	covers := func(names ...string) bool {
		return slices.ContainsFunc(d.components, func(c component) bool { return slices.Contains(names, c.name) })
	}
	if !covers("@authority", "@target-uri") {
		d.components = append(d.components, standard.components[0])
	}
	if !covers(signatureAgent) {
		d.components = append(d.components, standard.components[1])
	}
	return d
}
