package crawl

// growStack makes the stack of its goroutine as large as a request, or a visit, needs: at once, and
// while nothing is on it. Else it grows deep in calls, step by step, and is copied each time, which
// is a tenth of the processor's time for a small page.
//
//go:noinline
func growStack() {
	var room [5 << 10]byte
	use(&room)
}

//go:noinline
func use(*[5 << 10]byte) {}
