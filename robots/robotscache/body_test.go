package robotscache

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
)

func compressed(t testing.TB, coding, body string) string {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	switch coding {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "zlib":
		w = zlib.NewWriter(&b)
	case "flate":
		w, _ = flate.NewWriter(&b, -1)
	}
	if _, err := io.WriteString(w, body); err != nil {
		t.Fatal(err)
	}
	w.Close()
	return b.String()
}

func utf16LE(text string) string {
	var b strings.Builder
	for _, r := range text {
		b.WriteByte(byte(r))
		b.WriteByte(0)
	}
	return b.String()
}

func TestCompressedBodies(t *testing.T) {
	gz := compressed(t, "gzip", private)
	zlibbed := compressed(t, "zlib", private)
	tests := []struct {
		name, coding, body string
		denied             bool
	}{
		{"gzip", "gzip", gz, false},
		{"GZIP", " GZIP ", gz, false},
		{"x-gzip", "x-gzip", gz, false},
		{"gzip in two parts", "gzip", compressed(t, "gzip", private[:10]) + compressed(t, "gzip", private[10:]), false},
		{"deflate", "deflate", compressed(t, "zlib", private), false},
		{"bare deflate", "deflate", compressed(t, "flate", private), false},
		{"identity", "identity", private, false},
		{"half gzip", "gzip", gz[:len(gz)/2], true},
		{"half gzip header", "gzip", gz[:5], true},
		{"gzip without its end", "gzip", gz[:len(gz)-1], false},
		{"gzip without its trailer", "gzip", gz[:len(gz)-8], false},
		{"gzip without the end of its data", "gzip", gz[:len(gz)-9], true},
		{"deflate without its checksum", "deflate", zlibbed[:len(zlibbed)-4], false},
		{"damaged deflate", "deflate", zlibbed[:len(zlibbed)-1] + "\x00", true},
		{"damaged gzip", "gzip", gz[:len(gz)-5] + "x" + gz[len(gz)-4:], true},
		{"gzip that isn't", "gzip", private, false},
		{"gzip that isn't, nor text", "gzip", "\x00\x01" + private, true},
		{"gzip, and line ends behind it", "gzip", gz + "\r\n\r\n", false},
		{"gzip, and zeros behind it", "gzip", gz + strings.Repeat("\x00", 1000), false},
		{"gzip without a name", "", gz, false},
		{"gzip under the name of none", "identity", gz, false},
		{"none", "none", private, false},
		{"a charset", "UTF-8", private, false},
		{"8bit", "8bit", private, false},
		{"aws-chunked", "aws-chunked", private, false},
		{"aws-chunked, and gzip", "aws-chunked,gzip", gz, false},
		{"an empty word, and gzip", ",gzip", gz, false},
		{"gzip, and no coding", "gzip, identity", gz, false},
		{"a word that nobody knows", "b'; x", private, false},
		{"a word that nobody knows, in UTF-16", "utf-16", "\xff\xfe" + utf16LE(private), false},
		{"a coding that nobody knows yet", "br2", "\x1b\x0e\x00\xf8", true},
		{"zstd", "zstd", private, true},
		{"compress", "x-compress", private, true},
		{"half deflate", "deflate", compressed(t, "zlib", private)[:20], true},
		{"deflate that isn't", "deflate", private, true},
		{"one byte of deflate", "deflate", "x", true},
		{"brotli", "br", private, true},
		{"twice", "gzip, gzip", compressed(t, "gzip", gz), false},
		{"deflate, then gzip", "deflate, gzip", compressed(t, "gzip", compressed(t, "zlib", private)), false},
	}
	for _, tt := range tests {
		r := newRig(t, Config{}, always(200, tt.body, "Content-Encoding", tt.coding))
		e := r.get(t, site)
		if e.Denied != tt.denied || allowed(e, "/private") {
			t.Errorf("%s: %+v", tt.name, e)
		}
		isOther := strings.Contains(tt.coding, "utf-16")
		if ev := r.event(t); !tt.denied && !isOther && (ev.SHA256 != sum(private) || ev.Bytes != int64(len(private))) {
			t.Errorf("%s: event %+v", tt.name, ev)
		}
	}
	for _, coding := range []string{"gzip", "deflate"} {
		r := newRig(t, Config{}, always(200, "", "Content-Encoding", coding))
		if e := r.get(t, site); !allowed(e, "/private") {
			t.Errorf("empty %s: %+v", coding, e)
		}
	}
	r := newRig(t, Config{}, func(*http.Request) (*http.Response, error) {
		resp := reply(200, private, "Content-Encoding", "gzip")
		resp.Uncompressed = true // by the transport
		resp.ContentLength = -1
		return resp, nil
	})
	if e := r.get(t, site); e.Denied || allowed(e, "/private") {
		t.Errorf("undone by Base: %+v", e)
	}
}

// TestCompressedTextMayBeNoise, which compression hardly shortens.
func TestCompressedTextMayBeNoise(t *testing.T) {
	noise := make([]byte, MaxBody-len(private))
	r := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = byte(' ' + r.IntN(256-' '))
	}
	body := private + string(noise)
	rig := newRig(t, Config{}, always(200, compressed(t, "gzip", body), "Content-Encoding", "gzip"))
	if e := rig.get(t, site); e.SHA256() != sum(body) {
		t.Errorf("%+v", rig.event(t))
	}
}

// TestLimit: 500 KiB count, not a byte more, and no half line.
func TestLimit(t *testing.T) {
	const rule = "User-agent: *\nDisallow: /a\n"
	fill := func(n int) string { return strings.Repeat("#", n-1) + "\n" }
	tests := []struct {
		name, body string
		allow      string
		deny       string
		length     int64 // Content-Length; 0: unknown
		kept       int
	}{
		{"fits", rule + fill(MaxBody-len(rule)), "/b", "/a", 0, MaxBody},
		{"rule after the limit", fill(MaxBody) + rule, "/a", "", 0, MaxBody},
		{"half a rule", fill(MaxBody-len(rule)+2) + rule, "/a", "", 0, MaxBody - len(rule) + 2 + len("User-agent: *\n")},
		{"half a rule, CR", fill(MaxBody-len(rule)+2) + strings.ReplaceAll(rule, "\n", "\r"), "/a", "", 0, MaxBody - len(rule) + 2 + len("User-agent: *\n")},
		{"one line", "Disallow: /a" + strings.Repeat("x", 2*MaxBody), "/a", "", 0, 0},
		{"one line after an end", "\n" + strings.Repeat("x", 2*MaxBody), "/a", "", 0, 1},
		{"last line without an end", fill(MaxBody-len(rule)+1) + rule[:len(rule)-1], "/b", "/a", MaxBody, MaxBody},
		{"last line without an end, length unknown", fill(MaxBody-len(rule)+1) + rule[:len(rule)-1], "/b", "/a", 0, MaxBody},
		{"last line ends behind the limit", fill(MaxBody-len(rule)+1) + rule, "/b", "/a", 0, MaxBody},
		{"last line ends behind the limit, CRLF", fill(MaxBody-len(rule)+1) + rule[:len(rule)-1] + "\r\nDisallow: /b\r\n", "/b", "/a", 0, MaxBody},
		{"line that ends at the limit", fill(MaxBody-len(rule)) + rule + "Disallow: /b\n", "/b", "/a", 0, MaxBody},
	}
	check := func(name string, e *Entry, allow, deny string, ev Event, want string) {
		t.Helper()
		if !allowed(e, allow) || deny != "" && allowed(e, deny) {
			t.Errorf("%s: %+v", name, e)
		}
		if ev.Bytes != int64(len(want)) || ev.SHA256 != sum(want) {
			t.Errorf("%s: %d bytes were kept, want %d", name, ev.Bytes, len(want))
		}
	}
	for _, tt := range tests {
		read := 0
		r := newRig(t, Config{}, func(*http.Request) (*http.Response, error) {
			resp := reply(200, "")
			body := strings.NewReader(tt.body)
			resp.Body = io.NopCloser(readerFunc(func(p []byte) (int, error) {
				n, err := body.Read(p)
				read += n
				return n, err
			}))
			resp.ContentLength = -1
			if tt.length != 0 {
				resp.ContentLength = tt.length
			}
			return resp, nil
		})
		e := r.get(t, site)
		if read > MaxBody+1 { // one more byte shows that there is more
			t.Errorf("%s: %d bytes were read", tt.name, read)
		}
		check(tt.name, e, tt.allow, tt.deny, r.event(t), tt.body[:tt.kept])

		r = newRig(t, Config{}, always(200, compressed(t, "gzip", tt.body), "Content-Encoding", "gzip"))
		e = r.get(t, site)
		check(tt.name+", gzip", e, tt.allow, tt.deny, r.event(t), tt.body[:tt.kept])
	}
}

// TestBombs: bodies that decompress to much, or take much to decompress to nothing.
func TestBombs(t *testing.T) {
	empty := compressed(t, "gzip", "")
	for name, tt := range map[string]struct {
		body   string
		denied bool
	}{
		"10 MB of stars":       {compressed(t, "gzip", strings.Repeat("*\n", 5<<20)), false},
		"a million times none": {strings.Repeat(empty, 1_000_000), true},
	} {
		read := 0
		r := newRig(t, Config{}, func(*http.Request) (*http.Response, error) {
			resp := reply(200, "", "Content-Encoding", "gzip")
			body := strings.NewReader(tt.body)
			resp.Body = io.NopCloser(readerFunc(func(p []byte) (int, error) {
				n, err := body.Read(p)
				read += n
				return n, err
			}))
			resp.ContentLength = int64(len(tt.body))
			return resp, nil
		})
		e := r.get(t, site)
		if e.Denied != tt.denied || read > maxCompressed || r.event(t).Bytes > MaxBody {
			t.Errorf("%s: %d bytes read, %d kept, %+v", name, read, r.event(t).Bytes, e)
		}
	}
}

// TestHalfABody: the missing half could forbid.
func TestHalfABody(t *testing.T) {
	short := reply(200, private[:20])
	short.ContentLength = int64(len(private))
	reset := reply(200, "")
	reset.Body = io.NopCloser(io.MultiReader(strings.NewReader(private[:20]), readerFunc(func([]byte) (int, error) {
		return 0, errors.New("connection reset by peer")
	})))
	gz := compressed(t, "gzip", private)
	inTrailer := reply(200, "", "Content-Encoding", "gzip") // another member may be lost
	inTrailer.Body = io.NopCloser(io.MultiReader(strings.NewReader(gz[:len(gz)-4]), iotest.ErrReader(io.ErrUnexpectedEOF)))
	inTrailer.ContentLength = -1
	shortGzip := reply(200, gz[:len(gz)-4], "Content-Encoding", "gzip")
	shortGzip.ContentLength = int64(len(gz))
	for name, resp := range map[string]*http.Response{
		"short": short, "reset": reset, "cut in the trailer": inTrailer, "short in the trailer": shortGzip,
	} {
		r := newRig(t, Config{}, func(*http.Request) (*http.Response, error) { return resp, nil })
		e := r.get(t, site)
		if !e.Denied || !strings.HasPrefix(e.Reason, "status 200 with a broken body: ") {
			t.Errorf("%s: %+v", name, e)
		}
		if ev := r.event(t); !ev.Unreachable || ev.Status != 200 || ev.SHA256 != "" || ev.Bytes != 0 {
			t.Errorf("%s: event %+v", name, ev)
		}
	}
	// A body that isn't needed may be broken.
	r := newRig(t, Config{}, func(*http.Request) (*http.Response, error) {
		reset.StatusCode = 404
		return reset, nil
	})
	if e := r.get(t, site); e.Denied {
		t.Errorf("404: %+v", e)
	}
}

// TestCarelessTransports: a RoundTripper that returns what it should not does no harm.
func TestCarelessTransports(t *testing.T) {
	r := newRig(t, Config{}, func(*http.Request) (*http.Response, error) { return nil, nil })
	if e := r.get(t, site); !e.Denied {
		t.Errorf("neither response nor error: %+v", e)
	}
	r = newRig(t, Config{}, func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200}, nil
	})
	if e := r.get(t, site); !allowed(e, "/") {
		t.Errorf("no body, no header: %+v", e)
	}
	r = newRig(t, Config{}, always(200, private, "ETag", "\"a\r\nX: y\"", "Last-Modified", strings.Repeat("x", maxValidator+1)))
	r.get(t, site)
	if s := r.memory.peek(origin{"example.com", true}); s.copy.validators.etag != "" || s.copy.validators.lastModified != "" {
		t.Errorf("validators %q, %q would be sent back", s.copy.validators.etag, s.copy.validators.lastModified)
	}
}

// FuzzBody: no body makes more than MaxBody, or a panic.
func FuzzBody(f *testing.F) {
	for _, coding := range []string{"gzip", "zlib", "flate"} {
		f.Add("deflate", []byte(compressed(f, coding, private)), int64(-1))
		f.Add("gzip", []byte(compressed(f, coding, private)), int64(7))
	}
	f.Fuzz(func(t *testing.T, coding string, body []byte, length int64) {
		resp := reply(200, string(body), "Content-Encoding", coding)
		resp.ContentLength = length
		got, err := readBody(t.Context(), resp)
		if len(got) > MaxBody || err != nil && got != nil {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
		if coding == "" && length <= int64(len(body)) && (err != nil || !bytes.HasPrefix(body, got)) {
			t.Fatalf("a plain body was changed, %v", err)
		}
	})
}
