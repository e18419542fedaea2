//go:build !unix

package env

// systemCode knows no more than io/fs does on this system.
func systemCode(error) Code { return Unknown }
