package mediatype

import (
	"mime"
	"strings"
	"testing"
)

// FuzzContentType holds that a media type is one word in lower case that says the same again, and
// that who rejects every type rejects it. Package mime reads no other type where it reads any.
func FuzzContentType(f *testing.F) {
	for _, s := range []string{"", "text/html", "Text/HTML; charset=utf-8", "text/html;;", ";", " /", "a/b/c", "text/\x00\u202e", "text/html; a=\"", "image/*"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, contentType string) {
		mediaType := Of(contentType)
		if strings.Contains(mediaType, ";") || mediaType != strings.ToLower(mediaType) || mediaType != strings.TrimSpace(mediaType) {
			t.Errorf("%q is %q", contentType, mediaType)
		}
		if mediaType != "" && Of(mediaType) != mediaType {
			t.Errorf("%q is %q, and that %q", contentType, mediaType, Of(mediaType))
		}
		if parsed, _, err := mime.ParseMediaType(contentType); err == nil && parsed != mediaType {
			t.Errorf("%q is %q, and package mime reads %q", contentType, mediaType, parsed)
		}
		if !Match([]string{"*/*"}, mediaType) || !Match([]string{mediaType}, mediaType) {
			t.Errorf("%q isn't matched", mediaType)
		}
	})
}
