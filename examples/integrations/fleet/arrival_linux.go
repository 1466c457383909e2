package main

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// arrival returns when the last bytes of a connection arrived, by the kernel: a busy machine wakes
// the program later.
func arrival(conn net.Conn) time.Time {
	now := time.Now()
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return now
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return now
	}
	var info *unix.TCPInfo
	var unknown error
	err = raw.Control(func(fd uintptr) {
		info, unknown = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	})
	if err != nil || unknown != nil {
		return now
	}
	return time.Now().Add(-time.Duration(info.Last_data_recv) * time.Millisecond)
}
