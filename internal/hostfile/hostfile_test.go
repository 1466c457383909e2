package hostfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/internal/hostfile"
)

// word takes one word behind a host.
func word(rest string) (string, error) {
	if strings.ContainsAny(rest, " !") {
		return "", errors.New("more than a word")
	}
	return rest, nil
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, text string) (*hostfile.File[string], string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hosts")
	write(t, path, text)
	f, err := hostfile.Open(path, word)
	if err != nil {
		t.Fatal(err)
	}
	return f, path
}

func TestMostSpecialLineHolds(t *testing.T) {
	f, _ := open(t, "\ufeff# hosts\n.example.com  suffix # why\r\n\nwww.Example.com exact\nwww.example.com:8080 port\n.a.example.com longer\nBÜCHER.example idn\n::1 six\n192.0.2.1 four\n.test\n")
	for key, want := range map[string]string{
		"example.com": "suffix", "shop.example.com": "suffix", "x.shop.example.com": "suffix", "www.example.com": "exact",
		"www.example.com:8080": "port", "www.example.com:9090": "exact", "shop.example.com:9090": "suffix",
		"a.example.com": "longer", "b.a.example.com": "longer", "xn--bcher-kva.example": "idn", "[::1]": "six", "[::1]:8080": "six",
		"192.0.2.1": "four", "192.0.2.1:81": "four", "x.test": "",
	} {
		if got, ok := f.Find(key); !ok || got != want {
			t.Errorf("%s: %q, %v; want %q", key, got, ok, want)
		}
	}
	for _, key := range []string{"notexample.com", "com", "example.org", "192.0.2.2", "0.2.1", "", "[::2]", "example.com.evil.org"} {
		if got, ok := f.Find(key); ok {
			t.Errorf("%s: %q", key, got)
		}
	}
	var all []string
	for host, value := range f.All {
		all = append(all, host+"="+value)
	}
	if got, want := strings.Join(all, " "), ".a.example.com=longer .example.com=suffix .test= 192.0.2.1=four [::1]=six "+
		"www.example.com=exact www.example.com:8080=port xn--bcher-kva.example=idn"; got != want {
		t.Errorf("all: %s", got)
	}
}

func TestFaultsAreReportedWithTheirLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts")
	write(t, path, "example.com\nhttps://example.com/ a\n*.example.com\nexample.com again\nexample.org two words\nu@h\n.\na..example\n.a.example:8080\n")
	_, err := hostfile.Open(path, word)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		`line 2: "https://example.com/": is a URL`, `line 3: "*.example.com": a suffix is written with a dot`,
		`line 4: "example.com": a second line`, `line 5: "example.org": more than a word`, `line 6: "u@h"`, `line 7: "."`, `line 8: "a..example"`,
		`line 9: ".a.example:8080": a suffix holds for every port`, path,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in\n%v", want, err)
		}
	}
	if _, err := hostfile.Open(path+"x", word); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that isn't there: %v", err)
	}
	write(t, path, strings.Repeat("a b c\n", 1000))
	if _, err := hostfile.Open(path, word); strings.Count(err.Error(), "\n") > 25 {
		t.Errorf("%d lines of error", strings.Count(err.Error(), "\n"))
	}
}

// TestFileIsReadAgainWhenItChanges, a second later at most, and what can't be understood of it
// leaves in force what held before.
func TestFileIsReadAgainWhenItChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, path := open(t, "a.example one\nb.example one\n")
		says := func(want string) {
			t.Helper()
			var got []string
			for host, value := range f.All {
				got = append(got, host+"="+value)
			}
			if got := strings.Join(got, " "); got != want {
				t.Errorf("says %q, want %q", got, want)
			}
		}
		write(t, path, "a.example two\n")
		says("a.example=one b.example=one")
		time.Sleep(time.Second)
		says("a.example=two")
		if err := f.Err(); err != nil {
			t.Error(err)
		}

		write(t, path, "a.example three\nb.example !\nc.example one\n")
		time.Sleep(time.Second)
		says("a.example=three c.example=one")
		if err := f.Err(); err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("a faulty line: %v", err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		says("a.example=three c.example=one")
		if err := f.Err(); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a file that is gone: %v", err)
		}
		write(t, path, "")
		time.Sleep(time.Second)
		says("")
		if err := f.Err(); err != nil {
			t.Error(err)
		}
	})
}

func FuzzOpen(f *testing.F) {
	f.Add([]byte("example.com a\n.example.org\n"))
	f.Add([]byte("\xff\xfe[::\n:80 x\n%zz\n"))
	path := filepath.Join(f.TempDir(), "hosts")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := hostfile.Open(path, word)
		if err != nil {
			return
		}
		for host := range file.All {
			if _, ok := file.Find(strings.TrimPrefix(host, ".")); !ok {
				t.Errorf("%q is listed and can't be found", host)
			}
		}
	})
}
