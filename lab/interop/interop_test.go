package interop

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/remitly-oss/httpsig-go"
	"github.com/remitly-oss/httpsig-go/keyman"
	"github.com/yaronf/httpsign"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/botauth"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/sfv"
)

// A verifier checks the signature of a request.
type verifier func(*http.Request) error

// verifiers check a request as somebody else has read RFC 9421. The first knows no components with
// a key, so it judges the bare string.
func verifiers(t *testing.T, s *botauth.Signer, public ed25519.PublicKey) map[botauth.Profile]verifier {
	t.Helper()
	keys := keyman.NewKeyFetchInMemory(map[string]httpsig.KeySpec{
		s.KeyID(): {KeyID: s.KeyID(), Algo: httpsig.Algo_ED25519, PubKey: public},
	})
	remitly, err := httpsig.NewVerifier(keys, httpsig.VerifyProfile{
		SignatureLabel:    "sig1",
		AllowedAlgorithms: []httpsig.Algorithm{httpsig.Algo_ED25519},
		RequiredFields:    httpsig.Fields("@authority", "signature-agent"),
		RequiredMetadata: []httpsig.Metadata{
			httpsig.MetaCreated,
			httpsig.MetaExpires,
			httpsig.MetaKeyID,
			httpsig.MetaNonce,
			httpsig.MetaTag,
		},
		CreatedValidDuration: 2 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	config := httpsign.NewVerifyConfig().
		SetKeyID(s.KeyID()).
		SetNotOlderThan(2 * time.Second).
		SetRejectExpired(true).
		SetVerifyCreated(true)
	fields := httpsign.NewFields().AddHeader("@authority").AddDictHeader("signature-agent", "sig1")
	yaronf, err := httpsign.NewEd25519Verifier(public, config, *fields)
	if err != nil {
		t.Fatal(err)
	}
	return map[botauth.Profile]verifier{
		botauth.Cloudflare: func(r *http.Request) error {
			_, err := remitly.Verify(r)
			return err
		},
		botauth.Draft: func(r *http.Request) error { return httpsign.VerifyRequest("sig1", *yaronf, r) },
	}
}

// TestCrawlIsAccepted crawls two sites over TLS, with redirects between them, failures that are
// tried again and connections that are lost; verifiers that we haven't written accept each request.
func TestCrawlIsAccepted(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, profile := range []botauth.Profile{botauth.Draft, botauth.Cloudflare} {
		for _, h2 := range []bool{false, true} {
			t.Run(fmt.Sprintf("profile %d, HTTP/2 %t", profile, h2), func(t *testing.T) {
				s, err := botauth.New(botauth.Config{Key: private, Agent: "https://bot.example.com", Profile: profile})
				if err != nil {
					t.Fatal(err)
				}
				crawl(t, s, h2, verifiers(t, s, public)[profile])
			})
		}
	}
}

func crawl(t *testing.T, s *botauth.Signer, h2 bool, verify verifier) {
	one := &site{t: t, verify: verify, times: map[string]int{}}
	two := &site{t: t, verify: verify, times: map[string]int{}}
	first := one.serve(h2)
	one.other = two.serve(h2).URL
	two.other = one.other
	polite, err := politeness.New(politeness.Config{
		UserAgent: "ExampleBot/1.0 (+https://bot.example.com; bot@example.com)",
		Base:      s.Transport(first.Client().Transport),
		Hosts:     hostlimit.Config{Delay: hostlimit.Delay{Min: time.Millisecond, Max: 20 * time.Millisecond}},
		Retry:     politeness.Retry{Max: 2},
	})
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: polite}
	var all sync.WaitGroup
	for _, path := range []string{"/", "/old/1", "/old/2", "/busy/1", "/lost/1", "/a?b=c", "/%C3%BC"} {
		all.Go(func() {
			resp, err := client.Do(request(t.Context(), first.URL+path))
			if err != nil {
				t.Errorf("%s: %v", path, err)
				return
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Errorf("%s: %s", path, resp.Status)
			}
		})
	}
	all.Wait()
	// Seven pages, two robots.txt, two redirects followed, two tries more.
	if n := one.requests() + two.requests(); n < 13 {
		t.Errorf("%d requests", n)
	}
}

// A site verifies each request. It redirects some pages to another site, and fails at the first
// request of some.
type site struct {
	t      *testing.T
	verify verifier
	other  string // URL of the other site

	mu    sync.Mutex
	times map[string]int // requests, by path
}

// serve serves the site over TLS until the test ends.
func (s *site) serve(h2 bool) *httptest.Server {
	server := httptest.NewUnstartedServer(s)
	server.EnableHTTP2 = h2
	server.StartTLS()
	s.t.Cleanup(server.Close)
	return server
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := s.verify(r); err != nil {
		s.t.Errorf("%s: %v", r.URL, err)
	}
	s.mu.Lock()
	s.times[r.URL.Path]++
	first := s.times[r.URL.Path] == 1
	s.mu.Unlock()
	switch {
	case r.URL.Path == "/robots.txt":
		_, _ = io.WriteString(w, "User-agent: *\nDisallow: /private\n")
	case strings.HasPrefix(r.URL.Path, "/old"):
		target := s.other + "/new" + strings.TrimPrefix(r.URL.Path, "/old")
		http.Redirect(w, r, target, http.StatusMovedPermanently)
	case strings.HasPrefix(r.URL.Path, "/busy") && first:
		w.WriteHeader(http.StatusBadGateway)
	case strings.HasPrefix(r.URL.Path, "/lost") && first:
		panic(http.ErrAbortHandler)
	}
}

// requests returns the number of requests so far.
func (s *site) requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, times := range s.times {
		n += times
	}
	return n
}

func request(ctx context.Context, rawURL string) *http.Request {
	u, err := url.Parse(rawURL)
	if err != nil {
		panic(err)
	}
	return (&http.Request{Method: http.MethodGet, URL: u, Header: http.Header{}}).WithContext(ctx)
}

// FuzzDictionary holds our parser of dictionaries against dunglas/httpsfv: both accept the same
// fields, and find the same in them.
func FuzzDictionary(f *testing.F) {
	for _, field := range []string{
		"train-ai=n;x=1, search", `a=("b" c;d=?0);e=:YQ==:`, "a=@-1, b=1.5", `a=%"%c3%bc"`, `a="\""`, "*=,", "a=1,a=2;b,c", "a=(1 2);x=:YQ:, b=-0",
		"a=1 ,\tb", " a=1 ", "a=1.1234", "a=1234567890123456", "a=*x:/y", "a=?1;b=?2", "a=();b=()", "a=:YR==:",
	} {
		f.Add(field)
	}
	f.Fuzz(func(t *testing.T, field string) {
		ours, ourErr := sfv.ParseDictionary(field)
		theirs, theirErr := calmly(httpsfv.UnmarshalDictionary, field)
		if errors.Is(theirErr, errPanic) {
			return
		}
		if (ourErr == nil) != (theirErr == nil) {
			if known(field) {
				return
			}
			t.Fatalf("%q: ours %v, theirs %v", field, ourErr, theirErr)
		}
		if ourErr != nil {
			return
		}
		names := theirs.Names()
		if len(names) != len(ours) {
			t.Fatalf("%q: ours %v, theirs %q", field, ours, names)
		}
		for _, name := range names {
			item, ok := ours.Get(name)
			member, _ := theirs.Get(name)
			if !ok || !same(item, member) {
				t.Errorf("%q: %s: ours %v, theirs %v", field, name, item, member)
			}
		}
	})
}

// FuzzList does so for lists.
func FuzzList(f *testing.F) {
	for _, field := range []string{
		`"default";r=0;t=30, ("a" b);r=0`, `a;b=:YQ==:;c=?0;d=-1.5;e=@3`, `"\"";`, `%"x"`, "a,",
		"(a b;c=1)", "1 ,\t2",
	} {
		f.Add(field)
	}
	f.Fuzz(func(t *testing.T, field string) {
		ours, ourErr := sfv.ParseList(field)
		theirs, theirErr := calmly(httpsfv.UnmarshalList, field)
		if errors.Is(theirErr, errPanic) {
			return
		}
		switch {
		case (ourErr == nil) != (theirErr == nil):
			if !known(field) {
				t.Fatalf("%q: ours %v, theirs %v", field, ourErr, theirErr)
			}
		case ourErr != nil:
		case len(theirs) != len(ours):
			t.Fatalf("%q: ours %v, theirs %v", field, ours, theirs)
		default:
			for i := range ours {
				if !same(ours[i], theirs[i]) {
					t.Errorf("%q: %d: ours %v, theirs %v", field, i, ours[i], theirs[i])
				}
			}
		}
	})
}

var errPanic = errors.New("httpsfv panicked")

// calmly calls a function of httpsfv, which panics where a Display String ends in its escape, and
// where a Date ends at once.
func calmly[T any](unmarshal func([]string) (T, error), field string) (v T, err error) {
	defer func() {
		if recover() != nil {
			err = errPanic
		}
	}()
	return unmarshal([]string{field})
}

// known reports whether a field is of those about which the two differ for a reason: httpsfv wants
// padding and clean spare bits in a Byte Sequence, which RFC 9651 lets a parser be lenient about,
// and takes white space in a base64 text.
func known(field string) bool {
	return strings.Contains(field, ":") || strings.Contains(field, "%") || longNumber.MatchString(field)
}

// longNumber is a number of as many digits as there may be, and what follows it: httpsfv takes that
// for one more.
var longNumber = regexp.MustCompile(`[0-9.]{15}[^0-9.]`)

func same(ours sfv.Item, theirs httpsfv.Member) bool {
	switch m := theirs.(type) {
	case httpsfv.Item:
		return sameBare(ours.Value, m.Value) && sameParams(ours.Params, m.Params)
	case httpsfv.InnerList:
		list, ok := ours.Value.([]sfv.Item)
		if !ok || len(list) != len(m.Items) || !sameParams(ours.Params, m.Params) {
			return false
		}
		for i := range list {
			if !same(list[i], m.Items[i]) {
				return false
			}
		}
		return true
	}
	return false
}

func sameParams(ours sfv.Dictionary, theirs *httpsfv.Params) bool {
	names := theirs.Names()
	if len(names) != len(ours) {
		return false
	}
	for _, name := range names {
		value, _ := theirs.Get(name)
		if item, ok := ours.Get(name); !ok || !sameBare(item.Value, value) {
			return false
		}
	}
	return true
}

func sameBare(ours, theirs any) bool {
	switch v := ours.(type) {
	case sfv.Token:
		return theirs == httpsfv.Token(v)
	case sfv.Decimal:
		return theirs == float64(v)
	case sfv.Date:
		at, ok := theirs.(time.Time)
		return ok && at.Unix() == int64(v)
	case sfv.DisplayString:
		return theirs == httpsfv.DisplayString(v)
	}
	return reflect.DeepEqual(ours, theirs)
}
