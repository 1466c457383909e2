package wire

import (
	"fmt"

	"github.com/vmihailenco/msgpack/v5"
)

// A Reply is the reply to a Call.
type Reply struct {
	Now        Micros               `msgpack:"now"` // when it was made, on the server's clock
	Generation string               `msgpack:"gen"` // of the server's state
	Call       int64                `msgpack:"call"`
	Stale      bool                 `msgpack:"stale"`     // nothing was done: too late, or for a lost state
	Listeners  int                  `msgpack:"listeners"` // to the caller's own channel, after a sign of life
	Lapsed     bool                 `msgpack:"lapsed"`    // the caller was dead, so its turns may be gone
	Replaced   int                  `msgpack:"replaced"`  // version of the state that was there before; 0: none
	Answers    []msgpack.RawMessage `msgpack:"answers"`   // one for each operation, unless the call is stale
}

// An Answer is the answer to a Request.
type Answer interface {
	Result() Head
	kinds() []string
}

// A Head is the part that all answers have.
type Head struct {
	Kind Kind   `msgpack:"kind"`
	Err  string `msgpack:"err"` // of the kinds Broken and Overtaken
}

// Result returns h.
func (h Head) Result() Head { return h }

// A Kind is the tag of an answer or of a message.
type Kind string

// The kinds of any answer.
const (
	OK        Kind = "ok"
	Broken    Kind = "broken"    // nothing was done: the key of the host can't be read
	Overtaken Kind = "overtaken" // nothing was done: a later call of the process was here
)

// The kinds of a Turn.
const (
	Go   Kind = "go"   // let go: At, Guard, Delay, Slots, Probe, TakenBack, Prev, Others
	Wait Kind = "at"   // come again shortly before At: At, Why
	Full Kind = "wait" // come again after a push: Place, Why, FullSince, Expiry, First
	Late Kind = "late" // dropped, as At is too late or the host is blocked by hand: At, Why
)

// A Turn is the answer to a Take. The comment of each kind lists its fields.
type Turn struct {
	Head
	At        Micros `msgpack:"at"` // earliest start
	Why       string `msgpack:"why"`
	Guard     Micros `msgpack:"guard"` // how much later it may be
	Delay     Micros `msgpack:"delay"`
	Slots     int    `msgpack:"slots"` // in use
	Probe     bool   `msgpack:"probe"`
	TakenBack []Gone `msgpack:"taken"`
	Prev      Micros `msgpack:"prev"`   // stamp of the latest start that had ended; 0: none is known
	Others    bool   `msgpack:"others"` // turns are reserved behind this one
	Place     int    `msgpack:"place"`  // turns ahead
	FullSince Micros `msgpack:"full"`   // since when every slot is taken; 0: one is free
	Expiry    Micros `msgpack:"expiry"` // when a lease is taken back next
	First     Micros `msgpack:"first"`  // when the oldest lease started
	Host      Report `msgpack:"host"`   // of all kinds but Full
}

func (*Turn) kinds() []string { return []string{string(Go), string(Wait), string(Full), string(Late)} }

// A Report is the server's knowledge of a host that a client needs to compute the effect of a
// response, and to restore the host after a loss of data.
type Report struct {
	Next     Micros `msgpack:"next"` // earliest next start
	Adaptive Micros `msgpack:"adaptive"`
	Delay    Micros `msgpack:"delay"` // in force
	Served   int    `msgpack:"served"`
	Since    Micros `msgpack:"since"` // when Served was 0; 0: now
	Until    Micros `msgpack:"block"` // end of the block
	SetAt    Micros `msgpack:"setat"` // when it was set
	Cause    string `msgpack:"cause"`
	Alone    bool   `msgpack:"single"`
	Row      int    `msgpack:"row"` // refusals in a row
	Learned  Micros `msgpack:"learned"`
	EasedAt  Micros `msgpack:"easedat"`
	Version  int64  `msgpack:"version"` // of all from Until on
	Rest     string `msgpack:"rest"`    // packed Refusals; empty: nothing
}

// A Done is the answer that has nothing to say.
type Done struct{ Head }

func (*Done) kinds() []string { return []string{string(OK)} }

// The kinds of a Changed.
const (
	Counted Kind = "counted" // there are no refusals
	Stored  Kind = "stored"
	Newer   Kind = "newer" // nothing was changed: Host has later refusals
)

// A Changed is the answer to an Outcome.
type Changed struct {
	Head
	Latest Micros `msgpack:"latest"` // when a request that was let go before may start at the latest
	Host   Report `msgpack:"host"`   // but for the kind Counted
}

func (*Changed) kinds() []string { return []string{string(Counted), string(Stored), string(Newer)} }

// A Recalled is the answer to a Recall.
type Recalled struct {
	Head
	Host Report `msgpack:"host"`
}

func (*Recalled) kinds() []string { return []string{string(OK)} }

// A Peeked is the answer to a Peek.
type Peeked struct {
	Head
	At   Micros `msgpack:"at"`
	Host Report `msgpack:"host"`
}

func (*Peeked) kinds() []string { return []string{string(OK)} }

// A State is the answer to a GetState.
type State struct {
	Head
	Starts   int64  `msgpack:"starts"`
	InFlight int    `msgpack:"inflight"`
	Waiting  int    `msgpack:"waiting"`
	Next     Micros `msgpack:"next"`
	Until    Micros `msgpack:"block"`
	Cause    string `msgpack:"cause"`
	Refusals int    `msgpack:"refusals"`
	Probing  bool   `msgpack:"probing"`
	Delay    Micros `msgpack:"delay"` // in force
	Adaptive Micros `msgpack:"adaptive"`
	Learned  Micros `msgpack:"learned"`
}

func (*State) kinds() []string { return []string{string(OK)} }

// A Name is the answer to a GetName.
type Name struct {
	Head
	Text string `msgpack:"name"`
}

func (*Name) kinds() []string { return []string{string(OK)} }

// A Fleet is the answer to a GetFleet.
type Fleet struct {
	Head
	Paused    Micros   `msgpack:"paused"` // end of the pause; 0: there is none
	Processes []Member `msgpack:"processes"`
}

func (*Fleet) kinds() []string { return []string{string(OK)} }

// A Member is a process of a Fleet.
type Member struct {
	ID      string `msgpack:"id"`
	Name    string `msgpack:"name"`
	Seen    Micros `msgpack:"seen"`
	Promise string `msgpack:"promise"`
}

// ReadReply reads a reply of step.lua, but for its answers.
func ReadReply(text string) (Reply, error) {
	var reply Reply
	err := read(text, &reply)
	return reply, err
}

// ReadAnswer reads an answer into a record of Request.Answer.
func ReadAnswer(raw []byte, into Answer) error {
	if err := read(string(raw), into); err != nil {
		return err
	}
	kind := into.Result().Kind
	if kind == Broken || kind == Overtaken {
		return nil
	}
	for _, known := range into.kinds() {
		if string(kind) == known {
			return nil
		}
	}
	return unknownKind(kind)
}

func unknownKind(kind Kind) error {
	return fmt.Errorf("wire: %.40q is no kind of version %d", kind, Version)
}

// kindOf returns the tag of a message.
func kindOf(text string) (Kind, error) {
	var tagged struct {
		Kind Kind `msgpack:"kind"`
	}
	err := decode(text, &tagged, false)
	return tagged.Kind, err
}
