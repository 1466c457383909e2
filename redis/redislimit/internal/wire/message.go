package wire

// The kinds of messages.
const (
	kindPush    Kind = "push"
	kindHello   Kind = "hello"
	kindVerdict Kind = "block"
	kindPause   Kind = "pause"
	kindEcho    Kind = "echo"
	kindNewGen  Kind = "gen"
)

// A Push gives a lease a slot, or a better time.
type Push struct {
	Kind Kind   `msgpack:"kind"`
	ID   string `msgpack:"id"`  // the lease
	Due  Micros `msgpack:"due"` // when it may start, on the server's clock
	Now  Micros `msgpack:"now"` // when the server sent this
	Why  string `msgpack:"why"` // not sooner
}

// A Hello has the settings of a process.
type Hello struct {
	Kind    Kind   `msgpack:"kind"`
	ID      string `msgpack:"id"`
	Name    string `msgpack:"name"`
	Promise string `msgpack:"promise"`
}

// A Verdict reports a block to all processes, or that there is none any more.
type Verdict struct {
	Kind Kind   `msgpack:"kind"`
	Key  string `msgpack:"key"` // of the host on the server
	Now  Micros `msgpack:"now"`
	Act  int    `msgpack:"act"` // of an operator, see Change; 0: of none
	Host Report `msgpack:"host"`
}

// A Paused reports to all processes that a pause begins or ends.
type Paused struct {
	Kind Kind `msgpack:"kind"`
}

// An Echo answers a sign of life.
type Echo struct {
	Kind Kind `msgpack:"kind"`
}

// A NewGeneration reports to all processes that a partition of a cluster has another one.
type NewGeneration struct {
	Kind Kind   `msgpack:"kind"`
	Key  string `msgpack:"key"` // of the generation
}

// Pack returns h as a message.
func (h Hello) Pack() string {
	h.Kind = kindHello
	return pack(&h)
}

// ReadMessage reads a message: a pointer to one of the records of this file. It returns an error
// for anything else, such as the message of another version.
func ReadMessage(text string) (any, error) {
	kind, err := kindOf(text)
	if err != nil {
		return nil, err
	}
	var message any
	switch kind {
	case kindPush:
		message = new(Push)
	case kindHello:
		message = new(Hello)
	case kindVerdict:
		message = new(Verdict)
	case kindPause:
		message = new(Paused)
	case kindEcho:
		message = new(Echo)
	case kindNewGen:
		message = new(NewGeneration)
	default:
		return nil, unknownKind(kind)
	}
	return message, read(text, message)
}
