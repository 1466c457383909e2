package hostlimit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/internal/statedir"
)

const debtor = "www.example.com"

var (
	anHourOwed = Debt{
		BlockedUntil: time.Date(2026, 11, 21, 1, 2, 3, 4, time.UTC),
		NextStart:    time.Date(2026, 11, 20, 1, 2, 3, 999_999_999, time.UTC),
		Refusals:     3, Cause: "status 429", Delay: 1500 * time.Millisecond,
	}
	twoRefusals = Debt{Refusals: 2, Cause: "status 403"}
)

// dirAt returns Dir(path).
func dirAt(path string) *dirStore { return Dir(path).(*dirStore) }

// unchanged makes an Update a read.
func unchanged(d Debt) Debt { return d }

// become makes an Update a write.
func become(d Debt) func(Debt) Debt { return func(Debt) Debt { return d } }

// mustUpdate returns the debt after an Update that must succeed.
func mustUpdate(t testing.TB, s Store, key string, change func(Debt) Debt) Debt {
	t.Helper()
	d, err := s.Update(t.Context(), key, change)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// filesBelow returns the names of all files below dir, locks aside.
func filesBelow(t *testing.T, dir string) (files []string) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && d.Name() != "lock" {
			files = append(files, name)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return files
}

func TestDirKeepsDebts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "when", "needed")
	for i, d := range []Debt{anHourOwed, twoRefusals, {Delay: -1}, anHourOwed} {
		if got := mustUpdate(t, dirAt(dir), debtor, become(d)); got != d {
			t.Errorf("%d: update returned %+v, want %+v", i, got, d)
		}
		if got := mustUpdate(t, dirAt(dir), debtor, unchanged); got != d {
			t.Errorf("%d: kept %+v, want %+v", i, got, d)
		}
	}
	if d := mustUpdate(t, dirAt(dir), "other.example.com", unchanged); d != (Debt{}) {
		t.Errorf("another key owes %+v", d)
	}

	files := filesBelow(t, dir)
	if len(files) != 1 {
		t.Fatalf("files %q", files)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	const line = `{"key":"www.example.com","value":{"blockedUntil":"2026-11-21T01:02:03.000000004Z",` +
		`"nextStart":"2026-11-20T01:02:03.999999999Z","refusals":3,"cause":"status 429","delay":"1.5s"}}`
	if !regexp.MustCompile(`^hostlimit 2 [0-9a-f]{64}\n` + regexp.QuoteMeta(line) + `\n$`).Match(data) {
		t.Errorf("a person reads %q", data)
	}
	if runtime.GOOS != "windows" {
		if err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, _ error) error {
			info, err := d.Info()
			if want := map[bool]fs.FileMode{true: 0o700, false: 0o600}[d.IsDir()]; err == nil && info.Mode().Perm() != want {
				t.Errorf("%s has mode %v", name, info.Mode())
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	}

	if d := mustUpdate(t, dirAt(dir), debtor, become(Debt{})); d != (Debt{}) {
		t.Errorf("update returned %+v", d)
	}
	if files := filesBelow(t, dir); len(files) != 0 {
		t.Errorf("who owes nothing has files %q", files)
	}
}

// TestDirReturnsWhatAReadWould: debts compare by ==, whatever clock and zone they came from.
func TestDirReturnsWhatAReadWould(t *testing.T) {
	s := dirAt(t.TempDir())
	d := Debt{BlockedUntil: time.Now().In(time.FixedZone("", 3600)), NextStart: time.Time{}.Local(), Cause: "a\xff\xfeb"}
	got := mustUpdate(t, s, "key\xff\xfe", become(d))
	if want := (Debt{BlockedUntil: d.BlockedUntil.Round(0).UTC(), Cause: "a\uFFFDb"}); got != want {
		t.Errorf("returned %+v, want %+v", got, want)
	}
	if again := mustUpdate(t, s, "key\xff\xfe", unchanged); again != got {
		t.Errorf("kept %+v, want %+v", again, got)
	}
}

// TestDirReadTouchesNothing: no directory is made, no lock waited for, no file written.
func TestDirReadTouchesNothing(t *testing.T) {
	if statedir.ReadsLock {
		return // reads take the lock here
	}
	dir := filepath.Join(t.TempDir(), "dir")
	if d := mustUpdate(t, dirAt(dir), debtor, unchanged); d != (Debt{}) {
		t.Errorf("nothing is %+v", d)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a read made the directory: %v", err)
	}
	s := dirAt(dir)
	mustUpdate(t, s, debtor, become(twoRefusals))
	before, err := os.Stat(s.debts.Dir.File(debtor))
	if err != nil {
		t.Fatal(err)
	}
	unlock, err := s.debts.Dir.Lock(t.Context(), s.debts.Dir.File(debtor))
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	calls := 0
	if d := mustUpdate(t, s, debtor, func(d Debt) Debt { calls++; return d }); d != twoRefusals || calls != 1 {
		t.Errorf("read %+v in %d calls", d, calls)
	}
	if after, err := os.Stat(s.debts.Dir.File(debtor)); err != nil || !os.SameFile(before, after) {
		t.Errorf("a read wrote the file: %v", err)
	}
}

// TestDirChangeSeesTheLatest: a change is made anew when another came first.
func TestDirChangeSeesTheLatest(t *testing.T) {
	s, other := dirAt(t.TempDir()), twoRefusals
	calls := 0
	got := mustUpdate(t, s, debtor, func(d Debt) Debt {
		if calls++; calls == 1 && !statedir.ReadsLock {
			mustUpdate(t, s, debtor, become(other))
		}
		d.Refusals++
		return d
	})
	want := Debt{Refusals: 3, Cause: other.Cause}
	if statedir.ReadsLock {
		want = Debt{Refusals: 1}
	}
	if got != want || mustUpdate(t, s, debtor, unchanged) != want {
		t.Errorf("%+v after %d calls, want %+v", got, calls, want)
	}
}

// TestDirDamagedFileIsNoDebt: any byte changed, added or missing. The loss is
// reported once and the file is mended, by a read too.
func TestDirDamagedFileIsNoDebt(t *testing.T) {
	dir := t.TempDir()
	s := dirAt(dir)
	mustUpdate(t, s, debtor, become(anHourOwed))
	name := s.debts.Dir.File(debtor)
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	others, err := debtsIn(nil).Encode("other.example", fileOf(anHourOwed))
	if err != nil {
		t.Fatal(err)
	}
	sealed := func(line string) []byte { return statedir.Seal(debtsIn(nil).Format, []byte(line)) }
	damaged := [][]byte{
		nil,
		{0},
		[]byte("\n"), others, append(bytes.Clone(whole), 'x'), bytes.Repeat([]byte("x"), 2*statedir.MostValue), make([]byte, 4096),
		sealed(""), sealed("{}"), sealed("null"), sealed(`{"key":"www.example.com","value":{"delay":"soon"}}`),
		sealed(`{"key":"www.example.com","value":{"refusals":"2"}}`), sealed(`{"key":"www.example.com","value":{"nextStart":"tomorrow"}}`),
		bytes.Replace(whole, []byte("hostlimit 2 "), []byte("hostlimit 1 "), 1),
	}
	for i := range whole {
		changed := bytes.Clone(whole)
		changed[i] ^= 1
		damaged = append(damaged, changed, whole[:i])
	}
	for i, data := range damaged {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
		change, want := unchanged, Debt{}
		if i%16 == 0 { // those that write wait for the disk
			change, want = become(twoRefusals), twoRefusals
		}
		d, err := s.Update(t.Context(), debtor, change)
		if d != want || err == nil {
			t.Fatalf("damage %d: update returned %+v, %v", i, d, err)
		}
		for _, told := range []string{"hostlimit: ", debtor, name, "starts anew"} {
			if !strings.Contains(err.Error(), told) {
				t.Errorf("damage %d: %q isn't in the error %v", i, told, err)
			}
		}
		if d := mustUpdate(t, s, debtor, unchanged); d != want {
			t.Fatalf("damage %d: kept %+v, want %+v", i, d, want)
		}
	}
}

// A faultyFS fails at one of its operations.
type faultyFS struct {
	statedir.OS
	fail   int   // number of the operation that fails, from 1
	err    error // that it fails with
	after  bool  // the operation is done nevertheless
	broken bool  // all later operations fail too, undone: what a crash leaves on the disk
	ops    []string
}

// do runs an operation, or fails.
func (f *faultyFS) do(op string, run func() error) error {
	f.ops = append(f.ops, op)
	n := len(f.ops)
	if f.fail == 0 || n < f.fail || n > f.fail && !f.broken {
		return run()
	}
	if n == f.fail && f.after {
		_ = run()
	}
	return &fs.PathError{Op: op, Path: "file", Err: f.err}
}

func (f *faultyFS) Read(name string, limit int64) (data []byte, err error) {
	err = f.do("read", func() error { data, err = f.OS.Read(name, limit); return err })
	if err != nil {
		data = data[:len(data)/2]
	}
	return data, err
}

func (f *faultyFS) ReadDir(name string) (entries []fs.DirEntry, err error) {
	err = f.do("readdir", func() error { entries, err = f.OS.ReadDir(name); return err })
	return entries, err
}

func (f *faultyFS) MkdirAll(name string) error {
	return f.do("mkdir", func() error { return f.OS.MkdirAll(name) })
}

func (f *faultyFS) CreateTemp(dir, pattern string) (file statedir.File, err error) {
	err = f.do("create", func() error { file, err = f.OS.CreateTemp(dir, pattern); return err })
	if err != nil && file != nil {
		file.Close()
	}
	return &faultyFile{file, f}, err
}

func (f *faultyFS) Rename(from, to string) error {
	return f.do("rename", func() error { return f.OS.Rename(from, to) })
}

func (f *faultyFS) Remove(name string) error {
	return f.do("remove", func() error { return f.OS.Remove(name) })
}

func (f *faultyFS) TryLock(name string) (unlock func(), err error) {
	err = f.do("lock", func() error { unlock, err = f.OS.TryLock(name); return err })
	if err != nil && unlock != nil {
		unlock()
	}
	return unlock, err
}

type faultyFile struct {
	statedir.File
	fs *faultyFS
}

// Write writes half of p when it fails.
func (f *faultyFile) Write(p []byte) (n int, err error) {
	err = f.fs.do("write", func() error { n, err = f.File.Write(p[:len(p)/2]); return err })
	if err != nil {
		return n, err
	}
	m, err := f.File.Write(p[n:])
	return n + m, err
}

func (f *faultyFile) Sync() error { return f.fs.do("sync", f.File.Sync) }

// Close closes the file in any case, as the end of a process would.
func (f *faultyFile) Close() error {
	return errors.Join(f.fs.do("close", func() error { return nil }), f.File.Close())
}

// TestDirFaults: whichever operation fails, and whichever is the last one before a
// crash, the old debt or the new one is read afterwards, an Update without an
// error has kept the new one, and the lock is free.
func TestDirFaults(t *testing.T) {
	errDisk := errors.New("the disk says no")
	const garbage = "garbage"
	write := func(t *testing.T, s *dirStore, old any) {
		switch old := old.(type) {
		case Debt:
			mustUpdate(t, s, debtor, become(old))
		case string:
			mustUpdate(t, s, debtor, become(twoRefusals)) // makes the directory
			if err := os.WriteFile(s.debts.Dir.File(debtor), []byte(old), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	met := map[string]bool{}
	for _, old := range []any{nil, twoRefusals, garbage} {
		for _, made := range []Debt{anHourOwed, {}} {
			before, _ := old.(Debt)
			for _, mode := range []faultyFS{
				{err: errDisk},
				{err: errDisk, after: true},
				{err: errDisk, broken: true},
				{err: errDisk, broken: true, after: true},
			} {
				for fail := 1; ; fail++ {
					dir := t.TempDir()
					write(t, dirAt(dir), old)
					faulty := mode
					faulty.fail = fail
					d, err := (&dirStore{debtsIn(statedir.New(dir, &faulty))}).Update(t.Context(), debtor, become(made))
					if len(faulty.ops) < fail {
						break // a whole Update without a fault
					}
					op := faulty.ops[fail-1]
					met[op] = true
					what := fmt.Sprintf("%v -> %v, %s of %q fails, %+v", old, made, op, faulty.ops, mode)
					if d != made {
						t.Errorf("%s: returned %+v", what, d)
					}
					if err == nil && op != "readdir" && !(op == "read" && made == Debt{} && old == nil) {
						t.Errorf("%s: no error", what)
					}
					if err != nil && old != garbage && !errors.Is(err, mode.err) {
						t.Errorf("%s: error %v", what, err)
					}
					left, _ := filepath.Glob(filepath.Join(dir, "*", "*.tmp"))
					if len(left) != 0 && !mode.broken && op != "create" {
						t.Errorf("%s: left %q", what, left)
					}

					kept, readErr := dirAt(dir).Update(t.Context(), debtor, unchanged)
					switch {
					case kept == made && readErr == nil:
					case err == nil:
						t.Errorf("%s: no error, and kept %+v, %v", what, kept, readErr)
					case kept != before || (readErr == nil) != (old != garbage):
						t.Errorf("%s: kept %+v, %v", what, kept, readErr)
					}
					more := func(d Debt) Debt { d.Refusals++; return d }
					if d := mustUpdate(t, dirAt(dir), debtor, more); d.Refusals != kept.Refusals+1 {
						t.Errorf("%s: can't go on: %+v", what, d)
					}
				}
			}
		}
	}
	for _, op := range []string{"read", "readdir", "mkdir", "create", "write", "sync", "close", "rename", "remove", "lock"} {
		if !met[op] {
			t.Errorf("no fault at %s", op)
		}
	}
}

// TestDirThatCannotBe: the error names the file, and nothing is harmed.
func TestDirThatCannotBe(t *testing.T) {
	tests := map[string]func(t *testing.T, dir string) (at string){
		"the directory is a file": func(t *testing.T, dir string) string {
			return mustWrite(t, dir)
		},
		"a file is in the way": func(t *testing.T, dir string) string {
			return mustWrite(t, filepath.Dir(dirAt(dir).debts.Dir.File(debtor)))
		},
		"a directory in the place of the file": func(t *testing.T, dir string) string {
			return mustMkdir(t, dirAt(dir).debts.Dir.File(debtor))
		},
		"a directory in the place of the lock": func(t *testing.T, dir string) string {
			return mustMkdir(t, filepath.Join(filepath.Dir(dirAt(dir).debts.Dir.File(debtor)), "lock"))
		},
	}
	for name, prepare := range tests {
		dir := filepath.Join(t.TempDir(), "hosts")
		at := prepare(t, dir)
		before := filesBelow(t, filepath.Dir(dir))
		d, err := dirAt(dir).Update(t.Context(), debtor, become(twoRefusals))
		if d != twoRefusals || err == nil || !strings.Contains(err.Error(), at) {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
		if after := filesBelow(t, filepath.Dir(dir)); !slices.Equal(before, after) {
			t.Errorf("%s: files %q became %q", name, before, after)
		}
	}

	// A debt that a file can't hold.
	s := dirAt(t.TempDir())
	mustUpdate(t, s, debtor, become(twoRefusals))
	for _, d := range []Debt{{NextStart: time.Unix(1<<40, 0).UTC()}, {Cause: strings.Repeat("x", statedir.MostValue)}} {
		if got, err := s.Update(t.Context(), debtor, become(d)); got != d || err == nil {
			t.Errorf("kept %.100v", d)
		}
		if got := mustUpdate(t, s, debtor, unchanged); got != twoRefusals {
			t.Errorf("kept %+v", got)
		}
	}

	// The directory goes while it is used: its debts are lost, the store works on.
	dir := t.TempDir()
	s = dirAt(filepath.Join(dir, "hosts"))
	for range 2 {
		mustUpdate(t, s, debtor, func(d Debt) Debt { d.Refusals++; return d })
		if err := os.RemoveAll(filepath.Join(dir, "hosts")); err != nil {
			t.Fatal(err)
		}
		if d := mustUpdate(t, s, debtor, unchanged); d != (Debt{}) {
			t.Errorf("debt %+v in no directory", d)
		}
	}
}

func mustWrite(t *testing.T, name string) string {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte("a file"), 0o600)); err != nil {
		t.Fatal(err)
	}
	return name
}

func mustMkdir(t *testing.T, name string) string {
	t.Helper()
	if err := os.MkdirAll(name, 0o700); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestDirInABubble: the wait for the lock is virtual, and no update is lost.
func TestDirInABubble(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		const updates = 20
		var wg sync.WaitGroup
		for range updates {
			wg.Go(func() {
				mustUpdate(t, dirAt(dir), debtor, func(d Debt) Debt { d.Refusals++; return d })
			})
		}
		wg.Wait()
		if d := mustUpdate(t, dirAt(dir), debtor, unchanged); d.Refusals != updates {
			t.Errorf("%d of %d updates", d.Refusals, updates)
		}

		s := dirAt(dir)
		unlock, err := s.debts.Dir.Lock(t.Context(), s.debts.Dir.File(debtor))
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		d, err := s.Update(ctx, debtor, become(twoRefusals))
		if d != twoRefusals || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, statedir.ErrLocked) {
			t.Errorf("locked out: %+v, %v", d, err)
		}
		if waited := time.Since(begin); waited != time.Second {
			t.Errorf("waited for %v", waited)
		}
		unlock()

		// What a caller that has left has learned is kept.
		if _, err := s.Update(ctx, debtor, become(twoRefusals)); err != nil {
			t.Errorf("with a context that is done: %v", err)
		}
	})
}

// TestDirManyHosts: 100,000 hosts lie in 256 small directories, under names that
// differ on file systems that ignore case too.
func TestDirManyHosts(t *testing.T) {
	s := dirAt("hosts")
	const hosts = 100_000
	seen := make(map[string]bool, hosts)
	perDir := map[string]int{}
	form := regexp.MustCompile(`^hosts/([0-9a-f]{2})/([0-9a-f]{64})$`)
	for _, key := range names(hosts) {
		name := filepath.ToSlash(s.debts.Dir.File(key))
		m := form.FindStringSubmatch(name)
		if m == nil || !strings.HasPrefix(m[2], m[1]) || seen[m[2]] {
			t.Fatalf("file %q for %s", name, key)
		}
		seen[m[2]] = true
		perDir[m[1]]++
	}
	for dir, n := range perDir {
		if len(perDir) != 256 || n > 600 {
			t.Errorf("%d directories, %s holds %d files", len(perDir), dir, n)
		}
	}
}

func FuzzDebt(f *testing.F) {
	f.Add([]byte("hostlimit 2 \n{}\n"), debtor, int64(0), int64(0), 0, "", int64(0))
	f.Add([]byte{}, "", int64(1<<40), int64(-1<<40), -1, "\xff<>&\n\u2028", int64(-1<<63))
	f.Add([]byte{}, "k\xff", int64(253402300799), int64(-62135596800), math.MaxInt, "status 429", int64(1_234_567_891))
	f.Fuzz(func(t *testing.T, data []byte, key string, until, next int64, refusals int, cause string, delay int64) {
		if d, err := debtsIn(nil).Decode(data, key); err == nil {
			t.Fatalf("noise is a debt: %q, %+v", data, d)
		}
		d := Debt{
			BlockedUntil: time.Unix(until, next), NextStart: time.Unix(next, until), Refusals: refusals, Unsure: refusals, Bans: refusals, Slow: refusals > 1, Cause: cause, Delay: time.Duration(delay),
			BlockedAt: time.Unix(until, 0), ClearedAt: time.Unix(next, 0), FreedAt: time.Unix(next, 1),
		}.portable()
		file, err := debtsIn(nil).Encode(key, fileOf(d))
		if err != nil {
			return // a year of five digits, or too long
		}
		if got, err := debtsIn(nil).Decode(file, key); err != nil || got.debt() != d {
			t.Fatalf("%+v became %+v, %v", d, got, err)
		}
		file[uint64(delay)%uint64(len(file))] ^= 1
		if got, err := debtsIn(nil).Decode(file, key); err == nil {
			t.Fatalf("damaged, and not seen: %q, %+v", file, got)
		}
	})
}

func BenchmarkDirUpdate(b *testing.B) {
	s := dirAt(b.TempDir())
	b.ReportAllocs()
	for b.Loop() {
		mustUpdate(b, s, debtor, func(d Debt) Debt { d.Refusals++; return d })
	}
}

func BenchmarkDirRead(b *testing.B) {
	for _, owed := range []Debt{{}, anHourOwed} {
		b.Run(fmt.Sprintf("owed=%v", owed != Debt{}), func(b *testing.B) {
			s := dirAt(b.TempDir())
			mustUpdate(b, s, debtor, become(owed))
			b.ReportAllocs()
			for b.Loop() {
				mustUpdate(b, s, debtor, unchanged)
			}
		})
	}
}

// BenchmarkDirManyHosts updates and reads hosts at random among 100,000.
func BenchmarkDirManyHosts(b *testing.B) {
	const hosts = 100_000
	keys := names(hosts)
	s := dirAt(b.TempDir())
	for _, key := range keys { // as Update leaves them, without waiting for the disk each time
		data, err := debtsIn(nil).Encode(key, fileOf(twoRefusals))
		if err == nil {
			err = s.debts.Dir.Replace(s.debts.Dir.File(key), data, false)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for name, change := range map[string]func(Debt) Debt{
		"update": func(d Debt) Debt { d.Refusals++; return d },
		"read":   unchanged,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				mustUpdate(b, s, keys[r.IntN(hosts)], change)
			}
		})
	}
}

func names(n int) []string {
	s := make([]string, n)
	for i := range s {
		s[i] = fmt.Sprintf("www.site-%07d.example", i)
	}
	return s
}
