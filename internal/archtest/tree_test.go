package archtest

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	ignore "github.com/sabhiram/go-gitignore"
)

// root is the repository, seen from this package's folder, where go test runs.
const root = "../.."

// file is one text file of the repository; name has slashes and starts at the root.
type file struct {
	name string
	text []byte
}

// pkg is what `go list` says about one package. Dir is relative to the root, "." for the root package.
type pkg struct {
	Dir            string
	Name           string
	Doc            string
	GoFiles        []string
	CgoFiles       []string
	IgnoredGoFiles []string // for other systems
	Imports        []string
	TestImports    []string
	XTestImports   []string
}

func (p pkg) sources() []string {
	return slices.DeleteFunc(slices.Concat(p.GoFiles, p.CgoFiles, p.IgnoredGoFiles), goTest)
}

// module is the repository as the rules see it.
type module struct {
	files    []file
	packages map[string]pkg // by Dir
}

var load = sync.OnceValues(func() (*module, error) {
	packages, err := list()
	if err != nil {
		return nil, err
	}
	files, err := walk()
	return &module{files: files, packages: packages}, err
})

func tree(t *testing.T) *module {
	t.Helper()
	m, err := load()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// list asks the go tool for every package of the module. A package that does not compile is listed all the same.
func list() (map[string]pkg, error) {
	cmd := exec.Command("go", "list", "-e", "-json=Dir,Name,Doc,GoFiles,CgoFiles,IgnoredGoFiles,Imports,TestImports,XTestImports", "./...")
	cmd.Dir = root
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	top, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	if top, err = filepath.EvalSymlinks(top); err != nil {
		return nil, err
	}
	packages := map[string]pkg{}
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		var p pkg
		if err := dec.Decode(&p); err != nil {
			return nil, err
		}
		dir, err := filepath.Rel(top, p.Dir)
		if err != nil {
			return nil, err
		}
		p.Dir = filepath.ToSlash(dir)
		packages[p.Dir] = p
	}
	return packages, nil
}

// walk reads every text file that git would track.
func walk() ([]file, error) {
	ignored, err := ignore.CompileIgnoreFile(filepath.Join(root, ".gitignore"))
	if err != nil {
		return nil, err
	}
	var files []file
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if d.Name() == ".git" || d.Name() == "node_modules" || ignored.MatchesPath(rel+"/") {
				return filepath.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || rel == ".git" || ignored.MatchesPath(rel) {
			return nil
		}
		text, err := os.ReadFile(name)
		if os.IsNotExist(err) {
			return nil // somebody removed it since the folder was read
		}
		if err == nil && !bytes.Contains(text[:min(len(text), 8000)], []byte{0}) {
			files = append(files, file{rel, text})
		}
		return err
	})
	return files, err
}

// levelOf returns the level of a package, or -1 when no row names it. Exact rows win over "/..." rows.
func levelOf(dir string) int {
	found := -1
	for level, row := range Levels {
		for _, name := range row {
			if name == dir {
				return level
			}
			if above, ok := strings.CutSuffix(name, "/..."); ok && under(dir, above) {
				found = level
			}
		}
	}
	return found
}

// under reports whether dir is above or below it in the tree.
func under(dir, above string) bool { return dir == above || strings.HasPrefix(dir, above+"/") }

// local turns an import path into a folder of this module.
func local(imported string) (string, bool) {
	if imported == Module {
		return ".", true
	}
	return strings.CutPrefix(imported, Module+"/")
}

// forTests reports whether a package exists for tests alone: its name ends in "test", or it lives under test/.
func forTests(dir string) bool {
	return under(dir, "test") || strings.HasSuffix(path.Base(dir), "test")
}
