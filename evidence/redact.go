package evidence

import (
	"context"
	"net/url"
	"slices"
	"strings"
)

// RedactURL cuts the userinfo ("user:password@") out of every URL in s, which may be a URL or a
// text that mentions some. It allocates nothing if there is none. The sinks of this package apply
// it to whatever they are given; use it in a sink of your own that is called without [Safe].
func RedactURL(s string) string {
	if strings.IndexByte(s, '@') < 0 {
		return s
	}
	from := 0
	if strings.HasPrefix(s, "//") { // a URL without a scheme, as in Location
		s = cutUserinfo(s, 2)
		from = 2
	}
	for {
		i := strings.Index(s[from:], "://")
		if i < 0 {
			return s
		}
		from += i + len("://")
		s = cutUserinfo(s, from)
	}
}

// cutUserinfo cuts the userinfo out of the authority that starts at s[from].
func cutUserinfo(s string, from int) string {
	authority := s[from:]
	if i := strings.IndexAny(authority, "/\\?# \t\r\n\"<>"); i >= 0 { // a password may hold a '
		authority = authority[:i]
	}
	at := strings.LastIndexByte(authority, '@')
	if at < 0 {
		return s
	}
	return s[:from] + s[from+at+1:]
}

// redact cuts credentials out of the fields that may mention URLs.
func (d *Decision) redact() {
	if strings.IndexByte(d.URL, '@') >= 0 { // most URLs have none; assigning the same string again costs time
		d.URL = RedactURL(d.URL)
	}
	if d.Location != "" {
		d.Location = RedactURL(d.Location)
	}
	if d.Reason != "" {
		d.Reason = RedactURL(d.Reason)
	}
	if d.Err != "" {
		d.Err = RedactURL(d.Err)
	}
}

// Redacted stands in a record where the value of a query parameter stood.
const Redacted = "REDACTED"

// Redact returns an Evidence that replaces the values of the named query parameters in every URL by
// [Redacted] and passes the record on to next. Names are compared without regard to case, after
// decoding. Use it when URLs carry session ids, tokens or personal data:
//
//	Evidence: evidence.Redact(log, "token", "session_id", "email")
//
// Userinfo in URLs is removed always, without Redact. An auditor leaves the verdict on a URL open
// that Redact has changed, since robots.txt can't be asked about it.
func Redact(next Evidence, params ...string) Evidence {
	return &redactor{next: next, params: slices.Clone(params)}
}

type redactor struct {
	next   Evidence
	params []string
}

func (r *redactor) clean(d *Decision) {
	d.redact()
	asked := d.URL
	d.URL = r.replace(asked, inURL)
	d.Location = r.replace(d.Location, inURL)
	for _, text := range [...]*string{&d.Reason, &d.Err} {
		if d.URL != asked { // the URL's end is hard to find in a text, unless the URL is known
			*text = strings.ReplaceAll(*text, asked, d.URL)
		}
		*text = r.replace(*text, inText)
	}
}

// Record implements Evidence.
func (r *redactor) Record(ctx context.Context, d Decision) {
	r.clean(&d)
	r.next.Record(ctx, d)
}

// These characters end the value of a parameter. A ";" doesn't, though it may start a parameter:
// most servers take it for data (URL Standard, section 5.1).
const (
	inURL  = "&#"
	inText = inURL + " \t\r\n\"<>" // these end the URL in a text
)

// replace replaces the parameters' values in s. A value stands between "name=", which follows one
// of ?, &, ; and # (fragments carry tokens too), and one of ends.
func (r *redactor) replace(s, ends string) string {
	const starts = "?&;#"
	var out []byte
	kept := 0 // s[:kept] is in out
	for from := strings.IndexAny(s, starts); from >= 0; {
		from++
		if n := strings.IndexAny(s[from:], starts+"="+ends); n >= 0 && s[from+n] == '=' && r.named(s[from:from+n]) {
			from += n + 1
			length := strings.IndexAny(s[from:], ends)
			if length < 0 {
				length = len(s) - from
			}
			if length > 0 {
				out = append(append(out, s[kept:from]...), Redacted...)
				from += length
				kept = from
			}
		}
		next := strings.IndexAny(s[from:], starts)
		if next < 0 {
			break
		}
		from += next
	}
	if kept == 0 {
		return s
	}
	return string(append(out, s[kept:]...))
}

func (r *redactor) named(name string) bool {
	if plain, err := url.QueryUnescape(name); err == nil {
		name = plain
	}
	return slices.ContainsFunc(r.params, func(p string) bool { return strings.EqualFold(p, name) })
}
