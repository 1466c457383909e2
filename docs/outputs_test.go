package docs

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"golang.org/x/mod/sumdb/note"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/botauth"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/evidence/audit/bundle"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/overrides"
	"github.com/go-politeness/politeness/internal/logtest"
	"github.com/go-politeness/politeness/politenesstest"
	"github.com/go-politeness/politeness/robots"
)

// after returns the block of text that follows the words in a guide.
func after(t *testing.T, guide, words string) string {
	t.Helper()
	text, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), words)
	block := textFence.FindStringSubmatch(rest)
	if !ok || block == nil {
		t.Fatalf("%s has no text after %q", guide, words)
	}
	return block[1]
}

// TestLint: robots.md prints what Lint finds.
func TestLint(t *testing.T) {
	text, err := os.ReadFile("robots.md")
	if err != nil {
		t.Fatal(err)
	}
	const shown = `file := robots\.Parse\(\[\]byte\((".*")\)\)\n` +
		`for _, finding := range file\.Lint\(\)`
	call := regexp.MustCompile(shown).FindSubmatch(text)
	if call == nil {
		t.Fatal("robots.md doesn't call Lint")
	}
	code, err := strconv.Unquote(string(call[1]))
	if err != nil {
		t.Fatal(err)
	}
	var found strings.Builder
	for _, finding := range robots.Parse([]byte(code)).Lint() {
		found.WriteString(finding.String() + "\n")
	}
	if want := after(t, "robots.md", "file.Lint()"); found.String() != want {
		t.Errorf("robots.md says\n%s\nand Lint\n%s", want, &found)
	}
}

// TestFilesOfHosts: the two files of steering.md are such files.
func TestFilesOfHosts(t *testing.T) {
	refused, limits, ok := strings.Cut(after(t, "steering.md", "`refuse.txt` has the hosts"), "\n# hosts.txt\n")
	if !ok {
		t.Fatal("steering.md shows no hosts.txt")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"refuse.txt": refused, "hosts.txt": limits} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := politeness.RefuseHosts(filepath.Join(dir, "refuse.txt")); err != nil {
		t.Error(err)
	}
	file, err := overrides.Read(filepath.Join(dir, "hosts.txt"), hostlimit.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := file.Limits("slow.example.edu"); !ok || got.Concurrency != 1 {
		t.Errorf("limits of slow.example.edu: %+v", got)
	}
}

// has reports whether this machine has a program as Linux has it: macOS has another openssl.
func has(t *testing.T, program string) bool {
	t.Helper()
	_, err := exec.LookPath(program)
	if err != nil {
		t.Log(err)
	}
	return err == nil && runtime.GOOS == "linux"
}

// TestKey: the command of identity.md makes a key that botauth reads.
func TestKey(t *testing.T) {
	text, err := os.ReadFile("identity.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?ms)^```sh\n(openssl .*?)\n```").FindSubmatch(text)
	if block == nil {
		t.Fatal("identity.md shows no openssl")
	}
	if !has(t, "openssl") {
		return
	}
	dir := t.TempDir()
	command := strings.Fields(string(block[1]))
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	pem, err := os.ReadFile(filepath.Join(dir, command[len(command)-1]))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := botauth.ParseKey(pem); err != nil {
		t.Error(err)
	}
}

// signedLog returns the log of a crawl of two sites.
func signedLog(t *testing.T, sign evidence.SignConfig) []byte {
	t.Helper()
	var log bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		signed := logtest.New(t, &log, evidence.LogConfig{Signed: &sign})
		web := politenesstest.NewWeb()
		web.Site("https://example.com").Page("/", "a page")
		web.Site("https://example.org").Page("/", "a page")
		transport, err := politeness.New(politeness.Config{
			UserAgent: "ExampleBot/1.0 (bot@example.com)",
			Base:      web,
			Evidence:  signed,
		})
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: transport}
		for i := range 40 {
			resp, err := client.Get([]string{"https://example.com/", "https://example.org/"}[i%2])
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		if err := signed.Close(); err != nil {
			t.Fatal(err)
		}
	})
	return log.Bytes()
}

// TestVerifyABundle: the program of proof-reference.md and OpenSSL verify a bundle, and notice a line
// that was changed.
func TestVerifyABundle(t *testing.T) {
	if !has(t, "openssl") || !has(t, "python3") {
		return // evidence/audit/bundle has the same check in Go
	}
	const origin = "example.com/crawler"
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := note.NewEd25519VerifierKey(origin, public)
	if err != nil {
		t.Fatal(err)
	}
	log := signedLog(t, evidence.SignConfig{Key: private, Origin: origin})
	var site bytes.Buffer
	_, err = bundle.Extract(&site, bytes.NewReader(log), audit.Trust{Key: verifier}, "example.com")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name string, text []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("verify.py", []byte(after(t, "proof-reference.md", "compute the root")))
	write("example.com.bundle", site.Bytes())
	commands := after(t, "proof-reference.md", `open("key.der", "wb")`)
	lines := strings.Split(strings.TrimSpace(commands), "\n") // a command and what it prints, twice
	if len(lines) != 4 {
		t.Fatalf("proof-reference.md shows\n%s", commands)
	}
	run := func(line string) (string, error) {
		args := strings.Fields(strings.TrimPrefix(line, "$ "))
		for i, arg := range args {
			if strings.HasPrefix(arg, `"`+origin) {
				args[i] = verifier
			}
		}
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	verified := regexp.MustCompile(`^\d+ lines, root [A-Za-z0-9+/]{43}=\n$`)
	if out, err := run(lines[0]); err != nil || !verified.MatchString(out) {
		t.Fatalf("%s: %v\n%s", lines[0], err, out)
	}
	if out, err := run(lines[2]); err != nil || strings.TrimSpace(out) != lines[3] {
		t.Errorf("%s: %v\n%s", lines[2], err, out)
	}
	write("example.com.bundle", bytes.Replace(site.Bytes(), []byte(`"status":200`), []byte(`"status":201`), 1))
	if out, err := run(lines[0]); err == nil || !strings.Contains(out, "not in the log") {
		t.Errorf("a line was changed: %v\n%s", err, out)
	}
}
