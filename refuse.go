package politeness

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"

	"github.com/go-politeness/politeness/hostlimit/hints"
	"github.com/go-politeness/politeness/internal/hostfile"
	"github.com/go-politeness/politeness/internal/hostname"
)

// Anonymous is a Config.Refuse for crawlers of public pages. It returns an error for methods other
// than GET and HEAD, and for requests with credentials (Authorization, Proxy-Authorization, Cookie,
// userinfo in the URL). It doesn't look at addresses. Use publicnet.Transport to keep a crawler off
// private networks.
func Anonymous(req *http.Request) error {
	if req.Method != "" && req.Method != http.MethodGet && req.Method != http.MethodHead {
		return fmt.Errorf("public pages only: method %s is neither GET nor HEAD", req.Method)
	}
	// net/http sends a name as it is spelt in the map, and a server knows it in every spelling.
	for name := range req.Header {
		switch canonical := http.CanonicalHeaderKey(name); canonical {
		case "Authorization", "Proxy-Authorization", "Cookie":
			return fmt.Errorf("public pages only: the request carries credentials (%s)", canonical)
		}
	}
	if req.URL.User != nil {
		return errors.New("public pages only: the URL carries credentials (userinfo)")
	}
	return nil
}

// Challenged returns an error if the header fields of resp show a challenge. A challenge is a page
// of a protection that tests the browser or asks for a captcha. The text of the error names the
// field, for example cf-mitigated. Function hints.Challenge lists the fields of five vendors. If
// resp has none of these fields, the error is nil. resp may still be a challenge.
//
// A Transport already treats such a response as a refusal. It blocks the host, whatever the status
// is. Call Challenged to recognize a challenge when you handle responses, or together with your own
// rules in Config.IsRefusal. This library never solves a challenge. If a site has one for you, ask
// its owner to let your crawler pass.
func Challenged(resp *http.Response) error {
	field := hints.Challenge(resp)
	if field == "" {
		return nil
	}
	return fmt.Errorf("a challenge: %s", field)
}

// RefusePaths returns a Config.Refuse that returns an error for each URL whose path matches one of
// the patterns. Use it for terms of a site, logins, or calendars without end. A pattern is compared
// with the escaped path, with the decoded path, and with the escaped path and its query
// (URL.RequestURI). One match is enough.
func RefusePaths(patterns ...*regexp.Regexp) func(*http.Request) error {
	return func(req *http.Request) error {
		u := req.URL
		// A pattern is meant for the URL as a person reads it. An escape must not evade it.
		for _, p := range patterns {
			if p.MatchString(u.RequestURI()) || p.MatchString(u.Path) || p.MatchString(u.EscapedPath()) {
				return fmt.Errorf("path matches %s", p)
			}
		}
		return nil
	}
}

// RefuseAny returns a Config.Refuse that calls rules one after the other, and returns the first
// error. Nil rules are skipped. Use it to combine several rules.
func RefuseAny(rules ...func(*http.Request) error) func(*http.Request) error {
	return func(req *http.Request) error {
		for _, rule := range rules {
			if rule == nil {
				continue
			}
			if err := rule(req); err != nil {
				return err
			}
		}
		return nil
	}
}

// A HostList is a file of hosts that are left alone, made by [RefuseHosts].
type HostList struct{ file *hostfile.File[string] }

// RefuseHosts reads a file of hosts that the crawler must leave alone, one a line. Set
// Config.Refuse to the Refuse method of the result. When a request uses the list, the list looks
// whether the file has changed, at most once a second. A new line applies to every request that
// starts later, even if the request already waits.
//
//	# host to leave alone          reason, which errors and evidence show
//	example.com                    the owner has asked us to
//	.example.org                   and everything below it
//	localhost:8080                 one port alone
//
//	list, err := politeness.RefuseHosts("refuse.txt")
//	cfg.Refuse = list.Refuse
//
// Replace the file by a rename, as most editors do. A file that is truncated and written in place
// is empty for an instant. In that instant no host is refused.
//
// The error lists the faulty lines, each with its fault.
func RefuseHosts(path string) (*HostList, error) {
	file, err := hostfile.Open(path, func(why string) (string, error) { return why, nil })
	if err != nil {
		return nil, fmt.Errorf("politeness: RefuseHosts: %w", err)
	}
	return &HostList{file}, nil
}

// Refuse is a Config.Refuse. It returns an error for requests to the hosts of the list.
func (l *HostList) Refuse(req *http.Request) error {
	// The file has names of hosts, but the user's HostKey may group hosts.
	why, ok := l.file.Find(hostname.Key(req.URL.Host))
	if !ok {
		return nil
	}
	text := "the host is on the list of those that are left alone"
	if why != "" {
		text += ": " + why
	}
	return errors.New(text)
}

// Err returns nil if the present content of the file is in force. Otherwise the error lists the
// faulty lines. The lines without a fault are in force. Hosts that only the previous list names are
// still refused until the file is correct. Check Err after a change of the file.
func (l *HostList) Err() error {
	if err := l.file.Err(); err != nil {
		return fmt.Errorf("politeness: RefuseHosts: %w", err)
	}
	return nil
}
