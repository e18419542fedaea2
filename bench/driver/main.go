// Command driver measures one durable session of ours with the flags and the one JSON line of the peers' drivers, so
// that it can run beside them: a prompt, tool rounds, then a streamed answer, each session in a SQLite file of its own.
//
//	driver -mode single|load|cold|resume -url http://127.0.0.1:28471 -model mock-t8-c200 -dir DIR [-db full]
//
// Every run checks itself: the whole text, one event a chunk, every tool once. With -db full the commits that something
// outside relies on wait for the disk and the tool must not repeat; without it all commits are kill-safe only and the
// tool is safe. Reading only rooms of the agent library, it shows what embedding costs.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/workflowd/workflowd/agentcore/harness"
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/llm/openaicompletions"
	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/tool"
	"github.com/workflowd/workflowd/store/sessionstore"
	"github.com/workflowd/workflowd/store/sqlite"
)

type config struct {
	mode, url, model, dir, db, id string
	n, c, warm                    int
	resume                        bool
}

func main() {
	var c config
	flag.StringVar(&c.mode, "mode", "single", "single | load | cold | resume")
	flag.StringVar(&c.url, "url", "http://127.0.0.1:28471", "model server")
	flag.StringVar(&c.model, "model", "mock-t8-c200", "script of the model server")
	flag.StringVar(&c.dir, "dir", "", "state directory")
	flag.StringVar(&c.db, "db", "", `"full": power-safe commits and a tool that must not repeat`)
	flag.StringVar(&c.id, "id", "s0", "session id (resume)")
	flag.IntVar(&c.n, "n", 30, "sessions")
	flag.IntVar(&c.c, "c", 32, "concurrency (load)")
	flag.IntVar(&c.warm, "warm", 5, "sessions not counted")
	flag.BoolVar(&c.resume, "resume", false, "continue session -id after a crash")
	flag.Parse()
	if err := profiled(os.Getenv("PPROF"), func() error { return measure(c) }); err != nil {
		fmt.Fprintln(os.Stderr, "driver:", err)
		os.Exit(1)
	}
}

// profiled runs f under the CPU profiler when a file is named.
func profiled(file string, f func() error) error {
	if file == "" {
		return f()
	}
	w, err := os.Create(file)
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(w); err != nil {
		return errors.Join(err, w.Close())
	}
	err = f()
	pprof.StopCPUProfile()
	return errors.Join(err, w.Close())
}

func measure(c config) error {
	if c.dir == "" {
		dir, err := os.MkdirTemp("", "driver")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		c.dir = dir
	}
	p, err := openaicompletions.New(openaicompletions.Options{BaseURL: c.url + "/v1", Provider: "mock"})
	if err != nil {
		return err
	}
	b := &bench{config: c, provider: p, want: parse(c.model)}
	switch c.mode {
	case "cold":
		return b.cold()
	case "single":
		return b.single()
	case "load":
		return b.load()
	case "resume":
		return b.recover()
	}
	return fmt.Errorf("unknown mode %q", c.mode)
}

// bench runs sessions. It is safe for concurrent use.
type bench struct {
	config
	provider llm.Provider
	want     expectation
}

// work is what one session did.
type work struct {
	wall, first time.Duration
	chunks      int
	tools       atomic.Int64
	text        []byte
}

// number is the tool of the script: about 1 KiB of result.
type number struct {
	I int `json:"i"`
}

func (b *bench) tool(w *work, log func(int)) tool.Tool {
	policy := tool.Safe
	if b.db == "full" {
		policy = tool.Never
	}
	return tool.New("get_number", "Returns a number.", func(_ context.Context, _ tool.Call, in number) (tool.Result, error) {
		w.tools.Add(1)
		if log != nil {
			log(in.I)
		}
		return tool.Text(result(in.I)), nil
	}, tool.Replay(policy))
}

// session opens the file of id, runs its one turn to the end and closes it; the last wait for the disk is behind it.
func (b *bench) session(ctx context.Context, id string, onChunk func(), log func(int)) (*work, error) {
	w := &work{}
	begun := time.Now()
	store, err := sessionstore.Open(ctx, filepath.Join(b.dir, id+".db"), sessionstore.Options{Behind: true, Idle: sessionstore.IdleHandle})
	if err != nil {
		return w, err
	}
	setup := harness.Setup{Provider: b.provider, Model: b.model, System: "You are a helpful assistant.", Tools: []harness.Offered{{Tool: b.tool(w, log)}}}
	mode := session.Relaxed
	if b.db == "full" {
		mode = session.Auto
	}
	h, err := harness.Open(ctx, store, harness.Options{Resolve: func(context.Context, json.RawMessage) (harness.Setup, error) { return setup, nil }}, mode)
	if err != nil {
		return w, err
	}
	for e, err := range h.Run(ctx, harness.Submit{RequestID: id, Prompt: "Collect the numbers."}, nil) {
		if err != nil {
			return w, errors.Join(err, h.Close())
		}
		if d, ok := e.(harness.TextDelta); ok {
			if w.chunks == 0 {
				w.first = time.Since(begun)
			}
			w.chunks++
			w.text = append(w.text, d.Text...)
			onChunk()
		}
	}
	err = h.Close()
	w.wall = time.Since(begun)
	return w, err
}

// checked runs one session and checks what it did.
func (b *bench) checked(id string) (*work, error) {
	w, err := b.session(context.Background(), id, func() {}, nil)
	if err != nil {
		return w, fmt.Errorf("session %s: %w", id, err)
	}
	if string(w.text) != b.want.text || w.chunks != b.want.chunks || int(w.tools.Load()) != b.want.tools {
		return w, fmt.Errorf("session %s: answer of %d bytes (want %d), %d chunks (want %d), %d tools (want %d)",
			id, len(w.text), len(b.want.text), w.chunks, b.want.chunks, w.tools.Load(), b.want.tools)
	}
	return w, nil
}

func (b *bench) warmUp() error {
	for i := range b.warm {
		if _, err := b.checked(fmt.Sprintf("w%d", i)); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) cold() error {
	var at time.Time
	started, err := strconv.ParseInt(os.Getenv("START_NS"), 10, 64)
	if err != nil {
		return fmt.Errorf("START_NS: %w", err)
	}
	if _, err := b.session(context.Background(), "cold", func() {
		if at.IsZero() {
			at = time.Now()
		}
	}, nil); err != nil {
		return err
	}
	return report(map[string]any{"mode": "cold", "sync": b.sync(), "first_chunk_ms": float64(at.UnixNano()-started) / 1e6})
}

func (b *bench) single() error {
	if err := b.warmUp(); err != nil {
		return err
	}
	cpu := cpuSeconds()
	var wall, first []float64
	for i := range b.n {
		w, err := b.checked(fmt.Sprintf("s%d", i))
		if err != nil {
			return err
		}
		wall, first = append(wall, ms(w.wall)), append(first, ms(w.first))
	}
	if err := sqlite.Drain(); err != nil { // its work counts as the sessions' own
		return err
	}
	return report(map[string]any{"mode": "single", "sync": b.sync(), "model": b.model, "n": b.n, "wall_ms_p50": quantile(wall, .5), "wall_ms_min": quantile(wall, 0),
		"ttfc_ms_p50": quantile(first, .5), "cpu_ms": (cpuSeconds() - cpu) * 1e3 / float64(b.n), "rss_mb": peakRSS(), "disk_b": perSession(b.dir, b.n+b.warm)})
}

func (b *bench) load() error {
	if err := b.warmUp(); err != nil {
		return err
	}
	cpu := cpuSeconds()
	wall := make([]float64, b.n)
	var next atomic.Int64
	var wg sync.WaitGroup
	var failed atomic.Pointer[error]
	begun := time.Now()
	for range b.c {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(b.n) && failed.Load() == nil; i = next.Add(1) - 1 {
				w, err := b.checked(fmt.Sprintf("l%d", i))
				if err != nil {
					failed.Store(&err)
					return
				}
				wall[i] = ms(w.wall)
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	if err := sqlite.Drain(); err != nil {
		return err
	}
	seconds := time.Since(begun).Seconds()
	return report(map[string]any{"mode": "load", "sync": b.sync(), "n": b.n, "c": b.c, "sess_per_s": float64(b.n) / seconds, "p50_ms": quantile(wall, .5), "p99_ms": quantile(wall, .99),
		"cpu_ms": (cpuSeconds() - cpu) * 1e3 / float64(b.n), "rss_mb": peakRSS(), "disk_b": perSession(b.dir, b.n+b.warm)})
}

// recover runs one session whose tool executions are lines in a log, or carries it on: the same call, for the session
// finds its place itself.
func (b *bench) recover() (err error) {
	f, err := os.OpenFile(filepath.Join(b.dir, "tools.log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	started, err := strconv.ParseInt(os.Getenv("START_NS"), 10, 64)
	if err != nil {
		return fmt.Errorf("START_NS: %w", err)
	}
	w, err := b.session(context.Background(), b.id, func() {}, func(i int) { _, err = fmt.Fprintf(f, "%d\n", i) })
	if err != nil {
		return err
	}
	return report(map[string]any{"mode": "resume", "sync": b.sync(), "ok": string(w.text) == b.want.text, "chunks": w.chunks, "ms": float64(time.Now().UnixNano()-started) / 1e6})
}

func (b *bench) sync() string {
	if b.db == "full" {
		return "full"
	}
	return "normal"
}
