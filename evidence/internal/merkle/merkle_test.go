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
	run := RunAt(0)
	for n := range int64(200) {
		leaf := Leaf([]byte{byte(n)})
		hashes, err := tlog.StoredHashesForRecordHash(n, leaf, stored)
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, hashes...)
		want, err := tlog.TreeHash(n+1, stored)
		if err != nil {
			t.Fatal(err)
		}
		if whole.Add(leaf); whole.Root() != want {
			t.Fatalf("the root of %d leaves is wrong", n+1)
		}
		if run.Add(leaf); n%7 == 3 { // whoever has the hashes of a run only gets the same tree
			if err := sparse.Skip(run.Len(), run.Hashes()); err != nil || sparse.Root() != want {
				t.Fatalf("without leaves %d to %d: %v", sparse.Len()-run.Len(), n, err)
			}
			run = RunAt(uint64(n) + 1)
		}
	}
	again, err := Parse(whole.Len(), whole.String())
	if err != nil || again.Root() != whole.Root() {
		t.Error(err)
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
	r.Root()
	if err := r.Skip(1, make([]tlog.Hash, 1)); err == nil {
		t.Error("one leaf more than 2^48")
	}
	if _, err := Parse(1<<62, strings.Repeat("A", 43)+"="); err == nil {
		t.Error("an edge of 2^62 leaves")
	}
	if _, err := ParseCheckpoint("x\n4611686018427387904\n" + strings.Repeat("A", 43) + "=\n"); err == nil {
		t.Error("a checkpoint of 2^62 leaves")
	}
}
