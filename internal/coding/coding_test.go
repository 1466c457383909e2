package coding

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// packed returns text in a coding, by the writer of the standard library.
func packed(t testing.TB, coding, text string) string {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	switch coding {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "zlib":
		w = zlib.NewWriter(&b)
	default:
		var err error
		w, err = flate.NewWriter(&b, flate.BestSpeed)
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := w.Write([]byte(text))
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func decoded(raw io.Reader, codings ...string) (string, error) {
	r, err := NewReader(raw, codings, 1<<20)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(Forgiving(r, true))
	return string(text), err
}

// TestForgives what Chromium and curl forgive.
func TestForgives(t *testing.T) {
	text := strings.Repeat("the page, ", 1000)
	zipped := packed(t, "gzip", text)
	damaged := []byte(zipped)
	damaged[len(damaged)-5] ^= 1
	named := "\x1f\x8b\x08\x1e\x00\x00\x00\x00\x00\x03" + "\x02\x00xx" + "page.html\x00" + "comment\x00" + "cc" + zipped[10:]
	for name, tt := range map[string]struct {
		body    string
		codings []string
	}{
		"gzip":                    {zipped, []string{"gzip"}},
		"x-gzip":                  {zipped, []string{"x-gzip"}},
		"line ends behind":        {zipped + "\r\n\r\n", []string{"gzip"}},
		"zeros behind":            {zipped + strings.Repeat("\x00", 100), []string{"gzip"}},
		"HTML behind":             {zipped + "<!-- cached by x -->", []string{"gzip"}},
		"no trailer":              {zipped[:len(zipped)-8], []string{"gzip"}},
		"half a trailer":          {zipped[:len(zipped)-3], []string{"gzip"}},
		"a wrong checksum":        {string(damaged), []string{"gzip"}},
		"all fields of a header":  {named, []string{"gzip"}},
		"two members":             {packed(t, "gzip", text[:50]) + packed(t, "gzip", text[50:]), []string{"gzip"}},
		"zlib":                    {packed(t, "zlib", text), []string{"deflate"}},
		"zlib without a checksum": {packed(t, "zlib", text)[:len(packed(t, "zlib", text))-4], []string{"deflate"}},
		"raw deflate":             {packed(t, "deflate", text), []string{"deflate"}},
		"two codings":             {packed(t, "gzip", packed(t, "zlib", text)), []string{"deflate", "gzip"}},
		"gzip twice":              {packed(t, "gzip", zipped), []string{"gzip", "gzip"}},
		"none":                    {text, nil},
		"a word that is none":     {text, []string{"utf-8"}},
		"a word, and gzip":        {zipped, []string{"aws-chunked", "gzip"}},
	} {
		for _, raw := range []io.Reader{strings.NewReader(tt.body), iotest.OneByteReader(strings.NewReader(tt.body))} {
			if got, err := decoded(raw, tt.codings...); got != text || err != nil {
				t.Errorf("%s: %d bytes, %v", name, len(got), err)
			}
		}
	}
}

// TestRefuses what isn't decoded, in words.
func TestRefuses(t *testing.T) {
	zipped := packed(t, "gzip", strings.Repeat("x", 5<<20))
	for name, tt := range map[string]struct {
		body    string
		codings []string
		want    string
	}{
		"an unknown coding":    {"x", []string{"br"}, `content coding "br" was not asked for`},
		"a coding to come":     {"\x1b\x0e\x00\xf8", []string{"br2"}, `content coding "br2" was not asked for`},
		"one of two":           {"x", []string{"zstd", "gzip"}, "gzip: invalid header"},
		"a plain text":         {"<html>plain</html>", []string{"gzip"}, "gzip: invalid header"},
		"half of the data":     {zipped[:len(zipped)/2], []string{"gzip"}, "unexpected EOF"},
		"a header alone":       {zipped[:10], []string{"gzip"}, "unexpected EOF"},
		"half a header":        {zipped[:5], []string{"gzip"}, "gzip: invalid header"},
		"no deflate":           {"\xff\xff\xff", []string{"deflate"}, "flate: corrupt input"},
		"five codings":         {"x", slices.Repeat([]string{"gzip"}, 5), "5 content codings"},
		"a bomb in the middle": {packed(t, "gzip", zipped), []string{"gzip", "gzip"}, ""},
	} {
		got, err := decoded(strings.NewReader(tt.body), tt.codings...)
		if tt.want == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %d bytes, %v; want %s", name, len(got), err, tt.want)
		}
	}
	if got, err := decoded(strings.NewReader(""), "gzip"); got != "" || err != nil {
		t.Errorf("an empty body: %q, %v", got, err)
	}
	if _, err := decoded(iotest.ErrReader(errors.New("gone")), "gzip"); err == nil || err.Error() != "gone" {
		t.Errorf("a body that can't be read: %v", err)
	}
}

// TestACutBodyIsAnError: what the network has cut off isn't whole, wherever it was cut.
func TestACutBodyIsAnError(t *testing.T) {
	text := strings.Repeat("the page, ", 1000)
	for name, tt := range map[string]struct {
		body    string
		codings []string
	}{
		"gzip":       {packed(t, "gzip", text[:50]) + packed(t, "gzip", text[50:]), []string{"gzip"}},
		"zlib":       {packed(t, "zlib", text), []string{"deflate"}},
		"deflate":    {packed(t, "deflate", text), []string{"deflate"}},
		"gzip twice": {packed(t, "gzip", packed(t, "gzip", text)), []string{"gzip", "gzip"}},
		"none":       {text, []string{"utf-8"}},
	} {
		for _, cut := range []error{io.ErrUnexpectedEOF, errors.New("connection reset")} {
			for n := range len(tt.body) + 1 {
				for _, behind := range []string{"", "\n\n"} {
					raw := io.MultiReader(strings.NewReader(tt.body[:n]+behind), &once{err: cut})
					got, err := decoded(raw, tt.codings...)
					if err == nil {
						t.Errorf("%s, %d of %d bytes and %q: %d bytes are a whole body", name, n, len(tt.body), behind, len(got))
					}
				}
			}
		}
	}
}

// once returns an error, and the end of a body from then on.
type once struct{ err error }

func (o *once) Read([]byte) (int, error) {
	err := o.err
	o.err = io.EOF
	return 0, err
}

// TestBounds: of a body that decompresses to nothing, or to too much on the way, most is read.
func TestBounds(t *testing.T) {
	inner := packed(t, "gzip", strings.Repeat("\x00", 100<<20)) // a bomb whose inner layer isn't gzip
	r, err := NewReader(strings.NewReader(inner), []string{"deflate", "gzip"}, 1<<16)
	if err == nil {
		_, err = io.Copy(io.Discard, r)
	}
	if err == nil {
		t.Error("100 MB of zeros are no error")
	}
	empty := "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff" + strings.Repeat("\x00\x00\x00\xff\xff", 1<<18) // blocks of nothing
	r, err = NewReader(strings.NewReader(empty), []string{"gzip"}, 1<<16)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, r); n != 0 || !errors.Is(err, errTooMuch) {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// TestForgiving: the transport's own decoder reports what is behind the data, and browsers don't.
func TestForgiving(t *testing.T) {
	zipped := packed(t, "gzip", "the page")
	for body, want := range map[string]string{
		zipped + "\n\n\n\n\n\n\n\n\n\n": "", zipped[:len(zipped)-8] + "\x00\x00\x00\x00" + zipped[len(zipped)-4:]: "", zipped[:len(zipped)-2]: "unexpected EOF",
	} {
		z, err := gzip.NewReader(strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(Forgiving(z, true))
		if string(text) != "the page" || (err == nil) != (want == "") {
			t.Errorf("%q, %v", text, err)
		}
	}
	if _, err := io.ReadAll(Forgiving(iotest.ErrReader(gzip.ErrHeader), true)); err == nil {
		t.Error("a text that is no gzip is no error")
	}
}

// TestAWrongChecksumIsAnError where it isn't forgiven.
func TestAWrongChecksumIsAnError(t *testing.T) {
	damaged := []byte(packed(t, "gzip", "the page"))
	damaged[len(damaged)-5] ^= 1
	r, err := NewReader(bytes.NewReader(damaged), []string{"gzip"}, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(Forgiving(r, false)); string(text) != "the page" || !errors.Is(err, gzip.ErrChecksum) {
		t.Errorf("%q, %v", text, err)
	}
}

func TestOf(t *testing.T) {
	header := http.Header{"Content-Encoding": {" GZip , identity,,", "x-gzip"}}
	if got := Of(header); !slices.Equal(got, []string{"gzip", "x-gzip"}) || Of(http.Header{}) != nil {
		t.Errorf("codings %q", got)
	}
}

// FuzzNewReader: what is decoded is bounded, and never panics.
func FuzzNewReader(f *testing.F) {
	f.Add([]byte(packed(f, "gzip", "page")), "gzip")
	f.Add([]byte(packed(f, "zlib", "page")), "deflate, gzip")
	f.Fuzz(func(t *testing.T, body []byte, codings string) {
		r, err := NewReader(bytes.NewReader(body), Of(http.Header{"Content-Encoding": {codings}}), 1<<16)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, io.LimitReader(r, 1<<20))
	})
}
