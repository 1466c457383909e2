package robots_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/robots"
)

// asked are values by which a field of Directives asks for something, by the field's type.
var asked = map[reflect.Type]any{
	reflect.TypeFor[bool]():           true,
	reflect.TypeFor[time.Time]():      time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC),
	reflect.TypeFor[robots.Limit]():   robots.Limit{Set: true, Max: 5},
	reflect.TypeFor[robots.Preview](): robots.PreviewLarge,
}

// TestEachFieldTakesPartInMerge: a field that Merge forgets would be read, and lost.
func TestEachFieldTakesPartInMerge(t *testing.T) {
	var none robots.Directives
	for _, field := range reflect.VisibleFields(reflect.TypeFor[robots.Directives]()) {
		value, ok := asked[field.Type]
		if !ok {
			t.Errorf("%s: add a value of type %v to asked", field.Name, field.Type)
			continue
		}
		var one robots.Directives
		reflect.ValueOf(&one).Elem().FieldByIndex(field.Index).Set(reflect.ValueOf(value))
		if got := one.Merge(none); got != one {
			t.Errorf("%s is lost if the first asks for it: %+v", field.Name, got)
		}
		if got := none.Merge(one); got != one {
			t.Errorf("%s is lost if the second asks for it: %+v", field.Name, got)
		}
		if got := one.Merge(one); got != one {
			t.Errorf("%s is lost if both ask for it: %+v", field.Name, got)
		}
		if one.String() == none.String() {
			t.Errorf("%s isn't shown by String", field.Name)
		}
	}
}

// TestEachFlagIsRead, by the name of its field.
func TestEachFlagIsRead(t *testing.T) {
	for _, field := range reflect.VisibleFields(reflect.TypeFor[robots.Directives]()) {
		if field.Type.Kind() != reflect.Bool {
			continue
		}
		name := strings.ToLower(field.Name)
		got := robots.ParseTags([]string{name})
		if !reflect.ValueOf(got).FieldByIndex(field.Index).Bool() || got.String() != name {
			t.Errorf("%q is read as %v", name, got)
		}
	}
}
