package main

import (
	"bytes"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/workflowd/workflowd/agentcore/llm/scripted"
)

// The scripts run this test binary under the name of the product: what they see is the real main.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"workflowd": main})
}

// Each script is one thing a person does at the command line. Beside the usual commands they have:
//
//	exits CODE PROGRAM ARG…     run it and want that exit code
//	model [-key KEY] LINE…      serve a scripted model on loopback as $BASE_URL; another key gets 401, and its own key echoed
//	requests N                  the model was asked N times so far
//	absent TEXT DIR             no file below DIR holds TEXT
//	keep NAME PATTERN           $NAME is what the pattern first matches in stdout, or else in stderr
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(e *testscript.Env) error {
			e.Setenv("WORKFLOWD_DATA_DIR", filepath.Join(e.WorkDir, "data"))
			e.Values[theModel] = new(*scripted.Model)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "model": serveModel, "requests": requests, "absent": absent, "keep": keep,
		},
	})
}

func exits(s *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		s.Fatalf("usage: exits CODE PROGRAM ARG...")
	}
	want, err := strconv.Atoi(args[0])
	s.Check(err)
	got := 0
	if err := s.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			s.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		s.Fatalf("exit code %d, want %d", got, want)
	}
}

// theModel is the name under which a script keeps its model.
const theModel = "model"

func serveModel(s *testscript.TestScript, neg bool, args []string) {
	key := ""
	if len(args) > 1 && args[0] == "-key" {
		key, args = args[1], args[2:]
	}
	if neg || len(args) == 0 {
		s.Fatalf("usage: model [-key KEY] LINE...")
	}
	model := scripted.New(scripted.MustParse(args...), scripted.Options{})
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		got := r.Header.Get("Authorization")
		if own := r.Header.Get("X-Api-Key"); own != "" {
			got = "Bearer " + own
		}
		if key != "" && got != "Bearer "+key {
			rw.WriteHeader(http.StatusUnauthorized)
			_, _ = rw.Write([]byte(`{"error":{"message":"this key is not known: ` + got + `","code":"invalid_api_key"}}`)) // the client may be gone
			return
		}
		model.ServeHTTP(rw, r)
	}))
	s.Defer(server.Close)
	s.Setenv("BASE_URL", server.URL+"/v1")
	*s.Value(theModel).(**scripted.Model) = model
}

func requests(s *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		s.Fatalf("usage: requests N")
	}
	want, err := strconv.Atoi(args[0])
	s.Check(err)
	if got := len((*s.Value(theModel).(**scripted.Model)).Requests()); got != want {
		s.Fatalf("the model was asked %d times, want %d", got, want)
	}
}

func keep(s *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		s.Fatalf("usage: keep NAME PATTERN")
	}
	pattern, err := regexp.Compile(args[1])
	s.Check(err)
	for _, name := range []string{"stdout", "stderr"} {
		if found := pattern.FindString(s.ReadFile(name)); found != "" {
			s.Setenv(args[0], found)
			return
		}
	}
	s.Fatalf("neither stdout nor stderr matches %s", args[1])
}

func absent(s *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		s.Fatalf("usage: absent TEXT DIR")
	}
	files := 0
	s.Check(filepath.WalkDir(s.MkAbs(args[1]), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		files++
		raw, err := os.ReadFile(path)
		if bytes.Contains(raw, []byte(args[0])) {
			s.Fatalf("%s holds %q", path, args[0])
		}
		return err
	}))
	if files == 0 {
		s.Fatalf("%s has no file to look at", args[1])
	}
}
