package robotscache

import (
	"context"
	"sync"
	"testing"
	"time"
)

// A storeThatPanics keeps nothing, and calls a function first in each method.
type storeThatPanics struct{ may func(method string) }

func (s storeThatPanics) Load(context.Context, string) (Record, bool, error) {
	s.may("Load")
	return Record{}, false, nil
}

func (s storeThatPanics) Save(context.Context, string, Record) error {
	s.may("Save")
	return nil
}

func (s storeThatPanics) Lock(context.Context, string) (func(), error) {
	s.may("Lock")
	return func() { s.may("unlock") }, nil
}

// TestAPanicCostsTheSiteNoFetch: what the site has answered holds, also where the function that is
// called with it panics, each time. One that panics before is no reason to ask twice.
func TestAPanicCostsTheSiteNoFetch(t *testing.T) {
	for _, method := range []string{"Observe", "Save", "unlock", "Load", "Lock"} {
		t.Run(method, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				panics := true
				may := func(m string) {
					if m == method && panics {
						panic("boom")
					}
				}
				r := newRig(t, Config{Store: storeThatPanics{may}}, always(200, private))
				r.client.Observe = func(context.Context, Event) { may("Observe") }
				get := func() (p any) {
					defer func() { p = recover() }()
					if e, err := r.Get(t.Context(), parse(t, site)); err != nil || allowed(e, "/private") {
						t.Errorf("%+v, %v", e, err)
					}
					return nil
				}
				if got := get(); got != "boom" {
					t.Errorf("panic %v", got)
				}
				before := method == "Load" || method == "Lock"
				panics = !before
				var all sync.WaitGroup
				for range 100 {
					all.Go(func() {
						if got := get(); got != nil {
							t.Errorf("the next: panic %v", got)
						}
					})
				}
				all.Wait()
				if n := len(r.sent()); n != 1 {
					t.Errorf("%d requests", n)
				}
				time.Sleep(2 * time.Hour)
				panics = false
				if get() != nil || len(r.sent()) != 2 {
					t.Errorf("two hours later: %d requests", len(r.sent()))
				}
			})
		})
	}
}
