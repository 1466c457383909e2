package contexts

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := Sleep(t.Context(), time.Second); err != nil || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := Sleep(ctx, time.Minute); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 2*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// TestEither is done when one of the two is, and leaves nothing behind.
func TestEither(t *testing.T) {
	for _, ends := range []string{"ctx", "other", "none"} {
		synctest.Test(t, func(t *testing.T) {
			ctx, endCtx := context.WithCancel(t.Context())
			defer endCtx()
			other, endOther := context.WithCancel(t.Context())
			defer endOther()
			either, stop := Either(ctx, other)
			if either.Err() != nil {
				t.Errorf("before: %v", either.Err())
			}
			switch ends {
			case "ctx":
				endCtx()
			case "other":
				endOther()
			}
			synctest.Wait()
			if isDone := either.Err() != nil; isDone != (ends != "none") {
				t.Errorf("%s ends: %v", ends, either.Err())
			}
			stop()
			if either.Err() == nil {
				t.Error("it isn't done after stop")
			}
		})
	}
}
