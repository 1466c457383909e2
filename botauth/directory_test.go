package botauth_test

import (
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/botauth"
)

// ask asks h for the directory.
func ask(t *testing.T, h http.Handler, method string) *http.Response {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, "http://internal.example"+botauth.DirectoryPath, nil))
	return w.Result()
}

// TestDirectory: the directory has the public keys, signed by each of them for the agent's
// authority, whatever name a proxy has asked for.
func TestDirectory(t *testing.T) {
	_, next, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	second, err := botauth.New(botauth.Config{Key: next, Agent: "https://bot.example.com"})
	if err != nil {
		t.Fatal(err)
	}
	resp := ask(t, botauth.Directory(testSigner(t), second), http.MethodGet)
	if got, want := resp.Header.Get("Content-Type"), "application/http-message-signatures-directory+json"; got != want || resp.StatusCode != 200 {
		t.Errorf("%s, type %s", resp.Status, got)
	}
	var set struct {
		Keys []struct{ Kty, Crv, Kid, X, D, Use string }
	}
	text, _ := io.ReadAll(resp.Body)
	if err := json.Unmarshal(text, &set); err != nil {
		t.Fatal(err)
	}
	if len(set.Keys) != 2 || strings.Contains(string(text), `"d"`) || set.Keys[0].Kid != testKeyID || set.Keys[0].X != "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs" {
		t.Fatalf("got %s", text)
	}
	inputs := strings.Split(resp.Header.Get("Signature-Input"), ", ")
	signatures := strings.Split(resp.Header.Get("Signature"), ", ")
	if len(inputs) != 2 || len(signatures) != 2 {
		t.Fatalf("signed as %q, %q", inputs, signatures)
	}
	form := regexp.MustCompile(`^sig[12]=(\("@authority";req "content-digest"\);created=\d+;keyid="([^"]+)";alg="ed25519";expires=\d+;tag="http-message-signatures-directory")$`)
	for i, k := range set.Keys {
		m := form.FindStringSubmatch(inputs[i])
		if m == nil || m[2] != k.Kid {
			t.Fatalf("Signature-Input %s for key %s", inputs[i], k.Kid)
		}
		public, _ := base64.RawURLEncoding.DecodeString(k.X)
		signature, _ := base64.StdEncoding.DecodeString(strings.TrimSuffix(strings.TrimPrefix(signatures[i], fmt.Sprintf("sig%d=:", i+1)), ":"))
		sum := sha256.Sum256(text)
		digest := "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
		if resp.Header.Get("Content-Digest") != digest {
			t.Errorf("Content-Digest %s, want %s", resp.Header.Get("Content-Digest"), digest)
		}
		base := "\"@authority\";req: bot.example.com\n\"content-digest\": " + digest + "\n\"@signature-params\": " + m[1]
		if !ed25519.Verify(public, []byte(base), signature) {
			t.Errorf("the signature by key %s is wrong", k.Kid)
		}
	}
}

// TestDirectoryIsAskedOften: the keys sign once a minute, and a key that fails is told without them.
func TestDirectoryIsAskedOften(t *testing.T) {
	key, err := botauth.ParseKey([]byte(testKeyPEM))
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		service := &failing{Signer: crypto.Signer(key), left: 2}
		s, err := botauth.New(botauth.Config{Key: service, Agent: "https://bot.example.com"})
		if err != nil {
			t.Fatal(err)
		}
		h := botauth.Directory(s)
		var statuses []int
		for range 5 { // at 0, 40, 80, 120, 160 s
			for range 10 {
				statuses = append(statuses, ask(t, h, http.MethodGet).StatusCode)
			}
			time.Sleep(40 * time.Second)
		}
		if slices.Contains(statuses[:40], 503) || statuses[40] != 503 {
			t.Errorf("%v", statuses)
		}
	})
}

func TestDirectoryOfOtherMethods(t *testing.T) {
	h := botauth.Directory(testSigner(t))
	if resp := ask(t, h, http.MethodPost); resp.StatusCode != 405 || resp.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %s %v", resp.Status, resp.Header)
	}
	if resp := ask(t, h, http.MethodHead); resp.StatusCode != 200 || resp.Header.Get("Signature") == "" {
		t.Errorf("HEAD: %s %v", resp.Status, resp.Header)
	}
	defer func() {
		if recover() == nil {
			t.Error("a directory of no key")
		}
	}()
	botauth.Directory()
}

// TestDirectoryIsKept: for an hour, or as long as the signers say, and a verifier that has a copy is told
// that it is the same.
func TestDirectoryIsKept(t *testing.T) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	short, err := botauth.New(botauth.Config{Key: key, Agent: "https://bot.example.com", DirectoryMaxAge: 5 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	both := botauth.Directory(testSigner(t), short)
	first := ask(t, botauth.Directory(testSigner(t)), http.MethodGet)
	second := ask(t, both, http.MethodGet)
	if a, b := first.Header.Get("Cache-Control"), second.Header.Get("Cache-Control"); a != "max-age=3600" || b != "max-age=300" {
		t.Errorf("%q, %q", a, b)
	}
	tag := second.Header.Get("ETag")
	if tag == "" || tag == first.Header.Get("ETag") {
		t.Errorf("%q for other keys than %q", tag, first.Header.Get("ETag"))
	}
	for known, want := range map[string]int{tag: 304, `W/"x", W/` + tag: 304, "*": 304, `"x"`: 200, "": 200} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, botauth.DirectoryPath, nil)
		r.Header.Set("If-None-Match", known)
		w := httptest.NewRecorder()
		both.ServeHTTP(w, r)
		if w.Code != want || w.Header().Get("ETag") != tag || want == 304 && w.Body.Len() > 0 {
			t.Errorf("If-None-Match %s: %d, want %d", known, w.Code, want)
		}
	}
}

// TestNoCopyOutlivesItsSignature: a copy that may be kept is signed for longer than that, and the answer
// that it is still the same has a signature of its own, by which the copy is kept on.
func TestNoCopyOutlivesItsSignature(t *testing.T) {
	expires := regexp.MustCompile(`;expires=(\d+)`)
	for _, kept := range []time.Duration{time.Second, time.Hour, 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			key, err := botauth.ParseKey([]byte(testKeyPEM))
			if err != nil {
				t.Fatal(err)
			}
			signer, err := botauth.New(botauth.Config{Key: key, Agent: "https://bot.example.com", DirectoryMaxAge: kept})
			if err != nil {
				t.Fatal(err)
			}
			h := botauth.Directory(signer)
			known := ""
			for range 4 {
				r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, botauth.DirectoryPath, nil)
				r.Header.Set("If-None-Match", known)
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				known = w.Header().Get("ETag")
				m := expires.FindStringSubmatch(w.Header().Get("Signature-Input"))
				if m == nil || w.Header().Get("Signature") == "" || w.Header().Get("Content-Digest") == "" {
					t.Fatalf("kept for %v: status %d isn't signed: %v", kept, w.Code, w.Header())
				}
				if at, _ := strconv.ParseInt(m[1], 10, 64); time.Unix(at, 0).Before(time.Now().Add(2 * kept)) {
					t.Errorf("kept for %v: the signature of status %d holds for %v", kept, w.Code, time.Until(time.Unix(at, 0)))
				}
				time.Sleep(max(kept, 59*time.Second))
			}
		})
	}
}
