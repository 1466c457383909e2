package botauth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"strings"
	"testing"
	"time"
)

func TestParseKey(t *testing.T) {
	fromPEM, err := ParseKey([]byte(testKeyPEM))
	if err != nil {
		t.Fatal(err)
	}
	fromJWK, err := ParseKey([]byte("\n " + testKeyJWK))
	if err != nil || !fromPEM.Equal(fromJWK) {
		t.Fatalf("the key of PEM and that of the JSON Web Key differ: %v", err)
	}
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(other)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"":    `botauth: a key that is neither PEM nor a JSON Web Key: a file's content is wanted, and "openssl genpkey -algorithm ed25519" makes one`,
		"key": "botauth: a key that is neither PEM nor a JSON Web Key",
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})):       "botauth: a key of type *ecdsa.PrivateKey: Web Bot Auth needs Ed25519",
		string(pem.EncodeToMemory(&pem.Block{Type: "OPENSSH PRIVATE KEY"})):           `botauth: PEM of type "OPENSSH PRIVATE KEY" instead of "PRIVATE KEY": "openssl genpkey`,
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte{1}})): "botauth: asn1: ",
		"{":                             "botauth: JSON Web Key: ",
		`{"kty":"RSA"}`:                 `botauth: JSON Web Key with kty "RSA" and crv "": Web Bot Auth needs OKP and Ed25519`,
		`{"kty":"OKP","crv":"Ed25519"}`: "botauth: JSON Web Key without a private part (d) of 32 bytes",
		strings.Replace(testKeyJWK, `"x":"J`, `"x":"K`, 1): "botauth: JSON Web Key whose public part (x) isn't that of its private part (d)",
	} {
		if _, err := ParseKey([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.60q: got %v, want %s", text, err, want)
		}
	}
}

// remote is a key that is kept elsewhere.
type remote struct {
	crypto.Signer
	err error
}

func (r *remote) Sign(random io.Reader, digest []byte, o crypto.SignerOpts) ([]byte, error) {
	if r.err != nil {
		return nil, r.err
	}
	return r.Signer.Sign(random, digest, o)
}

func TestNewSaysWhatIsWrong(t *testing.T) {
	key, err := ParseKey([]byte(testKeyPEM))
	if err != nil {
		t.Fatal(err)
	}
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		cfg  Config
		want string // "": no error
	}{
		{Config{Key: key, Agent: "https://bot.example.com"}, ""},
		{Config{Key: key, Agent: "https://Bot.example.com:443/", Profile: Cloudflare}, ""},
		{Config{Key: key, Agent: "https://bot.example.com:", Profile: Cloudflare}, ""},
		{Config{Key: &remote{Signer: key}, Agent: "https://bot.example.com"}, ""},
		{Config{Agent: "https://bot.example.com"}, "botauth: no key: ParseKey reads one"},
		{Config{Key: (*ed25519.PrivateKey)(nil), Agent: "https://bot.example.com"}, "botauth: no key: ParseKey reads one"},
		{Config{Key: (*ecdsa.PrivateKey)(nil), Agent: "https://bot.example.com"}, "botauth: no key: ParseKey reads one"},
		{Config{Key: &key, Agent: "https://bot.example.com"}, ""},
		{Config{Key: &ed25519.PrivateKey{1}, Agent: "https://bot.example.com"}, "botauth: an Ed25519 key of 1 bytes, instead of 64"},
		{Config{Key: other, Agent: "https://bot.example.com"}, "botauth: the public key is *ecdsa.PublicKey: Web Bot Auth needs Ed25519"},
		{Config{Key: ed25519.PrivateKey{1}, Agent: "https://bot.example.com"}, "botauth: an Ed25519 key of 1 bytes, instead of 64"},
		{Config{Key: key, Agent: "https://bot.example.com", Profile: Profile(7)}, "botauth: Profile(7): use Draft or Cloudflare"},
		{Config{Key: key, Agent: "https://bot.example.com"}, ""},
		{Config{Key: key, Agent: "https://bot.example.com", DirectoryMaxAge: time.Millisecond}, "botauth: DirectoryMaxAge: 1ms isn't between a second and 30 days"},
		{Config{Key: key, Agent: "https://bot.example.com", DirectoryMaxAge: 1 << 62}, "botauth: DirectoryMaxAge: 1281023h53m38.427387904s isn't between"},
		{Config{Key: key, Agent: "https://bot.example.com/keys"}, `botauth: agent "https://bot.example.com/keys" is not the origin of a key directory, such as "https://bot.example.com"`},
		{Config{Key: key, Agent: "http://bot.example.com"}, `botauth: agent "http://bot.example.com" is not`},
		{Config{Key: key, Agent: "bot.example.com"}, `botauth: agent "bot.example.com" is not`},
		{Config{Key: key, Agent: "https://u:p@bot.example.com"}, `botauth: agent "https://u:p@bot.example.com" is not`},
		{Config{Agent: "%"}, "botauth: no key: ParseKey reads one\nbotauth: agent: "},
	} {
		s, err := New(c.cfg)
		switch {
		case c.want == "" && (err != nil || s.agent != "https://bot.example.com"):
			t.Errorf("%s: %v, %v", c.cfg.Agent, s, err)
		case c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)):
			t.Errorf("%s: got %v, want %s", c.cfg.Agent, err, c.want)
		}
	}
}

// FuzzParseKey: no input makes ParseKey panic, and a key that it returns has the id of its JSON Web
// Key.
func FuzzParseKey(f *testing.F) {
	for _, s := range []string{testKeyPEM, testKeyJWK, "{}", `{"kty":"OKP","crv":"Ed25519","d":"AAAA"}`, "-----BEGIN PRIVATE KEY-----\n\n-----END PRIVATE KEY-----"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		key, err := ParseKey(data)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "botauth: ") {
				t.Errorf("%q: %v", data, err)
			}
			return
		}
		again, err := json.Marshal(jwk{Kty: "OKP", Crv: "Ed25519", D: base64.RawURLEncoding.EncodeToString(key.Seed())})
		if err != nil {
			t.Fatal(err)
		}
		same, err := ParseKey(again)
		if err != nil || !same.Equal(key) || KeyID(same.Public().(ed25519.PublicKey)) != publicJWK(key.Public().(ed25519.PublicKey)).Kid {
			t.Errorf("%q: %v", data, err)
		}
	})
}
