package envtest

import (
	"context"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/workflowd/workflowd/agentcore/env"
)

func identity(t *testing.T, k *kit) {
	if k.Env.ID() == "" || k.Env.ID() != k.Env.ID() {
		t.Errorf("id %q", k.Env.ID())
	}
	if !path.IsAbs(k.Env.Dir()) {
		t.Errorf("working directory %q is not absolute", k.Env.Dir())
	}
}

func writeAndRead(t *testing.T, k *kit) {
	ctx := t.Context()
	w, err := k.files.Write(ctx, "a.txt", []byte("one"), env.WriteOptions{})
	if err != nil || !w.Created || w.Bytes != 3 {
		t.Fatalf("create: got %+v, %v", w, err)
	}
	if canonical, err := k.files.Canonical(ctx, "./a.txt"); err != nil || canonical != w.Path {
		t.Errorf("canonical: got %q, %v; want %q", canonical, err, w.Path)
	}
	w, err = k.files.Write(ctx, w.Path, []byte("second"), env.WriteOptions{})
	if err != nil || w.Created {
		t.Fatalf("replace: got %+v, %v", w, err)
	}
	if got := k.read("a.txt"); got != "second" {
		t.Errorf("content: got %q", got)
	}
	if got := k.sh("cat a.txt; ls -A"); got != "seconda.txt\n" {
		t.Errorf("a command sees %q, or a half-written file stayed", got)
	}
	_, err = k.files.Write(ctx, "no/such/dir/f", nil, env.WriteOptions{})
	k.wantCode("missing parent", err, env.NotFound)
	k.write("made/of/parents/f", "x")
	_, err = k.files.Write(ctx, "made/of", nil, env.WriteOptions{})
	k.wantCode("write to a directory", err, env.IsDirectory)
	_, err = k.files.Write(ctx, "a.txt/f", nil, env.WriteOptions{Parents: true})
	k.wantCode("write below a file", err, env.NotDirectory)
	_, err = k.files.Open(ctx, "missing")
	k.wantCode("open a missing file", err, env.NotFound)
	f, err := k.files.Open(ctx, "a.txt")
	if err != nil {
		t.Fatal(err)
	}
	part := make([]byte, 3)
	if n, err := f.ReadAt(part, 3); n != 3 || string(part) != "ond" {
		t.Errorf("read at 3: got %q, %v", part[:n], err)
	}
	if info := f.Info(); info.Size != 6 || info.Name != "a.txt" || info.Kind != env.RegularFile {
		t.Errorf("info: got %+v", info)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if err := k.files.MkdirAll(ctx, "d/e"); err != nil {
		t.Error(err)
	}
	if err := k.files.MkdirAll(ctx, "d/e"); err != nil {
		t.Errorf("an existing directory: %v", err)
	}
}

func writeKeeps(t *testing.T, k *kit) {
	k.sh("printf old > script; chmod 750 script; ln -s script link")
	k.write("link", "new")
	if got := k.sh("cat script; readlink link; ls -l script | cut -c1-10"); got != "newscript\n-rwxr-x---\n" {
		t.Errorf("got %q", got)
	}
	k.sh("ln -s target/later dangling; mkdir target")
	k.write("dangling", "made")
	if got := k.sh("cat target/later; readlink dangling"); got != "madetarget/later\n" {
		t.Errorf("a dangling link inside: got %q", got)
	}
}

func notRegular(t *testing.T, k *kit) {
	ctx, began := t.Context(), time.Now()
	k.sh("mkdir d; mkfifo fifo; printf x > f")
	_, err := k.files.Open(ctx, "d")
	k.wantCode("open a directory", err, env.IsDirectory)
	_, err = k.files.Open(ctx, "fifo")
	k.wantCode("open a FIFO", err, env.NotRegular)
	_, err = k.files.Write(ctx, "fifo", []byte("x"), env.WriteOptions{})
	k.wantCode("write a FIFO", err, env.NotRegular)
	for _, name := range []string{"f", "fifo"} {
		_, err = k.files.OpenDir(ctx, name)
		k.wantCode("list "+name, err, env.NotDirectory)
	}
	if info, err := k.files.Stat(ctx, "fifo"); err != nil || info.Kind != env.Other {
		t.Errorf("stat of a FIFO: got %+v, %v", info, err)
	}
	k.soon("a FIFO without a writer", began)
}

// confinement is bugs 53.
func confinement(t *testing.T, k *kit) {
	ctx := t.Context()
	k.sh("printf secret > '" + k.Outside + "/v.txt'; ln -s '" + k.Outside + "/v.txt' n.md; ln -s '" + k.Outside + "/new.txt' d.txt; ln -s '" +
		k.Outside + "' ln; mkdir real; ln -s ./real in; ln -s \"$PWD/real\" absin")
	for _, p := range []string{"n.md", "ln/v.txt", k.Outside + "/v.txt", "../" + path.Base(k.Outside) + "/v.txt"} {
		_, err := k.files.Open(ctx, p)
		k.wantCode("open "+p, err, env.PermissionDenied)
	}
	for _, p := range []string{"n.md", "d.txt", "ln/newdir/f", "ln/f", k.Outside + "/f"} {
		_, err := k.files.Write(ctx, p, []byte("x"), env.WriteOptions{Parents: true})
		k.wantCode("write "+p, err, env.PermissionDenied)
	}
	_, err := k.files.OpenDir(ctx, "ln")
	k.wantCode("list ln", err, env.PermissionDenied)
	k.wantCode("mkdir ln/x", k.files.MkdirAll(ctx, "ln/x"), env.PermissionDenied)
	k.wantCode("remove ln/v.txt", k.files.Remove(ctx, "ln/v.txt", env.RemoveOptions{}), env.PermissionDenied)
	k.wantCode("rename into ln", k.files.Rename(ctx, "real", "ln/real"), env.PermissionDenied)
	_, err = k.files.Stat(ctx, "n.md")
	k.wantCode("stat n.md", err, env.PermissionDenied)
	if info, err := k.files.Lstat(ctx, "n.md"); err != nil || info.Kind != env.Link || info.Name != "n.md" {
		t.Errorf("lstat of a link: got %+v, %v", info, err)
	}
	if got := k.sh("ls -A '" + k.Outside + "'; cat '" + k.Outside + "/v.txt'"); got != "v.txt\nsecret" {
		t.Errorf("outside is now %q", got)
	}
	k.write("in/f", "through a link inside")
	k.write("absin/g", "through an absolute link inside")
	if got := k.sh("ls real"); got != "f\ng\n" {
		t.Errorf("inside: got %q", got)
	}
}

func rename(t *testing.T, k *kit) {
	k.write("from", "new")
	k.write("to", "old")
	k.sh("ln -s to link")
	if err := k.files.Rename(t.Context(), "from", "to"); err != nil {
		t.Fatal(err)
	}
	if err := k.files.Rename(t.Context(), "link", "moved"); err != nil {
		t.Fatal(err)
	}
	if got := k.sh("ls -A; cat to; readlink moved"); got != "moved\nto\nnewto\n" {
		t.Errorf("got %q", got)
	}
	k.wantCode("rename a missing file", k.files.Rename(t.Context(), "from", "x"), env.NotFound)
}

func remove(t *testing.T, k *kit) {
	ctx := t.Context()
	k.write("d/e/f", "x")
	k.write("kept/f", "x")
	k.sh("ln -s ../kept d/link")
	k.wantCode("a directory with entries", k.files.Remove(ctx, "d", env.RemoveOptions{}), env.Invalid)
	for _, step := range []struct {
		path string
		opts env.RemoveOptions
	}{{"d", env.RemoveOptions{Recursive: true}}, {"d", env.RemoveOptions{Missing: true}}, {"kept/f", env.RemoveOptions{}}, {"kept", env.RemoveOptions{}}} {
		if step.path == "kept/f" && k.read("kept/f") != "x" {
			t.Error("what the link led to was changed")
		}
		if err := k.files.Remove(ctx, step.path, step.opts); err != nil {
			t.Errorf("remove %s: %v", step.path, err)
		}
	}
	k.wantCode("a missing path", k.files.Remove(ctx, "d", env.RemoveOptions{}), env.NotFound)
	k.wantCode("the root", k.files.Remove(ctx, ".", env.RemoveOptions{Recursive: true}), env.Invalid)
	if got := k.sh("ls -A"); got != "" {
		t.Errorf("left: %q", got)
	}
}

func list(t *testing.T, k *kit) {
	k.sh("mkdir sub; printf 12345 > a; ln -s sub link; ln -s nowhere dangling; mkfifo p; printf x > '-x y:z'")
	d, err := k.files.OpenDir(t.Context(), ".")
	if err != nil {
		t.Fatal(err)
	}
	infos, err := d.Entries(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, info := range infos {
		got = append(got, info.Name+" "+string(info.Kind))
	}
	want := []string{"-x y:z file", "a file", "dangling link", "link link", "p other", "sub directory"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if infos[1].Size != 5 {
		t.Errorf("size of a: got %d", infos[1].Size)
	}
	_, err = d.Dir(t.Context(), "link")
	k.wantCode("a link as directory", err, env.NotDirectory)
	for _, name := range []string{"dangling", "p"} {
		_, err = d.File(t.Context(), name)
		k.wantCode("open "+name, err, env.NotRegular)
	}
	for _, name := range []string{"..", ".", "sub/..", "", "/etc"} {
		_, err = d.Dir(t.Context(), name)
		k.wantCode("entry "+name, err, env.Invalid)
		_, err = d.File(t.Context(), name)
		k.wantCode("entry "+name, err, env.Invalid)
	}
	sub, err := d.Dir(t.Context(), "sub")
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if infos, err := sub.Entries(t.Context()); err != nil || len(infos) != 0 {
		t.Errorf("a directory opened from a closed one: %v, %v", infos, err)
	}
	if err := sub.Close(); err != nil {
		t.Error(err)
	}
}

func walk(t *testing.T, k *kit) {
	k.sh("mkdir -p b/c skip/deep; printf x > b/c/f; printf x > a; printf x > z; printf x > skip/deep/g; ln -s .. b/up; ln -s '" + k.Outside + "' out")
	d, err := k.files.OpenDir(t.Context(), ".")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	enter := func(_ string, _ env.Dir, entries []env.Info) ([]env.Info, error) {
		return slices.DeleteFunc(entries, func(i env.Info) bool { return i.Name == "skip" }), nil
	}
	var got []string
	for e, err := range env.Walk(t.Context(), d, enter) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.Path)
	}
	if want := "a b b/c b/c/f b/up out z"; strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	for _, err := range env.Walk(ctx, d, nil) {
		cancel()
		last = err
	}
	k.wantCode("a walk whose context ends", last, env.Aborted)
}

func cancelled(t *testing.T, k *kit) {
	k.write("f", "x")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := k.files.Write(ctx, "f", []byte("y"), env.WriteOptions{})
	k.wantCode("write", err, env.Aborted)
	_, err = k.files.Open(ctx, "f")
	k.wantCode("open", err, env.Aborted)
	k.wantCode("remove", k.files.Remove(ctx, "f", env.RemoveOptions{}), env.Aborted)
	k.wantCode("rename", k.files.Rename(ctx, "f", "g"), env.Aborted)
	k.wantCode("mkdir", k.files.MkdirAll(ctx, "d"), env.Aborted)
	_, err = k.Env.Exec(ctx, env.Command{Script: "printf y > f"})
	k.wantCode("exec", err, env.Aborted)
	_, err = k.Env.Temp(ctx, "t")
	k.wantCode("temp", err, env.Aborted)
	if got := k.sh("ls -A; cat f"); got != "f\nx" {
		t.Errorf("something happened: %q", got)
	}
}

func lock(t *testing.T, k *kit) {
	k.sh("printf x > f; ln -s f link")
	one, err := k.files.Canonical(t.Context(), "f")
	if err != nil {
		t.Fatal(err)
	}
	two, err := k.files.Canonical(t.Context(), "link")
	if err != nil || one != two {
		t.Fatalf("two names: %q and %q, %v", one, two, err)
	}
	unlock, err := env.Lock(t.Context(), k.Env, one)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = env.Lock(ctx, k.Env, two)
	k.wantCode("a second holder", err, env.Aborted)
	unlock()
	unlock()
	again, err := env.Lock(t.Context(), k.Env, two)
	if err != nil {
		t.Fatal(err)
	}
	again()
}
