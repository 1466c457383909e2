package redistest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
)

// SentinelName is what Sentinels call the master that they watch.
const SentinelName = "fleet"

// conf is a Sentinel's file: its port and folder, the name, host and port of the master, and the
// number of Sentinels that have to agree.
const conf = `port %[1]d
bind 127.0.0.1
dir %[2]q
loglevel warning
sentinel monitor %[3]s %[4]s %[5]s %[6]d
sentinel down-after-milliseconds %[3]s 500
sentinel failover-timeout %[3]s 5000
`

// RunSentinels starts n Sentinels that watch master; most of them have to agree on a failover. A
// server that is silent for half a second counts as dead. Close each.
func RunSentinels(master *Server, n int) ([]*Server, error) {
	var all []*Server
	for range n {
		sentinel, err := runSentinel(master, n/2+1)
		if err != nil {
			for _, s := range all {
				s.Close()
			}
			return all, err
		}
		all = append(all, sentinel)
	}
	return all, nil
}

func runSentinel(master *Server, agree int) (*Server, error) {
	path, err := executable()
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(master.Addr)
	if err != nil {
		return nil, err
	}
	s, ownPort, err := newServer()
	if err != nil {
		return nil, err
	}
	// A Sentinel writes what it learns into its file.
	file := filepath.Join(s.dir, "sentinel.conf")
	s.args = []string{path, file, "--sentinel"}
	text := fmt.Sprintf(conf, ownPort, s.dir, SentinelName, host, port, agree)
	err = os.WriteFile(file, []byte(text), 0o600)
	if err == nil {
		err = s.Start()
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}
