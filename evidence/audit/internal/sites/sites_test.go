package sites

import "testing"

func TestSplitURL(t *testing.T) {
	for in, want := range map[string][2]string{
		"https://H.example:443/a?b#c": {"https://h.example", "/a?b"},
		"http://h:80":                 {"http://h", "/"},
		"HTTP://h:8080?q=/x":          {"http://h:8080", "/?q=/x"},
		"/path":                       {"", "/path"},
		"https:///path":               {"https://", "/path"},
	} {
		if origin, target := SplitURL(in); origin != want[0] || target != want[1] {
			t.Errorf("%s: %q, %q", in, origin, target)
		}
	}
}
