package robotscache

import (
	"reflect"
	"testing"
	"time"
)

// TestOutageOutlivesTheCache: an origin that asks to be left alone for a day is asked once, however
// often a crawler is started, and the last good copy stays.
func TestOutageOutlivesTheCache(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, cfg := range []Config{{}, {ServeStale: true}, {OnUnreachable: Allow}} {
			cfg.Store = Dir(t.TempDir())
			newRig(t, cfg, always(200, private)).get(t, site)
			time.Sleep(2 * time.Hour)
			asked := 0
			for run := range 26 {
				r := newRig(t, cfg, always(503, "", "Retry-After", "86400"))
				e := r.get(t, site)
				ev := r.event(t)
				asked += len(r.sent())
				want := 1 + run/24
				if asked != want || !ev.Unreachable || ev.Restored != (len(r.sent()) == 0) || e.Reason != "status 503" || e.Err == nil {
					t.Fatalf("%+v, run %d: asked %d times, %+v, %+v", cfg, run, asked, e, ev)
				}
				if e.Denied == (cfg.ServeStale || cfg.OnUnreachable == Allow) || e.Stale != cfg.ServeStale || (ev.SHA256 != "") != cfg.ServeStale {
					t.Errorf("%+v, run %d: %+v, %+v", cfg, run, e, ev)
				}
				time.Sleep(time.Hour)
			}
			// The last good copy is asked about once the origin answers again.
			time.Sleep(24 * time.Hour)
			r := newRig(t, cfg, always(200, private))
			if e := r.get(t, site); allowed(e, "/private") || !allowed(e, "/") || e.Reason != "" {
				t.Errorf("%+v: %+v", cfg, e)
			}
			if e := newRig(t, cfg, broken).get(t, site); e.Denied || e.Reason != "" {
				t.Errorf("%+v: an answer doesn't end the outage: %+v", cfg, e)
			}
		}
	})
}

// TestOutageOutlivesTheAnswer that was there before it.
func TestOutageOutlivesTheAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for status, life := range map[int]time.Duration{404: maxTTL, 200: maxStale} {
			cfg := Config{Store: Dir(t.TempDir())}
			newRig(t, cfg, always(status, private)).get(t, site)
			time.Sleep(life - time.Hour)
			newRig(t, cfg, always(503, "", "Retry-After", "86400")).get(t, site)
			time.Sleep(2 * time.Hour)
			r := newRig(t, cfg, always(200, private))
			if e := r.get(t, site); len(r.sent()) != 0 || !e.Denied || e.Reason != "status 503" {
				t.Errorf("%d: asked %d times, %+v", status, len(r.sent()), e)
			}
		}
	})
}

// TestOutageIsBounded: after a clock was set back it lasts no longer than an origin may ask for.
func TestOutageIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := Dir(t.TempDir())
		r := Record{URL: site + "/robots.txt", Fetched: time.Now(), Until: time.Now().Add(1000 * time.Hour), Reason: "status\x1b503"}
		if err := store.Save(t.Context(), site, r); err != nil {
			t.Fatal(err)
		}
		rig := newRig(t, Config{Store: store}, always(200, private))
		if e := rig.get(t, site); !e.Denied || time.Until(e.Expires) != maxTTL || e.Reason != `status\x1b503` {
			t.Errorf("%+v", e)
		}
		time.Sleep(maxTTL)
		if e := rig.get(t, site); e.Denied {
			t.Errorf("%+v", e)
		}
	})
}

// TestOutageOfADayIsShared: a day is the longest that an origin may ask for. Another cache, which
// fetches in the same moment, gets it from the Store.
func TestOutageOfADayIsShared(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newSharedStore()
		one := newRig(t, Config{Store: store}, always(200, private))
		other := newRig(t, Config{Store: store}, broken)
		one.get(t, site)
		other.get(t, site)
		time.Sleep(time.Hour)
		one.answer = always(503, "", "Retry-After", "86400")
		one.get(t, site)
		if e := other.get(t, site); !e.Denied || time.Until(e.Expires) != 24*time.Hour || len(other.sent()) != 0 {
			t.Errorf("asked %d times, %+v", len(other.sent()), e)
		}
	})
}

// TestOutageEndsOnTime: at Until one caller fetches, and the others use the old copy.
func TestOutageEndsOnTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newSharedStore()
		one := newRig(t, Config{Store: store}, always(200, private))
		one.get(t, site)
		time.Sleep(time.Hour)
		one.answer = broken
		end := one.get(t, site).Expires
		for _, left := range []time.Duration{1, 0} {
			time.Sleep(time.Until(end) - left)
			r := newRig(t, Config{Store: store}, always(200, private))
			e := r.get(t, site)
			if e.Denied != (left > 0) || r.events[0].Unreachable != e.Denied || len(r.sent()) > 0 == e.Denied {
				t.Errorf("%v before the end: asked %d times, %+v", left, len(r.sent()), r.events)
			}
		}
	})
}

// TestRecordsOfBeforeAreRead: a file without Until and Reason is a record of an answer.
func TestRecordsOfBeforeAreRead(t *testing.T) {
	const before = "robotscache 1 4ebc66b778a953f65da9b19b237dce3f376863b93e9078dcd7a9178467731ed5\n" +
		`{"origin":"https://example.com","url":"https://example.com/robots.txt","status":200,"etag":"\"1\"",` +
		`"fetched":"2001-09-09T01:46:40Z","maxAge":3600000000000}` + "\nUser-agent: *\nDisallow: /private\n"
	want := Record{
		URL: site + "/robots.txt", Status: 200, Body: []byte("User-agent: *\nDisallow: /private\n"), ETag: `"1"`,
		Fetched: time.Unix(1e9, 0).UTC(), MaxAge: time.Hour,
	}
	if got, err := DecodeRecord([]byte(before), site); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}
