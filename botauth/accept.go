package botauth

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-politeness/politeness/internal/sfv"
)

// Bounds of what a site may ask for, which is kept for as long as the transport is.
const (
	maxComponents = 16
	maxDemand     = 4 << 10 // bytes of Accept-Signature
)

// accept returns what resp, an answer to req, asks for by Accept-Signature (RFC 9421, section 5.1):
// the first demand that the Signer can meet. It returns false where there is none, or the signature
// that was sent, as sent had it, was like that.
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
		d, err := s.parseDemand(&wanted[i])
		if err != nil || !has(req, &d) {
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

// parseDemand reads one member of Accept-Signature.
func (s *Signer) parseDemand(m *sfv.Member) (demand, error) {
	d := demand{label: m.Key}
	list, ok := m.Value.([]sfv.Item)
	if !ok || len(list) > maxComponents {
		return d, fmt.Errorf("no list of at most %d components", maxComponents)
	}
	for _, item := range list {
		c, err := parseComponent(item)
		if err != nil {
			return d, err
		}
		alike := func(other component) bool {
			return other == c || other.name == signatureAgent && c.name == signatureAgent // in two forms
		}
		if slices.ContainsFunc(d.components, alike) {
			return d, fmt.Errorf("%s twice", c.name)
		}
		d.components = append(d.components, c)
	}
	for _, p := range m.Params {
		wants, mine := "", ""
		switch p.Key {
		case "tag":
			mine = tag
		case "alg":
			mine = "ed25519"
		case "keyid":
			mine = s.id
		case "nonce":
			d.nonce, ok = p.Value.(string)
			if !ok || len(d.nonce) > 256 {
				return d, fmt.Errorf("a nonce that is no String of at most 256 bytes")
			}
			continue
		default: // created and expires, which each signature has, and what isn't known
			continue
		}
		if wants, _ = p.Value.(string); wants != mine {
			return d, fmt.Errorf("%s %.40q instead of %q", p.Key, wants, mine)
		}
	}
	return d.whole(s.standard()), nil
}

// parseComponent reads a component identifier.
func parseComponent(item sfv.Item) (component, error) {
	name, ok := item.Value.(string)
	if !ok || name == "" || name != strings.ToLower(name) {
		return component{}, fmt.Errorf("a component %v", item.Value)
	}
	c := component{name: name}
	for _, p := range item.Params {
		if c.key, ok = p.Value.(string); !ok || p.Key != "key" || name != signatureAgent {
			return c, fmt.Errorf("a parameter %s of %q", p.Key, name)
		}
		if d, err := sfv.ParseDictionary(c.key); err != nil || len(d) != 1 || d[0].Key != c.key {
			return c, fmt.Errorf("a key %.40q", c.key)
		}
	}
	return c, nil
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
