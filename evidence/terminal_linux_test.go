package evidence_test

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/go-politeness/politeness/evidence"
)

// newTerminal returns a terminal, and the end at which what is written to it is read.
func newTerminal(t *testing.T) (terminal, screen *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("this machine makes no terminals: ", err)
	}
	t.Cleanup(func() { screen.Close() })
	var number, unlocked uint32
	for request, value := range map[uintptr]*uint32{syscall.TIOCGPTN: &number, syscall.TIOCSPTLCK: &unlocked} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, screen.Fd(), request, uintptr(unsafe.Pointer(value))); errno != 0 {
			t.Skip("this machine makes no terminals: ", errno)
		}
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("this machine makes no terminals: ", err)
	}
	t.Cleanup(func() { terminal.Close() })
	return terminal, screen
}

// TestConsoleSharesItsTerminal: another part of the program draws its progress on the last line, and
// a record doesn't stick to that.
func TestConsoleSharesItsTerminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "1")
	terminal, screen := newTerminal(t)
	console := evidence.Console(terminal)
	fmt.Fprint(terminal, "12 visited, waiting")
	console.Record(t.Context(), evidence.Decision{Type: evidence.HostBlocked, Host: "a.example", Status: 429})
	got, err := bufio.NewReader(screen).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(got, "12 visited, waiting\r\x1b[Khost blocked") {
		t.Errorf("on the terminal: %q", got)
	}
}
