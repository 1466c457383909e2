package main

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
)

// newTestFrontier returns a Frontier whose hosts can be asked again a second after Done, and
// those named "later" after a minute, by an error with RetryAt.
func newTestFrontier() *Frontier {
	return NewFrontier(func(_ context.Context, url string) (time.Time, error) {
		if hostOf(url) == "later" {
			return time.Time{}, &politeness.Error{RetryAt: time.Now().Add(time.Minute), Err: politeness.ErrBlocked}
		}
		if hostOf(url) == "never" {
			return time.Time{}, &politeness.Error{Err: politeness.ErrDisallowed}
		}
		return time.Now().Add(time.Second), nil
	})
}

func take(t *testing.T, f *Frontier, want string, after time.Duration) {
	t.Helper()
	begin := time.Now()
	got, err := f.Take(t.Context())
	if got != want || err != nil || time.Since(begin) != after {
		t.Errorf("took %q, %v after %v, not %q after %v", got, err, time.Since(begin), want, after)
	}
}

func end(t *testing.T, f *Frontier) {
	t.Helper()
	if got, err := f.Take(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("took %q, %v, not the end", got, err)
	}
}

func TestFrontierOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTestFrontier()
		for _, host := range []string{"http://a", "http://later", "http://never"} {
			f.Add(host+"/1", host+"/2")
			take(t, f, host+"/1", 0)
		}
		f.Done(t.Context(), "http://later/1", true)
		f.Done(t.Context(), "http://never/1", false)
		take(t, f, "http://never/2", 0) // its refusal costs nothing
		f.Done(t.Context(), "http://never/2", false)
		f.Done(t.Context(), "http://a/1", false)
		take(t, f, "http://a/2", time.Second)
		f.Add("http://a/3") // found by the worker
		f.Done(t.Context(), "http://a/2", false)
		take(t, f, "http://a/3", time.Second)
		f.Done(t.Context(), "http://a/3", false)
		take(t, f, "http://later/1", 58*time.Second)
		f.Done(t.Context(), "http://later/1", false)
		take(t, f, "http://later/2", time.Minute)
		f.Done(t.Context(), "http://later/2", false)
		end(t, f)
		end(t, f)
	})
}

// A host is lent to one worker at a time; a worker that waits gets what comes up meanwhile.
func TestFrontierWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTestFrontier()
		f.Add("http://a/1", "http://a/2")
		take(t, f, "http://a/1", 0)
		time.AfterFunc(3*time.Second, func() { f.Add("http://b/1") })
		take(t, f, "http://b/1", 3*time.Second)
		time.AfterFunc(3*time.Second, func() { f.Done(t.Context(), "http://a/1", false) })
		take(t, f, "http://a/2", 4*time.Second)

		// Two wait for the end, which comes when the last host is given back without a URL.
		ended := make(chan error)
		for range 2 {
			go func() {
				_, err := f.Take(t.Context())
				ended <- err
			}()
		}
		synctest.Wait()
		f.Done(t.Context(), "http://a/2", false)
		f.Done(t.Context(), "http://b/1", false)
		for range 2 {
			if err := <-ended; !errors.Is(err, io.EOF) {
				t.Errorf("error is %v", err)
			}
		}
	})
}

func TestFrontierCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTestFrontier()
		f.Add("http://later/1")
		take(t, f, "http://later/1", 0)
		f.Done(t.Context(), "http://later/1", true)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		ended := make(chan error)
		for range 2 { // one watches the clock, one waits for that one
			go func() {
				_, err := f.Take(ctx)
				ended <- err
			}()
		}
		for range 2 {
			if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error is %v", err)
			}
		}
		take(t, f, "http://later/1", 55*time.Second) // nothing is lost
	})
}

func TestAgain(t *testing.T) {
	for _, test := range []struct {
		name   string
		status int
		err    error
		want   bool
	}{
		{"a page", 200, nil, false},
		{"too many requests", 429, nil, true},
		{"a body that broke", 200, io.ErrUnexpectedEOF, false},
		{"refused for now", 0, &politeness.Error{RetryAt: time.Now(), Err: politeness.ErrBusy}, true},
		{"refused for good", 0, &politeness.Error{Err: politeness.ErrDisallowed}, false},
	} {
		if got := Again(test.status, test.err); got != test.want {
			t.Errorf("%s: %v, not %v", test.name, got, test.want)
		}
	}
}
