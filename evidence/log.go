package evidence

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/go-politeness/politeness/evidence/internal/lines"
	"github.com/go-politeness/politeness/internal/statedir"
)

const (
	flushBytes = 64 << 10    // written when so much is held back,
	flushAfter = time.Second // or when a record comes so long after the last write
	maxHeld    = 16 << 20    // bytes held back for a writer that is slow or fails
	chainEvery = 8           // lines that one hash is for: a hash for each line would cost half as much again
	jump       = time.Second // the wall clock is followed if it is ahead of ours by more, as after a sleep
)

// A Log is an Evidence that writes records as JSON Lines, one object a line, numbered from 1 in
// "n", so that an auditor finds a line that was removed. See [JSONLines].
type Log struct {
	w      io.Writer
	signer *treeSigner // nil: the log isn't signed
	file   *os.File    // w, if the Log has opened it; nil: it hasn't

	mu      sync.Mutex
	change  sync.Cond // of writing, public and sealed
	buf     []byte    // encoded lines that aren't written yet
	spare   []byte    // empty buffer that replaces buf during a write
	writing bool      // whether a goroutine is in w.Write, without mu
	last    time.Time // time of the last write, or when the Log was made
	flushAt int       // length of buf that is worth a write
	clock   clock
	own     LogLine           // fields that the Log adds to the present line; own.N counts lost records too
	signed  time.Time         // when the last checkpoint was made, or the first record
	ready   [][]byte          // checkpoints that aren't published yet
	due     int               // number of those that are written
	public  bool              // whether a goroutine publishes, without mu
	chain   hash.Hash         // of the last hash and the lines since; nil: the log isn't chained
	hash    [sha256.Size]byte // the last one
	bare    int               // number of lines since the last hash
	closed  bool
	sealed  bool  // whether Close is done
	lost    int   // number of lost records
	cause   error // why the first lost record was lost
	err     error // error of the last write
	other   error // first of the other errors: of publishing a checkpoint, or of closing the file
}

// A LogConfig sets how changes of a log are found later. The zero value is a plain log. In such a
// log, an auditor notices only missing lines. Set Chained or Signed if somebody else must trust the
// log.
type LogConfig struct {
	// Chained adds hashes to the log, so that an auditor finds later changes. The first line, every
	// eighth line after it and the last line have a "hash". The hash is the SHA-256 of the previous
	// hash, of the lines since, and of the line itself. Close writes a last record, log_closed.
	// If somebody changes a line and computes all later hashes again, the auditor doesn't notice the
	// change. To exclude this, keep the last hash elsewhere.
	Chained bool

	// Signed makes a log that a stranger can check. The default is nil, so that the log isn't
	// signed.
	Signed *SignConfig
}

// JSONLines returns a plain Log that writes to w. Call Close at the end. It flushes, and doesn't
// close w.
//
// Lines are written when 64 KiB are buffered, or with the first record that comes a second or more
// after the last write. If a record makes a write due, its goroutine writes, and the others
// continue. If w fails, nothing is lost at first. The Log tries again with later records, from the
// byte where w stopped. It drops new records only when 16 MiB are waiting. Err and Close report it.
// The crawl never notices.
//
// All Logs of a process write times on one clock. It begins with the wall clock at the first record
// of any Log, and moves on with the monotonic clock. So if the wall clock is set back during a
// crawl, two starts don't look closer than they were. Nor do two logs disagree about a start. If
// the wall clock jumps forward by more than a second, the Logs follow. If it jumps back by more
// than a second, only a Log that is made later follows.
func JSONLines(w io.Writer) *Log {
	l := &Log{w: w, flushAt: flushBytes, last: time.Now()}
	l.change.L = &l.mu
	return l
}

// NewLog is JSONLines for a log that is chained or signed. The error names the field of cfg that
// can't be used.
func NewLog(w io.Writer, cfg LogConfig) (*Log, error) {
	l := JSONLines(w)
	if cfg.Chained {
		l.chain = sha256.New()
		l.chain.Write(l.hash[:])
	}
	if cfg.Signed != nil {
		signer, err := newTreeSigner(cfg.Signed)
		if err != nil {
			return nil, fmt.Errorf("evidence: LogConfig.Signed: %w", err)
		}
		l.signer = signer
	}
	return l, nil
}

// Record implements Evidence. After Close it only counts the record as lost.
func (l *Log) Record(_ context.Context, d Decision) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		l.lose(1, errors.New("record after Close"))
		return
	case len(l.buf) >= maxHeld:
		l.own.N++ // leaves a hole in the numbers, which an auditor reports
		l.lose(1, cmp.Or(l.err, errors.New("the writer is too slow")))
	default:
		l.append(&d, now)
	}
	due := len(l.buf) >= l.flushAt || now.Sub(l.last) >= flushAfter
	// One goroutine writes at a time. The records of others wait in buf meanwhile.
	if due && !l.writing {
		l.write(now)
		l.publish()
	}
}

func (l *Log) lose(n int, cause error) {
	l.lost += n
	l.cause = cmp.Or(l.cause, cause)
}

// publish publishes the checkpoints that are written, with l.mu released meanwhile. If another
// goroutine publishes already, that goroutine continues.
func (l *Log) publish() {
	if l.public {
		return
	}
	l.public = true
	for l.due > 0 {
		signed := l.ready[0]
		l.ready = l.ready[1:]
		l.due--
		// Publish is the user's function and may take long. Other goroutines can record meanwhile.
		l.mu.Unlock()
		err := l.signer.send(l.w, signed)
		l.mu.Lock()
		l.other = cmp.Or(l.other, err)
	}
	l.public = false
	l.change.Broadcast()
}

// append encodes d as the next line of buf, and signs all lines so far if a checkpoint is due.
func (l *Log) append(d *Decision, now time.Time) {
	l.appendLine(d, now)
	l.signed = cmp.Or(l.signed, now)
	due := d.Type == LogClosed || now.Sub(l.signed) >= signEvery
	if l.signer == nil || !due {
		return
	}
	checkpoint := l.signer.checkpoint(now)
	// OpenFile resumes the tree from the edge, without reading the lines before the checkpoint.
	l.own.Edge = l.signer.tree.Edge()
	l.appendLine(&checkpoint, now)
	l.own.Edge = ""
	l.signed = now
	if l.signer.publish != nil {
		l.ready = append(l.ready, []byte(checkpoint.Text))
	}
}

// appendLine encodes d as the next line of buf, with the members that a Log adds.
func (l *Log) appendLine(d *Decision, now time.Time) {
	l.own.N++
	l.own.Jumped = l.clock.set(now)
	for i := range stamps {
		t := in[time.Time](unsafe.Pointer(d), &stamps[i])
		if !t.IsZero() {
			*t = l.clock.read(*t)
		}
	}
	if l.signer != nil {
		l.own.Salt = l.signer.salt()
	}
	from := len(l.buf)
	d.sanitize()
	d.imply(true)
	line := appendMembers(l.buf, unsafe.Pointer(d), ofDecision)
	line[from] = '{' // instead of the first comma
	line = appendMembers(line, unsafe.Pointer(&l.own), ofLog)
	l.own.After = "" // only the first line has it
	if l.chain != nil {
		line = l.appendHash(line, from, d.Type)
	}
	line = append(line, '}')
	// A leaf of the tree is the line without its end.
	if l.signer != nil {
		l.signer.tree.Add(tlog.RecordHash(line[from:]))
	}
	l.buf = append(line, '\n')
}

// lineEnd ends a line without a hash. It is hashed with the members of the line.
var lineEnd = []byte("}\n")

// appendHash hashes line[from:], which is the present line without its closing brace, and appends
// the hash if that is due. A line ends with its hash and is hashed as far as that.
func (l *Log) appendHash(line []byte, from int, typ Type) []byte {
	l.chain.Write(line[from:])
	l.bare++
	due := l.own.N <= 1 || l.bare >= chainEvery || typ == LogClosed
	if !due {
		l.chain.Write(lineEnd)
		return line
	}
	l.chain.Sum(l.hash[:0])
	// The next hash begins with this one: that makes the lines a chain.
	l.chain.Reset()
	l.chain.Write(l.hash[:])
	l.bare = 0
	line = append(line, `,"hash":"`...)
	line = base64.RawURLEncoding.AppendEncode(line, l.hash[:])
	return append(line, '"')
}

// write writes the lines held back, with l.mu released meanwhile. The caller has made sure that no
// other write is under way.
func (l *Log) write(now time.Time) {
	chunk := l.buf
	waiting := len(l.ready) - l.due // checkpoints in chunk
	// Records that arrive during the write go into the spare buffer.
	l.buf = l.spare[:0]
	l.spare = nil
	l.writing = true
	l.last = now
	l.mu.Unlock()

	n, err := writeAll(l.w, chunk)

	l.mu.Lock()
	l.writing = false
	l.err = err
	l.change.Broadcast()
	if err == nil {
		l.due += waiting
	}
	l.spare = chunk
	l.flushAt = flushBytes
	rest := chunk[n:]
	if len(rest) > 0 {
		// The rest goes before the records that arrived meanwhile, into the buffer that has room for
		// it. The other buffer becomes the spare. The next write is due only when the buffer has
		// doubled, so that a failing writer isn't called for each record.
		meanwhile := l.buf
		l.buf = append(append(chunk[:0], rest...), meanwhile...)
		l.spare = meanwhile
		l.flushAt += len(l.buf)
	}
	if cap(l.spare) > 4*flushBytes { // grown for a writer that was slow
		l.spare = nil
	}
}

// writeAll calls w.Write and takes a panic, a short write without an error and an impossible count
// as errors.
func writeAll(w io.Writer, b []byte) (n int, err error) {
	panicked := caught(func() { n, err = w.Write(b) })
	switch {
	case panicked != nil:
		return 0, fmt.Errorf("panic in Write of %T: %v", w, panicked)
	case n < 0 || n > len(b):
		return 0, errors.Join(err, fmt.Errorf("%T wrote %d of %d bytes", w, n, len(b)))
	case n < len(b) && err == nil:
		return n, io.ErrShortWrite
	}
	return n, err
}

// Flush writes all buffered lines and waits until they are written. It returns the same as Err.
// Call it before another program reads the log.
func (l *Log) Flush() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.flush()
}

func (l *Log) flush() error {
	for l.writing {
		l.change.Wait()
	}
	if len(l.buf) > 0 {
		l.write(time.Now())
	}
	l.publish()
	return l.status()
}

// Close writes all buffered lines, tries failed lines once more, and returns nil if every record
// has been written. It doesn't close the writer, but it closes the file that OpenFile has opened. A
// second call returns the same.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		// Another call of Close is under way: its result is this one's too.
		for !l.sealed {
			l.change.Wait()
		}
		return l.status()
	}
	l.closed = true
	if l.chain != nil || l.signer != nil {
		now := time.Now()
		seal := Decision{Type: LogClosed, Time: now, Allowed: true}
		// The seal admits the loss, so that the holes in the numbers aren't taken for a forgery.
		if l.lost > 0 {
			seal.Err = l.status().Error()
		}
		l.append(&seal, now)
	}
	_ = l.flush() // status has its error
	unwritten := bytes.Count(l.buf, []byte("\n"))
	// Only the caller's records count as lost, not those that the Log itself has made.
	for _, own := range [...]Type{LogClosed, Checkpoint} {
		unwritten -= bytes.Count(l.buf, []byte(lines.RecordBegins+string(own)+`"`))
	}
	l.lose(unwritten, l.err)
	l.buf = nil
	// A goroutine that publishes still uses the writer.
	for l.public {
		l.change.Wait()
	}
	if l.file != nil {
		statedir.UnlockFile(l.file)
		if err := l.file.Close(); err != nil && l.other == nil {
			l.other = fmt.Errorf("evidence: %w", err)
		}
	}
	l.sealed = true
	l.change.Broadcast()
	return l.status()
}

// Err returns nil if every record so far has been written or is on its way. If the writer fails, or
// records were lost, Err returns an error that wraps the writer's. Check it at the end of a crawl,
// after Close or Flush.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.status()
}

func (l *Log) status() error {
	switch {
	case l.lost > 0:
		return fmt.Errorf("evidence: %d records lost: %w", l.lost, l.cause)
	case l.err != nil:
		return fmt.Errorf("evidence: %d bytes not written yet: %w", len(l.buf), l.err)
	}
	return l.other
}

// A clock computes the wall time of an instant from its monotonic reading, by pairs of both taken
// now and then, so that the times of one log are spaced as the instants were. Wall readings by
// themselves aren't: clocks are set, and a goroutine may be held up between the two readings of
// one time.Now.
type clock struct {
	anchors []anchor
	latest  time.Time // latest argument of set; instants before it may be in the log already
}

// An anchor is one instant on both clocks.
type anchor struct {
	mono time.Time // with its monotonic reading
	wall time.Time // without
}

// shared is the latest anchor of the process. A clock goes by it unless the wall clock has jumped
// since, so that a start has the same time in each log that names it.
var shared struct {
	sync.Mutex
	anchor
}

// set takes the present time, and returns how far the wall clock has jumped ahead since the last
// call, if it has. A time before the latest, of a goroutine that was overtaken, can't move instants
// that were read.
func (c *clock) set(now time.Time) (jumped time.Duration) {
	if now.Before(c.latest) {
		return 0
	}
	c.latest = now
	wall := now.Round(0)
	if len(c.anchors) > 0 {
		jumped = wall.Sub(c.read(now))
		if jumped <= jump {
			return 0
		}
	}
	shared.Lock()
	defer shared.Unlock()
	ahead := wall.Sub(shared.wall.Add(now.Sub(shared.mono)))
	switch {
	case ahead.Abs() <= jump:
		// Another Log has a valid anchor, so both logs get equal times.
		wall = wall.Add(-ahead)
	case now != wall: // a bubble of testing/synctest has no monotonic clock
		shared.anchor = anchor{now, wall}
	}
	c.anchors = append(c.anchors, anchor{now, wall})
	return jumped
}

// read returns the wall time of t, or t if it has no monotonic reading.
func (c *clock) read(t time.Time) time.Time {
	if t.IsZero() || t == t.Round(0) {
		return t
	}
	// The anchor that was the latest at t: an instant keeps the time that a log has for it already.
	i := len(c.anchors) - 1
	for i > 0 && t.Before(c.anchors[i].mono) {
		i--
	}
	return c.anchors[i].wall.Add(t.Sub(c.anchors[i].mono))
}
