package crawl

// A seeker is a call of Config.Discover, in a separate goroutine. It hands over Discover's URLs in
// batches. Each batch waits until the Queue has the last one. So a site that lists millions of URLs
// needs the memory of one batch.
type seeker struct {
	run   *run
	host  string
	batch []Request

	hasAny  bool            // Discover has yielded something
	sources Request         // that stands for the host's sources; zero: Discover is called once
	lost    []Result        // invalid URLs of the batch, which the Queue doesn't get
	bytes   int             // of the URLs and Data in batch
	taken   <-chan struct{} // closed when the Queue has the last batch; nil: there was none
}

// Limits of a batch, even if the Queue is slow.
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
	// URLs from before a panic count. The panic is logged.
	defer func() {
		s.run.events <- foundURLs{
			host: s.host, found: s.batch, lost: s.lost, sources: s.sources, hasAny: s.hasAny, isLast: true,
		}
	}()
	_ = guarded("Discover of "+url, func() error {
		found := s.run.c.cfg.Discover(s.run.starts, url)
		if found != nil {
			found(s.take)
		}
		return nil
	})
}

// take takes a request that Discover yields. It reports whether more are wanted.
func (s *seeker) take(req Request) bool {
	s.hasAny = true
	if req == (Request{}) { // the sources have nothing new
		return s.run.starts.Err() == nil
	}
	req.Depth = max(1, req.Depth) // 0 is for start URLs, which may redirect anywhere, see turnTo
	taken, err := guardedValue("Take of "+req.URL, func() (bool, error) { return s.run.takeFound(&req) })
	switch {
	case err != nil: // Take has set an invalid URL, or has panicked
		req.URL = clippedURL(req.URL)
		req.Data = clippedData(req.Data)
		s.lost = append(s.lost, Result{Request: req, Outcome: Invalid, Err: err})
	case taken:
		s.batch = append(s.batch, req)
	default:
		return s.run.starts.Err() == nil
	}
	s.bytes += len(req.URL) + len(req.Data)
	isFull := len(s.batch)+len(s.lost) >= batchURLs || s.bytes >= batchBytes
	if isFull || s.isIdle() {
		s.hand()
	}
	return s.run.starts.Err() == nil
}

// takeFound calls Config.Take for a request of Discover's. The error says why the URL that Take has
// set is invalid.
func (r *run) takeFound(req *Request) (taken bool, err error) {
	if r.c.cfg.Take == nil {
		return true, nil
	}
	to, err := Normalize(req.URL)
	if err != nil {
		return true, nil // accept ends it as Invalid
	}
	req.URL = to
	return r.take(nil, &Link{URL: to, Element: "discover"}, req)
}

// isIdle reports whether the Queue has the last batch.
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
	s.run.events <- foundURLs{host: s.host, found: s.batch, lost: s.lost, taken: taken}
	s.batch = nil // the run has them now
	s.lost = nil
	s.bytes = 0
}

// A foundURLs is a batch of URLs that Config.Discover has yielded for a host.
type foundURLs struct {
	host   string
	found  []Request
	lost   []Result
	taken  chan<- struct{} // to be closed when the Queue has the batch; nil: no goroutine waits
	isLast bool            // Discover has ended

	sources Request // as seeker.sources
	hasAny  bool    // as seeker.hasAny
}

func (e foundURLs) apply(r *run) {
	for _, req := range e.found {
		_ = r.accept(req) // accept counts an invalid request
	}
	for _, res := range e.lost {
		r.reject(res)
	}
	if e.taken != nil {
		r.work.handed = append(r.work.handed, e.taken)
	}
	if !e.isLast {
		return
	}
	r.seeking--
	if e.sources.URL != "" {
		res := Result{Request: e.sources, Outcome: Unchanged}
		if r.starts.Err() != nil {
			res.Outcome = Left // it may have been cut off
		}
		r.doneSources(res, e.hasAny)
		return
	}
	if r.starts.Err() != nil {
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
