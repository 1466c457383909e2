package crawl

import (
	"net/http"
	"testing"

	"github.com/go-politeness/politeness/internal/mediatype"
)

// FuzzPage: whatever a page and its header are, what is kept of them grows with their length.
func FuzzPage(f *testing.F) {
	f.Add(`<base href="/a/"><a href=x rel=nofollow><svg><a xlink:href=y>`, "text/html; charset=big5", `</x>;rel=next`, "0;url=/y")
	f.Add("<?xml version='1.0'?><html xmlns='x'><template/><meta http-equiv=refresh content='0;x'/>", "application/xhtml+xml", "", "")
	f.Fuzz(func(t *testing.T, text, kind, link, refresh string) {
		p := &Page{
			FinalURL: "https://example.com/dir/page",
			Body:     []byte(text),
			Response: &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Link": {link}, "Refresh": {refresh}}},
		}
		p.readLinkHeader()
		p.readRefreshHeader()
		p.readHTML(t.Context(), "bot", mediatype.OfPage([]string{kind}))
		kept := len(p.Canonical)
		for _, l := range p.Links {
			kept += len(l.URL) + len(l.Rel)
		}
		for _, u := range p.unread {
			kept += len(u.ref)
		}
		// An escape is three bytes of a URL for one, and a character that a charset lacks eight of these.
		if most := minLinkBytes + 32*(len(text)+len(link)+len(refresh)); kept > most || len(p.lines) > len(text) {
			t.Errorf("%d bytes are kept, and %d lines", kept, len(p.lines))
		}
	})
}
