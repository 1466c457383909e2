package evidence_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/internal/logtest"
)

// allTypes are all types of decisions.
var allTypes = []evidence.Type{
	evidence.PolicyStated,
	evidence.RobotsAllowed, evidence.BlockedByRobots, evidence.RobotsFetched, evidence.RobotsRevalidated, evidence.RobotsUnreachable,
	evidence.BlockedByRule, evidence.BudgetWarning, evidence.BudgetExceeded, evidence.Waiting, evidence.SlotTimeout, evidence.Started, evidence.Resent, evidence.Fetched, evidence.StaysOpen,
	evidence.Failed, evidence.Retried, evidence.HostBlocked, evidence.HostCleared, evidence.LeaseExpired, evidence.ResponseRejected,
	evidence.Reserved, evidence.NoIndex, evidence.StateLost, evidence.StateShared, evidence.LimitersApart,
	evidence.Drained,
	evidence.LogClosed, evidence.Checkpoint,
}

func readSchema(t *testing.T) map[string]any {
	t.Helper()
	b, err := os.ReadFile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var s map[string]any
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// validate returns how v fails the JSON Schema s. It knows the keywords that
// schema.json uses, and fails at any other.
func validate(root, s map[string]any, v any, at string) (problems []string) {
	bad := func(format string, args ...any) {
		problems = append(problems, at+": "+fmt.Sprintf(format, args...))
	}
	object, _ := v.(map[string]any)
	text, isText := v.(string)
	number, isNumber := v.(float64)
	for keyword, want := range s {
		switch keyword {
		case "$schema", "$id", "$defs", "title", "description", "then":
		case "$ref":
			name := strings.TrimPrefix(want.(string), "#/$defs/")
			problems = append(problems, validate(root, root["$defs"].(map[string]any)[name].(map[string]any), v, at)...)
		case "type":
			kind := map[reflect.Kind]string{reflect.Map: "object", reflect.String: "string", reflect.Float64: "number", reflect.Bool: "boolean"}[reflect.ValueOf(v).Kind()]
			if kind != want && !(want == "integer" && kind == "number" && number == math.Trunc(number)) {
				bad("%v is a %s, not a %s", v, kind, want)
			}
		case "required":
			for _, name := range want.([]any) {
				if _, ok := object[name.(string)]; !ok {
					bad("no %s", name)
				}
			}
		case "properties":
			for name, sub := range want.(map[string]any) {
				if member, ok := object[name]; ok {
					problems = append(problems, validate(root, sub.(map[string]any), member, at+"."+name)...)
				}
			}
		case "const":
			if v != want {
				bad("%v is not %v", v, want)
			}
		case "anyOf":
			if !slices.ContainsFunc(want.([]any), func(sub any) bool { return len(validate(root, sub.(map[string]any), v, at)) == 0 }) {
				bad("%v is none of those", v)
			}
		case "allOf":
			for _, sub := range want.([]any) {
				problems = append(problems, validate(root, sub.(map[string]any), v, at)...)
			}
		case "if":
			if len(validate(root, want.(map[string]any), v, at)) == 0 {
				problems = append(problems, validate(root, s["then"].(map[string]any), v, at)...)
			}
		case "minLength":
			if isText && len(text) < int(want.(float64)) {
				bad("too short")
			}
		case "pattern":
			if isText && !regexp.MustCompile(want.(string)).MatchString(text) {
				bad("%q doesn't match %s", text, want)
			}
		case "format":
			if _, err := time.Parse(time.RFC3339Nano, text); want != "date-time" || err != nil {
				bad("%v", err)
			}
		case "minimum":
			if isNumber && number < want.(float64) {
				bad("%v is below %v", number, want)
			}
		case "exclusiveMinimum":
			if isNumber && number <= want.(float64) {
				bad("%v is not above %v", number, want)
			}
		case "maximum":
			if isNumber && number > want.(float64) {
				bad("%v is above %v", number, want)
			}
		default:
			bad("keyword %s", keyword)
		}
	}
	return problems
}

func TestSchemaHoldsForEveryRecord(t *testing.T) {
	schema := readSchema(t)
	properties := schema["properties"].(map[string]any)
	check := func(name string, b []byte) {
		t.Helper()
		var v map[string]any
		if err := json.Unmarshal(b, &v); err != nil {
			t.Fatal(err)
		}
		for _, p := range validate(schema, schema, v, name) {
			t.Error(p)
		}
		for member := range v {
			if properties[member] == nil {
				t.Errorf("%s: member %q isn't in the schema", name, member)
			}
		}
	}
	for _, typ := range allTypes {
		d := full(t)
		d.Type, d.Status, d.Confidence, d.Limit, d.SHA256 = typ, 200, "low", "pages", strings.Repeat("0a", 32)
		switch typ {
		case evidence.BlockedByRobots, evidence.BlockedByRule, evidence.BudgetExceeded, evidence.SlotTimeout, evidence.HostBlocked,
			evidence.Failed, evidence.LeaseExpired, evidence.ResponseRejected, evidence.Reserved, evidence.Drained:
			d.Allowed = false
		}
		for _, text := range logtest.Lines(logtest.WriteWith(t, []evidence.Decision{d}, evidence.LogConfig{Chained: true, Signed: &evidence.SignConfig{Key: testKey, Origin: testOrigin}})) {
			check(string(typ), text)
		}
	}
	for i, text := range logtest.Lines(logtest.Write(t, logtest.Crawl(2, 30))) {
		check(fmt.Sprintf("line %d of a crawl", i+1), text)
	}
}

func TestSchemaKnowsEveryType(t *testing.T) {
	var known []evidence.Type
	for _, c := range readSchema(t)["properties"].(map[string]any)["type"].(map[string]any)["anyOf"].([]any) {
		known = append(known, evidence.Type(c.(map[string]any)["const"].(string)))
	}
	if !slices.Equal(known, allTypes) {
		t.Errorf("schema knows %v", known)
	}
}

func TestSchemaRefusesWhatIsNoRecord(t *testing.T) {
	schema := readSchema(t)
	for _, in := range []string{
		`{}`, `{"type":"started"}`,
		`{"type":"nonsense","timestamp":"2026-11-21T03:04:05Z","allowed":true}`,
		`{"type":"retried","timestamp":"yesterday","allowed":true}`,
		`{"type":"retried","timestamp":"2026-11-21T03:04:05Z","allowed":1}`,
		`{"type":"retried","timestamp":"2026-11-21T03:04:05+01:00","allowed":true}`,
		`{"type":"retried","timestamp":"2026-11-21T03:04:05Z","allowed":true,"delay":"1s"}`,
		`{"type":"retried","timestamp":"2026-11-21T03:04:05Z","allowed":true,"status":200.5}`,
		`{"type":"blocked_by_robots","timestamp":"2026-11-21T03:04:05Z","allowed":true,"url":"http://h/","host":"h"}`,
		`{"type":"fetched","timestamp":"2026-11-21T03:04:05Z","allowed":true}`,
	} {
		var v any
		if err := json.Unmarshal([]byte(in), &v); err != nil {
			t.Fatal(err)
		}
		if len(validate(schema, schema, v, "record")) == 0 {
			t.Errorf("valid: %s", in)
		}
	}
}

func TestSchemaHoldsForARealCrawl(t *testing.T) {
	schema := readSchema(t)
	seen := map[evidence.Type]bool{}
	for i, text := range logtest.Lines(logtest.Real(t)) {
		var v map[string]any
		if err := json.Unmarshal(text, &v); err != nil {
			t.Fatal(err)
		}
		for _, p := range validate(schema, schema, v, fmt.Sprintf("line %d", i+1)) {
			t.Errorf("%s: %s", p, text)
		}
		seen[evidence.Type(v["type"].(string))] = true
	}
	for _, typ := range allTypes {
		switch typ {
		// They need a second hour, options, a second process, a second limiter, and a WebSocket.
		case evidence.RobotsRevalidated, evidence.NoIndex, evidence.Checkpoint, evidence.StateShared, evidence.LimitersApart, evidence.Drained,
			evidence.StaysOpen:
		default:
			if !seen[typ] {
				t.Errorf("no %s in the crawl", typ)
			}
		}
	}
}

// The schema has the members of a line in their order, each with the type of its field. It says more
// of some: which values there are, or how small they may be.
func TestSchemaHasTheMembersOfAnEntry(t *testing.T) {
	b, err := os.ReadFile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var names []string // of the properties, as they stand in the file
	_, properties, _ := strings.Cut(string(b), "\n  \"properties\": {\n")
	for _, m := range regexp.MustCompile(`(?m)^    "(\w+)": |^  },$`).FindAllStringSubmatch(properties, -1) {
		if m[1] == "" {
			break
		}
		names = append(names, m[1])
	}

	schema := readSchema(t)["properties"].(map[string]any)
	kinds := map[reflect.Type]string{
		reflect.TypeFor[string](): "string", reflect.TypeFor[evidence.Type](): "string", reflect.TypeFor[bool](): "boolean",
		reflect.TypeFor[int](): "integer", reflect.TypeFor[int64](): "integer", reflect.TypeFor[uint64](): "integer",
		reflect.TypeFor[time.Duration](): "#/$defs/seconds", reflect.TypeFor[time.Time](): "#/$defs/time",
		reflect.TypeFor[*evidence.Policy](): "#/$defs/policy",
	}
	var want []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[evidence.LogLine]()) {
		if f.Anonymous {
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		want = append(want, name)
		property, _ := schema[name].(map[string]any)
		kind := property["type"]
		switch value := property["const"].(type) { // the only value that a member has where it is present
		case bool:
			kind = "boolean"
		case string:
			kind = "string"
		case nil:
			if kind == nil {
				kind = property["$ref"]
			}
		default:
			t.Errorf("%s: const %v", name, value)
		}
		if kind != kinds[f.Type] {
			t.Errorf("%s is a %v in the schema, a %s in %v", name, kind, kinds[f.Type], f.Type)
		}
	}
	if !slices.Equal(names, want) {
		t.Errorf("schema.json has\n%q, a LogLine\n%q", names, want)
	}
}
