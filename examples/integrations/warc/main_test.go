package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha1"
	"crypto/tls"
	"crypto/x509"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slyrz/warc"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/localsite"
)

// TestArchive crawls a site, and reads the files with a parser that shares nothing with the library
// that wrote them: they have each request that the site saw, and each answer as the site gave it.
func TestArchive(t *testing.T) {
	for name, start := range map[string]func(t testing.TB, delay time.Duration) *localsite.Site{"http": localsite.New, "https": localsite.NewTLS} {
		t.Run(name, func(t *testing.T) {
			s := start(t, 0)
			packed := bytes.Repeat([]byte("packed "), 1000)
			s.Handle("/a", func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Encoding", "gzip")
				z := gzip.NewWriter(w)
				_, _ = z.Write(packed)
				_ = z.Close() // to a ResponseWriter
			})
			s.Handle("/c", func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Link", "</style.css>; rel=preload")
				w.WriteHeader(http.StatusEarlyHints)
				w.WriteHeader(http.StatusEarlyHints) // any number may come
				_, _ = io.WriteString(w, "hinted")
			})
			s.Handle("/b", func(w http.ResponseWriter, _ *http.Request) {
				for range 3 {
					_, _ = io.WriteString(w, "piece ")
					_ = http.NewResponseController(w).Flush() // so it comes in chunks
				}
			})
			if name == "https" {
				base := http.DefaultTransport
				t.Cleanup(func() { http.DefaultTransport = base })
				http.DefaultTransport = trusting(t, s.Certificate)
			}
			dir := t.TempDir()
			var out bytes.Buffer
			if err := run(t.Context(), &out, dir, hostlimit.Delay{Min: 10 * time.Millisecond}, []string{s.URL + "/"}); err != nil {
				t.Fatalf("%v\n%s", err, &out)
			}
			if found := s.Violations(); found != nil {
				t.Error(found)
			}

			requests, responses := read(t, dir)
			var saw, kept []string
			for _, v := range s.Visits() {
				saw = append(saw, v.Method+" "+v.Target+" "+v.Header.Get("User-Agent"))
			}
			for _, r := range requests {
				req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(r.block)))
				if err != nil {
					t.Fatalf("%v\n%s", err, r.block)
				}
				if want := s.URL + req.URL.String(); r.uri != want {
					t.Errorf("the request for %s stands under %s", want, r.uri)
				}
				kept = append(kept, req.Method+" "+req.URL.String()+" "+req.UserAgent())
			}
			slices.Sort(saw)
			slices.Sort(kept)
			if !slices.Equal(saw, kept) {
				t.Errorf("the site saw\n%s\nand the archive has\n%s", strings.Join(saw, "\n"), strings.Join(kept, "\n"))
			}
			statuses := map[string]string{}
			for _, r := range responses {
				resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(r.block)), nil)
				if err != nil {
					t.Fatalf("%v\n%s", err, r.block)
				}
				body, err := io.ReadAll(resp.Body)
				if err != nil {
					t.Errorf("%s: %v", r.uri, err)
				}
				if resp.Header.Get("Date") == "" {
					t.Errorf("%s: no final answer in %q", r.uri, r.block)
				}
				path := strings.TrimPrefix(r.uri, s.URL)
				statuses[path] += " " + resp.Status[:3]
				switch path {
				case "/a": // as it was sent: still packed
					z, err := gzip.NewReader(bytes.NewReader(body))
					if err != nil {
						t.Fatal(err)
					}
					if text, err := io.ReadAll(z); err != nil || !bytes.Equal(text, packed) {
						t.Errorf("%d bytes, %v", len(text), err)
					}
				case "/b":
					if string(body) != "piece piece piece " || !bytes.Contains(r.block, []byte("\r\n6\r\npiece \r\n")) {
						t.Errorf("no chunks: %q", r.block)
					}
				}
			}
			if statuses["/c"] != " 200" || statuses["/busy"] != " 429 200" || statuses["/moved"] != " 301" || statuses["/robots.txt"] != " 200" || statuses["/private/diary"] != "" {
				t.Errorf("%v", statuses)
			}
		})
	}
}

// A record is one of a WARC file.
type record struct {
	uri   string
	block []byte
}

// read reads all files of a directory with a foreign parser, and checks what the standard says of
// each record.
func read(t *testing.T, dir string) (requests, responses []record) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.warc.gz"))
	if err != nil || len(names) == 0 {
		t.Fatalf("%v, %v", names, err)
	}
	infos := 0
	for _, name := range names {
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		reader, err := warc.NewReader(file)
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		for {
			r, err := reader.ReadRecord()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			block, err := io.ReadAll(r.Content)
			if err != nil {
				t.Fatal(err)
			}
			checkDigest(t, r.Header.Get("warc-block-digest"), block)
			if _, err := time.Parse(time.RFC3339, r.Header.Get("warc-date")); err != nil || !strings.HasPrefix(r.Header.Get("warc-record-id"), "<urn:uuid:") {
				t.Errorf("%v", r.Header)
			}
			switch r.Header.Get("warc-type") {
			case "warcinfo":
				infos++
				continue
			case "request":
				requests = append(requests, record{r.Header.Get("warc-target-uri"), block})
			case "response":
				responses = append(responses, record{r.Header.Get("warc-target-uri"), block})
			default:
				t.Errorf("%v", r.Header)
			}
			if r.Header.Get("warc-ip-address") != "127.0.0.1" || r.Header.Get("warc-concurrent-to") == "" || r.Header.Get("warc-truncated") != "" {
				t.Errorf("%v", r.Header)
			}
		}
	}
	if infos != len(names) {
		t.Errorf("%d files begin with %d descriptions", len(names), infos)
	}
	return requests, responses
}

// checkDigest recomputes a digest, whichever way it is written.
func checkDigest(t *testing.T, digest string, block []byte) {
	t.Helper()
	sum := sha1.Sum(block) //nolint:gosec // which WARC files use
	algorithm, text, _ := strings.Cut(digest, ":")
	if algorithm != "sha1" || !strings.EqualFold(text, hex.EncodeToString(sum[:])) && text != base32.StdEncoding.EncodeToString(sum[:]) {
		t.Errorf("%s isn't the digest of %d bytes", digest, len(block))
	}
}

// trusting returns a transport that trusts a certificate.
func trusting(t *testing.T, certificate string) *http.Transport {
	t.Helper()
	text, err := os.ReadFile(certificate)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	return &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
}
