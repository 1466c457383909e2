package budget

import (
	"context"
	"fmt"
	"hash/maphash"
	"math"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/go-politeness/politeness/internal/statedir"
)

// A Kept is a budget with Limits.Every in a directory. All processes of a machine that use the
// directory spend it together, at the same time or one after another. In one window, no more is
// spent than the limits Pages, PagesPerHost and Bytes, even if processes are killed.
//
// A process takes its part of the budget in blocks. A block is a hundredth of a limit, and at least
// 1. A file has the sum of all blocks, so most pages cost no access to a file. GiveBack returns the
// part of a block that wasn't spent. If a process is killed, its block counts as spent until the
// next window.
//
// If a file can't be read or written, the process counts without the others, and Lost returns the
// error. A Kept is safe for concurrent use. It has goroutines only during GiveBack. Make it with
// Keep.
type Kept struct {
	m      *Memory // counts what is spent in the window, by all processes as far as is known
	values statedir.Values[granted]
	places chan struct{} // taken by goroutines that use a file, see atOnce

	// Guarded by m.mu.
	window   time.Time // of the fields below
	total    *leave    // of Pages and Bytes
	hosts    map[string]*leave
	reserved int64 // pages of this process that Refund may give back
	lost     error
}

// A leave is what this process may spend without another look at the file.
type leave struct {
	pages, bytes int64
	known        granted   // value of the file, while that can't be written
	again        time.Time // before that the file isn't read again for what it doesn't have

	// busy is closed when the goroutine that uses the file now has ended; nil: none does. Files of
	// different hosts are used at the same time.
	busy chan struct{}
}

// A granted is the value of a file: what processes have taken in a window.
type granted struct {
	Window int64 `json:"window"` // its beginning in Unix nanoseconds
	Pages  int64 `json:"pages,omitzero"`
	Bytes  int64 `json:"bytes,omitzero"`
}

// lookAgain is how long a process that has no leave believes what it has read in the file.
const lookAgain = time.Second

// atOnce is how many files are used at a time: a disk can write several together. If there are very
// many, goroutines wait for each other's locks, which costs processor time.
const atOnce = 16

// noHost is the key of the limits that aren't about a single host.
const noHost = "\x00"

// Keep returns the budget with the limits l in the directory dir, which is made when the first page
// is spent. Without l.Every it keeps nothing, as a budget that is spent once ends with its crawl.
// Use it for a crawler that is started again and again, such as by cron.
func Keep(dir string, l Limits) *Kept {
	return &Kept{
		m: New(l),
		values: statedir.Values[granted]{
			Dir:    statedir.New(dir, statedir.OS{}),
			Format: "budget 1",
			Zero:   "has spent nothing",
		},
		places: make(chan struct{}, atOnce),
		total:  new(leave),
		hosts:  make(map[string]*leave),
	}
}

// Limits reports the limits that k was made with.
func (k *Kept) Limits() Limits { return k.m.limits }

// Window implements [Budget], by this machine's clock.
func (k *Kept) Window() time.Time { return k.m.Window() }

// keeps reports whether there is anything to keep.
func (k *Kept) keeps() bool {
	l := &k.m.limits
	return l.Every > 0 && (l.Pages > 0 || l.Bytes > 0 || l.PagesPerHost > 0)
}

// renew begins a new window if it is time: the leave of the one before is void.
func (k *Kept) renew() {
	k.m.renew()
	if k.m.window.Equal(k.window) {
		return
	}
	k.window = k.m.window
	k.total = new(leave)
	k.reserved = 0
	clear(k.hosts)
}

// of returns the leave for a host; nil: its pages aren't limited.
func (k *Kept) of(host string) *leave {
	if k.m.limits.PagesPerHost == 0 || host == noHost {
		return nil
	}
	if k.hosts[host] == nil {
		k.hosts[host] = new(leave)
	}
	return k.hosts[host]
}

// hasPage reports whether there is leave for a page of the host with the leave of.
func (k *Kept) hasPage(of *leave) bool {
	return (k.m.limits.Pages == 0 || k.total.pages > 0) && (of == nil || of.pages > 0)
}

// isKnown reports whether the files needn't be read: there is leave, or a file that had nothing
// left was just read.
func (k *Kept) isKnown(of *leave) bool {
	l := &k.m.limits
	now := time.Now()
	total := (l.Pages == 0 || k.total.pages > 0) && (l.Bytes == 0 || k.total.bytes > 0)
	return (total || now.Before(k.total.again)) && (of == nil || of.pages > 0 || now.Before(of.again))
}

// Check implements [Budget].
func (k *Kept) Check(ctx context.Context, host string, start time.Time) error {
	if err := k.look(ctx, host); err != nil {
		return err
	}
	return k.m.Check(ctx, host, start)
}

// look reads the files for a page of host, if that isn't known.
func (k *Kept) look(ctx context.Context, host string) error {
	if !k.keeps() {
		return nil
	}
	k.m.mu.Lock()
	k.renew()
	known := k.isKnown(k.of(host))
	k.m.mu.Unlock()
	if known {
		return nil
	}
	return k.ask(ctx, host, false)
}

// Reserve implements [Budget].
func (k *Kept) Reserve(ctx context.Context, host string) ([]Warning, error) {
	if !k.keeps() {
		return k.m.Reserve(ctx, host)
	}
	for {
		warnings, done, err := k.reserve(host)
		if done {
			return warnings, err
		}
		if err := k.ask(ctx, host, true); err != nil {
			return nil, err
		}
	}
}

// reserve is Reserve without a look at the files; done is false if that is needed.
func (k *Kept) reserve(host string) (warnings []Warning, done bool, err error) {
	k.m.mu.Lock()
	defer k.m.mu.Unlock()
	k.renew()
	of := k.of(host)
	hasPage := k.hasPage(of)
	if !hasPage && !k.isKnown(of) {
		return nil, false, nil
	}
	refusal := k.m.refuse(time.Time{}, host)
	switch {
	case refusal != nil:
		return nil, true, refusal
	case !hasPage:
		return nil, false, nil
	}
	k.total.pages--
	if of != nil {
		of.pages--
	}
	k.reserved++
	return k.m.reserve(host), true, nil
}

// Refund implements [Budget].
func (k *Kept) Refund(ctx context.Context, host string) {
	if !k.keeps() {
		k.m.Refund(ctx, host)
		return
	}
	k.m.mu.Lock()
	defer k.m.mu.Unlock()
	k.renew()
	if k.reserved == 0 {
		return // it was never reserved, or in another window
	}
	k.reserved--
	k.total.pages++
	if of := k.of(host); of != nil {
		of.pages++
	}
	k.m.refund(host)
}

// TakeBytes implements [Budget].
func (k *Kept) TakeBytes(ctx context.Context, n int64) (int64, []Warning, error) {
	if !k.keeps() || k.m.limits.Bytes == 0 || n <= 0 {
		return k.m.TakeBytes(ctx, n)
	}
	for {
		taken, warnings, done, err := k.takeBytes(n)
		if done {
			return taken, warnings, err
		}
		if err := k.ask(ctx, noHost, true); err != nil {
			return 0, nil, err
		}
	}
}

// takeBytes is TakeBytes without a look at the files; done is false if that is needed.
func (k *Kept) takeBytes(n int64) (taken int64, warnings []Warning, done bool, err error) {
	k.m.mu.Lock()
	defer k.m.mu.Unlock()
	k.renew()
	isSpent := k.m.bytes >= k.m.limits.Bytes && time.Now().Before(k.total.again)
	if k.total.bytes <= 0 && !isSpent {
		return 0, nil, false, nil
	}
	if k.total.bytes > 0 {
		n = min(n, k.total.bytes)
	}
	taken, warnings, err = k.m.take(n)
	k.total.bytes -= taken
	return taken, warnings, true, err
}

// Usage implements [Budget].
func (k *Kept) Usage(ctx context.Context) (Usage, error) {
	if err := k.look(ctx, noHost); err != nil {
		return Usage{}, err
	}
	return k.m.Usage(ctx)
}

// GiveBack gives the unspent part of this process's blocks back to the directory, so that the next
// process may spend it. Call it when nothing more is spent for a while. What can't be given back
// counts as spent.
func (k *Kept) GiveBack(ctx context.Context) error {
	if !k.keeps() {
		return nil
	}
	var files errgroup.Group // a disk writes some together, and each waits for it
	files.SetLimit(atOnce)
	for _, host := range k.holders() {
		files.Go(func() error { return k.giveBack(ctx, host) })
	}
	return files.Wait()
}

// holders returns the hosts that k has leave for, noHost included.
func (k *Kept) holders() []string {
	k.m.mu.Lock()
	defer k.m.mu.Unlock()
	k.renew()
	var holders []string
	if k.total.pages > 0 || k.total.bytes > 0 {
		holders = append(holders, noHost)
	}
	for host, l := range k.hosts {
		if l.pages > 0 {
			holders = append(holders, host)
		}
	}
	return holders
}

// giveBack is GiveBack of the leave for a host.
func (k *Kept) giveBack(ctx context.Context, host string) error {
	l, err := k.begin(ctx, host)
	if err != nil {
		return err
	}
	defer k.end(l)
	k.m.mu.Lock()
	if k.leave(host) != l { // a new window has begun since, and l is void
		k.m.mu.Unlock()
		return nil
	}
	window := k.window.UnixNano()
	pages := max(0, l.pages)
	bytes := max(0, l.bytes)
	l.pages -= pages
	l.bytes -= bytes
	l.again = time.Time{}
	k.m.mu.Unlock()
	_, err = k.values.Update(ctx, k.key(host), func(g granted) granted {
		if g.Window == window {
			g.Pages = max(0, g.Pages-pages)
			g.Bytes = max(0, g.Bytes-bytes)
		}
		return g
	})
	if err != nil {
		return fmt.Errorf("budget: %w", err)
	}
	return nil
}

// Lost returns the error of the last access to a file. It returns nil if that access succeeded.
// Check it at the end of a crawl.
func (k *Kept) Lost() error {
	k.m.mu.Lock()
	defer k.m.mu.Unlock()
	return k.lost
}

// begin waits until no other goroutine uses the file of host, which this one uses until it calls
// end with the leave for host.
func (k *Kept) begin(ctx context.Context, host string) (*leave, error) {
	for {
		l, other := k.tryBegin(host)
		if other == nil {
			return l, k.takePlace(ctx, l)
		}
		select {
		case <-other:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// takePlace takes a place for the use of the file of l. If ctx ends before there is one, takePlace
// ends the use.
func (k *Kept) takePlace(ctx context.Context, l *leave) error {
	select {
	case k.places <- struct{}{}:
		return nil
	case <-ctx.Done():
		k.endUse(l)
		return context.Cause(ctx)
	}
}

// tryBegin is begin without the wait: other is closed when the file may be free.
func (k *Kept) tryBegin(host string) (l *leave, other <-chan struct{}) {
	k.m.mu.Lock()
	defer k.m.mu.Unlock()
	k.renew()
	l = k.leave(host)
	if l.busy != nil {
		return nil, l.busy
	}
	l.busy = make(chan struct{})
	return l, nil
}

// end ends the use of a file that began with begin.
func (k *Kept) end(l *leave) {
	<-k.places
	k.endUse(l)
}

// endUse wakes the goroutines that wait for the file of l.
func (k *Kept) endUse(l *leave) {
	k.m.mu.Lock()
	defer k.m.mu.Unlock()
	close(l.busy)
	l.busy = nil
}

// key returns the key of the file of a host. Windows of another length have other files.
func (k *Kept) key(host string) string {
	if host == noHost {
		return fmt.Sprintf("every %v", k.m.limits.Every)
	}
	return fmt.Sprintf("every %v of %s", k.m.limits.Every, host)
}

// ask reads the files for a page of host, and for bytes. With take it takes leave from them.
func (k *Kept) ask(ctx context.Context, host string, take bool) error {
	l := &k.m.limits
	if l.Pages > 0 || l.Bytes > 0 {
		if err := k.fill(ctx, filling{noHost, take, l.Pages, l.Bytes}); err != nil {
			return err
		}
	}
	if l.PagesPerHost > 0 && host != noHost {
		return k.fill(ctx, filling{host, take, l.PagesPerHost, 0})
	}
	return nil
}

// A filling is a look at one file.
type filling struct {
	host         string
	take         bool  // pages and bytes of which no leave is left are taken
	pages, bytes int64 // limits; 0: none
}

// isFull reports whether l has leave of all that f is about.
func (f filling) isFull(l *leave) bool {
	hasPages := f.pages == 0 || l.pages > 0
	hasBytes := f.bytes == 0 || l.bytes > 0
	return hasPages && hasBytes
}

// leave returns the leave for a host, or of Pages and Bytes.
func (k *Kept) leave(host string) *leave {
	if host == noHost {
		return k.total
	}
	return k.of(host)
}

// fill reads a file, and takes leave from it if f says so. If there is leave already, perhaps of
// another goroutine for which fill has waited, the file isn't read.
func (k *Kept) fill(ctx context.Context, f filling) error {
	l, err := k.begin(ctx, f.host)
	if err != nil {
		return err
	}
	defer k.end(l)
	k.m.mu.Lock()
	window := k.window
	before := *l
	isVoid := k.leave(f.host) != l // a new window has begun since, and the caller asks again
	k.m.mu.Unlock()
	if isVoid || f.isFull(&before) {
		return nil
	}

	var file granted // as it is now
	var got leave
	// It may be called twice, and the second call counts.
	_, err = k.values.Update(ctx, k.key(f.host), func(old granted) granted {
		file, got = f.grant(old.in(window.UnixNano(), k.m.limits.Every), before)
		if got == (leave{}) {
			return old
		}
		return file
	})
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx) // nothing was taken
	}

	k.m.mu.Lock()
	defer k.m.mu.Unlock()
	k.renew()
	k.lost = nil
	if err != nil {
		k.lost = fmt.Errorf("budget: %w", err)
	}
	if !k.window.Equal(window) {
		return nil // what was taken is void
	}
	l.pages += got.pages
	l.bytes += got.bytes
	l.again = time.Now().Add(lookAgain)
	l.known = granted{}
	if err != nil {
		l.known = file
	}
	k.learn(f, file, l)
	return nil
}

// grant takes pages from g if l has none left, and bytes if l has none left.
func (f filling) grant(g granted, l leave) (granted, leave) {
	if l.known.Window == g.Window {
		g.Pages = max(g.Pages, l.known.Pages)
		g.Bytes = max(g.Bytes, l.known.Bytes)
	}
	var got leave
	if f.take && l.pages <= 0 {
		got.pages = block(f.pages, g.Pages)
	}
	if f.take && l.bytes <= 0 {
		got.bytes = block(f.bytes, g.Bytes)
	}
	g.Pages += got.pages
	g.Bytes += got.bytes
	return g, got
}

// learn sets what is spent, of a host or in all, to what the file has, without the leave that this
// process hasn't spent.
func (k *Kept) learn(f filling, file granted, l *leave) {
	m := k.m
	spent := min(file.Pages-max(0, l.pages), f.pages)
	if f.host != noHost {
		key := maphash.String(m.seed, f.host)
		m.hosts[key] = hostUse(spent)*onePage | m.hosts[key]&warned
		return
	}
	if f.pages > 0 {
		m.pages = spent
	}
	if f.bytes > 0 {
		m.bytes = min(file.Bytes-l.bytes, f.bytes)
	}
}

// in returns g in the given window, which begins anew if g is of an earlier one. A later one shows
// that the clock was set back. If g is of the next window, all of this window is spent: how much of
// it was, isn't known any more. A g of a window after that was made while the clock was wrong, and
// counts in this one.
func (g granted) in(window int64, every time.Duration) granted {
	switch {
	case g.Window < window:
		return granted{Window: window}
	case g.Window == window+int64(every):
		return granted{Window: window, Pages: math.MaxInt64 / 4, Bytes: math.MaxInt64 / 4}
	default:
		g.Window = window
		return g
	}
}

// blocks is the number of blocks in which a limit is taken.
const blocks = 100

// block returns how much of a limit is taken at once, if so much of it was taken already.
func block(limit, taken int64) int64 {
	if limit <= 0 {
		return 0
	}
	return max(0, min(max(1, limit/blocks), limit-taken))
}
