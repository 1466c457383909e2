package botauth_test

import (
	"crypto"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-politeness/politeness/botauth"
)

// A keyThatPanics does so when it signs for the first time.
type keyThatPanics struct {
	crypto.Signer
	calls *int
}

func (k keyThatPanics) Sign(random io.Reader, digest []byte, o crypto.SignerOpts) ([]byte, error) {
	if *k.calls++; *k.calls == 1 {
		panic("boom")
	}
	return k.Signer.Sign(random, digest, o)
}

// TestAKeyThatPanics, or a base, panics in RoundTrip, and no lock is held: the next request goes on.
func TestAKeyThatPanics(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	key, err := botauth.ParseKey([]byte(testKeyPEM))
	if err != nil {
		t.Fatal(err)
	}
	calls, baseCalls := 0, 0
	for name, base := range map[string]http.RoundTripper{
		"key": server.Client().Transport,
		"base": roundTripper(func(req *http.Request) (*http.Response, error) {
			if baseCalls++; baseCalls == 1 {
				panic("boom")
			}
			return server.Client().Transport.RoundTrip(req)
		}),
	} {
		calls = 0
		if name == "base" {
			calls = 1 // the key doesn't panic
		}
		signer, err := botauth.New(botauth.Config{Key: keyThatPanics{key, &calls}, Agent: "https://bot.example.com"})
		if err != nil {
			t.Fatal(err)
		}
		rt := signer.Transport(base)
		get := func() (status int, thrown any) {
			defer func() { thrown = recover() }()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := rt.RoundTrip(req)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return 0, nil
			}
			resp.Body.Close()
			return resp.StatusCode, nil
		}
		if _, p := get(); p != "boom" {
			t.Errorf("%s: panic %v", name, p)
		}
		for range 2 {
			if status, p := get(); p != nil || status != 200 {
				t.Errorf("%s: afterwards: status %d, panic %v", name, status, p)
			}
		}
	}
}
