package sqlite

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"sync"
)

// Schema is a list of numbered migrations. It is immutable and safe for concurrent use; parse it once per program.
type Schema struct {
	steps []migration

	mu        sync.Mutex
	templates map[int][]byte // a new database with every step applied, by page size
}

type migration struct {
	version int
	name    string
	sql     string
	sum     string // hex SHA-256 of sql
}

// migrationName is NNNN_what.sql.
var migrationName = regexp.MustCompile(`^([0-9]{4})_[a-z0-9_]+\.sql$`)

// ParseSchema reads the files NNNN_name.sql of dir, numbered from 0001 without a gap. Once released a file never changes;
// its SHA-256 is recorded in every database.
func ParseSchema(files fs.FS, dir string) (*Schema, error) {
	entries, err := fs.ReadDir(files, dir)
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	s := &Schema{templates: map[int][]byte{}}
	for _, entry := range entries {
		match := migrationName.FindStringSubmatch(entry.Name())
		if match == nil {
			return nil, fmt.Errorf("migration %q: want a name like 0001_init.sql", entry.Name())
		}
		text, err := fs.ReadFile(files, path.Join(dir, entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("migration %q: %w", entry.Name(), err)
		}
		sum := sha256.Sum256(text)
		version, _ := strconv.Atoi(match[1]) // four digits
		s.steps = append(s.steps, migration{version, entry.Name(), string(text), hex.EncodeToString(sum[:])})
	}
	slices.SortFunc(s.steps, func(a, b migration) int { return a.version - b.version })
	for i, step := range s.steps {
		if step.version != i+1 {
			return nil, fmt.Errorf("migration %q: want number %04d", step.name, i+1)
		}
	}
	if len(s.steps) == 0 {
		return nil, fmt.Errorf("no migrations in %q", dir)
	}
	return s, nil
}

// Version is the number of the newest step.
func (s *Schema) Version() int { return len(s.steps) }

const createVersions = `CREATE TABLE IF NOT EXISTS schema_version
	(version INTEGER PRIMARY KEY, name TEXT NOT NULL, sha256 TEXT NOT NULL) STRICT`

// migrate brings the database to the newest step, each step in a transaction of its own together with its record.
func (s *Schema) migrate(c *conn) error {
	applied, err := s.applied(c)
	if err != nil {
		return err
	}
	for _, step := range s.steps[applied:] {
		if err := c.apply(step); err != nil {
			return fmt.Errorf("migration %q: %w", step.name, err)
		}
	}
	return nil
}

// applied counts the steps that the database has; it only reads. Errors: ErrForeign, ErrNewer, ErrNotDatabase.
func (s *Schema) applied(c *conn) (n int, err error) {
	objects, known := int64(0), false
	err = c.query(`SELECT count(*), max(name = 'schema_version') FROM sqlite_schema`, nil, func(r *Row) error {
		objects, known = r.Int64(0), r.Bool(1)
		return nil
	})
	if err != nil {
		return 0, err
	}
	if objects > 0 && !known {
		return 0, fmt.Errorf("%w: it has tables and no schema_version", ErrForeign)
	}
	if !known {
		return 0, nil
	}
	err = c.query(`SELECT version, name, sha256 FROM schema_version ORDER BY version`, nil, func(r *Row) error {
		n++
		switch version := r.Int64(0); {
		case version != int64(n):
			return fmt.Errorf("%w: migration %d is not recorded", ErrNotDatabase, n)
		case n > len(s.steps):
			return fmt.Errorf("%w: it has migration %q, this program knows %d", ErrNewer, r.Text(1), len(s.steps))
		case r.Text(2) != s.steps[n-1].sum:
			return fmt.Errorf("%w: its migration %q is not this program's %q", ErrForeign, r.Text(1), s.steps[n-1].name)
		}
		return nil
	})
	return n, err
}

func (c *conn) apply(step migration) (err error) {
	if err := c.script("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer func() {
		if err != nil && !c.raw.AutoCommit() {
			err = errors.Join(err, c.script("ROLLBACK"))
		}
	}()
	if err := c.script(createVersions); err != nil {
		return err
	}
	if err := c.script(step.sql); err != nil {
		return err
	}
	if _, err := c.exec(`INSERT INTO schema_version VALUES (?, ?, ?)`, []any{step.version, step.name, step.sum}); err != nil {
		return err
	}
	return c.script("COMMIT")
}

// Bytes 18 and 19 of a database file say which journal its readers and writers must use; 2 is the write-ahead log.
// Source: SQLite file format, 1.3.
const (
	journalOffset = 18
	journalWAL    = 2
)

// template returns the bytes of a new, empty database of this schema. It is built once, in memory.
func (s *Schema) template(pageSize int) (_ []byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if bytes := s.templates[pageSize]; bytes != nil {
		return bytes, nil
	}
	c, err := connect(":memory:", "")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if err := c.script(fmt.Sprintf("PRAGMA page_size=%d", pageSize)); err != nil {
		return nil, err
	}
	if err := s.migrate(c); err != nil {
		return nil, err
	}
	bytes, err := c.raw.Serialize("main")
	if err != nil {
		return nil, err
	}
	if len(bytes) < journalOffset+2 {
		return nil, fmt.Errorf("%w: the template has %d bytes", ErrNotDatabase, len(bytes))
	}
	bytes[journalOffset], bytes[journalOffset+1] = journalWAL, journalWAL
	s.templates[pageSize] = bytes
	return bytes, nil
}
