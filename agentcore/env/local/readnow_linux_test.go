package local

import (
	"errors"
	"io"
	"os"
	"testing"
	"time"
)

// A reader that slept over its deadline still finds what was written before it; silence is silence, and an end an end.
func TestALateLookAtAPipeFindsWhatIsThere(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := w.WriteString("there"); err != nil {
		t.Fatal(err)
	}
	if err := r.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 16)
	if _, err := r.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("a read behind its deadline: %v", err)
	}
	if n, err := readNow(r, buf); err != nil || string(buf[:n]) != "there" {
		t.Errorf("%q, %v", buf[:n], err)
	}
	if n, err := readNow(r, buf); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("an empty pipe: %d, %v", n, err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if n, err := readNow(r, buf); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("a closed pipe: %d, %v", n, err)
	}
}
