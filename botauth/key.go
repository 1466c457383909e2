package botauth

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
)

// ParseKey reads a private Ed25519 key. The key is PEM of PKCS #8, which "openssl genpkey
// -algorithm ed25519" writes, or a JSON Web Key (RFC 8037). Use it to read the key for Config.Key
// from a file.
func ParseKey(data []byte) (ed25519.PrivateKey, error) {
	trimmed := bytes.TrimSpace(data)
	if bytes.HasPrefix(trimmed, []byte("{")) {
		return parseJWK(trimmed)
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("botauth: a key that is neither PEM nor a JSON Web Key: a file's content is wanted, " +
			`and "openssl genpkey -algorithm ed25519" makes one`)
	}
	if block.Type != "PRIVATE KEY" {
		return nil, fmt.Errorf(`botauth: PEM of type %q instead of "PRIVATE KEY": `+
			`"openssl genpkey -algorithm ed25519" makes one, "openssl pkey" decrypts one`, block.Type)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("botauth: %w", err)
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("botauth: a key of type %T: Web Bot Auth needs Ed25519", parsed)
	}
	return key, nil
}

// A jwk is a JSON Web Key (RFC 7517) of an Ed25519 key (RFC 8037).
type jwk struct {
	Kty string `json:"kty"`
	Crv string `json:"crv"`
	Kid string `json:"kid,omitempty"`
	X   string `json:"x"`           // public
	D   string `json:"d,omitempty"` // private
	Use string `json:"use,omitempty"`
}

func parseJWK(data []byte) (ed25519.PrivateKey, error) {
	var k jwk
	if err := json.Unmarshal(data, &k); err != nil {
		return nil, fmt.Errorf("botauth: JSON Web Key: %w", err)
	}
	if k.Kty != "OKP" || k.Crv != "Ed25519" {
		return nil, fmt.Errorf("botauth: JSON Web Key with kty %.20q and crv %.20q: Web Bot Auth needs OKP and Ed25519",
			k.Kty, k.Crv)
	}
	seed, err := base64.RawURLEncoding.DecodeString(k.D)
	if err != nil || len(seed) != ed25519.SeedSize {
		return nil, errors.New("botauth: JSON Web Key without a private part (d) of 32 bytes")
	}
	key := ed25519.NewKeyFromSeed(seed)
	x := publicX(key.Public().(ed25519.PublicKey))
	if k.X != "" && k.X != x {
		return nil, errors.New("botauth: JSON Web Key whose public part (x) isn't that of its private part (d)")
	}
	return key, nil
}

// publicJWK returns the key as a directory lists it.
func publicJWK(public ed25519.PublicKey) jwk {
	return jwk{
		Kty: "OKP",
		Crv: "Ed25519",
		Kid: KeyID(public),
		X:   publicX(public),
		Use: "sig",
	}
}

// publicX returns a key as "x" has it.
func publicX(public ed25519.PublicKey) string { return base64.RawURLEncoding.EncodeToString(public) }

// KeyID returns the name of a key in signatures and in evidence. It is the thumbprint of its JSON
// Web Key (RFC 7638, RFC 8037). Use it to name a key in a list of your keys.
func KeyID(public ed25519.PublicKey) string {
	return thumbprint(map[string]string{"kty": "OKP", "crv": "Ed25519", "x": publicX(public)})
}

// thumbprint hashes the members of a JSON Web Key that make it the key that it is.
func thumbprint(members map[string]string) string {
	text, _ := json.Marshal(members) // sorted by name, without white space; strings never fail
	sum := sha256.Sum256(text)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
