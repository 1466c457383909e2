package botauth

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// DirectoryPath is the path of the key directory of an agent.
const DirectoryPath = "/.well-known/http-message-signatures-directory"

// directoryType is the media type of a directory.
const directoryType = "application/http-message-signatures-directory+json"

const (
	// directoryAge is how old the signatures of a directory are at most when they are sent.
	directoryAge = time.Minute
	// longestMaxAge is the longest Config.DirectoryMaxAge.
	longestMaxAge = 30 * 24 * time.Hour
)

// Directory returns a handler that serves the public keys of signers, for DirectoryPath of their
// agent's origin. Each key signs the response and the digest of its body, as proof that the owner
// of the origin has the private key. Verifiers may keep a copy for the shortest
// Config.DirectoryMaxAge of the signers, and ask by its ETag whether it is still the same. The
// response to that is signed, too. A signature is valid for twice that DirectoryMaxAge, so that no
// copy outlives it.
//
// To change keys, serve the directory of both, Directory(old, next), for a day, since verifiers
// keep a copy. Then sign with the next one. Remove the old one when no signature of it is under way
// any more. It panics if there is no signer, or one is nil.
func Directory(signers ...*Signer) http.Handler {
	d := &directory{signers: signers, maxAge: longestMaxAge}
	set := struct {
		Keys []jwk `json:"keys"`
	}{}
	for _, s := range signers {
		set.Keys = append(set.Keys, publicJWK(s.public))
		d.maxAge = min(d.maxAge, s.maxAge)
	}
	if len(set.Keys) == 0 {
		panic("botauth: Directory of no Signer")
	}
	d.body, _ = json.Marshal(set) // strings never fail
	sum := sha256.Sum256(d.body)
	d.digest = "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
	d.tag = fmt.Sprintf(`"%x"`, sum[:8])
	return d
}

type directory struct {
	signers []*Signer
	body    []byte
	digest  string // of body, as in Content-Digest (RFC 9530)
	tag     string // ETag
	maxAge  time.Duration

	mu               sync.Mutex
	signed           time.Time
	input, signature string
}

// ServeHTTP implements http.Handler.
func (d *directory) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
		return
	}
	input, signature, err := d.sign(time.Now())
	if err != nil {
		http.Error(w, "the directory can't be signed at the moment", http.StatusServiceUnavailable)
		return
	}
	h := w.Header()
	h.Set("Cache-Control", fmt.Sprintf("max-age=%d", d.maxAge/time.Second))
	h.Set("ETag", d.tag)
	h.Set("Content-Digest", d.digest)
	h.Set("Signature-Input", input)
	h.Set("Signature", signature)
	known := r.Header.Get("If-None-Match")
	if strings.Contains(known, d.tag) || strings.TrimSpace(known) == "*" {
		// Such a response is signed too: the digest is that of the copy that the verifier has.
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", directoryType)
	_, _ = w.Write(d.body)
}

// sign returns the fields of a signature by each key, made less than directoryAge ago, so that
// repeated requests for the directory cost no signatures. They cover the digest of the body, and
// the authority of the agent, even if a proxy before us has used another name.
func (d *directory) sign(now time.Time) (inputs, signatures string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	age := now.Sub(d.signed)
	if age >= 0 && age < directoryAge { // below 0 the clock was set back
		return d.input, d.signature, nil
	}
	var allInputs, allSignatures []string
	for i, s := range d.signers {
		label := fmt.Sprintf("sig%d", i+1)
		params := `("@authority";req "content-digest")` +
			s.params(now, 2*d.maxAge+directoryAge, "", "http-message-signatures-directory")
		signature, err := s.signText(input{base: `"@authority";req: ` + strings.TrimPrefix(s.agent, "https://") +
			"\n\"content-digest\": " + d.digest + "\n\"@signature-params\": " + params})
		if err != nil {
			return "", "", err
		}
		allInputs = append(allInputs, label+"="+params)
		allSignatures = append(allSignatures, label+"=:"+signature+":")
	}
	// Only now, so that a key that fails leaves no half of a directory.
	d.signed = now
	d.input = strings.Join(allInputs, ", ")
	d.signature = strings.Join(allSignatures, ", ")
	return d.input, d.signature, nil
}
