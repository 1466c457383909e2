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
	found := problems.List{Prefix: "Config."}
	var none *testing.T
	if v := problems.OrNil[any]("B", 7, &found); v != 7 || found.Err() != nil {
		t.Errorf("a number: %v, %v", v, found.Err())
	}
	if v := problems.OrNil[any]("C", nil, &found); v != nil || found.Err() != nil {
		t.Errorf("nil: %v, %v", v, found.Err())
	}
	const want = "Config.A: holds a nil *testing.T: leave the field itself nil for its default"
	if v := problems.OrNil[any]("A", none, &found); v != nil || found.Err() == nil || found.Err().Error() != want {
		t.Errorf("a nil pointer: %v, %v", v, found.Err())
	}
}

// TestAListHasAProblemALine, each with its whole field.
func TestAListHasAProblemALine(t *testing.T) {
	found := problems.List{Prefix: "Config."}
	found.Add("A", nil)
	found.Add("B", errors.Join(errors.New("one"), errors.New("two")))
	found.Add("C", errors.New("three"))
	const want = "Config.B: one\nConfig.B: two\nConfig.C: three"
	if err := found.Err(); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
