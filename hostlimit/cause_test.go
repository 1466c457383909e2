package hostlimit

import (
	"errors"
	"testing"
)

func TestCauseTellsWhatRefused(t *testing.T) {
	for _, test := range []struct {
		o    Outcome
		want string
	}{
		{Outcome{Status: 429}, "status 429"},
		{Outcome{Status: 400}, "status 400"},
		{Outcome{Status: 599}, "status 599"},
		{Outcome{Err: errors.New("reset")}, "network error"},
		{Outcome{Status: 999}, "refused"},
		{Outcome{Status: 302}, "refused"},
	} {
		if got := causeOf(test.o).String(); got != test.want {
			t.Errorf("cause of %+v: %q, want %q", test.o, got, test.want)
		}
	}
}
