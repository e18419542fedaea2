// Package ids makes the public identifiers of the product: a prefix and a UUIDv7 in Crockford's base32, lower-case free,
// so that they sort by creation time and survive being read aloud.
package ids

import (
	"crypto/sha256"
	"encoding/base32"

	"github.com/google/uuid"
)

// crockford is Crockford's alphabet: no I, L, O, U. It keeps byte order, so ids sort by time.
var crockford = base32.NewEncoding("0123456789ABCDEFGHJKMNPQRSTVWXYZ").WithPadding(base32.NoPadding)

// Prefixes of the public ids. Source: design "Wire".
const (
	Run     = "run_"
	Session = "ses_"
	Request = "req_"
	Task    = "tsk_"
	Item    = "itm_"
	File    = "fil_"
	Key     = "key_"
)

// New returns prefix plus a fresh UUIDv7, 26 characters long. It is safe for concurrent use.
func New(prefix string) string {
	id := uuid.Must(uuid.NewV7()) // fails only when the system has no randomness
	return prefix + crockford.EncodeToString(id[:])
}

// Derived returns prefix plus 26 characters that depend on parts alone: equal parts give an equal id, in every process.
func Derived(prefix string, parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return prefix + crockford.EncodeToString(h.Sum(nil)[:16])
}
