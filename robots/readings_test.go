package robots_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/go-politeness/politeness/robots"
)

func rulesOf(text string, o robots.Options) *robots.Rules {
	return robots.ParseWith([]byte(text), o).Agent("ExampleBot")
}

// What one server or another reads as /private is forbidden, and what none does isn't.
func TestReadings(t *testing.T) {
	const file = "User-agent: *\nDisallow: /private\nDisallow: /a/b/secret\nDisallow: /*?sid=\nAllow: /private/open\n"
	forbidden := []string{
		"/private", "/private/x", "/private?q",
		"/a/../private/x", "/a/%2e%2e/private/x", "/a/.%2E/private", "/%2E/private", "/./private", "/../private",
		"//private", "///private/x", "/a//../../private", "/a//../private",
		`/a\..\private`, "/a%5C..%5Cprivate", "/a%5c%2e%2e%5cprivate", "/%5Cprivate",
		"/%70rivate", "/priv%61te/x", "/%2Fprivate", "/a%2F..%2Fprivate", "/a%2f../private", "/x/..%2fprivate",
		"/a/b/c/../secret", "/a/./b//secret", "/a/b/%73ecret?x=1",
		"/private/open/../x", "/private/open/%2e%2e/x",
		"/x?sid=1", "/a/../x?sid=1",
		"https://example.com/a/%2e%2e/private",
		// Tomcat and Jetty read a segment up to its semicolon.
		"/private;x", "/private;x=1/y", "/;x/private", "/a/..;/private", "/a/..;x=1/private", "/a/%2e%2e;/private", "/a;b/..;c/private;d",
		"/%70rivate;x", "/a/..%3bx/private", "/a/%2e%2e%3B/private", "/x;%2f../private", "/;%2fx/%70rivate", "/x?sid=1;y", "/;a/;b//private",
		`/a\..;\private`,
		// And some decode what they have decoded.
		"/a/%252e%252e/private", "/%2570rivate", "/%252fprivate", "/a%252F..%252Fprivate", "/a/%25%32%65./private", "/%255Cprivate",
		"/a/..%253b/private", "/a%2F%252e%252e%2Fprivate", "/priv%2561te;x",
	}
	allowed := []string{
		"/", "/priva", "/private/open", "/private/open/x", "/a/b/c", "/x?next=/a/../private", "/x?u=//private",
		"/...", "/a/.../private", "/.well-known/x", "/a/..b/private", "/a%20b", "/%D0%BF/%2e%2e/x", "/a%2", "/a%", "/%",
		"/a%3F/../b", "/robots.txt", "/a/%25252e%25252e/private", "/x;private", "/a;/private", "/100%25", "/100%25/private", "/%25zz/private", "/x?a=;/private",
		"/a%253Fprivate", "/%25/..x/private",
	}
	for name, o := range map[string]robots.Options{"default": {}, "exact": {GoogleExact: true}} {
		rules := rulesOf(file, o)
		for _, target := range forbidden {
			v := rules.TestReadings(target)
			if v.Allowed || v.Line == 0 {
				t.Errorf("%s: %s is allowed: %+v", name, target, v)
			}
		}
		for _, target := range allowed {
			if v := rules.TestReadings(target); !v.Allowed || v != rules.Test(target) {
				t.Errorf("%s: %s is forbidden: %+v", name, target, v)
			}
		}
	}
}

// What path servers serve is Test's matter: where that forbids, so does TestReadings. A path that Go
// resolves as the URL standard does is forbidden if the resolved one is.
func FuzzReadings(f *testing.F) {
	for _, path := range []string{
		"/a/%2e%2e/private", `/a\..\private`, "//private", "/a/..;x/private", "/%252e%252e;/%2570rivate", "/a/..//./x", "/%2f..%5C.", "/private/.", "/..", "/a/b/..?x/../y",
	} {
		f.Add(path)
	}
	rules := rulesOf("User-agent: *\nDisallow: /private\nDisallow: /*.x$\nAllow: /private/open\n", robots.Options{})
	f.Fuzz(func(t *testing.T, path string) {
		v := rules.TestReadings(path)
		if asSent := rules.Test(path); v.Allowed != asSent.Allowed && !asSent.Allowed {
			t.Errorf("%q: %+v, as sent %+v", path, v, asSent)
		}
		if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "?#\\\x00") {
			return
		}
		base := &url.URL{Scheme: "https", Host: "example.com", Path: "/"}
		u, err := url.Parse("https://example.com" + path)
		if err != nil || u.RawPath != "" {
			return // it has spellings that Go keeps
		}
		resolved := base.ResolveReference(u).EscapedPath()
		if v.Allowed && !rules.Test(resolved).Allowed {
			t.Errorf("%q is allowed, but %q isn't", path, resolved)
		}
	})
}

// A path without a second reading costs no allocation.
func TestReadingsOfPlainPathsDoNotAllocate(t *testing.T) {
	rules := rulesOf("User-agent: *\nDisallow: /private\n", robots.Options{})
	if n := testing.AllocsPerRun(100, func() { rules.TestReadings("/some/page.html?with=a%2fquery") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// The time grows with the length of a path, not with its square.
func TestReadingsOfLongPaths(t *testing.T) {
	rules := rulesOf("User-agent: *\nDisallow: /private\n", robots.Options{})
	for _, unit := range []string{"/..", "/a/%2e%2e", "//", "/a", "%5C..", "/%2e", "/a;b", ";", "%3b", "%25", "%2525", "/..;/"} {
		if v := rules.TestReadings(strings.Repeat(unit, 64<<10/len(unit)) + "/private"); !v.Allowed && unit == "/a" {
			t.Errorf("%s: %+v", unit, v)
		}
	}
}
