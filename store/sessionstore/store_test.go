package sessionstore

import (
	"path/filepath"
	"testing"

	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/session/sessiontest"
)

func openFile(t *testing.T) (session.Storage, func() session.Storage) {
	path := filepath.Join(t.TempDir(), "x.db")
	reopen := func() session.Storage { return store(t, path) }
	return reopen(), reopen
}

// store opens a session file and closes it at the end of the test.
func store(t testing.TB, path string) *Store {
	t.Helper()
	s, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestTheSQLiteStoreKeepsTheContract(t *testing.T) { sessiontest.Run(t, openFile) }

func TestTheSQLiteStoreAgreesWithTheMemoryStore(t *testing.T) { sessiontest.Oracle(t, openFile) }
