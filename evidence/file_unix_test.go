//go:build unix

package evidence_test

import (
	"bufio"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/go-politeness/politeness/evidence"
)

// TestOpenFileTakesAPipe, which can't be read back, as /dev/stdout may be one.
func TestOpenFileTakesAPipe(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Skip(err)
	}
	reader, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	log, err := evidence.OpenFile(name, evidence.LogConfig{})
	if err != nil {
		t.Fatal(err)
	}
	log.Record(t.Context(), started)
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(reader).ReadString('\n'); err != nil || numbers(t, []byte(line))[0] != 1 {
		t.Errorf("%q, %v", line, err)
	}
}
