package botauth

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"
)

// testKey is test-key-ed25519 of RFC 9421, appendix B.1.4, in PEM and as a JSON Web Key.
const (
	testKeyPEM = `-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIJ+DYvh6SEqVTm50DFtMDoQikTmiCqirVv9mWG9qfSnF
-----END PRIVATE KEY-----
`
	testKeyJWK = `{"kty":"OKP","crv":"Ed25519","kid":"test-key-ed25519","d":"n4Ni-HpISpVObnQMW0wOhCKROaIKqKtW_2ZYb2p9KcU","x":"JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs"}`
)

func testSigner(t testing.TB, agent string, profile Profile) *Signer {
	t.Helper()
	key, err := ParseKey([]byte(testKeyPEM))
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{Key: key, Agent: agent, Profile: profile})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestCloudflareVectors holds signatures against the four vectors for Ed25519 of
// cloudflare/web-bot-auth (at 19fd120), byte for byte.
func TestCloudflareVectors(t *testing.T) {
	count := 0
	for _, file := range []string{"testdata/web_bot_auth_architecture_v1.json", "testdata/web_bot_auth_architecture_v2.json"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var vectors []struct {
			Key               json.RawMessage
			TargetURL         string `json:"target_url"`
			CreatedMS         int64  `json:"created_ms"`
			ExpiresMS         int64  `json:"expires_ms"`
			Nonce, Label      string
			Signature         string
			SignatureInput    string `json:"signature_input"`
			SignatureAgent    string `json:"signature_agent"`
			SignatureAgentKey string `json:"signature_agent_key"`
		}
		if err := json.Unmarshal(text, &vectors); err != nil {
			t.Fatal(err)
		}
		for _, v := range vectors {
			count++
			key, err := ParseKey(v.Key)
			if err != nil {
				t.Fatal(err)
			}
			s, err := New(Config{Key: key, Agent: "https://signature-agent.test"})
			if err != nil {
				t.Fatal(err)
			}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, v.TargetURL, nil)
			if err != nil {
				t.Fatal(err)
			}
			d := demand{label: v.Label, components: []component{{name: "@authority"}}}
			if v.SignatureAgent != "" {
				d.components = append(d.components, component{signatureAgent, v.SignatureAgentKey})
				if got := s.agentField(&d); got != v.SignatureAgent {
					t.Errorf("Signature-Agent: got %s, want %s", got, v.SignatureAgent)
				}
			}
			created := time.UnixMilli(v.CreatedMS)
			in, err := signatureInput(req, d.components, s.agent, s.params(created, time.UnixMilli(v.ExpiresMS).Sub(created), v.Nonce, tag))
			if err != nil {
				t.Fatal(err)
			}
			signature, err := s.signText(in)
			if err != nil {
				t.Fatal(err)
			}
			if got := v.Label + "=" + in.params; got != v.SignatureInput {
				t.Errorf("Signature-Input:\n got %s\nwant %s", got, v.SignatureInput)
			}
			if got := v.Label + "=:" + signature + ":"; got != v.Signature {
				t.Errorf("Signature:\n got %s\nwant %s", got, v.Signature)
			}
		}
	}
	if count != 4 {
		t.Errorf("%d vectors, want 4", count)
	}
}

// TestRFC9421B26 holds the text that is signed, and its signature, against RFC 9421, appendix B.2.6.
func TestRFC9421B26(t *testing.T) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://example.com/foo?param=Value&Pet=dog", strings.NewReader(`{"hello": "world"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Date", "Tue, 20 Apr 2021 02:07:55 GMT")
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Content-Length", "18")
	var components []component
	for _, name := range []string{"date", "@method", "@path", "@authority", "content-type", "content-length"} {
		components = append(components, component{name: name})
	}
	in, err := signatureInput(req, components, "", `;created=1618884473;keyid="test-key-ed25519"`)
	if err != nil {
		t.Fatal(err)
	}
	const base = `"date": Tue, 20 Apr 2021 02:07:55 GMT
"@method": POST
"@path": /foo
"@authority": example.com
"content-type": application/json
"content-length": 18
"@signature-params": ("date" "@method" "@path" "@authority" "content-type" "content-length");created=1618884473;keyid="test-key-ed25519"`
	if in.base != base {
		t.Errorf("got\n%s\nwant\n%s", in.base, base)
	}
	signature, err := testSigner(t, "https://bot.example.com", Draft).signText(in)
	const want = "wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw=="
	if err != nil || signature != want {
		t.Errorf("got %s, %v; want %s", signature, err, want)
	}
}

// TestThumbprints holds key ids against RFC 7638, section 3.1, and RFC 8037, appendix A.3.
func TestThumbprints(t *testing.T) {
	rsa := map[string]string{
		"kty": "RSA", "e": "AQAB",
		"n": "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W" +
			"-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt" +
			"-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw",
	}
	if got, want := thumbprint(rsa), "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"; got != want {
		t.Errorf("RFC 7638: got %s, want %s", got, want)
	}
	rfc8037, err := ParseKey([]byte(`{"kty":"OKP","crv":"Ed25519","d":"nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}`))
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{Key: rfc8037, Agent: "https://bot.example.com"})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := s.KeyID(), "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"; got != want {
		t.Errorf("RFC 8037: got %s, want %s", got, want)
	}
}

// TestComponents holds the values of components against the examples of RFC 9421, section 2.2.
func TestComponents(t *testing.T) {
	request := func(method, rawURL string) *http.Request {
		u, err := url.Parse(rawURL)
		if err != nil {
			t.Fatal(err)
		}
		return &http.Request{Method: method, URL: u, Header: http.Header{"X-List": {" a ", "b\t"}, "X-Folded": {"a\n b"}}}
	}
	for _, c := range []struct {
		req        *http.Request
		name, want string // "-": there is none
	}{
		{request("POST", "https://www.example.com/path?param=value"), "@method", "POST"},
		{request("", "https://www.example.com/"), "@method", "GET"},
		{request("GET", "https://www.example.com/path?param=value"), "@target-uri", "https://www.example.com/path?param=value"},
		{request("GET", "https://WWW.Example.com:443/"), "@authority", "www.example.com"},
		{request("GET", "https://example.com:8443/"), "@authority", "example.com:8443"},
		{request("GET", "https://bücher.example/"), "@authority", "xn--bcher-kva.example"},
		{request("GET", "https://[2001:DB8::1]/"), "@authority", "[2001:db8::1]"},
		{request("GET", "https://www.example.com/path?param=value"), "@scheme", "https"},
		{request("GET", "https://www.example.com/path?param=value"), "@request-target", "/path?param=value"},
		{request("GET", "https://www.example.com/path?param=value"), "@path", "/path"},
		{request("GET", "https://www.example.com"), "@path", "/"},
		{request("GET", "https://www.example.com/a%2fb"), "@path", "/a%2fb"},
		{request("GET", "https://www.example.com/path?param=value&foo=bar&baz=bat%2Dman"), "@query", "?param=value&foo=bar&baz=bat%2Dman"},
		{request("GET", "https://www.example.com/path"), "@query", "?"},
		{request("GET", "https://www.example.com/path"), "@status", "-"},
		{request("GET", "https://www.example.com/path"), "@query-param", "-"},
		{request("GET", "https://www.example.com/path"), "x-list", "a, b"},
		{request("GET", "https://www.example.com/path"), "x-folded", "-"},
		{request("GET", "https://www.example.com/path"), "x-none", "-"},
		{&http.Request{URL: &url.URL{Scheme: "https", Opaque: "//h/p"}, Host: "h"}, "@path", "-"},
		{&http.Request{URL: &url.URL{Scheme: "https", Host: "a.example", Path: "/"}, Host: "b.example"}, "@authority", "b.example"},
	} {
		got, ok := valueOf(c.req, c.name)
		if !ok {
			got = "-"
		}
		if got != c.want {
			t.Errorf("%s of %v: got %q, want %q", c.name, c.req.URL, got, c.want)
		}
	}
}

// fixed is a time of signatures that are made without a clock.
var fixed = time.Unix(1735689600, 0)
