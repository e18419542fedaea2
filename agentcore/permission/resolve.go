package permission

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxLinks is how many links one path may pass; more is taken for a loop, as systems do.
const maxLinks = 40

// resolve returns where the clean absolute path abs leads once every link in it is followed. What does not exist is kept
// as it is, also behind a dangling link: the result is where a file would be created.
func resolve(abs string) (string, error) {
	real, err := filepath.EvalSymlinks(abs)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return real, err
	}
	volume := filepath.VolumeName(abs)
	top := volume + string(filepath.Separator)
	at, rest, links := top, parts(abs[len(volume):]), 0
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		if part == ".." { // from a link's target; at has no links, so its parent is the real one
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, part)
		info, err := os.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			at = next // and so is all that follows, until ".." leads back
			continue
		case err != nil:
			return "", err
		case info.Mode()&fs.ModeSymlink == 0:
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("more than %d links: %w", maxLinks, fs.ErrInvalid)
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", err
		}
		if filepath.IsAbs(target) {
			volume = filepath.VolumeName(target)
			at = volume + string(filepath.Separator)
			target = target[len(volume):]
		}
		rest = append(parts(target), rest...)
	}
	return at, nil
}

// parts splits a path without its volume; empty and "." parts go.
func parts(path string) []string {
	all := strings.FieldsFunc(path, func(r rune) bool { return r < 0x80 && os.IsPathSeparator(uint8(r)) })
	kept := all[:0]
	for _, p := range all {
		if p != "." {
			kept = append(kept, p)
		}
	}
	return kept
}
