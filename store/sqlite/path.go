package sqlite

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
)

// uri returns the name under which SQLite opens path: a file: URI in which every byte with a meaning of its own is
// escaped, so that names with ?, #, %, spaces or other scripts are plain names.
func uri(path string, query string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~/"
	var b strings.Builder
	b.WriteString("file:")
	for _, c := range []byte(path) {
		if strings.IndexByte(plain, c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	if query != "" {
		b.WriteString("?" + query)
	}
	return b.String()
}

// Resolve returns the form in which the path of a database goes to the operating system and to SQLite: absolute, and of any
// length where the system has a special form for that. What this package is given goes through it first; it is exported for
// a package that touches the files of a database beside it. It touches none. ErrPathTooLong when SQLite cannot open the
// path.
func Resolve(path string) (string, error) {
	if path == "" || strings.ContainsRune(path, 0) {
		return "", fmt.Errorf("database path %q: empty or with a zero byte", path)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("database path %q: %w", path, err)
	}
	return systemPath(runtime.GOOS, abs)
}

// systemPath is the last step of Resolve on an operating system.
func systemPath(goos, abs string) (string, error) {
	if goos == "windows" {
		return windowsPath(abs), nil
	}
	if len(abs) > unixMostPath {
		return "", fmt.Errorf("database path %q: %w: %d bytes, at most %d", abs, ErrPathTooLong, len(abs), unixMostPath)
	}
	return abs, nil
}

// windowsPath returns the form of an absolute Windows path that has no length limit: \\?\C:\dir\file, or
// \\?\UNC\server\share\file for a network share. Short paths and paths already in a prefixed form stay as they are. The
// place it names is the same. Source: P-303 to P-308.
func windowsPath(path string) string {
	if len(path) < windowsPlainPath {
		return path
	}
	for _, prefixed := range []string{`\\?\`, `\\.\`, `\??\`} {
		if strings.HasPrefix(path, prefixed) {
			return path
		}
	}
	path = strings.ReplaceAll(path, "/", `\`)
	if share, found := strings.CutPrefix(path, `\\`); found {
		return `\\?\UNC\` + share
	}
	return `\\?\` + path
}
