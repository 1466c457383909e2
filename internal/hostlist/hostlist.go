// Package hostlist finds a host in the list of a limiter.
package hostlist

import (
	"context"

	"github.com/go-politeness/politeness/hostlimit"
)

// BlockedBy returns what has set the block of the host key (hostlimit.HostState.BlockedBy), empty
// where the host has none or can't be listed.
func BlockedBy(ctx context.Context, hosts hostlimit.Limiter, key string) string {
	for state, err := range hosts.List(ctx) {
		if err != nil || state.Key == key {
			return state.BlockedBy
		}
	}
	return ""
}
