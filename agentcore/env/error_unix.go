//go:build unix

package env

import (
	"errors"
	"syscall"
)

// systemCode sorts the errno values that io/fs has no name for.
func systemCode(err error) Code {
	switch {
	case errors.Is(err, syscall.ENOTDIR):
		return NotDirectory
	case errors.Is(err, syscall.EISDIR):
		return IsDirectory
	case errors.Is(err, syscall.ENXIO), errors.Is(err, syscall.ELOOP):
		return NotRegular
	case errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.EINVAL):
		return Invalid
	}
	return Unknown
}
