//go:build linux

package scale

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// dirEnv names the directory of the child's sessions.
const dirEnv = "WORKFLOWD_SCALE_DIR"

const (
	patience = 2 * time.Minute // bounds the child's waits
	openers  = 8               // sessions that are opened at the same time
)

// Figures are what a child has measured.
type Figures struct {
	mu sync.Mutex // guards the peaks

	Sessions   int `json:"sessions"`
	Leased     int `json:"leased"`
	Heap       int `json:"heapPerSession"` // bytes, when all are idle
	Resident   int `json:"residentPerSession"`
	Goroutines int `json:"goroutines"` // when all are idle
	Peak       int `json:"goroutinesPeak"`
	Files      int `json:"files"` // when all are idle
	FilesPeak  int `json:"filesPeak"`
	OpenMS     int `json:"openMs"` // all of them
	WakeP50    int `json:"wakeP50us"`
	WakeP99    int `json:"wakeP99us"`
	WakeMax    int `json:"wakeMaxUs"`
}

// fleet is a number of sessions of one kind.
type fleet interface {
	warm(ctx context.Context, name string) error // uses a session and closes it: what the process needs once is then there
	open(ctx context.Context, i int) error
	wake(ctx context.Context, i int) error
	held() int // open files that are right when all are idle
	close() error
}

func child(kind, dir string, out io.Writer) error {
	limit := syscall.Rlimit{Cur: filesMost, Max: filesMost}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("limit the open files: %w", err)
	}
	n := *flagSessions
	var f fleet
	switch kind {
	case "sessions":
		f = newSessions(dir, n, n/5)
	case "agents":
		n /= 5
		f = newAgents(dir, n)
	default:
		return fmt.Errorf("no fleet %q", kind)
	}
	fig, err := measure(context.Background(), f, n)
	if err = errors.Join(err, f.close()); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(fig)
}

func measure(ctx context.Context, f fleet, n int) (*Figures, error) {
	fig := &Figures{Sessions: n, Leased: f.held()}
	if err := each(2*openers, func(i int) error { return f.warm(ctx, fmt.Sprint("warm", i)) }); err != nil {
		return nil, fmt.Errorf("the first sessions: %w", err)
	}
	base, baseFiles, baseResident := heap(), files(), resident()
	begun := time.Now()
	err := each(n, func(i int) error {
		if i%20 == 0 {
			fig.look()
		}
		return f.open(ctx, i)
	})
	if err != nil {
		return nil, err
	}
	fig.OpenMS = int(time.Since(begun).Milliseconds())
	if err := fig.settle(baseFiles + f.held()); err != nil {
		return nil, err
	}
	fig.Heap, fig.Resident = (heap()-base)/n, (resident()-baseResident)/n
	fig.Goroutines, fig.Files = runtime.NumGoroutine(), files()
	if err := profile(); err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var took []time.Duration
	for range *flagWakes {
		i := rng.IntN(n)
		begun := time.Now()
		if err := f.wake(ctx, i); err != nil {
			return nil, fmt.Errorf("wake session %d: %w", i, err)
		}
		took = append(took, time.Since(begun))
		fig.look()
	}
	slices.Sort(took)
	at := func(p float64) int { return int(took[int(p*float64(len(took)-1))].Microseconds()) }
	fig.WakeP50, fig.WakeP99, fig.WakeMax = at(.5), at(.99), at(1)
	return fig, nil
}

// each calls f with 0 to n-1, on a few goroutines, until one fails.
func each(n int, f func(int) error) error {
	var next atomic.Int64
	ended := make(chan error)
	for range openers {
		go func() {
			var err error
			for i := int(next.Add(1)) - 1; i < n && err == nil; i = int(next.Add(1)) - 1 {
				if err = f(i); err != nil {
					err = fmt.Errorf("session %d: %w", i, err)
				}
			}
			ended <- err
		}()
	}
	var errs []error
	for range openers {
		errs = append(errs, <-ended)
	}
	return errors.Join(errs...)
}

// look keeps the highest counts.
func (fig *Figures) look() {
	fig.mu.Lock()
	defer fig.mu.Unlock()
	fig.Peak, fig.FilesPeak = max(fig.Peak, runtime.NumGoroutine()), max(fig.FilesPeak, files())
}

// settle waits until no session holds more than it may while idle.
func (fig *Figures) settle(held int) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for until := time.Now().Add(patience); ; <-tick.C {
		fig.look()
		switch n := files(); {
		case n <= held:
			return nil
		case time.Now().After(until):
			return fmt.Errorf("%d files are open while all sessions idle, want %d", n, held)
		}
	}
}

// profile writes what the heap holds, when that was asked for.
func profile() error {
	if *flagProfile == "" {
		return nil
	}
	f, err := os.Create(*flagProfile)
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup("heap").WriteTo(f, 0), f.Close())
}

func heap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

func files() int {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return -1
	}
	return len(list)
}

// resident is the memory of the process that is in RAM, bytes.
func resident() int {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return -1
	}
	var size, pages int
	if _, err := fmt.Sscan(strings.TrimSpace(string(text)), &size, &pages); err != nil {
		return -1
	}
	return pages * os.Getpagesize()
}
