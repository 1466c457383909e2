package redistest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
)

// SentinelName is what Sentinels call the master that they watch.
const SentinelName = "fleet"

// RunSentinels starts n Sentinels that watch master; most of them have to agree on a failover. A
// server that is silent for half a second counts as dead. Close each.
func RunSentinels(master *Server, n int) (all []*Server, err error) {
	defer func() {
		if err != nil {
			for _, s := range all {
				s.Close()
			}
		}
	}()
	path, err := executable()
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(master.Addr)
	if err != nil {
		return nil, err
	}
	for range n {
		addr, err := freeAddr()
		if err != nil {
			return all, err
		}
		dir, err := os.MkdirTemp("", "redistest")
		if err != nil {
			return all, err
		}
		// A Sentinel writes what it learns into its file.
		file := filepath.Join(dir, "sentinel.conf")
		s := &Server{Addr: addr.String(), dir: dir, args: []string{path, file, "--sentinel"}}
		all = append(all, s)
		conf := fmt.Sprintf(`port %[1]d
bind 127.0.0.1
dir %[2]q
loglevel warning
sentinel monitor %[3]s %[4]s %[5]s %[6]d
sentinel down-after-milliseconds %[3]s 500
sentinel failover-timeout %[3]s 5000
`, addr.Port, dir, SentinelName, host, port, n/2+1)
		if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
			return all, err
		}
		if err := s.Start(); err != nil {
			return all, err
		}
	}
	return all, nil
}
