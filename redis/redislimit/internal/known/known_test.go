package known

import (
	"testing"
	"time"

	"github.com/go-politeness/politeness/hostlimit/rules"
	"github.com/go-politeness/politeness/redis/redislimit/internal/clock"
	"github.com/go-politeness/politeness/redis/redislimit/internal/wire"
)

// TestTheGapIsThatOfTheLastStart, also after a longer delay, and from an end.
func TestTheGapIsThatOfTheLastStart(t *testing.T) {
	var k Host
	if k.Raise(time.Hour) {
		t.Error("without a start there is no gap to make longer")
	}
	k.Begin(nil, 10*time.Second, time.Second)
	if !k.Raise(3*time.Second) || k.Next != 13*time.Second {
		t.Errorf("next start at %v", k.Next)
	}
	k.Finish(12*time.Second, time.Second)
	if k.Next != 15*time.Second || k.Last != 12*time.Second {
		t.Errorf("after an end at 12s: next start at %v, last at %v", k.Next, k.Last)
	}
}

// TestAServerThatWasResetLiftsNothing: until it has had the restore, its report has less than the host.
func TestAServerThatWasResetLiftsNothing(t *testing.T) {
	server := clock.Server{Known: true}
	const now = time.Minute
	for _, restoring := range []bool{false, true} {
		k := Host{Refusals: rules.Refusals{Until: time.Hour, Row: 1, Alone: true}, Version: 5}
		lifted := k.Learn(wire.Report{Version: 1}, wire.MicrosOf(now), now, &server, restoring)
		isBlocked := k.Refusals.Blocks(now) && k.Refusals.Row == 1
		if lifted == restoring || isBlocked != restoring {
			t.Errorf("restoring %t: lifted %t, %+v", restoring, lifted, k.Refusals)
		}
	}
}

// TestARestThatCannotBeReadKeepsTheRow, as the report has it by name.
func TestARestThatCannotBeReadKeepsTheRow(t *testing.T) {
	server := clock.Server{Known: true}
	var k Host
	k.Learn(wire.Report{Version: 7, Row: 3, Alone: true, Rest: `{"Row":3}`}, 1, 1, &server, false)
	if k.Refusals.Row != 3 || !k.Refusals.Alone {
		t.Errorf("%+v", k.Refusals)
	}
}
