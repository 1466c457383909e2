package redislimit

import (
	_ "embed"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/redis/redislimit/internal/clock"
	"github.com/go-politeness/politeness/redis/redislimit/internal/wire"
)

// The last version beside this one, as in a fleet of which half is upgraded. Whoever makes another
// version of package wire keeps step.lua and the golden file of the version before, and tries its
// processes here. Of version 6, whose messages were lists, the calls and messages stand below.

//go:embed testdata/step.v6.lua
var formerScript string

// formerCall is a call of a process of the former version. Its operations have the number of the host,
// which is one, behind their names.
func formerCall(gen string, number int64, operations ...[]any) []any {
	second := int64(time.Second / time.Microsecond)
	header := []any{
		"p:push:", true, gen, 0, int64(1 << 52), 2 * second, 1000, 1000, 20_000, second, 600 * second, 1800 * second,
		[]any{},
		"oldprocess",
		"old:1", "Concurrency 2", 10 * second, 0, number,
	}
	call := []any{header}
	for _, o := range operations {
		call = append(call, o)
	}
	return call
}

// A formerProcess calls the server as a process of the former version did.
type formerProcess struct {
	t      *testing.T
	client *redis.Client
	calls  int64
	gen    string
}

// call runs the former script. It returns the values of its reply, or its error.
func (f *formerProcess) call(operations ...[]any) ([]any, error) {
	f.t.Helper()
	f.calls++
	keys := []string{"p:{0}gen", "p:{0}processes", "p:{0}host:6:a.example"}
	answer, err := f.client.Eval(f.t.Context(), formerScript, keys, packed(f.t, formerCall(f.gen, f.calls, operations...))).Text()
	if err != nil {
		return nil, err
	}
	var reply []any
	if err := msgpack.Unmarshal([]byte(answer), &reply); err != nil {
		f.t.Fatal(err)
	}
	f.gen, _ = reply[1].(string)
	return reply, nil
}

// dump returns all that the server has under the prefix but for the list of processes.
func dump(t *testing.T, client *redis.Client) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, key := range client.Keys(t.Context(), "p:*").Val() {
		if !strings.HasSuffix(key, "processes") {
			all[key] = client.Dump(t.Context(), key).Val()
		}
	}
	return all
}

// TestTwoVersionsSideBySide: while a process of the former version lives, the newer one starts nothing,
// says whose state it has met, and leaves it as it is. Then it begins anew, says so, and the former
// version is refused in turn.
func TestTwoVersionsSideBySide(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	client := newClient(t, server)
	old := &formerProcess{t: t, client: client}
	take := []any{"take", 1, "oldprocess.1", 1, 2, 1 << 30, 0, 0, 60_000_000, 50_000_000, 0, false, 0, 0}
	for range 2 { // the first call learns the generation
		if _, err := old.call(take); err != nil {
			t.Fatal(err)
		}
	}
	before := dump(t, client)
	if len(before) != 2 {
		t.Fatalf("the former version has written %v", slices.Collect(maps.Keys(before)))
	}

	events := make(chan Event, 10)
	l, err := newLimiter(Config{
		Client:    newClient(t, server),
		Prefix:    "p:",
		Limits:    hostlimit.Config{Delay: hostlimit.Delay{Min: time.Millisecond}},
		OnFailure: func(e Event) { events <- e },
	}, 100*time.Millisecond, born())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = l.Acquire(t.Context(), "a.example", 0)
	if err == nil || !strings.Contains(err.Error(), "made by redislimit of version 6: kept") {
		t.Errorf("beside the former version: %v", err)
	}
	if err := l.Block(t.Context(), "a.example", time.Now().Add(time.Hour), "why"); err == nil {
		t.Error("a block beside the former version")
	}
	if !maps.Equal(dump(t, client), before) {
		t.Error("the state of the former version has changed")
	}

	// The process of the former version shows no sign of life any more.
	if err := client.Del(t.Context(), "p:{0}processes").Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "the newer version starts", func() bool {
		lease, err := l.Acquire(t.Context(), "a.example", 0)
		if err == nil {
			lease.Release()
		}
		return err == nil
	})
	settle(t, l, "a.example")
	said := ""
	for len(events) > 0 {
		said += (<-events).String() + "\n"
	}
	if strings.Count(said, "state made by redislimit of version 6: begun anew") != 1 {
		t.Errorf("the newer version says %q", said)
	}
	if host := "p:{0}host:6:a.example"; client.Dump(t.Context(), host).Val() != before[host] {
		t.Error("the host of the former version has changed")
	}
	newer := dump(t, client)
	if _, err := old.call(take); err == nil || !strings.Contains(err.Error(), "BADVERSION") || !strings.Contains(err.Error(), strconv.Itoa(wire.Version)) {
		t.Errorf("the former version beside the newer one: %v", err)
	}
	after := dump(t, client)
	// The generation may have been written meanwhile by the newer process.
	delete(newer, "p:{0}gen")
	delete(after, "p:{0}gen")
	if !maps.Equal(newer, after) {
		t.Error("the former version has changed the state of the newer one")
	}
}

// TestACallOfTheOtherVersionDoesNothing: a script gets a call that was written for another one, as by
// a proxy that mixes them up.
func TestACallOfTheOtherVersionDoesNothing(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	client := newClient(t, server)
	keys := []string{"p:{0}gen", "p:{0}processes", "p:{0}" + ofHosts + "a.example"}
	old := packed(t, formerCall("", 1, []any{"renew", 1, "oldprocess.1"}))
	err := client.Eval(t.Context(), wire.Source, keys, old).Err()
	if err == nil || !strings.Contains(err.Error(), "BADVERSION") {
		t.Errorf("a call of the former version: %v", err)
	}
	future := wire.Call{Process: "p", Number: 1}
	future.Add(&wire.Renew{ID: "p.1"}, 1, 0)
	field := func(version int) string { return "\xa7version" + string(rune(version)) }
	text := strings.Replace(future.Pack(), field(wire.Version), field(wire.Version+1), 1)
	err = client.Eval(t.Context(), wire.Source, keys, text).Err()
	if err == nil || !strings.Contains(err.Error(), "BADVERSION") {
		t.Errorf("a call of a later version: %v", err)
	}
	if err := client.Eval(t.Context(), formerScript, keys, future.Pack()).Err(); err == nil {
		t.Error("the former script has taken a call of this version")
	}
	if n := client.DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("%d keys were written", n)
	}
}

// TestMessagesOfTheOtherVersionAreIgnored: both versions publish on the same channels.
func TestMessagesOfTheOtherVersionAreIgnored(t *testing.T) {
	h := idleHost(t, hostlimit.Config{})
	l := h.l
	w := h.waiter(t, later)
	w.phase = waiting
	w.wait.next = later
	l.asked[w.id] = w
	h.p.clock = clock.Server{Known: true, At: l.now()}
	now := int64(micros(l.now()))
	key := strings.Replace(h.p.hostKey(h.key), ofHosts, "host:6:", 1)
	for name, message := range map[string]string{
		"a push":                                 packed(t, []any{w.id, now, now, "d"}),
		"a hello":                                packed(t, []any{"oldprocess", "old:1", "Concurrency 77"}),
		"a block":                                packed(t, []any{key, now, 1, now, 0, 0, 0, now, now + hour, now, "by hand: x", true, 1, 0, 0, now, ""}),
		"a pause":                                "",
		"a cluster":                              h.p.genKey(),
		"a field that this version doesn't have": packed(t, map[string]any{"kind": "push", "id": w.id, "due": now, "now": now, "bytes": 7}),
		"a kind that it doesn't have":            packed(t, map[string]any{"kind": "throttle", "id": w.id}),
	} {
		l.heard(message, true)
		if w.wait.next != later || h.known.BlockSeen != 0 || len(l.peers.differ) > 0 || l.Stats().Calls > 0 {
			t.Errorf("%s: it was taken", name)
		}
	}
	// The former version takes lists alone for messages, and an empty one for a pause.
	for _, message := range []string{wire.Hello{ID: "p"}.Pack(), packed(t, wire.Paused{Kind: "pause"})} {
		var list []any
		if message == "" || msgpack.Unmarshal([]byte(message), &list) == nil {
			t.Errorf("the former version takes %q", message)
		}
	}
}
