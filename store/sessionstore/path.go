package sessionstore

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"
)

// The lengths of a path part. Bytes of its encoded form, and hex digits of the digest. Source: design 2 "Storage".
const (
	maxPart    = 80
	digestPart = 32
)

// Suffix ends the name of every session file.
const Suffix = ".db"

// DatabasePath returns where the session of (project, conversation, sessionKey) is kept below agentStoreDir:
// <dir>/<project>/<conversation>/<sessionKey>.db. Equal triples give the same file, different ones different files, also
// on file systems that ignore case. It touches no disk. Source: P-645, P-636.
func DatabasePath(agentStoreDir, project, conversation, sessionKey string) string {
	return filepath.Join(agentStoreDir, pathPart(project), pathPart(conversation), pathPart(sessionKey)+Suffix)
}

// pathPart encodes any string as a file name: [a-z0-9_-] stay, another byte becomes ~hh, and what is then longer than
// maxPart is cut and gets the start of its SHA-256. The empty string is a lone ~, which nothing else encodes to.
func pathPart(s string) string {
	if s == "" {
		return "~"
	}
	var b strings.Builder
	for _, c := range []byte(s) {
		if 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '_' || c == '-' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "~%02x", c)
		}
	}
	if b.Len() <= maxPart {
		return b.String()
	}
	sum := sha256.Sum256([]byte(s))
	return b.String()[:maxPart] + hex.EncodeToString(sum[:])[:digestPart]
}
