package hints

import (
	"net/http"
	"strings"
)

// Challenge returns the field of resp that marks a challenge. A challenge is a page that tests the
// browser or asks for a captcha, in place of the page that was asked for. The result is the field
// with its value as text for people. It is empty if there is no such field. Five large vendors mark
// their challenges:
//
//	Cloudflare  cf-mitigated: challenge
//	AWS WAF     x-amzn-waf-action: challenge, or captcha
//	Vercel      x-vercel-mitigated: challenge
//	DataDome    x-datadome, or x-dd-b, with status 401 or 403
//	HUMAN       x-px-blocked: 1
//
// Vendors change their words, and most have no field at all. An empty result doesn't prove that
// resp is the page.
func Challenge(resp *http.Response) string {
	h := resp.Header
	for _, mark := range marks {
		values := h[mark.name]
		if len(values) == 0 || !mark.isOf(strings.ToLower(strings.TrimSpace(values[0])), resp.StatusCode) {
			continue
		}
		return strings.ToLower(mark.name) + mark.text(values[0])
	}
	return ""
}

// A mark is a field by which a vendor marks its challenges.
type mark struct {
	name  string // canonical
	words string // values that mark a challenge, between spaces; empty: all, if the status is that of a refusal
}

var marks = [...]mark{
	{name: "Cf-Mitigated", words: " challenge "},
	{name: "X-Amzn-Waf-Action", words: " challenge captcha "},
	{name: "X-Vercel-Mitigated", words: " challenge "},
	{name: "X-Px-Blocked", words: " 1 true "},
	{name: "X-Datadome"}, // DataDome also sets it on each page that it has let pass
	{name: "X-Dd-B"},
}

// isOf reports whether the field with the given value, in lower case, marks a challenge in a
// response with that status.
func (m *mark) isOf(value string, status int) bool {
	if m.words == "" {
		return status == http.StatusUnauthorized || status == http.StatusForbidden
	}
	return value != "" && !strings.Contains(value, " ") && strings.Contains(m.words, " "+value+" ")
}

// text returns the rest of the field as text: its value, if that is one of words.
func (m *mark) text(value string) string {
	if m.words == "" {
		return "" // a value of any kind, such as an id
	}
	return ": " + strings.ToLower(strings.TrimSpace(value))
}
