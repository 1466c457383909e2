package main

import "testing"

func TestSURT(t *testing.T) {
	for raw, want := range map[string]string{
		"https://example.com/":                  "com,example)/",
		"http://www.blog.Example.com/A?y=2&x=1": "com,example,blog)/A?x=1&y=2",
		"https://example.com:8443/a%2Fb":        "com,example:8443)/a%2Fb",
		"http://127.0.0.1:80/a":                 "127.0.0.1:80)/a",
		"http://[2001:db8::1]/a":                "2001:db8::1)/a",
	} {
		if got := surt(raw); got != want {
			t.Errorf("surt(%q) = %q, want %q", raw, got, want)
		}
	}
}
