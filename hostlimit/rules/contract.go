package rules

import (
	"context"
	"fmt"
	"strings"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/contexts"
)

// Left reports whether the caller gave the request up, so that o doesn't count for the host.
func Left(o *hostlimit.Outcome) bool {
	return o.Status == 0 && o.Err != nil && contexts.Left(o.Err)
}

// InARow is the number of refusals in a row of any kind that d has.
func InARow(d *hostlimit.Debt) int { return d.Refusals + d.Unsure + d.Bans }

// ByHand reports whether an operator has set the block with that cause (Debt.Cause,
// HostState.BlockedBy), and returns the reason.
func ByHand(cause string) (why string, ok bool) { return strings.CutPrefix(cause, handPrefix) }

// Watcher returns the hostlimit.Watcher of a request by its context, nil if there is none.
func Watcher(ctx context.Context) hostlimit.Watcher {
	w, _ := ctx.Value((*hostlimit.Watcher)(nil)).(hostlimit.Watcher)
	return w
}

// Name returns the name of a request by its context, for Wait.HeldBy, nil if it has none.
func Name(ctx context.Context) fmt.Stringer {
	name, _ := ctx.Value((*hostlimit.Watcher)(nil)).(fmt.Stringer)
	return name
}
