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
		key   crypto.Signer
		agent string
		o     Option
		want  string // "": no error
	}{
		{key, "https://bot.example.com", Draft, ""},
		{key, "https://Bot.example.com:443/", Cloudflare, ""},
		{key, "https://bot.example.com:", Cloudflare, ""},
		{&remote{Signer: key}, "https://bot.example.com", Draft, ""},
		{nil, "https://bot.example.com", Draft, "botauth: no key: ParseKey reads one"},
		{(*ed25519.PrivateKey)(nil), "https://bot.example.com", Draft, "botauth: no key: ParseKey reads one"},
		{(*ecdsa.PrivateKey)(nil), "https://bot.example.com", Draft, "botauth: no key: ParseKey reads one"},
		{&key, "https://bot.example.com", Draft, ""},
		{&ed25519.PrivateKey{1}, "https://bot.example.com", Draft, "botauth: an Ed25519 key of 1 bytes, instead of 64"},
		{other, "https://bot.example.com", Draft, "botauth: the public key is *ecdsa.PublicKey: Web Bot Auth needs Ed25519"},
		{ed25519.PrivateKey{1}, "https://bot.example.com", Draft, "botauth: an Ed25519 key of 1 bytes, instead of 64"},
		{key, "https://bot.example.com", Profile(7), "botauth: Profile(7): use Draft or Cloudflare"},
		{key, "https://bot.example.com", DirectoryMaxAge(0), ""},
		{key, "https://bot.example.com", DirectoryMaxAge(time.Millisecond), "botauth: DirectoryMaxAge: 1ms isn't between a second and 30 days"},
		{key, "https://bot.example.com", DirectoryMaxAge(1 << 62), "botauth: DirectoryMaxAge: 1281023h53m38.427387904s isn't between"},
		{key, "https://bot.example.com/keys", Draft, `botauth: agent "https://bot.example.com/keys" is not the origin of a key directory, such as "https://bot.example.com"`},
		{key, "http://bot.example.com", Draft, `botauth: agent "http://bot.example.com" is not`},
		{key, "bot.example.com", Draft, `botauth: agent "bot.example.com" is not`},
		{key, "https://u:p@bot.example.com", Draft, `botauth: agent "https://u:p@bot.example.com" is not`},
		{nil, "%", Draft, "botauth: no key: ParseKey reads one\nbotauth: agent: "},
	} {
		s, err := New(c.key, c.agent, c.o)
		switch {
		case c.want == "" && (err != nil || s.agent != "https://bot.example.com"):
			t.Errorf("%s: %v, %v", c.agent, s, err)
		case c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)):
			t.Errorf("%s: got %v, want %s", c.agent, err, c.want)
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
