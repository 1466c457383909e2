package politenesstest_test

import (
	"encoding/json"
	"io"
	"log"
	"runtime"
	"testing"
)

// discardLog takes the "superfluous WriteHeader" and the like of real servers.
var discardLog = log.New(io.Discard, "", 0)

func goexit() { runtime.Goexit() }

func equalJSON(t *testing.T, a, b any) bool {
	t.Helper()
	x, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	y, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(x) == string(y)
}
