package nettest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// required is the environment variable that makes it a failure that this machine has no networks
// to give, where tests are skipped otherwise.
const required = "POLITENESS_NETWORKS"

// prefix is the network of all machines; the last byte is the machine's number.
var prefix = netip.AddrFrom4([4]byte{10, 77, 0, 0})

// A Way is how packets go from one machine to another. The zero value is a good way.
type Way struct {
	Loss          float64       // share of the packets that are lost
	Delay, Jitter time.Duration // each packet takes Delay, and up to Jitter more; none overtakes another
	Cut           bool          // nothing arrives, and no machine gets an error for it
}

// A Network is a number of machines. It ends with its test.
type Network struct {
	t        testing.TB
	machines []*Machine

	mu   sync.Mutex
	rnd  *rand.Rand
	ways map[[2]byte]Way
	free map[[2]byte]time.Time // when the last packet of a way arrives
}

// A Machine is a network namespace.
type Machine struct {
	Addr netip.Addr

	number byte
	tun    *os.File
	todo   chan func() // done by the thread that lives in the namespace
}

// New returns a network whose losses depend on seed. If the test's computer lets it have none, the
// test is skipped with the reason, or fails if POLITENESS_NETWORKS is set.
func New(t testing.TB, seed uint64) *Network {
	t.Helper()
	return &Network{
		t:    t,
		rnd:  rand.New(rand.NewPCG(seed, 77)),
		ways: make(map[[2]byte]Way),
		free: make(map[[2]byte]time.Time),
	}
}

// Machine adds a machine, which has good ways to all others.
func (n *Network) Machine() *Machine {
	n.t.Helper()
	number := byte(len(n.machines) + 1)
	addr := prefix.As4()
	addr[3] = number
	m := &Machine{Addr: netip.AddrFrom4(addr), number: number, todo: make(chan func())}
	up := make(chan error)
	go func() {
		// The thread is never unlocked, so it ends with the goroutine, and the namespace with
		// whatever was opened in it.
		runtime.LockOSThread()
		up <- m.enter()
		for f := range m.todo {
			f()
		}
	}()
	if err := <-up; err != nil {
		close(m.todo)
		if os.Getenv(required) != "" {
			n.t.Fatalf("no network namespaces: %v", err)
		}
		n.t.Skipf("this machine gives no network namespaces: %v", err)
	}
	n.mu.Lock()
	n.machines = append(n.machines, m)
	n.mu.Unlock()
	var reading sync.WaitGroup
	reading.Go(func() { n.carry(m) })
	n.t.Cleanup(func() {
		close(m.todo)
		m.tun.Close()
		reading.Wait()
	})
	return m
}

// Set sets the ways between two machines, in both directions.
func (n *Network) Set(a, b *Machine, w Way) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ways[[2]byte{a.number, b.number}] = w
	n.ways[[2]byte{b.number, a.number}] = w
}

// Do calls f in a thread that is in the machine's namespace: sockets that f opens, and processes
// that it starts, stay there. f must not end the test.
func (m *Machine) Do(f func()) {
	done := make(chan struct{})
	m.todo <- func() {
		f()
		close(done)
	}
	<-done
}

// Listen listens on a port of the machine that is free.
func (m *Machine) Listen() (ln net.Listener, err error) {
	m.Do(func() { ln, err = net.Listen("tcp", netip.AddrPortFrom(m.Addr, 0).String()) })
	return ln, err
}

// enter makes the namespace, and moves the calling thread there.
func (m *Machine) enter() error {
	if err := syscall.Unshare(syscall.CLONE_NEWNET); err != nil {
		return fmt.Errorf("unshare: %w; this needs root", err)
	}
	const device = "wire0"
	fd, err := syscall.Open("/dev/net/tun", syscall.O_RDWR|syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("/dev/net/tun: %w", err)
	}
	var request struct {
		name  [syscall.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}
	copy(request.name[:], device)
	request.flags = syscall.IFF_TUN | syscall.IFF_NO_PI
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), syscall.TUNSETIFF, uintptr(unsafe.Pointer(&request)))
	if errno != 0 {
		return errors.Join(fmt.Errorf("TUNSETIFF: %w", errno), syscall.Close(fd))
	}
	m.tun = os.NewFile(uintptr(fd), "/dev/net/tun") // only now can it be polled
	for _, args := range [][]string{
		{"link", "set", "lo", "up"},
		{"addr", "add", m.Addr.String() + "/24", "dev", device},
		{"link", "set", device, "up"},
	} {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			return errors.Join(fmt.Errorf("ip %q: %w: %s", args, err, out), m.tun.Close())
		}
	}
	return nil
}

// carry takes the machine's packets to where they go, until its device is closed.
func (n *Network) carry(from *Machine) {
	buf := make([]byte, 1<<16)
	var late sync.WaitGroup
	defer late.Wait()
	lines := make(map[byte]chan parcel) // one for each machine, so that none overtakes another
	defer func() {
		for _, line := range lines {
			close(line)
		}
	}()
	for {
		size, err := from.tun.Read(buf)
		if err != nil {
			return
		}
		to, due := n.route(from, buf[:size])
		if to == nil {
			continue
		}
		if lines[to.number] == nil {
			line := make(chan parcel, 1<<14)
			lines[to.number] = line
			late.Go(func() { to.deliver(line) })
		}
		select {
		case lines[to.number] <- parcel{append([]byte(nil), buf[:size]...), due}:
		default: // a full queue loses packets, as everywhere
		}
	}
}

// A parcel is a packet on its way.
type parcel struct {
	data []byte
	due  time.Time
}

func (m *Machine) deliver(line <-chan parcel) {
	for p := range line {
		time.Sleep(time.Until(p.due))
		_, _ = m.tun.Write(p.data) // a machine that is closed loses it
	}
}

// route returns where an IPv4 packet goes and when it arrives, or nil if it doesn't.
func (n *Network) route(from *Machine, packet []byte) (*Machine, time.Time) {
	const header, destination = 20, 16
	if len(packet) < header || packet[0]>>4 != 4 {
		return nil, time.Time{}
	}
	address := binary.BigEndian.Uint32(packet[destination:])
	network := prefix.As4()
	n.mu.Lock()
	defer n.mu.Unlock()
	number := byte(address)
	if address&^0xff != binary.BigEndian.Uint32(network[:]) || number == 0 || int(number) > len(n.machines) {
		return nil, time.Time{}
	}
	key := [2]byte{from.number, number}
	w := n.ways[key]
	if w.Cut {
		return nil, time.Time{}
	}
	if w.Loss > 0 && n.rnd.Float64() < w.Loss { // a good way takes no number from the seed
		return nil, time.Time{}
	}
	due := time.Now().Add(w.Delay)
	if w.Jitter > 0 {
		due = due.Add(time.Duration(n.rnd.Int64N(int64(w.Jitter))))
	}
	if due.Before(n.free[key]) { // none overtakes the packet before
		due = n.free[key]
	}
	n.free[key] = due
	return n.machines[number-1], due
}
