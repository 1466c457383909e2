package merkle

import (
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"
)

// TestRunIsTheTreeOfTlog: whatever the number of leaves, one by one or with some left out.
func TestRunIsTheTreeOfTlog(t *testing.T) {
	var stored storage
	var whole, sparse Run
	run := new(Run)
	for n := range int64(200) {
		leaf := tlog.RecordHash([]byte{byte(n)})
		hashes, err := tlog.StoredHashesForRecordHash(n, leaf, stored)
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, hashes...)
		want, err := tlog.TreeHash(n+1, stored)
		if err != nil {
			t.Fatal(err)
		}
		if whole.Add(leaf); whole.Tree().Hash != want {
			t.Fatalf("the root of %d leaves is wrong", n+1)
		}
		if run.Add(leaf); n%7 == 3 { // whoever has the hashes of a run only gets the same tree
			if err := sparse.Skip(uint64(run.Len()), run.Hashes); err != nil || sparse.Tree().Hash != want {
				t.Fatalf("without leaves %d to %d: %v", sparse.Len()-run.Len(), n, err)
			}
			run = &Run{From: n + 1, To: n + 1}
		}
	}
	c := Checkpoint{"x", whole.Tree()}
	again, err := c.Resume(whole.Edge())
	if err != nil || again.Tree() != whole.Tree() {
		t.Error(err)
	}
	if parsed, err := ParseCheckpoint(c.String()); err != nil || parsed != c {
		t.Errorf("%v, %v", parsed, err)
	}
}

// storage is the hashes of a tree as tlog numbers them.
type storage []tlog.Hash

func (s storage) ReadHashes(indexes []int64) (hashes []tlog.Hash, err error) {
	for _, i := range indexes {
		hashes = append(hashes, s[i])
	}
	return hashes, nil
}

// TestHugeTreesAreRefused: nothing that a stranger signs makes a reader panic.
func TestHugeTreesAreRefused(t *testing.T) {
	var r Run
	if err := r.Skip(1<<62, make([]tlog.Hash, 1)); err == nil {
		t.Error("a run of 2^62 leaves")
	}
	if err := r.Skip(1<<48, make([]tlog.Hash, 1)); err != nil {
		t.Error(err)
	}
	r.Tree()
	if err := r.Skip(1, make([]tlog.Hash, 1)); err == nil {
		t.Error("one leaf more than 2^48")
	}
	if _, err := (Checkpoint{"x", tlog.Tree{N: 1 << 62}}).Resume(strings.Repeat("A", 43) + "="); err == nil {
		t.Error("an edge of 2^62 leaves")
	}
	if _, err := ParseCheckpoint("x\n4611686018427387904\n" + strings.Repeat("A", 43) + "=\n"); err == nil {
		t.Error("a checkpoint of 2^62 leaves")
	}
}
