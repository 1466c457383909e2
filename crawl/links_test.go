package crawl_test

import (
	"encoding/binary"
	"net/http"
	"net/http/cookiejar"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"unicode/utf16"

	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/politenesstest"
)

// raw answers with the bytes of body.
func raw(contentType, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if w.Header()["Content-Type"] = nil; contentType != "" { // nil: none is guessed
			w.Header().Set("Content-Type", contentType)
		}
		_, _ = w.Write([]byte(body))
	})
}

// asUTF16 encodes s, with a byte order mark.
func asUTF16(order binary.AppendByteOrder, s string) string {
	var b []byte
	for _, unit := range utf16.Encode([]rune("\ufeff" + s)) {
		b = order.AppendUint16(b, unit)
	}
	return string(b)
}

// crawled returns the paths and queries that a crawl of example.com asks for whose start page is
// home, beside that page.
func crawled(t *testing.T, contentType, home string) string {
	t.Helper()
	r := newRig()
	r.crawl.Follow = crawl.SameHost
	r.Site("https://example.com").Handle("/start", raw(contentType, home)).Handle("/", page(""))
	r.run(t.Context(), t, "https://example.com/start")
	return strings.ReplaceAll(strings.Replace(r.urls(), "https://example.com/start", "", 1), "https://example.com", "")
}

// TestLinksInEveryElement that leads a browser on.
func TestLinksInEveryElement(t *testing.T) {
	for name, tt := range map[string]struct{ html, want string }{
		"refresh":            {`<meta http-equiv=refresh content="0; url=/next">`, "/next"},
		"refresh, quoted":    {`<META HTTP-EQUIV=" Refresh " CONTENT="5;URL='/next' more">`, ""},
		"refresh, in quotes": {`<META HTTP-EQUIV="Refresh" CONTENT=" 5.5 , URL = '/next' more">`, "/next"},
		"refresh, short":     {`<meta http-equiv=refresh content="3 /next">`, "/next"},
		"refresh of itself":  {`<meta http-equiv=refresh content="300">`, ""},
		"no time":            {`<meta http-equiv=refresh content="url=/next">`, ""},
		"no refresh":         {`<meta name=refresh content="0;url=/next">`, ""},
		"a url in the url":   {`<meta http-equiv=refresh content="0;urls/x">`, "/urls/x"},
		"an empty url":       {`<meta http-equiv=refresh content="5; url=">`, ""},
		"relative to base":   {`<base href=/dir/><meta http-equiv=refresh content="0;url=next">`, "/dir/next"},
		"frames":             {`<frameset><frame src="/left"><frame SRC=/right></frameset>`, "/left /right"},
		"noframes":           {`<frameset><frame src="/left"></frameset><noframes><a href=/plain>a</a></noframes>`, "/left /plain"},
		"iframe":             {`<iframe src="/inner"><a href=/not>a</a></iframe><iframe src="about:blank"></iframe>`, "/inner"},
		"noscript":           {`<noscript><a href=/plain>a</a></noscript><a href=/after>a</a>`, "/after /plain"},
		"noscript in head":   {`<head><noscript><meta http-equiv=refresh content="0;url=/plain"></noscript></head>`, "/plain"},
		"nofollow":           {`<meta name=robots content=nofollow><frame src=/left><meta http-equiv=refresh content="0;url=/next">`, ""},
		"first attribute":    {`<a href=/one href=/two>`, "/one"},
		"script":             {`<script>document.write("<a href=/not>")</script><a href=/after>`, "/after"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if got := strings.TrimSpace(crawled(t, "text/html; charset=utf-8", tt.html)); got != tt.want {
					t.Errorf("visited %q, want %q", got, tt.want)
				}
			})
		})
	}
}

// TestPagesAreHTML also where their Content-Type is malformed, or missing.
func TestPagesAreHTML(t *testing.T) {
	for contentType, want := range map[string]string{
		"text/html; charset=utf-8; charset=utf-8": "/next", "TEXT/HTML;;": "/next", "text/html, text/html": "/next", "": "/next",
		"application/xhtml+xml": "/next", "text/plain": "", "application/json; charset=utf-8; charset=utf-8": "",
	} {
		t.Run(contentType, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if got := strings.TrimSpace(crawled(t, contentType, "<!DOCTYPE html><a href=/next>")); got != want {
					t.Errorf("visited %q, want %q", got, want)
				}
			})
		})
	}
}

// TestLegacyCharsets: paths are sent in UTF-8, queries in the encoding of the page (URL standard,
// section 4.4). The bytes are those that a server sends.
func TestLegacyCharsets(t *testing.T) {
	const utf8Path = "/caf%C3%A9"
	for name, tt := range map[string]struct{ contentType, html, want string }{
		"latin-1, by header":      {"text/html; charset=ISO-8859-1", "<a href='/caf\xe9?q=\xe9'>", utf8Path + "?q=%E9"},
		"windows-1252, by meta":   {"text/html", "<meta charset=windows-1252><a href='/caf\xe9?q=\x80'>", utf8Path + "?q=%80"},
		"undeclared, not UTF-8":   {"text/html", "<a href='/caf\xe9?q=\xe9'>", utf8Path + "?q=%E9"},
		"undeclared, late UTF-8":  {"text/html", "<p>" + strings.Repeat(" ", 2000) + "<a href='/caf\xc3\xa9?q=\xc3\xa9'>", utf8Path + "?q=%C3%A9"},
		"undeclared, ASCII":       {"text/html", "<a href='/caf&eacute;?q=&eacute;'>", utf8Path + "?q=%E9"},
		"declared, not so":        {"text/html", "<meta charset=windows-1252><a href='/\xc3\xa9'>", "/%C3%83%C2%A9"},
		"replaced":                {"text/html; charset=iso-2022-kr", "<a href='/not'>", ""},
		"UTF-8":                   {"text/html; charset=utf-8", "<a href='/caf\xc3\xa9?q=\xc3\xa9'>", utf8Path + "?q=%C3%A9"},
		"by an entity":            {"text/html; charset=ISO-8859-1", "<a href='/caf&eacute;?q=&eacute;'>", utf8Path + "?q=%E9"},
		"escaped already":         {"text/html; charset=ISO-8859-1", "<a href='/caf%E9?q=%C3%A9'>", "/caf%E9?q=%C3%A9"},
		"windows-1251":            {"text/html; charset=windows-1251", "<a href='/\xec\xe8\xf0?q=\xec\xe8\xf0'>", "/%D0%BC%D0%B8%D1%80?q=%EC%E8%F0"},
		"Shift_JIS, a backslash":  {"text/html; charset=Shift_JIS", "<a href='/\x95\x5c?q=\x95\x5c'>", "/%E8%A1%A8?q=%95%5C"},
		"Shift_JIS, a letter":     {"text/html; charset=Shift_JIS", "<a href='/\x83\x41?q=\x83\x41'>", "/%E3%82%A2?q=%83A"},
		"EUC-JP":                  {"text/html; charset=euc-jp", "<a href='/\xc6\xfc?q=\xc6\xfc'>", "/%E6%97%A5?q=%C6%FC"},
		"GBK":                     {"text/html; charset=gb2312", "<a href='/\xc4\xe3?q=\xc4\xe3'>", "/%E4%BD%A0?q=%C4%E3"},
		"not in the encoding":     {"text/html; charset=windows-1251", "<a href='/&#20320;?q=&#20320;&amp;r=\xec'>", "/%E4%BD%A0?q=%26%2320320%3B&r=%EC"},
		"a base, a query alone":   {"text/html; charset=ISO-8859-1", "<base href='/d\xe9/x'><a href='?\xe9'>", "/d%C3%A9/x?%E9"},
		"UTF-16, big endian":      {"text/html", asUTF16(binary.BigEndian, "<a href='/café?q=é'>"), utf8Path + "?q=%C3%A9"},
		"UTF-16, little endian":   {"text/html", asUTF16(binary.LittleEndian, "<a href='/café?q=é'>"), utf8Path + "?q=%C3%A9"},
		"UTF-16, by header alone": {"text/html; charset=UTF-16LE", asUTF16(binary.LittleEndian, "<a href='/café?q=é'>")[2:], utf8Path + "?q=%C3%A9"},
		"UTF-16, by its bytes":    {"text/html", asUTF16(binary.LittleEndian, "<a href='/café?q=é'>")[2:], utf8Path + "?q=%C3%A9"},
		"UTF-16BE, by its bytes":  {"text/html", asUTF16(binary.BigEndian, "<a href='/café?q=é'>")[2:], utf8Path + "?q=%C3%A9"},
		"UTF-16, noindex":         {"text/html", asUTF16(binary.LittleEndian, "<meta name=robots content=nofollow><a href='/not'>"), ""},
		"a mark against a header": {"text/html; charset=ISO-8859-1", "\xef\xbb\xbf<a href='/caf\xc3\xa9?q=\xc3\xa9'>", utf8Path + "?q=%C3%A9"},
		"an encoding that is none": {
			"text/html; charset=klingon", "<a href='/caf\xc3\xa9?q=\xc3\xa9'>", utf8Path + "?q=%C3%A9",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if got := strings.TrimSpace(crawled(t, tt.contentType, tt.html)); got != tt.want {
					t.Errorf("visited %q, want %q", got, tt.want)
				}
			})
		})
	}
}

// TestCookieBySelfRedirect: a redirect to the same URL that sets a cookie is followed once where
// the Client keeps cookies.
func TestCookieBySelfRedirect(t *testing.T) {
	for name, tt := range map[string]struct {
		jar    bool
		answer func(http.ResponseWriter, *http.Request)
		asked  int
		want   map[crawl.Outcome]int
	}{
		"with a jar":            {true, needsCookie, 2, map[crawl.Outcome]int{crawl.Visited: 1}},
		"without":               {false, needsCookie, 1, map[crawl.Outcome]int{crawl.Redirected: 1, crawl.Duplicate: 1}},
		"for ever":              {true, setsCookie, 2, map[crawl.Outcome]int{crawl.Redirected: 1, crawl.Duplicate: 1}},
		"without a cookie":      {true, redirects, 1, map[crawl.Outcome]int{crawl.Redirected: 1, crawl.Duplicate: 1}},
		"to another page":       {true, elsewhere, 1, map[crawl.Outcome]int{crawl.Redirected: 1, crawl.Visited: 1}},
		"after a 503 that ends": {true, needsCookieLater, 3, map[crawl.Outcome]int{crawl.Visited: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				if r.crawl.Client = new(http.Client); tt.jar {
					jar, err := cookiejar.New(nil)
					if err != nil {
						t.Fatal(err)
					}
					r.crawl.Client.Jar = jar
				}
				r.Site("https://example.com").Handle("/", http.HandlerFunc(tt.answer))
				wantOutcomes(t, r.run(t.Context(), t, "https://example.com/a"), tt.want)
				asked := 0
				for _, req := range r.Requests() {
					if strings.HasSuffix(req.URL, "/a") {
						asked++
					}
				}
				if asked != tt.asked {
					t.Errorf("asked %d times, want %d", asked, tt.asked)
				}
				r.Check(t, politenesstest.Rules{Delay: r.politeness.Hosts.Delay.Min, Concurrency: 2, Refusals: []int{429, 503}})
			})
		})
	}
}

// TestPercentSignsThatEscapeNothing lead on from a link as from a redirect, as in browsers.
func TestPercentSignsThatEscapeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.crawl.Follow = crawl.SameHost
		r.Site("https://example.com").Handle("/", page("")).
			Handle("/start", page(`<a href="/50%">link</a> <a href="/moved">moved</a> <a href="/late">late</a>`)).
			Handle("/moved", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "/60%")
				w.WriteHeader(http.StatusFound)
			})).
			Handle("/late", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "https://example.com/%zz?100%")
				w.WriteHeader(http.StatusMovedPermanently)
			}))
		wantOutcomes(t, r.run(t.Context(), t, "https://example.com/start"), map[crawl.Outcome]int{crawl.Visited: 4, crawl.Redirected: 2})
		want := "https://example.com/%25zz?100% https://example.com/50%25 https://example.com/60%25 https://example.com/start"
		if got := r.urls(); got != want {
			t.Errorf("visited %s, want %s", got, want)
		}
	})
}

func redirects(w http.ResponseWriter, req *http.Request) {
	http.Redirect(w, req, "https://EXAMPLE.com/./a#top", http.StatusFound)
}

func setsCookie(w http.ResponseWriter, req *http.Request) {
	http.SetCookie(w, &http.Cookie{Name: "seen", Value: "1"})
	redirects(w, req)
}

func elsewhere(w http.ResponseWriter, req *http.Request) {
	http.SetCookie(w, &http.Cookie{Name: "seen", Value: "1"})
	if req.URL.Path == "/a" {
		http.Redirect(w, req, "/b", http.StatusFound)
	}
}

func needsCookie(w http.ResponseWriter, req *http.Request) {
	if _, err := req.Cookie("seen"); err != nil {
		setsCookie(w, req)
	}
}

func needsCookieLater(w http.ResponseWriter, req *http.Request) {
	if _, err := req.Cookie("busy"); err == nil {
		needsCookie(w, req)
		return
	}
	http.SetCookie(w, &http.Cookie{Name: "busy", Value: "1"})
	w.WriteHeader(http.StatusServiceUnavailable)
}

// TestALocationThatIsNoURL: an answer that redirects to what no URL is, is an answer: its page is
// asked for once.
func TestALocationThatIsNoURL(t *testing.T) {
	for _, to := range []string{"http://[::1/", "http://example.com:port/", "https://exa mple.com/", "https:///", "//user@:80/", "http://1.2.3.4.5/"} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig()
			r.Site("https://example.com").Handle("/", politenesstest.Status(http.StatusFound, "Location", to))
			var invalid []string
			r.crawl.Done = func(res crawl.Result) {
				if res.Outcome == crawl.Invalid {
					invalid = append(invalid, res.URL)
				}
			}
			s := r.run(t.Context(), t, "https://example.com/")
			wantOutcomes(t, s, map[crawl.Outcome]int{crawl.Redirected: 1, crawl.Invalid: 1})
			if n := len(r.Requests()); n != 2 || !slices.Equal(invalid, []string{to}) {
				t.Errorf("%d requests, and %q are invalid; want robots.txt, the page and %q", n, invalid, to)
			}
		})
	}
}
