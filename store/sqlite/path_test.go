package sqlite

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Promise: P-303, P-308
func TestALongPathGetsTheFormThatItsSystemTakes(t *testing.T) {
	deep := strings.Repeat(`\0123456789`, 25)
	for _, test := range []struct{ name, goos, path, want string }{
		{"a short path stays", "windows", `C:\data\x.db`, `C:\data\x.db`},
		{"a long drive path", "windows", `C:` + deep + `\x.db`, `\\?\C:` + deep + `\x.db`},
		{"slashes mean backslashes", "windows", `C:/a` + strings.ReplaceAll(deep, `\`, `/`), `\\?\C:\a` + deep},
		{"a long network path", "windows", `\\host\share` + deep, `\\?\UNC\host\share` + deep},
		{"a prefixed path stays", "windows", `\\?\D:` + deep, `\\?\D:` + deep},
		{"a prefixed network path stays", "windows", `\\?\UNC\host\share` + deep, `\\?\UNC\host\share` + deep},
		{"the kernel's own form stays", "windows", `\??\D:` + deep, `\??\D:` + deep},
		{"a device path stays", "windows", `\\.\pipe` + deep, `\\.\pipe` + deep},
		{"one below the limit stays", "windows", `C:\` + strings.Repeat("a", windowsPlainPath-4), `C:\` + strings.Repeat("a", windowsPlainPath-4)},
		{"at the limit", "windows", `C:\` + strings.Repeat("a", windowsPlainPath-3), `\\?\C:\` + strings.Repeat("a", windowsPlainPath-3)},
		{"letters of more than a byte", "windows", `C:\` + strings.Repeat("名", 100), `\\?\C:\` + strings.Repeat("名", 100)},
		{"no form of its own is needed", "linux", "/" + strings.Repeat("a", 300), "/" + strings.Repeat("a", 300)},
		{"the longest that SQLite opens", "linux", "/" + strings.Repeat("a", unixMostPath-1), "/" + strings.Repeat("a", unixMostPath-1)},
		{"one more", "darwin", "/" + strings.Repeat("a", unixMostPath), ""},
	} {
		got, err := systemPath(test.goos, test.path)
		if got != test.want || (err != nil) != (test.want == "") || err != nil && !errors.Is(err, ErrPathTooLong) {
			t.Errorf("%s: got %q, %v, want %q", test.name, got, err, test.want)
		}
	}
}

// The files beside a database have longer names; SQLite and we derive them, so each must open where the database does.
// Promise: P-303, P-304, P-305, P-306, P-307
func TestTheNamesBesideADatabaseFitWhereItsOwnDoes(t *testing.T) {
	const maxPath = 260 - 1 // what Windows takes in the plain form, without the zero
	longest := 0
	for _, suffix := range []string{"-wal", "-shm", "-journal", LockSuffix, unfinishedSuffix, unfinishedSuffix + "-journal"} {
		longest = max(longest, len(suffix))
	}
	if n := windowsPlainPath - 1 + longest; n > maxPath {
		t.Errorf("beside the longest plain path a name has %d bytes, Windows takes %d", n, maxPath)
	}
}

// Promise: P-303
func TestSQLiteIsGivenAWindowsPathAsItIs(t *testing.T) {
	for _, test := range []struct{ path, query, want string }{
		{`C:\data\a b.db`, "", `file:C%3A%5Cdata%5Ca%20b.db`},
		{`\\?\C:\data\x.db`, "mode=ro", `file:%5C%5C%3F%5CC%3A%5Cdata%5Cx.db?mode=ro`},
		{`\\?\UNC\host\share\100%.db`, "", `file:%5C%5C%3F%5CUNC%5Chost%5Cshare%5C100%25.db`},
	} {
		if got := uri(test.path, test.query); got != test.want {
			t.Errorf("%s: got %q, want %q", test.path, got, test.want)
		}
	}
}

// how says how a path that meets the operating system has come through Resolve.
type how string

const (
	given   how = "the function resolves what it is given"
	passed  how = "a parameter: the function is not exported, and its callers pass what they resolved"
	held    how = "the path that a DB, a Reader, a Lock or a Store keeps, which was resolved when it was made"
	onwards how = "as it was given, to a function that resolves it"
	nowhere how = "no path: a database in memory"
)

// meetings are all functions in which the path of a session meets the operating system or goes on to a function that does,
// in this package and in those that work on the files of sessions. Whoever adds one says here how the path was resolved.
var meetings = map[string]struct {
	calls string
	how   how
}{
	// create, reopen
	"store/sqlite/db.go Open":                {"connect lockResolved makeParents os.Stat", given},
	"store/sqlite/create.go makeParents":     {"os.MkdirAll os.Stat", passed},
	"store/sqlite/create.go create":          {"disk.Delete disk.Move disk.Name os.Open os.OpenFile", passed},
	"store/sqlite/create.go adopt":           {"disk.Delete disk.SyncPath os.Lstat os.ReadFile", passed},
	"store/sqlite/create.go refuseEmpty":     {"os.Stat", passed},
	"store/sqlite/create.go refuseNoise":     {"os.Open", passed},
	"store/sqlite/create.go syncAbove":       {"disk.SyncNames", passed},
	"store/sqlite/create.go newborn.sync":    {"disk.Delete disk.SyncNames", held},
	"store/sqlite/conn.go connect":           {"sqlite3.Open", passed},
	"store/sqlite/errors.go classify":        {"os.Stat", passed},
	"store/sqlite/schema.go Schema.template": {"connect", nowhere},
	"store/sqlite/reader.go OpenReader":      {"connect os.Stat", given},
	"store/sqlite/db.go DB.settle":           {"connect os.Stat", held},
	"store/sqlite/behind.go DB.CloseBehind":  {"os.Lstat", held},
	"store/sessionstore/store.go Open":       {"sqlite.Open", onwards},
	"store/sessionstore/idle.go Store.fetch": {"os.Stat sqlite.LockOwner sqlite.Open", held},
	"agentcore/storage.go open":              {"sessionstore.Open", onwards},
	// owner lock
	"store/sqlite/lock.go LockOwner":    {"lockResolved makeParents", given},
	"store/sqlite/backup.go ownMissing": {"lockResolved makeParents", given},
	"store/sqlite/lock.go lockResolved": {"flock.New", passed},
	"store/sqlite/lock.go writeHolder":  {"os.OpenFile", passed},
	"store/sqlite/lock.go readHolder":   {"os.Open", passed},
	// export, import
	"store/sqlite/backup.go ownExisting":    {"lockResolved os.Stat", given},
	"store/sqlite/backup.go missing":        {"os.Lstat", passed},
	"store/sqlite/backup.go backup":         {"disk.Delete disk.SyncPath os.Remove", held},
	"store/sqlite/backup.go copyPages":      {"connect os.OpenFile os.Stat", passed},
	"store/sqlite/backup.go checkSound":     {"connect", passed},
	"store/sqlite/backup.go giveName":       {"disk.Delete disk.Move disk.Name disk.SyncNames", held},
	"store/sqlite/db.go DB.CopyTo":          {"disk.SyncNames disk.SyncPath os.Lstat", given},
	"store/sessionstore/backup.go transfer": {"sqlite.Backup", onwards},
	"agentcore/backup.go ExportDatabase":    {"sessionstore.Export", onwards},
	"agentcore/backup.go ImportDatabase":    {"sessionstore.Import", onwards},
	// removal, cancelling what nobody runs
	"store/sessionstore/remove.go Remove":    {"os.Remove os.Stat sqlite.LockOwner", given},
	"store/sessionstore/remove.go syncNames": {"os.Open", passed},
	"agentcore/offline.go sessionsOf":        {"os.ReadDir", given},
	"agentcore/offline.go ownAll":            {"sqlite.LockOwner", onwards},
	"agentcore/offline.go settleFile":        {"sessionstore.Open", onwards},
}

// takers are the functions that give a path to the operating system, or to the next of these packages.
var takers = map[string][]string{
	"os": {"Open", "OpenFile", "OpenRoot", "OpenInRoot", "Create", "CreateTemp", "Stat", "Lstat", "ReadFile", "WriteFile", "ReadDir", "DirFS", "Remove", "RemoveAll",
		"Rename", "Mkdir", "MkdirAll", "MkdirTemp", "Link", "Symlink", "Readlink", "Truncate", "Chmod", "Chown", "Lchown", "Chtimes", "CopyFS"},
	"disk":         {"SyncPath", "SyncNames", "Move", "Name", "Delete"},
	"flock":        {"New", "NewFlock"},
	"sqlite":       {"Open", "OpenReader", "OpenWriter", "LockOwner", "Backup"},
	"sessionstore": {"Open", "Export", "Import", "Remove"},
	"":             {"connect", "lockResolved", "makeParents"},
}

// Promise: P-303, P-304, P-305, P-306, P-307
func TestEveryPathOfASessionIsResolvedBeforeItMeetsTheSystem(t *testing.T) {
	found := map[string]bool{}
	for _, pattern := range []string{"store/sqlite/*.go", "store/sessionstore/*.go", "agentcore/storage.go", "agentcore/backup.go", "agentcore/offline.go"} {
		files, err := filepath.Glob(filepath.Join("../..", pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		dir := filepath.ToSlash(filepath.Dir(pattern))
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range parsed.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok {
					checkMeeting(t, dir+"/"+filepath.Base(file), fn, found)
				}
			}
		}
	}
	for place := range meetings {
		if !found[place] {
			t.Errorf("%s: in the list, and nowhere else", place)
		}
	}
}

func checkMeeting(t *testing.T, file string, fn *ast.FuncDecl, found map[string]bool) {
	t.Helper()
	place := file + " " + fn.Name.Name
	if fn.Recv != nil {
		place = file + " " + strings.TrimPrefix(types.ExprString(fn.Recv.List[0].Type), "*") + "." + fn.Name.Name
	}
	var calls []string
	resolves, keeps := false, false
	ast.Inspect(fn, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && strings.EqualFold(s.Sel.Name, "path") {
			keeps = true
		}
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		switch f := call.Fun.(type) {
		case *ast.Ident:
			resolves = resolves || f.Name == "Resolve"
			if slices.Contains(takers[""], f.Name) {
				calls = append(calls, f.Name)
			}
		case *ast.SelectorExpr:
			pkg := strings.Trim(types.ExprString(f.X), "(&){}")
			resolves = resolves || f.Sel.Name == "Resolve"
			switch {
			case slices.Contains(takers[pkg], f.Sel.Name):
				calls = append(calls, pkg+"."+f.Sel.Name)
			case pkg == "sqlite3.SQLiteDriver" && f.Sel.Name == "Open":
				calls = append(calls, "sqlite3.Open")
			}
		}
		return true
	})
	if len(calls) == 0 {
		return
	}
	slices.Sort(calls)
	found[place] = true
	row, ok := meetings[place]
	if got := strings.Join(slices.Compact(calls), " "); got != row.calls {
		t.Errorf("%s gives a path to %s; the list says %q (listed: %v)", place, got, row.calls, ok)
	}
	if row.how == given && !resolves || row.how == held && !keeps || row.how == passed && fn.Name.IsExported() {
		t.Errorf("%s: %s; it does not look so", place, row.how)
	}
}
