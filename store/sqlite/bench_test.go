package sqlite

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"database/sql/driver"

	sqlite3 "github.com/mattn/go-sqlite3"
)

var row = bytes.Repeat([]byte("r"), 1024)

var benchDurabilities = []struct {
	name string
	d    Durability
}{{"fast", Fast}, {"synced", Synced}}

// BenchmarkFloor is what the driver allows: one prepared insert of 1 KiB per commit, nothing around it.
func BenchmarkFloor(b *testing.B) {
	for _, mode := range []string{"NORMAL", "FULL"} {
		b.Run(mode, func(b *testing.B) {
			c, err := (&sqlite3.SQLiteDriver{}).Open("file:" + filepath.Join(b.TempDir(), "x.db") + "?_journal_mode=WAL&_mutex=no&_synchronous=" + mode)
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			raw := c.(*sqlite3.SQLiteConn)
			if _, err := raw.Exec(testTable, nil); err != nil {
				b.Fatal(err)
			}
			stmt, err := raw.Prepare(`INSERT INTO item (body) VALUES (?)`)
			if err != nil {
				b.Fatal(err)
			}
			defer stmt.Close()
			for b.Loop() {
				if _, err := stmt.(*sqlite3.SQLiteStmt).Exec([]driver.Value{row}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func insertRow(tx *Tx) error {
	_, err := tx.Exec(`INSERT INTO item (body) VALUES (?)`, row)
	return err
}

func BenchmarkTransact(b *testing.B) {
	for _, v := range benchDurabilities {
		b.Run(v.name, func(b *testing.B) {
			db := open(b, filepath.Join(b.TempDir(), "x.db"), Options{Schema: testSchema(b)})
			for b.Loop() {
				if err := db.Transact(v.d, insertRow); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkWriter(b *testing.B) {
	for _, v := range benchDurabilities {
		for _, submitters := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("%s/%d", v.name, submitters), func(b *testing.B) {
				w, _ := writer(b)
				var left atomic.Int64
				left.Store(int64(b.N))
				b.ResetTimer()
				var wg sync.WaitGroup
				for range submitters {
					wg.Go(func() {
						for left.Add(-1) >= 0 {
							if err := w.Submit(v.d, insertRow); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
			})
		}
	}
}

// BenchmarkNewDatabase compares a copy of the template with running the schema in a new file.
func BenchmarkNewDatabase(b *testing.B) {
	schema := testSchema(b)
	dir := b.TempDir()
	n := 0
	b.Run("template", func(b *testing.B) {
		for b.Loop() {
			n++
			db, err := Open(filepath.Join(dir, fmt.Sprint(n)), Options{Schema: schema, PageSize: 1024})
			if err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			if err := db.Close(); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	})
	b.Run("ddl", func(b *testing.B) {
		for b.Loop() {
			n++
			path := filepath.Join(dir, fmt.Sprint(n))
			if err := os.WriteFile(path, nil, filePerm); err != nil {
				b.Fatal(err)
			}
			c, err := connect(path, ownerQuery)
			if err != nil {
				b.Fatal(err)
			}
			if err := c.script("PRAGMA page_size=1024; PRAGMA journal_mode=WAL"); err != nil {
				b.Fatal(err)
			}
			if err := schema.migrate(c); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			if err := c.close(); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	})
	b.Run("open and close", func(b *testing.B) {
		path := filepath.Join(dir, "again")
		for b.Loop() {
			db, err := Open(path, Options{Schema: schema, PageSize: 1024})
			if err != nil {
				b.Fatal(err)
			}
			if err := db.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
