package botauth_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/botauth"
)

const testKeyPEM = `-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIJ+DYvh6SEqVTm50DFtMDoQikTmiCqirVv9mWG9qfSnF
-----END PRIVATE KEY-----
`

// testKeyID is the thumbprint of that key, as cloudflare/web-bot-auth has it.
const testKeyID = "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U"

var testPublic = func() ed25519.PublicKey {
	x, err := base64.RawURLEncoding.DecodeString("JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs")
	if err != nil {
		panic(err)
	}
	return x
}()

func testSigner(t testing.TB) *botauth.Signer {
	t.Helper()
	return signerOf(t, botauth.Draft)
}

func signerOf(t testing.TB, profile botauth.Profile) *botauth.Signer {
	t.Helper()
	key, err := botauth.ParseKey([]byte(testKeyPEM))
	if err != nil {
		t.Fatal(err)
	}
	s, err := botauth.New(botauth.Config{Key: key, Agent: "https://bot.example.com", Profile: profile})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var inputs = regexp.MustCompile(`^([a-z0-9*_.-]+)=(\(([^)]*)\);created=(\d+);keyid="([^"]*)";alg="ed25519";expires=(\d+);nonce="([^"]*)";tag="web-bot-auth")$`)

// A checked is what verify has found in a request that came to a server.
type checked struct {
	created time.Time
	nonce   string
	covers  string
}

// verify checks the signature of a request, by the text of RFC 9421 alone.
func verify(r *http.Request) (c checked, err error) {
	for _, name := range []string{"Signature", "Signature-Input", "Signature-Agent"} {
		if n := len(r.Header[name]); n != 1 {
			return c, fmt.Errorf("%d lines of %s", n, name)
		}
	}
	m := inputs.FindStringSubmatch(r.Header.Get("Signature-Input"))
	if m == nil {
		return c, fmt.Errorf("Signature-Input: %s", r.Header.Get("Signature-Input"))
	}
	label, params, covers, keyID := m[1], m[2], m[3], m[5]
	created, _ := strconv.ParseInt(m[4], 10, 64)
	expires, _ := strconv.ParseInt(m[6], 10, 64)
	c = checked{time.Unix(created, 0), m[7], covers}
	if random, err := base64.StdEncoding.DecodeString(c.nonce); err != nil || len(random) != 64 {
		return c, fmt.Errorf("nonce %q", c.nonce)
	}
	if keyID != testKeyID || expires-created != 60 {
		return c, fmt.Errorf("keyid %s, %d seconds", keyID, expires-created)
	}
	var base strings.Builder
	for id := range strings.SplitSeq(covers, " ") {
		value := ""
		switch id {
		case `"@authority"`:
			value = strings.ToLower(r.Host)
		case `"@path"`:
			value = r.URL.EscapedPath()
		case `"@method"`:
			value = r.Method
		case `"signature-agent"`:
			value = r.Header.Get("Signature-Agent")
		case `"signature-agent";key="` + label + `"`:
			value = strings.TrimPrefix(r.Header.Get("Signature-Agent"), label+"=")
		default:
			return c, fmt.Errorf("covers %s", id)
		}
		fmt.Fprintf(&base, "%s: %s\n", id, value)
	}
	base.WriteString(`"@signature-params": ` + params)
	signature, ok := strings.CutPrefix(r.Header.Get("Signature"), label+"=:")
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(signature, ":"))
	if !ok || err != nil || !ed25519.Verify(testPublic, []byte(base.String()), raw) {
		return c, errors.New("the signature is wrong")
	}
	if !strings.HasSuffix(r.Header.Get("Signature-Agent"), `"https://bot.example.com"`) {
		return c, fmt.Errorf("Signature-Agent: %s", r.Header.Get("Signature-Agent"))
	}
	return c, nil
}
