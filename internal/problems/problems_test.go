package problems_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/go-politeness/politeness/internal/problems"
)

func TestOf(t *testing.T) {
	one, two, three := errors.New("one"), errors.New("two"), errors.New("three")
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, "[]"},
		{one, "[one]"},
		{errors.Join(one, errors.Join(two, three)), "[one two three]"},
		{fmt.Errorf("field: %w", errors.Join(one, two)), "[field: one field: two]"},
		{fmt.Errorf("field: %w", errors.Join(one, fmt.Errorf("sub: %w", errors.Join(two, three)))), "[field: one field: sub: two field: sub: three]"},
		{fmt.Errorf("%w: %w", one, two), "[one: two]"},                                        // one problem
		{fmt.Errorf("field: %w, line 3", errors.Join(one, two)), "[field: one\ntwo, line 3]"}, // so is what goes on behind
	} {
		if got := fmt.Sprint(problems.Of(c.err)); got != c.want {
			t.Errorf("%v: %s, want %s", c.err, got, c.want)
		}
	}
}

func TestOrNil(t *testing.T) {
	var fields []string
	add := func(field string, err error) { fields = append(fields, field+" "+err.Error()) }
	var none *testing.T
	if v := problems.OrNil[any]("A", none, add); v != nil || len(fields) != 1 {
		t.Errorf("a nil pointer: %v, %q", v, fields)
	}
	if v := problems.OrNil[any]("B", 7, add); v != 7 || len(fields) != 1 {
		t.Errorf("a number: %v, %q", v, fields)
	}
	if v := problems.OrNil[any]("C", nil, add); v != nil || len(fields) != 1 {
		t.Errorf("nil: %v, %q", v, fields)
	}
}
