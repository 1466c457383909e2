package politeness

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
)

// PublicOnly is a Config.Refuse for crawlers of public pages: it refuses
// anything but GET and HEAD, and any request that carries credentials
// (Authorization, Proxy-Authorization, Cookie, userinfo in the URL).
func PublicOnly(req *http.Request) error {
	if req.Method != "" && req.Method != http.MethodGet && req.Method != http.MethodHead {
		return fmt.Errorf("public pages only: method %s is neither GET nor HEAD", req.Method)
	}
	for name := range req.Header {
		switch name = http.CanonicalHeaderKey(name); name {
		case "Authorization", "Proxy-Authorization", "Cookie":
			return fmt.Errorf("public pages only: the request carries credentials (%s)", name)
		}
	}
	if req.URL.User != nil {
		return errors.New("public pages only: the URL carries credentials (userinfo)")
	}
	return nil
}

// RefusePaths returns a Config.Refuse that refuses every URL of which a pattern
// matches the path, as sent or decoded, or path and query as sent
// (URL.RequestURI): a site's terms, logins, calendars without end.
func RefusePaths(patterns ...*regexp.Regexp) func(*http.Request) error {
	return func(req *http.Request) error {
		u := req.URL
		for _, p := range patterns {
			if p.MatchString(u.RequestURI()) || p.MatchString(u.Path) || p.MatchString(u.EscapedPath()) {
				return fmt.Errorf("path matches %s", p)
			}
		}
		return nil
	}
}

// RefuseAny returns a Config.Refuse that asks each of rules in turn and refuses
// with the first error.
func RefuseAny(rules ...func(*http.Request) error) func(*http.Request) error {
	return func(req *http.Request) error {
		for _, rule := range rules {
			if err := rule(req); err != nil {
				return err
			}
		}
		return nil
	}
}
