package robotscache

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestRestart: a crawl that is resumed doesn't fetch fresh copies again, and revalidates the others.
func TestRestart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := Config{Store: Dir(filepath.Join(t.TempDir(), "made", "when", "needed")), RecordText: true}
		web := func(req *http.Request) (*http.Response, error) {
			switch {
			case req.URL.Host == "none.example":
				return reply(404, "", "Cache-Control", "max-age=7200"), nil
			case req.URL.Host == "down.example":
				return reply(503, ""), nil
			case req.Header.Get("If-None-Match") == `"1"` && req.Header.Get("If-Modified-Since") == "yesterday":
				return reply(304, ""), nil
			}
			return reply(200, private, "ETag", `"1"`, "Last-Modified", "yesterday", "Cache-Control", "max-age=7200"), nil
		}
		const none, down = "https://none.example", "https://down.example"
		r := newRig(t, cfg, web)
		for _, u := range []string{site, none, down} {
			r.get(t, u)
		}

		time.Sleep(time.Hour)
		r = newRig(t, cfg, web)
		e := r.get(t, site)
		if allowed(e, "/private") || !allowed(e, "/") || len(e.Sitemaps()) != 1 || time.Until(e.Expires) != time.Hour {
			t.Errorf("restored %+v, for %v", e, time.Until(e.Expires))
		}
		ev := r.event(t)
		want := Event{
			Origin: site, URL: site + "/robots.txt", Status: 200, Bytes: int64(len(private)), SHA256: sum(private), Text: private,
			Start: time.Now().Add(-time.Hour), TTL: 2 * time.Hour, Until: e.Expires, Restored: true,
		}
		if !ev.Start.Equal(want.Start) {
			t.Errorf("restored as of %v", ev.Start)
		}
		want.Start = ev.Start
		if !reflect.DeepEqual(ev, want) {
			t.Errorf("event %+v, want %+v", ev, want)
		}
		if e := r.get(t, none); !allowed(e, "/private") || time.Until(e.Expires) != time.Hour {
			t.Errorf("restored %+v", e)
		}
		if len(r.sent()) != 0 {
			t.Errorf("asked again: %q", r.sent())
		}
		if !r.get(t, down).Denied || len(r.sent()) != 1 {
			t.Error("an outage was restored")
		}

		time.Sleep(2 * time.Hour)
		for range 2 { // the 304 is saved, too
			r = newRig(t, cfg, web)
			if allowed(r.get(t, site), "/private") {
				t.Error("rules lost")
			}
		}
		if s := counts(r.Cache); s != (Stats{Origins: 1, Restored: 1}) || len(r.sent()) != 0 {
			t.Errorf("after a 304 was saved: %+v, %q", s, r.sent())
		}

		time.Sleep(maxTTL)
		r = newRig(t, cfg, web)
		r.get(t, none)
		r.get(t, site)
		if s := counts(r.Cache); s != (Stats{Origins: 2, Restored: 1, Revalidated: 1, Fetched: 1}) {
			t.Errorf("after a day: %+v", s)
		}
	})
}

// TestRestartInAnOutage: a copy from the disk is served like one in memory.
func TestRestartInAnOutage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := Config{Store: Dir(t.TempDir()), ServeStale: true}
		newRig(t, cfg, always(200, private)).get(t, site)
		time.Sleep(29 * 24 * time.Hour)
		r := newRig(t, cfg, broken)
		if e := r.get(t, site); !e.Stale || allowed(e, "/private") || !allowed(e, "/") {
			t.Errorf("after 29 days: %+v", e)
		}
		time.Sleep(24 * time.Hour)
		r = newRig(t, cfg, broken)
		if e := r.get(t, site); !e.Denied || e.Stale || counts(r.Cache).Restored != 0 {
			t.Errorf("after 30 days: %+v", e)
		}
	})
}

// TestRecordsAreOfUse for 30 days, or for one if there were no rules.
func TestRecordsAreOfUse(t *testing.T) {
	for status, life := range map[int]time.Duration{200: 30 * 24 * time.Hour, 404: 24 * time.Hour} {
		for age, useful := range map[time.Duration]bool{life - 1: true, life: false} {
			bubble(t, func(t *testing.T) {
				cfg := Config{Store: Dir(t.TempDir())}
				newRig(t, cfg, always(status, private)).get(t, site)
				time.Sleep(age)
				r := newRig(t, cfg, broken)
				r.get(t, site)
				if (counts(r.Cache).Restored == 1) != useful {
					t.Errorf("status %d, after %v: %+v", status, age, counts(r.Cache))
				}
			})
		}
	}
}

// TestNoRulesByARedirectAreRestored: a redirect that leads nowhere is an answer like a 404.
func TestNoRulesByARedirectAreRestored(t *testing.T) {
	for name, answer := range map[string]func(*http.Request) (*http.Response, error){
		"no Location": always(301, ""),
		"a loop":      always(302, "", "Location", "/robots.txt"),
	} {
		bubble(t, func(t *testing.T) {
			cfg := Config{Store: Dir(t.TempDir())}
			newRig(t, cfg, answer).get(t, site)
			time.Sleep(time.Minute)
			r := newRig(t, cfg, broken)
			if e := r.get(t, site); !allowed(e, "/") || len(r.sent()) != 0 || !r.event(t).Restored || r.event(t).StoreErr != nil {
				t.Errorf("%s: %+v, %d requests, event %+v", name, e, len(r.sent()), r.event(t))
			}
		})
	}
}

// TestOthersUseTheRestoredCopy while one caller revalidates it.
func TestOthersUseTheRestoredCopy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := Config{Store: Dir(t.TempDir())}
		newRig(t, cfg, always(200, private)).get(t, site)
		time.Sleep(2 * time.Hour)
		r := newRig(t, cfg, after(time.Second, 200, ""))
		var wg sync.WaitGroup
		wg.Go(func() { r.get(t, site) })
		synctest.Wait()
		begin := time.Now()
		if e := r.get(t, site); allowed(e, "/private") || time.Since(begin) != 0 {
			t.Errorf("%+v after %v", e, time.Since(begin))
		}
		wg.Wait()
		if e := r.get(t, site); !allowed(e, "/private") || len(r.sent()) != 1 {
			t.Errorf("%+v, %d requests", e, len(r.sent()))
		}
	})
}

// TestEvictedButStored: an evicted origin isn't fetched again.
func TestEvictedButStored(t *testing.T) {
	r := newRig(t, Config{MaxBytes: 1, Store: Dir(t.TempDir())}, always(200, private))
	for range 3 {
		r.get(t, site)
		r.get(t, "https://other.example")
	}
	if n := len(r.sent()); n != 2 {
		t.Errorf("%d requests", n)
	}
}

// A failingStore returns the errors that it is given.
type failingStore struct {
	record Record
	ok     bool
	load   error
	save   error
	saved  int
	last   Record // that was saved

	lockable bool // though load fails
}

func (s *failingStore) Load(context.Context, string) (Record, bool, error) {
	return s.record, s.ok, s.load
}

func (s *failingStore) Save(_ context.Context, _ string, r Record) error {
	s.saved++
	s.last = r
	return s.save
}

func (s *failingStore) Lock(context.Context, string) (unlock func(), err error) {
	if s.lockable {
		return func() {}, nil
	}
	return func() {}, s.load
}

// TestStoreErrorsDoNoHarm: a crawl goes on, and the errors are reported.
func TestStoreErrorsDoNoHarm(t *testing.T) {
	errDisk := errors.New("disk full")
	now := time.Now()
	good := Record{URL: site + "/robots.txt", Status: 200, Body: []byte("User-agent: *\nDisallow: /\n"), Fetched: now.Add(-time.Minute)}
	change := func(f func(*Record)) Record {
		r := good
		f(&r)
		return r
	}
	tests := map[string]*failingStore{
		"can't load":      {load: errDisk},
		"can't save":      {save: errDisk},
		"neither":         {load: errDisk, save: errDisk},
		"both ok and err": {record: good, ok: true, load: errDisk},
		"status 0":        {ok: true, record: change(func(r *Record) { r.Status = 0 })},
		"status 503":      {ok: true, record: change(func(r *Record) { r.Status = 503 })},
		"status 304":      {ok: true, record: change(func(r *Record) { r.Status = 304 })},
		"status 429":      {ok: true, record: change(func(r *Record) { r.Status = 429 })},
		"too long":        {ok: true, record: change(func(r *Record) { r.Body = make([]byte, MaxBody+1) })},
		"future":          {ok: true, record: change(func(r *Record) { r.Fetched = now.Add(time.Hour) })},
		"lifetime":        {ok: true, record: change(func(r *Record) { r.MaxAge = 1000 * time.Hour })},
		"negative":        {ok: true, record: change(func(r *Record) { r.MaxAge = -time.Hour })},
	}
	for name, store := range tests {
		r := newRig(t, Config{Store: store}, always(200, private))
		if e := r.get(t, site); allowed(e, "/private") || !allowed(e, "/") {
			t.Errorf("%s: %+v", name, e)
		}
		if ev := r.event(t); ev.StoreErr == nil || ev.Unreachable || ev.Restored {
			t.Errorf("%s: event %+v", name, ev)
		} else if (store.load != nil || store.save != nil) != errors.Is(ev.StoreErr, errDisk) {
			t.Errorf("%s: %v", name, ev.StoreErr)
		}
		if store.saved != 1 {
			t.Errorf("%s: saved %d times", name, store.saved)
		}
		newRig(t, Config{Store: store}, broken).get(t, site)
		if store.load != nil { // what is stored isn't known
			if store.saved != 1 {
				t.Errorf("%s: an outage was saved over the last answer", name)
			}
		} else if r := store.last; r.Status != 0 || r.Body != nil || r.Until.IsZero() {
			t.Errorf("%s: the outage was saved with %+v", name, r)
		}
	}
	// The same record undamaged is used, so the cases above fail for their own reason.
	r := newRig(t, Config{Store: &failingStore{record: good, ok: true}}, broken)
	if e := r.get(t, site); allowed(e, "/") || len(r.sent()) != 0 {
		t.Errorf("%+v", e)
	}
}

// TestConfirmedButLost: the store lost the body that a 304 confirms.
func TestConfirmedButLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, body := range []string{private, ""} {
			store := &failingStore{}
			r := newRig(t, Config{Store: store}, always(200, body, "ETag", `"1"`))
			r.get(t, site)
			r.answer = always(304, "")
			for _, left := range []failingStore{
				{load: errors.New("disk unplugged")}, {}, {record: Record{Status: 200, Body: []byte("another")}, ok: true},
			} {
				store.record = left.record
				store.ok = left.ok
				store.load = left.load
				time.Sleep(time.Hour)
				if e := r.get(t, site); e.SHA256() != sum(body) || store.saved != 1 {
					t.Errorf("saved %d times, %+v", store.saved, e)
				}
				if ev := r.event(t); !errors.Is(ev.StoreErr, left.load) || !ev.Revalidated {
					t.Errorf("event %+v", ev)
				}
			}
		}
	})
}

// TestBoundsAreKept: values just within the bounds come back from the Store.
func TestBoundsAreKept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for control, ttl := range map[string]time.Duration{"max-age=1": 5 * time.Minute, "max-age=99999999": 24 * time.Hour} {
			cfg := Config{Store: Dir(t.TempDir())}
			body := private + strings.Repeat("#", MaxBody-len(private))
			newRig(t, cfg, always(200, body, "Cache-Control", control)).get(t, site)
			r := newRig(t, cfg, broken)
			if e := r.get(t, site); allowed(e, "/private") || !allowed(e, "/") || time.Until(e.Expires) != ttl || e.SHA256() != sum(body) {
				t.Errorf("%s: %+v, %+v", control, e, r.event(t))
			}
		}
	})
}

// TestLongestTextsOfAServerAreStored beside the longest body; longer ones are ignored. JSON takes six
// bytes for each & in them.
func TestLongestTextsOfAServerAreStored(t *testing.T) {
	const longest, longestTag = 8 << 10, 1 << 10
	target := "https://cdn.example.com/robots.txt?"
	target += strings.Repeat("&", longest-len(target))
	tag := `"` + strings.Repeat("&", longestTag-2) + `"`
	web := func(req *http.Request) (*http.Response, error) {
		switch {
		case req.URL.Host == "example.com":
			return reply(302, "", "Location", target), nil
		case req.Header.Get("If-None-Match") == tag && req.Header.Get("If-Modified-Since") == tag:
			return reply(304, ""), nil
		}
		return reply(200, private+strings.Repeat("#", MaxBody-len(private)), "ETag", tag, "Last-Modified", tag), nil
	}
	bubble(t, func(t *testing.T) {
		cfg := Config{Store: Dir(t.TempDir())}
		newRig(t, cfg, web).get(t, site)
		time.Sleep(2 * time.Hour)
		r := newRig(t, cfg, web)
		if e := r.get(t, site); allowed(e, "/private") || counts(r.Cache) != (Stats{Origins: 1, Restored: 1, Revalidated: 1}) {
			t.Errorf("%+v, %+v", e, r.event(t))
		}
		tag = tag[1:] + "&&" // one byte more
		r = newRig(t, Config{}, web)
		for range 2 {
			r.get(t, site)
			time.Sleep(time.Hour)
		}
		if s := counts(r.Cache); s.Fetched != 2 {
			t.Errorf("%+v", s)
		}
		target += "&"
		if e := newRig(t, Config{}, web).get(t, site); !allowed(e, "/private") {
			t.Errorf("%+v", e)
		}
	})
}

func TestDir(t *testing.T) {
	dir := t.TempDir()
	store := Dir(dir)
	r := Record{
		URL: site + "/robots.txt", Status: 200, Body: []byte("a\nb\x00\xff"), ETag: `W/"1"`, LastModified: "yesterday",
		Fetched: time.Date(2026, 11, 21, 1, 2, 3, 4, time.UTC), MaxAge: 2 * time.Hour,
	}
	if _, ok, err := store.Load(t.Context(), site); ok || err != nil {
		t.Fatalf("an empty directory has a record: %v", err)
	}
	for i := range 2 { // the second replaces the first
		r.Status += i
		if store.Save(t.Context(), site, r) != nil {
			t.Fatal("can't save")
		}
		if got, ok, err := store.Load(t.Context(), site); !ok || err != nil || !reflect.DeepEqual(got, r) {
			t.Fatalf("loaded %+v, %v, %v; want %+v", got, ok, err, r)
		}
	}
	if _, ok, err := store.Load(t.Context(), "https://other.example"); ok || err != nil {
		t.Errorf("another origin has a record: %v", err)
	}
	var files []string
	if err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if !d.IsDir() {
			files = append(files, path)
		}
		return err
	}); err != nil || len(files) != 1 || len(filepath.Base(files[0])) != 64 || filepath.Base(filepath.Dir(files[0])) != filepath.Base(files[0])[:2] {
		t.Errorf("files %q, %v", files, err)
	}
}

// TestDamagedFileIsNone: a byte is changed, added or missing.
func TestDamagedFileIsNone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := Dir(t.TempDir())
		newRig(t, Config{Store: store}, always(200, private)).get(t, site)
		name := store.dir.File(site)
		whole, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		damaged := [][]byte{nil, {0}, append(whole[:len(whole):len(whole)], 'x'), bytes.Repeat([]byte("x"), 2*MaxBody)}
		for i := range whole {
			changed := bytes.Clone(whole)
			changed[i] ^= 1
			damaged = append(damaged, changed, whole[:i])
		}
		for i, data := range damaged {
			if err := os.WriteFile(name, data, 0o600); err != nil {
				t.Fatal(err)
			}
			if r, ok, err := store.Load(t.Context(), site); ok || err == nil || !reflect.DeepEqual(r, Record{}) {
				t.Fatalf("damage %d: loaded %+v, %v, %v", i, r, ok, err)
			}
		}
		r := newRig(t, Config{Store: store}, always(200, "User-agent: *\nDisallow: /new\n"))
		if e := r.get(t, site); allowed(e, "/new") || !allowed(e, "/private") || r.event(t).StoreErr == nil {
			t.Errorf("%+v, event %+v", e, r.event(t))
		}
		if _, ok, err := store.Load(t.Context(), site); !ok || err != nil {
			t.Errorf("not mended: %v", err)
		}
		// A record of another origin, copied into this one's place.
		if err := store.Save(t.Context(), "https://other.example", Record{}); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(store.dir.File("https://other.example"), name); err != nil {
			t.Fatal(err)
		}
		if _, ok, err := store.Load(t.Context(), site); ok || err == nil {
			t.Error("another origin's record")
		}
	})
}

// TestSaveIsAtomic: readers see one record or the other, and no file is left over.
func TestSaveIsAtomic(t *testing.T) {
	dir := t.TempDir()
	store := Dir(dir)
	var writers, readers sync.WaitGroup
	for i := range 4 {
		body := bytes.Repeat([]byte{byte('a' + i)}, 100<<10)
		writers.Go(func() {
			for range 20 {
				if err := store.Save(t.Context(), site, Record{Status: 200, Body: body}); err != nil {
					t.Error(err)
				}
			}
		})
		readers.Go(func() {
			for range 50 {
				r, ok, err := store.Load(t.Context(), site)
				if err != nil || ok && (len(r.Body) != 100<<10 || len(bytes.Trim(r.Body, string(r.Body[:1]))) != 0) {
					t.Errorf("half a record: %v, %v", ok, err)
				}
			}
		})
	}
	writers.Wait()
	readers.Wait()
	if left, _ := filepath.Glob(filepath.Join(dir, "*", "*.tmp")); len(left) != 0 {
		t.Errorf("left over: %q", left)
	}
}

func TestDirThatCannotBe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	store := Dir(file)
	if err := store.Save(t.Context(), site, Record{}); err == nil {
		t.Error("saved below a file")
	}
	if _, ok, err := store.Load(t.Context(), site); ok || err == nil {
		t.Errorf("loaded below a file: %v", err)
	}
	// A directory where the file should go: the temporary file is taken away.
	dir := t.TempDir()
	store = Dir(dir)
	if err := os.MkdirAll(store.dir.File(site), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := store.Save(t.Context(), site, Record{}); err == nil {
		t.Error("saved over a directory")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*", "*.tmp")); len(left) != 0 {
		t.Errorf("left over: %q", left)
	}
	if _, ok, err := store.Load(t.Context(), site); ok || err == nil {
		t.Errorf("loaded a directory: %v", err)
	}
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte(private), `"1"`, 200, int64(1))
	f.Add([]byte("\n\n"), "\n\x00\"", -1, int64(-1))
	f.Fuzz(func(t *testing.T, body []byte, etag string, status int, nanos int64) {
		if _, err := DecodeRecord(body, etag); err == nil {
			t.Fatalf("noise is a record: %q", body)
		}
		etag = strings.ToValidUTF8(etag, "")
		r := Record{URL: etag, Status: status, Body: body, ETag: etag, LastModified: etag, Fetched: time.Unix(0, nanos).UTC(), MaxAge: time.Duration(nanos)}
		data, err := r.Encode(site)
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeRecord(data, site)
		if err != nil || !reflect.DeepEqual(got, r) {
			t.Fatalf("%+v became %+v, %v", r, got, err)
		}
		data[uint(nanos)%uint(len(data))] ^= 1
		if _, err := DecodeRecord(data, site); err == nil {
			t.Fatalf("damaged, and not seen: %q", data)
		}
	})
}

// TestStoreManyOrigins: the files of many origins spread over directories.
func TestStoreManyOrigins(t *testing.T) {
	dir := t.TempDir()
	cfg := Config{Store: Dir(dir)}
	r := newRig(t, cfg, always(200, private))
	const n = 500
	for i := range n {
		r.get(t, fmt.Sprintf("https://%d.example", i))
	}
	if dirs, _ := filepath.Glob(filepath.Join(dir, "??")); len(dirs) < 128 {
		t.Errorf("%d directories", len(dirs))
	}
	again := newRig(t, cfg, broken)
	for i := range n {
		if e := again.get(t, fmt.Sprintf("https://%d.example", i)); allowed(e, "/private") || e.Denied {
			t.Fatalf("origin %d: %+v", i, e)
		}
	}
	if len(again.sent()) != 0 {
		t.Errorf("%d requests", len(again.sent()))
	}
}

// TestRecordsAreJSON for a Store that keeps them so: nothing is lost, the text of robots.txt least.
func TestRecordsAreJSON(t *testing.T) {
	now := time.Now().UTC()
	want := Record{Status: 200, URL: site + "/robots.txt", Body: []byte("User-agent: *\nDisallow: /\xff\n"), Fetched: now, Until: now.Add(time.Hour), ETag: `"1"`}
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Record
	if err := json.Unmarshal(data, &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%s: %+v, %v, want %+v", data, got, err, want)
	}
}
