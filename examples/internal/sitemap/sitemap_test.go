package sitemap

import (
	"bytes"
	"compress/gzip"
	"slices"
	"strings"
	"testing"
)

var tables = []struct {
	name, text      string
	pages, sitemaps []string
}{
	{"empty", "", nil, nil},
	{
		"urlset", `<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:image="http://www.google.com/schemas/sitemap-image/1.1">
<url><loc> https://example.com/ </loc><lastmod>2026-11-01</lastmod><image:image><image:loc>https://example.com/i.png</image:loc></image:image></url>
<url><loc>https://example.com/?a=1&amp;b=2</loc></url>
<url><loc>/relative</loc></url><url><loc>ftp://example.com/</loc></url>
</urlset>`, []string{"https://example.com/", "https://example.com/?a=1&b=2"}, nil,
	},
	{
		"index", "\ufeff" + `<sitemapindex><sitemap><loc>https://example.com/a.xml.gz</loc></sitemap><sitemap><loc>https://example.com/b.xml</loc></sitemap></sitemapindex>`,
		nil,
		[]string{"https://example.com/a.xml.gz", "https://example.com/b.xml"},
	},
	{"lines", "https://example.com/a\r\nnot a URL\n\nhttps://example.com/b", []string{"https://example.com/a", "https://example.com/b"}, nil},
	{"other charset", `<?xml version="1.0" encoding="ISO-8859-1"?><urlset><url><loc>https://example.com/</loc></url></urlset>`, []string{"https://example.com/"}, nil},
	{"HTML", "<html><body><p>Not found", nil, nil},
}

func TestRead(t *testing.T) {
	for _, test := range tables {
		for _, packed := range []bool{false, true} {
			if packed && test.text == "" {
				continue
			}
			text := []byte(test.text)
			if packed {
				text = pack(t, text)
			}
			got, _ := Read(bytes.NewReader(text))
			if !slices.Equal(got.Pages, test.pages) || !slices.Equal(got.Sitemaps, test.sitemaps) {
				t.Errorf("%s, gzipped %t: %q", test.name, packed, got)
			}
		}
	}
}

func TestReadKeepsWhatCameBeforeAnError(t *testing.T) {
	whole := "<urlset><url><loc>https://example.com/a</loc></url><url><loc>https://example"
	got, err := Read(strings.NewReader(whole))
	if err == nil || len(got.Pages) != 1 {
		t.Errorf("%q, %v", got, err)
	}
	packed := pack(t, []byte(strings.Repeat("https://example.com/a\n", 1000)))
	if got, err = Read(bytes.NewReader(packed[:len(packed)-4])); err == nil {
		t.Errorf("half a gzip file is no error; %d pages", len(got.Pages))
	}
}

func TestReadIsBounded(t *testing.T) {
	if got, err := Read(strings.NewReader(strings.Repeat("http://a/\n", maxURLs+1))); err == nil || len(got.Pages) != maxURLs {
		t.Errorf("%d pages, %v", len(got.Pages), err)
	}
	bomb := pack(t, append([]byte("<urlset>"), make([]byte, maxBytes)...))
	if _, err := Read(bytes.NewReader(bomb)); err == nil {
		t.Error("a file of more than 50 MiB is no error")
	}
}

func pack(t testing.TB, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func FuzzRead(f *testing.F) {
	for _, test := range tables {
		f.Add([]byte(test.text))
		f.Add(pack(f, []byte(test.text)))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, _ := Read(bytes.NewReader(text))
		for _, list := range [][]string{s.Pages, s.Sitemaps} {
			for _, loc := range list {
				if !strings.HasPrefix(strings.ToLower(loc), "http") {
					t.Errorf("%q was read from %q", loc, text)
				}
			}
		}
	})
}
