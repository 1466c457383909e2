package wire

import (
	"fmt"
	"time"

	"github.com/go-politeness/politeness/hostlimit/rules"
)

// Version is the version of all records. The server refuses processes of another one.
const Version = 11

// The records of this file are kept on the server. Only step.lua reads and writes them, under the
// names in their tags. Times are microseconds of the server's clock; a field that is zero isn't
// stored.

// A Host is the state of a host. A turn is one of L, in the order in which they go.
type Host struct {
	Next         Micros           `msgpack:"a"`  // earliest next start
	PrevNext     Micros           `msgpack:"pa"` // Next before the last start
	Last         Micros           `msgpack:"l"`  // latest possible time of the last start, or its end
	PrevLast     Micros           `msgpack:"pl"` // Last before that
	LastBy       string           `msgpack:"lo"` // lease of the last start
	Until        Micros           `msgpack:"b"`  // blocked until
	SetAt        Micros           `msgpack:"bs"` // when the block was set or lengthened
	Cause        string           `msgpack:"c"`  // of the block, as in rules.Refusals
	Alone        bool             `msgpack:"al"` // requests start one at a time, until one succeeds
	Probe        string           `msgpack:"pr"` // lease that does
	Row          int              `msgpack:"f"`  // refusals in a row
	Floor        Micros           `msgpack:"cd"` // crawl-delay of the last request that knew it
	Adaptive     Micros           `msgpack:"ad"` // delay by response times
	Learned      Micros           `msgpack:"le"` // delay that refusals have taught
	EasedAt      Micros           `msgpack:"ea"` // when Learned was set or shortened last
	Rest         string           `msgpack:"R"`  // packed Refusals: clients write and read it
	Version      int64            `msgpack:"v"`  // of Until to Rest: a time, larger after each change
	RestVersion  int64            `msgpack:"rv"` // Version when Rest was written
	Starts       int64            `msgpack:"n"`  // since this state was made
	Ended        Micros           `msgpack:"e"`  // stamp of the latest start that has ended
	TakenBack    []Gone           `msgpack:"X"`  // turns whose slots were taken back, until a Go reports them
	Served       int              `msgpack:"sv"` // successes since ServedSince
	ServedSince  Micros           `msgpack:"bg"` // first start, last lesson, or start after an idle time
	LiftedUntil  Micros           `msgpack:"k"`  // a block was lifted, which clients and Stores may have until then
	Generation   string           `msgpack:"g"`  // of the turns
	Steps        Micros           `msgpack:"s"`  // the generation's Steps when these times were written
	Looked       Micros           `msgpack:"lc"` // when the processes of the turns were last looked for
	Turns        []StoredTurn     `msgpack:"L"`
	Calls        map[string]int64 `msgpack:"P"` // by process: the number of its last call, since CallsSince
	EarlierCalls map[string]int64 `msgpack:"O"` // the same, in the time before
	CallsSince   Micros           `msgpack:"t"`

	Changes        map[string]int64 `msgpack:"D"` // by process: the number of its last Change, since ChangesSince
	EarlierChanges map[string]int64 `msgpack:"E"` // the same, in the time before
	ChangesSince   Micros           `msgpack:"d"`
}

// A StoredTurn is a turn of a host.
type StoredTurn struct {
	ID      string `msgpack:"id"`     // PROCESS.NUMBER, the client's lease
	Seq     int64  `msgpack:"seq"`    // number of its last take
	Delay   Micros `msgpack:"delay"`  // from its start to the next one
	Floor   Micros `msgpack:"floor"`  // from the start before to its own
	FromEnd bool   `msgpack:"ends"`   // whether the gap counts from its end
	Rank    int64  `msgpack:"rank"`   // priority
	Came    Micros `msgpack:"came"`   // when its request arrived
	Expiry  Micros `msgpack:"expiry"` // when it is dropped
	Due     Micros `msgpack:"due"`    // when it starts
	Guard   Micros `msgpack:"guard"`  // how much later it may start
	State   int    `msgpack:"state"`
	Did     string `msgpack:"did"`    // letters of the operations that were done once
	Number  int64  `msgpack:"number"` // of its start in its process; 0: not reported yet
}

// A Gone is a turn whose slot was taken back.
type Gone struct {
	Process string `msgpack:"proc"`
	Number  int64  `msgpack:"number"` // of its start in its process; 0: it wasn't reported
}

// A Process is an entry of the list of a partition's processes.
type Process struct {
	Seen    Micros `msgpack:"seen"` // last sign of life
	Name    string `msgpack:"name"`
	Promise string `msgpack:"promise"`
}

// A Generation shows whether the leases in the server are those that the clients believe in.
type Generation struct {
	Version     int    `msgpack:"v"`        // of the records
	ID          string `msgpack:"id"`       // names it
	Run         string `msgpack:"run"`      // the server process that made it
	Quarantine  Micros `msgpack:"q"`        // its end
	Checked     Micros `msgpack:"chk"`      // when the server process was last looked for
	Expiry      Micros `msgpack:"x"`        // until when it is kept
	Live        int    `msgpack:"m"`        // processes that live
	Pause       Micros `msgpack:"p"`        // end of a pause that an operator has ordered
	PauseLength Micros `msgpack:"pd"`       // of it
	Steps       Micros `msgpack:"s"`        // sum of the steps of the clock, as far as they are known
	Name        string `msgpack:"name"`     // of all that is under the prefix
	Replaced    int    `msgpack:"replaced"` // version of the state that was there before; 0: none
}

// Refusals are those fields of [rules.Refusals] that step.lua doesn't know. Clients compute with
// them, and the server keeps them packed. A time is a Go duration, in nanoseconds.
type Refusals struct {
	Alone     bool          `msgpack:"single"`
	Row       int           `msgpack:"row"`
	Unsure    int           `msgpack:"unsure"`
	Forbidden int           `msgpack:"forbidden"`
	Bans      int           `msgpack:"bans"`
	Checking  bool          `msgpack:"checking"`
	Learned   time.Duration `msgpack:"learned"`
	Lessons   int           `msgpack:"lessons"`
	TaughtAt  time.Duration `msgpack:"taughtat"`
	Steps     int           `msgpack:"steps"`
	Slow      bool          `msgpack:"slow"`
	Asked     time.Duration `msgpack:"asked"`
	Suspects  []Suspect     `msgpack:"suspects"`
	Pending   uint64        `msgpack:"pending"`
	Served    uint64        `msgpack:"served"`
	Own       int           `msgpack:"own"`
	Excess    int           `msgpack:"excess"`
	Proofs    int           `msgpack:"proofs"`
	Taught    bool          `msgpack:"taught"`
	Failed    bool          `msgpack:"failed"`
	Rested    time.Duration `msgpack:"rested"`
	Stated    bool          `msgpack:"stated"`
	Took      time.Duration `msgpack:"took"`
	RestedAt  time.Duration `msgpack:"restedat"`
	From      time.Duration `msgpack:"from"`
	Before    time.Duration `msgpack:"before"`
	Share     int           `msgpack:"share"`
	Refused   int           `msgpack:"refused"`
	Full      int           `msgpack:"full"`
	Vain      int           `msgpack:"vain"`
	VainAt    time.Duration `msgpack:"vainat"`
}

// A Suspect is a page that was refused.
type Suspect struct {
	Resource uint64 `msgpack:"resource"`
	Lesson   int32  `msgpack:"lesson"`
	Asked    bool   `msgpack:"asked"`
	Own      bool   `msgpack:"own"`
	Rests    bool   `msgpack:"rests"`
}

// PackRefusals packs what step.lua doesn't know of s.
func PackRefusals(s *rules.Refusals) string {
	r := Refusals{
		Alone:     s.Alone,
		Row:       s.Row,
		Unsure:    s.Unsure,
		Forbidden: s.Forbidden,
		Bans:      s.Bans,
		Checking:  s.Checking,
		Learned:   s.Learned,
		Lessons:   s.Lessons,
		TaughtAt:  s.TaughtAt,
		Steps:     s.Steps,
		Slow:      s.Slow,
		Asked:     s.Asked,
		Pending:   s.Pending,
		Served:    s.Served,
		Own:       s.Own,
		Excess:    s.Excess,
		Proofs:    s.Proofs,
		Taught:    s.Taught,
		Failed:    s.Failed,
		Rested:    s.Rested,
		Stated:    s.Stated,
		Took:      s.Took,
		RestedAt:  s.RestedAt,
		From:      s.From,
		Before:    s.Before,
		Share:     s.Share,
		Refused:   s.Refused,
		Full:      s.Full,
		Vain:      s.Vain,
		VainAt:    s.VainAt,
	}
	for i, page := range s.Suspects {
		// An entry before the last one may be empty.
		if page.Resource != 0 {
			r.Suspects = append(r.Suspects, make([]Suspect, i-len(r.Suspects))...)
			r.Suspects = append(r.Suspects, Suspect(page))
		}
	}
	return pack(&r)
}

// ReadRefusals reads the result of PackRefusals. The zero value is that of an empty text.
func ReadRefusals(packed string) (s rules.Refusals, err error) {
	if packed == "" {
		return s, nil
	}
	var r Refusals
	if err := read(packed, &r); err != nil {
		return s, err
	}
	if len(r.Suspects) > len(s.Suspects) {
		return s, fmt.Errorf("wire: %d suspects, at most %d are known", len(r.Suspects), len(s.Suspects))
	}
	s.Alone = r.Alone
	s.Row = r.Row
	s.Unsure = r.Unsure
	s.Forbidden = r.Forbidden
	s.Bans = r.Bans
	s.Checking = r.Checking
	s.Learned = r.Learned
	s.Lessons = r.Lessons
	s.TaughtAt = r.TaughtAt
	s.Steps = r.Steps
	s.Slow = r.Slow
	s.Asked = r.Asked
	s.Pending = r.Pending
	s.Served = r.Served
	s.Own = r.Own
	s.Excess = r.Excess
	s.Proofs = r.Proofs
	s.Taught = r.Taught
	s.Failed = r.Failed
	s.Rested = r.Rested
	s.Stated = r.Stated
	s.Took = r.Took
	s.RestedAt = r.RestedAt
	s.From = r.From
	s.Before = r.Before
	s.Share = r.Share
	s.Refused = r.Refused
	s.Full = r.Full
	s.Vain = r.Vain
	s.VainAt = r.VainAt
	for i, page := range r.Suspects {
		to := &s.Suspects[i]
		to.Resource = page.Resource
		to.Lesson = page.Lesson
		to.Asked = page.Asked
		to.Own = page.Own
		to.Rests = page.Rests
	}
	return s, nil
}
