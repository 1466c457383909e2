package crawl

// A seeker is a call of Config.Discover, in a goroutine of its own. It hands over what Discover
// yields in batches: the next one waits until the Queue has taken in the last. So a site that lists
// millions of URLs takes the memory of one batch.
type seeker struct {
	run   *run
	host  string
	batch []Request
	bytes int             // of the URLs in batch
	taken <-chan struct{} // closed when the Queue has the last batch; nil: there was none
}

// A batch isn't longer, whatever the Queue does meanwhile.
const (
	batchURLs  = 1000
	batchBytes = 64 << 10
)

// discover calls Config.Discover for the host of fl, once.
func (r *run) discover(fl *flight) {
	key := fl.h.key
	_, called := r.discovered[key]
	if called || r.c.cfg.Discover == nil || r.stopped {
		return
	}
	r.discovered[key] = fl.request.URL
	r.seeking++
	s := &seeker{run: r, host: key}
	go s.seek(fl.request.URL)
}

// seek calls Discover with a URL of the host.
func (s *seeker) seek(url string) {
	// What came before a panic counts. The panic is logged.
	defer func() { s.run.events <- foundURLs{host: s.host, found: s.batch, isLast: true} }()
	_ = guarded("Discover of "+url, func() error {
		found := s.run.c.cfg.Discover(s.run.ctx, url)
		if found != nil {
			found(s.take)
		}
		return nil
	})
}

// take takes a request that Discover yields. It reports whether more are wanted.
func (s *seeker) take(req Request) bool {
	s.batch = append(s.batch, req)
	s.bytes += len(req.URL)
	isFull := len(s.batch) == batchURLs || s.bytes >= batchBytes
	if isFull || s.isIdle() {
		s.hand()
	}
	return s.run.ctx.Err() == nil
}

// isIdle reports whether the Queue has what was handed over.
func (s *seeker) isIdle() bool {
	if s.taken == nil {
		return true
	}
	select {
	case <-s.taken:
		return true
	default:
		return false
	}
}

// hand hands the batch over, once the Queue has the one before it.
func (s *seeker) hand() {
	if s.taken != nil {
		<-s.taken
	}
	taken := make(chan struct{})
	s.taken = taken
	s.run.events <- foundURLs{host: s.host, found: s.batch, taken: taken}
	s.batch = nil // the run has it now
	s.bytes = 0
}

// A foundURLs is a batch of what Config.Discover has yielded for a host.
type foundURLs struct {
	host   string
	found  []Request
	taken  chan<- struct{} // to be closed when the Queue has the batch; nil: no goroutine waits
	isLast bool            // Discover has ended
}

func (e foundURLs) apply(r *run) {
	for _, req := range e.found {
		req.Depth = max(1, req.Depth) // a start URL may redirect anywhere, see turnTo
		_ = r.accept(req)             // it is counted
	}
	if e.taken != nil {
		r.work.handed = append(r.work.handed, e.taken)
	}
	if !e.isLast {
		return
	}
	r.seeking--
	if r.ctx.Err() != nil {
		return // it may have been cut off, see over
	}
	r.discovered[e.host] = ""
	res, ok := r.held[e.host]
	if !ok {
		return // the page for which it was called is still under way
	}
	delete(r.held, e.host)
	r.work.done = append(r.work.done, res)
}
