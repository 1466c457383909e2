package botauth

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/go-politeness/politeness/internal/sfv"
)

// demanded returns what an answer with the given Accept-Signature makes of a signature: its label,
// components and nonce; "" where nothing.
func demanded(t testing.TB, s *Signer, status int, lines ...string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.com/a?b", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("User-Agent", "ExampleBot/1.0")
	sent := s.standard()
	d, ok := s.accept(&http.Response{StatusCode: status, Header: http.Header{"Accept-Signature": lines}}, req, &sent)
	if !ok {
		return ""
	}
	text := d.label + "="
	for _, c := range d.components {
		text += " " + c.String()
	}
	if d.nonce != "" {
		text += " nonce " + d.nonce
	}
	return text
}

func TestAcceptSignature(t *testing.T) {
	draft := testSigner(t, "https://bot.example.com", Draft)
	cloudflare := testSigner(t, "https://bot.example.com", Cloudflare)
	for _, c := range []struct {
		s      *Signer
		status int
		line   string
		want   string
	}{
		{draft, 401, `sig2=("@authority" "@path" "signature-agent";key="sig2");tag="web-bot-auth"`, `sig2= "@authority" "@path" "signature-agent";key="sig2"`},
		{draft, 403, `s=("@method");created;expires`, `s= "@method" "@authority" "signature-agent";key="sig1"`},
		{cloudflare, 403, `s=("@method")`, `s= "@method" "@authority" "signature-agent"`},
		{draft, 401, `s=("@target-uri" "user-agent" "signature-agent")`, `s= "@target-uri" "user-agent" "signature-agent"`},
		// What was sent already isn't sent again, unless it is for a nonce.
		{draft, 401, `sig1=("@authority" "signature-agent";key="sig1")`, ""},
		{draft, 401, `sig1=()`, ""},
		{cloudflare, 401, `any=("@authority" "signature-agent");alg="ed25519"`, ""},
		{draft, 401, `sig1=("@authority" "signature-agent";key="sig1");nonce="abc"`, `sig1= "@authority" "signature-agent";key="sig1" nonce abc`},
		{draft, 401, `sig1=("@authority" "signature-agent");tag="web-bot-auth"`, `sig1= "@authority" "signature-agent"`}, // the other profile
		// The first that can be met.
		{draft, 401, `a=("@status"), b=("@path");tag="other", c=("@path");alg="rsa-pss-sha512", d=("@path");keyid="x", e=("@query")`, `e= "@query" "@authority" "signature-agent";key="sig1"`},
		{draft, 401, fmt.Sprintf(`a=("@path");keyid=%q;tag="web-bot-auth";future=1`, draft.KeyID()), `a= "@path" "@authority" "signature-agent";key="sig1"`},
		// What can't be met, or read.
		{draft, 401, `a=("x-none")`, ""},
		{draft, 401, `a=("@path" "@path")`, ""},
		{draft, 401, `a=("Date")`, ""},
		{draft, 401, `a=(path)`, ""},
		{draft, 401, `a=("@path";req)`, ""},
		{draft, 401, `a=("user-agent";key="x")`, ""},
		{draft, 401, `a=("signature-agent";key="A b")`, ""},
		{draft, 401, `a=("signature-agent";key=1)`, ""},
		{draft, 401, `a="@path"`, ""},
		{draft, 401, `a=("@path");nonce=1`, ""},
		{draft, 401, `a=("@path");nonce="` + strings.Repeat("x", 300) + `"`, ""},
		{draft, 401, `a=(` + strings.Repeat(`"@path" `, 17) + `)`, ""},
		{draft, 401, `a=("@path"`, ""},
		{draft, 401, `a=("@path"), b="` + strings.Repeat("x", 8<<10) + `"`, ""},
		// Signature-Agent is one text, or one member of a dictionary, but not both.
		{draft, 401, `a=("signature-agent" "signature-agent";key="a")`, ""},
		{draft, 401, `a=("signature-agent";key="a" "signature-agent";key="b")`, ""},
		// Any other answer.
		{draft, 200, `a=("@path")`, ""},
		{draft, 404, `a=("@path")`, ""},
	} {
		if got := demanded(t, c.s, c.status, c.line); got != c.want {
			t.Errorf("%d %s:\n got %s\nwant %s", c.status, c.line, got, c.want)
		}
	}
	if got := demanded(t, draft, 401, `a=("@status")`, `b=("@path")`); !strings.HasPrefix(got, "b=") {
		t.Errorf("of two lines: %s", got)
	}
}

// TestCoversWhatIsSent: net/http sends some fields in its own words, whatever the header has.
func TestCoversWhatIsSent(t *testing.T) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.com/", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{
		"Host": {"other.example"}, "Content-Length": {"7"}, "Transfer-Encoding": {"chunked"}, "Trailer": {"X"},
		"User-Agent": {"ExampleBot/1.0", "Second/1.0"}, "Accept": {"text/html", " */* "},
	}
	for name, want := range map[string]string{
		"host": "", "content-length": "", "transfer-encoding": "", "trailer": "",
		"user-agent": "ExampleBot/1.0", "accept": "text/html, */*",
	} {
		ok := has(req, &demand{components: []component{{name: name}}})
		if got, _ := valueOf(req, name); ok && got != want || ok != (want != "") {
			t.Errorf("%s: %q, %v", name, got, ok)
		}
	}
}

// FuzzAcceptSignature: whatever a site asks for, the signature that answers it can be read again as
// what was asked, covers where the request goes and who sends it, and holds no line end.
func FuzzAcceptSignature(f *testing.F) {
	for _, line := range []string{
		`sig2=("@authority" "@path" "signature-agent";key="sig2");tag="web-bot-auth"`, `s=("@method");nonce="\"\\"`, `a=("user-agent" "signature-agent")`,
		`a=()`, `*=("@query")`, `a=("signature-agent";key="*")`, "a=(\"\x7f\")",
	} {
		f.Add(line)
	}
	s := testSigner(f, "https://bot.example.com", Draft)
	f.Fuzz(func(t *testing.T, line string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.com/a?b", nil)
		if err != nil {
			t.Fatal(err)
		}
		sent := s.standard()
		d, ok := s.accept(&http.Response{StatusCode: 401, Header: http.Header{"Accept-Signature": {line}}}, req, &sent)
		if !ok {
			return
		}
		if err := s.sign(req, &d, fixed); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		for _, name := range []string{"Signature-Agent", "Signature-Input", "Signature"} {
			if strings.ContainsFunc(req.Header.Get(name), func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Errorf("%q: %s: %q", line, name, req.Header.Get(name))
			}
		}
		input, err := sfv.ParseDictionary(req.Header.Get("Signature-Input"))
		if err != nil || len(input) != 1 || input[0].Key != d.label {
			t.Fatalf("%q: %q: %v", line, req.Header.Get("Signature-Input"), err)
		}
		covers := map[string]bool{}
		for _, item := range input[0].Value.([]sfv.Item) {
			covers[item.Value.(string)] = true
		}
		if !covers["@authority"] && !covers["@target-uri"] || !covers["signature-agent"] {
			t.Errorf("%q: covers %v", line, covers)
		}
		if nonce, _ := input[0].Params.Get("nonce"); d.nonce != "" && nonce.Value != d.nonce {
			t.Errorf("%q: nonce %q", line, nonce.Value)
		}
	})
}
