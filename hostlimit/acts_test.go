package hostlimit

import "testing"

// TestAReceiverOfActsThatPanics has taken the act, and takes the next one. One that returns false
// makes room for the one after it; of many the oldest are dropped.
func TestAReceiverOfActsThatPanics(t *testing.T) {
	var acts Acts
	if acts.Any() || acts.Tell(Act{Key: "a"}) {
		t.Error("taken by none")
	}
	var seen []string
	acts.Add(func(a Act) bool { return a.Key != "gone" })
	acts.Add(func(a Act) bool {
		seen = append(seen, a.Key)
		panic("receiver")
	})
	for _, key := range []string{"first", "gone", "later"} {
		if !acts.Tell(Act{Key: key}) {
			t.Errorf("%s wasn't taken", key)
		}
	}
	if len(seen) != 2 || seen[0] != "gone" || seen[1] != "later" {
		t.Errorf("the second has got %q", seen)
	}
	for range 100 {
		acts.Add(func(Act) bool { return true })
	}
	if len(acts.receivers) > mostReceivers {
		t.Errorf("%d receivers", len(acts.receivers))
	}
}
