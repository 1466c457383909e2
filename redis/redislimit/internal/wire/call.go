package wire

// A Call is one run of step.lua: settings of the process that calls, and operations on hosts.
type Call struct {
	Version    int       `msgpack:"version"`
	Number     int64     `msgpack:"call"`       // of the call in its process
	Process    string    `msgpack:"proc"`       // the caller
	Generation string    `msgpack:"gen"`        // the state of the server that the caller believes in
	Stepped    Micros    `msgpack:"stepped"`    // step of the server's clock that the caller has seen
	NotAfter   Micros    `msgpack:"notafter"`   // when the caller gives the call up, on the server's clock
	Channel    string    `msgpack:"channel"`    // prefix of the channels
	Alone      bool      `msgpack:"alone"`      // the server is no node of a cluster
	Quarantine Micros    `msgpack:"quarantine"` // its length
	Window     Micros    `msgpack:"window"`     // how late the caller's starts may be
	Latency    Micros    `msgpack:"latency"`    // how long a reply is under way
	Horizon    Micros    `msgpack:"horizon"`    // a turn is let go at most so long before its start
	Claim      Micros    `msgpack:"claim"`      // a reservation lapses so long after its start
	TTL        Micros    `msgpack:"ttl"`        // LeaseTTL
	Forgive    Micros    `msgpack:"forgive"`    // refusals are forgotten so long after the block
	Most       Micros    `msgpack:"most"`       // no host's answer blocks for longer; 0: not known
	Hours      []Hours   `msgpack:"hours"`      // in which starts are allowed; none: always
	Dead       Micros    `msgpack:"dead"`       // a process without a sign of life for so long has lost its turns
	Spread     int       `msgpack:"spread"`     // number of processes that continue if they are cut off
	Beat       bool      `msgpack:"beat"`       // the call is a sign of life
	Name       string    `msgpack:"name"`       // of the caller, with a sign of life
	Promise    string    `msgpack:"promise"`    // settings of the caller, with a sign of life
	Leave      bool      `msgpack:"leave"`      // the caller takes leave
	Ops        []Request `msgpack:"ops"`
	// Tried has the number of the first call that may have done an operation already, by its index in
	// Ops; 0, or no entry: none. Few calls have any, and a field of each operation would cost all.
	Tried []int64 `msgpack:"tried"`
}

// Pack returns c as step.lua reads it.
func (c *Call) Pack() string {
	c.Version = Version
	return pack(c)
}

// Hours are a window of each day, in microseconds since midnight.
type Hours struct {
	From Micros `msgpack:"from"`
	To   Micros `msgpack:"to"`
}

// A Request is an operation of step.lua on a host.
type Request interface {
	operation() *Operation
	name() string
	// Answer returns a record for the answer to the request.
	Answer() Answer
}

// An Operation is the part that all requests have. Call.Add sets it.
type Operation struct {
	Name string `msgpack:"op"`
	Host int    `msgpack:"on"` // number of the host among the keys of the call, from 1
}

func (o *Operation) operation() *Operation { return o }

// Add adds r, which is about the host with that number. tried is the number of the first call that
// may have done r already, 0 for none.
func (c *Call) Add(r Request, host int, tried int64) {
	o := r.operation()
	o.Name = r.name()
	o.Host = host
	if tried > 0 {
		none := make([]int64, len(c.Ops)-len(c.Tried))
		c.Tried = append(c.Tried, none...)
		c.Tried = append(c.Tried, tried)
	}
	c.Ops = append(c.Ops, r)
}

// A Take asks for a turn.
type Take struct {
	Operation
	ID      string `msgpack:"id"`      // the lease
	Seq     int64  `msgpack:"seq"`     // number of the take of that lease
	Started int64  `msgpack:"started"` // the take by which the lease has started; 0: it hasn't
	Slots   int    `msgpack:"slots"`   // of the host
	Longest Micros `msgpack:"longest"` // how long the caller may wait
	Least   Micros `msgpack:"least"`   // smallest gap to a turn ahead
	Ceiling Micros `msgpack:"ceiling"` // bounds the learned delay
	Delay   Micros `msgpack:"delay"`   // from the start to the next one
	Floor   Micros `msgpack:"floor"`   // from the start before
	Blind   bool   `msgpack:"blind"`   // Floor isn't known: the host's applies
	FromEnd bool   `msgpack:"ends"`    // whether the gap counts from the end of the lease
	Rank    int64  `msgpack:"rank"`    // priority
	Ago     Micros `msgpack:"ago"`     // since the request arrived
}

func (*Take) name() string { return "take" }

// Answer returns a [Turn].
func (*Take) Answer() Answer { return new(Turn) }

// A Release gives a slot back.
type Release struct {
	Operation
	ID      string `msgpack:"id"`
	Slots   int    `msgpack:"slots"`
	Undone  bool   `msgpack:"undone"`  // the request hasn't started since it was let go
	Started int64  `msgpack:"started"` // the take by which the lease has started; 0: it hasn't
	Stamp   Micros `msgpack:"stamp"`   // of its start, on the server's clock; 0: void
	By      Micros `msgpack:"by"`      // the latest time that the server's clock may have shown then
}

func (*Release) name() string { return "release" }

// Answer returns a [Done].
func (*Release) Answer() Answer { return new(Done) }

// A Started reports a start.
type Started struct {
	Operation
	ID     string `msgpack:"id"`
	Seq    int64  `msgpack:"seq"`    // the take that allowed it
	Number int64  `msgpack:"number"` // of the start in its process
	By     Micros `msgpack:"by"`     // the latest time that the server's clock may have shown then
}

func (*Started) name() string { return "started" }

// Answer returns a [Done].
func (*Started) Answer() Answer { return new(Done) }

// A Renew prolongs a lease whose body is still being read.
type Renew struct {
	Operation
	ID string `msgpack:"id"`
}

func (*Renew) name() string { return "renew" }

// Answer returns a [Done].
func (*Renew) Answer() Answer { return new(Done) }

// An Outcome stores the effect of the outcome of a lease, or of an operator.
type Outcome struct {
	Operation
	ID     string  `msgpack:"id"`     // of the lease; empty: an operator's
	Served bool    `msgpack:"ok"`     // the outcome is a success
	Adapt  *Adapt  `msgpack:"adapt"`  // of the delay by response times; nil: it stays
	Change *Change `msgpack:"change"` // of the refusals; nil: none, unless the host has refusals
}

func (*Outcome) name() string { return "outcome" }

// Answer returns a [Changed].
func (*Outcome) Answer() Answer { return new(Changed) }

// An Adapt moves the delay by response times.
type Adapt struct {
	Least  Micros  `msgpack:"least"`
	Most   Micros  `msgpack:"most"`
	AtOnce float64 `msgpack:"atonce"` // at least to there
	Half   float64 `msgpack:"half"`   // half the way to there; -1: nowhere
	Longer bool    `msgpack:"longer"` // it gets no shorter
}

// A Change is what becomes of the refusals of a host.
type Change struct {
	Number   int64  `msgpack:"number"`  // of the change in its process, which makes the changes of a host in order
	Version  int64  `msgpack:"version"` // of the refusals that the change was computed from
	Slots    int    `msgpack:"slots"`
	Rest     string `msgpack:"rest"` // packed Refusals
	Row      int    `msgpack:"row"`
	Alone    bool   `msgpack:"single"` // requests start one at a time, until one succeeds
	Stay     Micros `msgpack:"stay"`   // rest of the block; -1: it ends as before
	Newly    bool   `msgpack:"newly"`  // the block is set or lengthened
	Cause    string `msgpack:"cause"`
	Learned  Micros `msgpack:"learned"`
	Taught   bool   `msgpack:"taught"` // Learned is longer
	Eased    bool   `msgpack:"eased"`  // or shorter
	Blocked  bool   `msgpack:"blocked"`
	Cleared  bool   `msgpack:"cleared"`
	Act      int    `msgpack:"act"`   // of an operator: 1 for a block, 2 for a clearing
	Ended    bool   `msgpack:"ended"` // the attempt has ended without a response
	EndDelay Micros `msgpack:"delay"` // that its end owes from now on
}

// A Restore sends a process's knowledge of a host to a server that may have lost it. Times count
// from the call, and are negative in the past.
type Restore struct {
	Operation
	Next   Micros  `msgpack:"next"` // start
	Last   Micros  `msgpack:"last"` // start, or the end from which the gap counts
	Leases []Lease `msgpack:"leases"`
	Lost   *Lost   `msgpack:"lost"` // the rest, for a server that may have lost that too; nil: it hasn't
}

func (*Restore) name() string { return "restore" }

// Answer returns a [Done].
func (*Restore) Answer() Answer { return new(Done) }

// A Lease is one that a caller has.
type Lease struct {
	ID      string `msgpack:"id"`
	Seq     int64  `msgpack:"seq"`
	Left    Micros `msgpack:"left"` // until its TTL is over
	Delay   Micros `msgpack:"delay"`
	FromEnd bool   `msgpack:"ends"`
}

// A Lost is what a process knows of the refusals of a host.
type Lost struct {
	Version int64  `msgpack:"version"`
	Until   Micros `msgpack:"block"` // end of the block
	Cause   string `msgpack:"cause"`
	Alone   bool   `msgpack:"single"`
	Row     int    `msgpack:"row"`
	Learned Micros `msgpack:"learned"`
	EasedAt Micros `msgpack:"easedat"`
	Rest    string `msgpack:"rest"`
	Served  int    `msgpack:"served"` // successes
	Since   Micros `msgpack:"since"`
}

// A Recall sends the debt of a Store.
type Recall struct {
	Operation
	Until   Micros `msgpack:"block"` // end of the block, from now on
	Cause   string `msgpack:"cause"`
	Row     int    `msgpack:"row"`
	Learned Micros `msgpack:"learned"`
}

func (*Recall) name() string { return "recall" }

// Answer returns a [Recalled].
func (*Recall) Answer() Answer { return new(Recalled) }

// A Peek asks for the start of a request that came now.
type Peek struct {
	Operation
	Floor Micros `msgpack:"floor"`
	Slots int    `msgpack:"slots"`
	Least Micros `msgpack:"least"` // smallest gap to a turn ahead
}

func (*Peek) name() string { return "peek" }

// Answer returns a [Peeked].
func (*Peek) Answer() Answer { return new(Peeked) }

// A GetState asks for the state of a host.
type GetState struct{ Operation }

func (*GetState) name() string { return "state" }

// Answer returns a [State].
func (*GetState) Answer() Answer { return new(State) }

// A Pause lets nothing start on any host.
type Pause struct {
	Operation
	Length Micros `msgpack:"length"` // 0: ends a pause
}

func (*Pause) name() string { return "pause" }

// Answer returns a [Done].
func (*Pause) Answer() Answer { return new(Done) }

// A GetName asks for the name of all that is under a prefix.
type GetName struct {
	Operation
	Text string `msgpack:"name"` // is set, unless there is one
}

func (*GetName) name() string { return "limiter" }

// Answer returns a [Name].
func (*GetName) Answer() Answer { return new(Name) }

// A GetFleet asks for the processes of a partition.
type GetFleet struct{ Operation }

func (*GetFleet) name() string { return "fleet" }

// Answer returns a [Fleet].
func (*GetFleet) Answer() Answer { return new(Fleet) }

// A Greet publishes a message.
type Greet struct {
	Operation
	To    string `msgpack:"to"`    // a process, or all
	Text  string `msgpack:"text"`  // a packed [Hello]
	Check bool   `msgpack:"check"` // do everything else that needs the server's permission
}

func (*Greet) name() string { return "hello" }

// Answer returns a [Done].
func (*Greet) Answer() Answer { return new(Done) }
