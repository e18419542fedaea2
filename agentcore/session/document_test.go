package session_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/session/sessiontest"
)

type counts struct {
	N    int    `json:"n"`
	Text string `json:"text"`
}

// counter stores every third change whole.
var counter = session.Doc[counts]{Kind: "test.counter", Version: 2, Scope: session.ScopeSession, BaseEvery: 2}

var here = counter.At(0, "")

func grow(text string) session.Op {
	raw, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string always encodes
	}
	return session.Op{Op: session.OpAppend, Path: "/text", Value: raw}
}

// recorded is a memory store that tells the document writes of each commit.
func recorded(writes *[]string) *sessiontest.Faulty {
	f := &sessiontest.Faulty{Storage: session.NewMemory()}
	f.Before = func(b *session.Batch) error {
		for _, w := range b.Documents {
			kind := "delta"
			switch {
			case w.Create:
				kind = "create"
			case w.Base != nil:
				kind = "base"
			case w.Retire:
				kind = "retire"
			}
			*writes = append(*writes, fmt.Sprintf("%d %s", b.Seq, kind))
		}
		return nil
	}
	return f
}

func read(t *testing.T, s *session.Session, a session.Address) counts {
	t.Helper()
	var v counts
	view(t, s, func(tx *session.Tx) (err error) {
		v, err = counter.Get(tx, a)
		return err
	})
	return v
}

func TestReadingADocumentThatIsNotThereStoresNothing(t *testing.T) {
	var writes []string
	s := open(t, recorded(&writes))
	commit(t, s, func(tx *session.Tx) error {
		v, err := counter.Get(tx, here)
		if v != (counts{}) || err != nil {
			t.Errorf("Get = %+v, %v, want the zero value", v, err)
		}
		if err := counter.Retire(tx, here); err != nil {
			t.Errorf("Retire = %v, want nothing to happen", err)
		}
		return note("n")(tx)
	})
	if writes != nil {
		t.Errorf("document writes %v, want none", writes)
	}
}

func TestADraftReadsItsOwnDocumentWrites(t *testing.T) {
	s := open(t, session.NewMemory())
	commit(t, s, func(tx *session.Tx) error {
		want := func(v counts) {
			t.Helper()
			got, err := counter.Get(tx, here)
			if err != nil || got != v {
				t.Errorf("Get = %+v, %v, want %+v", got, err, v)
			}
		}
		steps := []struct {
			do   error
			want counts
		}{
			{counter.Put(tx, here, counts{N: 1, Text: "a"}), counts{1, "a"}},
			{counter.Patch(tx, here, grow("b"), grow("c")), counts{1, "abc"}},
			{counter.Patch(tx, here, session.Op{Op: session.OpSet, Path: "/n", Value: []byte("7")}), counts{7, "abc"}},
		}
		for _, step := range steps {
			if step.do != nil {
				t.Fatal(step.do)
			}
		}
		want(steps[2].want)
		if err := counter.Put(tx, here, counts{N: 3}); err != nil {
			return err
		}
		want(counts{N: 3})
		if err := counter.Retire(tx, here); err != nil {
			return err
		}
		want(counts{})
		if err := counter.Patch(tx, here, grow("x")); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("Patch behind Retire = %v, want ErrNotFound", err)
		}
		return counter.Put(tx, here, counts{N: 4})
	})
	if got := read(t, s, here); got != (counts{N: 4}) {
		t.Errorf("committed %+v, want the last incarnation", got)
	}
}

func TestPutPatchAndRetireFitIntoOneCommit(t *testing.T) {
	memory := session.NewMemory()
	s := open(t, memory)
	commit(t, s, func(tx *session.Tx) error {
		return errors.Join(counter.Put(tx, here, counts{Text: "a"}), counter.Patch(tx, here, grow("b")), counter.Retire(tx, here))
	})
	for _, s := range []*session.Session{s, open(t, memory.Reopen())} {
		if got := read(t, s, here); got != (counts{}) {
			t.Errorf("after retirement there is %+v", got)
		}
	}
}

func TestSeveralIncarnationsFitIntoOneCommit(t *testing.T) {
	memory := session.NewMemory()
	s := open(t, memory)
	put := func(tx *session.Tx, text string) error { return counter.Put(tx, here, counts{Text: text}) }
	commit(t, s, func(tx *session.Tx) error { return put(tx, "first") })
	commit(t, s, func(tx *session.Tx) error {
		return errors.Join(
			counter.Retire(tx, here), put(tx, "second"), counter.Patch(tx, here, grow("!")),
			counter.Retire(tx, here), put(tx, "lost"), put(tx, "third"), counter.Patch(tx, here, grow("!")),
		)
	})
	if got := read(t, s, here); got.Text != "third!" {
		t.Errorf("the session reads %+v, want the third incarnation", got)
	}
	if got := read(t, open(t, memory.Reopen()), here); got.Text != "third!" {
		t.Errorf("the reopened session reads %+v, want the third incarnation", got)
	}
}

func TestAnIncarnationKeepsItsIDAndANewOneHasANewID(t *testing.T) {
	memory := session.NewMemory()
	s := open(t, memory)
	id := func() session.DocumentID {
		doc, err := memory.Document(here, 0)
		if err != nil {
			t.Fatal(err)
		}
		return doc.ID
	}
	put := func(tx *session.Tx) error { return counter.Put(tx, here, counts{}) }
	commit(t, s, put)
	first := id()
	commit(t, s, put)
	if got := id(); got != first {
		t.Errorf("a second Put made document %d of %d", got, first)
	}
	commit(t, s, func(tx *session.Tx) error { return counter.Retire(tx, here) })
	commit(t, s, put)
	if got := id(); got <= first {
		t.Errorf("the new incarnation is document %d, want more than %d", got, first)
	}
}

func TestABaseIsDueAfterSoManyDeltas(t *testing.T) {
	cases := []struct {
		name  string
		every int
		want  []string
	}{
		{"two deltas, then a base", 2, []string{"1 create", "2 delta", "3 delta", "4 base", "5 delta"}},
		{"zero stores every change whole", 0, []string{"1 create", "2 base", "3 base", "4 base", "5 base"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var writes []string
			doc := counter
			doc.BaseEvery = c.every
			s := open(t, recorded(&writes))
			commit(t, s, func(tx *session.Tx) error { return doc.Put(tx, here, counts{Text: "0"}) })
			for i := range 4 {
				commit(t, s, func(tx *session.Tx) error { return doc.Patch(tx, here, grow(fmt.Sprint(i+1))) })
			}
			if diff := cmp.Diff(c.want, writes); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if got := read(t, s, here); got.Text != "01234" {
				t.Errorf("the document is %+v", got)
			}
		})
	}
}

func TestTheCountOfDeltasGoesOnAfterReopening(t *testing.T) {
	var writes []string
	storage := recorded(&writes)
	memory := storage.Storage.(*session.Memory)
	s := open(t, storage)
	commit(t, s, func(tx *session.Tx) error { return counter.Put(tx, here, counts{}) })
	for range 3 {
		reopened := &sessiontest.Faulty{Storage: memory.Reopen(), Before: storage.Before}
		s = open(t, reopened)
		commit(t, s, func(tx *session.Tx) error { return counter.Patch(tx, here, grow("x")) })
	}
	if diff := cmp.Diff([]string{"1 create", "2 delta", "3 delta", "4 base"}, writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if got := read(t, s, here); got.Text != "xxx" {
		t.Errorf("the document is %+v", got)
	}
}

func TestANewerStoredVersionIsRefused(t *testing.T) {
	memory := session.NewMemory()
	newer := counter
	newer.Version++
	s := open(t, memory)
	commit(t, s, func(tx *session.Tx) error { return newer.Put(tx, here, counts{N: 9}) })
	for name, s := range map[string]*session.Session{"in the session that wrote it": s, "after reopening": open(t, memory.Reopen())} {
		t.Run(name, func(t *testing.T) {
			uses := map[string]func(*session.Tx) error{
				"Get":    func(tx *session.Tx) error { _, err := counter.Get(tx, here); return err },
				"Put":    func(tx *session.Tx) error { return counter.Put(tx, here, counts{}) },
				"Patch":  func(tx *session.Tx) error { return counter.Patch(tx, here, grow("x")) },
				"Retire": func(tx *session.Tx) error { return counter.Retire(tx, here) },
			}
			for name, use := range uses {
				if err := s.View(t.Context(), use); err == nil || errors.Is(err, session.ErrReadOnly) {
					t.Errorf("%s = %v, want the version to be refused", name, err)
				}
			}
		})
	}
	if doc, err := memory.Document(here, 0); err != nil || doc.Version != newer.Version {
		t.Errorf("stored is %+v, %v, want the newer version untouched", doc, err)
	}
}

func TestAnOlderStoredVersionIsRewrittenWhole(t *testing.T) {
	var writes []string
	s := open(t, recorded(&writes))
	older := counter
	older.Version--
	commit(t, s, func(tx *session.Tx) error { return older.Put(tx, here, counts{Text: "a"}) })
	commit(t, s, func(tx *session.Tx) error { return counter.Patch(tx, here, grow("b")) })
	if diff := cmp.Diff([]string{"1 create", "2 base"}, writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if got := read(t, s, here); got.Text != "ab" {
		t.Errorf("the document is %+v", got)
	}
}

func TestADeltaThatDoesNotFitFailsTheCommit(t *testing.T) {
	memory := session.NewMemory()
	s := open(t, memory)
	commit(t, s, func(tx *session.Tx) error { return counter.Put(tx, here, counts{Text: "kept"}) })
	_, err := s.Commit(t.Context(), func(tx *session.Tx) error {
		if err := counter.Patch(tx, here, grow(" and lost"), session.Op{Op: session.OpAppend, Path: "/n", Value: []byte(`"x"`)}); err == nil {
			t.Error("a step that does not fit was drafted")
		}
		return note("lost")(tx) // dropping the error must not get the rest through
	})
	var misfit *session.OpError
	if !errors.As(err, &misfit) || misfit.Index != 1 || misfit.Op != session.OpAppend {
		t.Errorf("Commit = %v, want an OpError about step 1", err)
	}
	commit(t, s, func(tx *session.Tx) error { return counter.Patch(tx, here, grow("!")) })
	for _, s := range []*session.Session{s, open(t, memory.Reopen())} {
		if got := read(t, s, here); got.Text != "kept!" {
			t.Errorf("the document is %+v", got)
		}
	}
}

func TestARolledBackDocumentIsAsItWas(t *testing.T) {
	storage := &sessiontest.Faulty{Storage: session.NewMemory()}
	s := open(t, storage)
	commit(t, s, func(tx *session.Tx) error { return counter.Put(tx, here, counts{Text: "kept"}) })
	drafts := map[string]func(*session.Tx) error{
		"Put":    func(tx *session.Tx) error { return counter.Put(tx, here, counts{Text: "lost"}) },
		"Patch":  func(tx *session.Tx) error { return counter.Patch(tx, here, grow("lost")) },
		"Retire": func(tx *session.Tx) error { return counter.Retire(tx, here) },
	}
	for name, draft := range drafts {
		t.Run(name, func(t *testing.T) {
			if _, err := s.Commit(t.Context(), func(tx *session.Tx) error { return errors.Join(draft(tx), errTest) }); !errors.Is(err, errTest) {
				t.Fatal(err)
			}
			if got := read(t, s, here); got.Text != "kept" {
				t.Errorf("after a failed callback the document is %+v", got)
			}
			storage.Before = func(*session.Batch) error { return session.ErrNoEffect }
			if _, err := s.Commit(t.Context(), draft); !errors.Is(err, session.ErrNoEffect) {
				t.Fatal(err)
			}
			storage.Before = nil
			if got := read(t, s, here); got.Text != "kept" {
				t.Errorf("after a commit without effect the document is %+v", got)
			}
		})
	}
}

func TestDocumentsOfAFamilyAndOfOwnersAreApart(t *testing.T) {
	s := open(t, session.NewMemory())
	places := map[session.Address]counts{}
	commit(t, s, func(tx *session.Tx) error {
		for owner := range int64(20) {
			for _, key := range []string{"", "a", "b", "c"} {
				places[counter.At(owner, key)] = counts{N: int(owner), Text: key}
			}
		}
		for a, v := range places {
			if err := counter.Put(tx, a, v); err != nil {
				return err
			}
		}
		return nil
	})
	for a, want := range places {
		if got := read(t, s, a); got != want {
			t.Errorf("%+v holds %+v, want %+v", a, got, want)
		}
	}
}

func TestAValueThatJSONCannotHoldIsRefused(t *testing.T) {
	doc := session.Doc[any]{Kind: "test.any", Version: 1, Scope: session.ScopeSession}
	s := open(t, session.NewMemory())
	_, err := s.Commit(t.Context(), func(tx *session.Tx) error { return doc.Put(tx, doc.At(0, ""), func() {}) })
	if err == nil {
		t.Error("a function was stored")
	}
}

// Whatever is drafted, kept or dropped: the session, a fresh session and plain values agree.
func TestDocumentsAgreeWithPlainValues(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		memory := session.NewMemory()
		s, err := session.Open(t.Context(), memory)
		if err != nil {
			rt.Fatal(err)
		}
		model := map[string]*counts{}
		for range rapid.IntRange(1, 12).Draw(rt, "commits") {
			drop := rapid.Bool().Draw(rt, "drop")
			draft := map[string]*counts{}
			for k, v := range model {
				draft[k] = v
			}
			_, err := s.Commit(t.Context(), func(tx *session.Tx) error {
				for range rapid.IntRange(1, 5).Draw(rt, "steps") {
					key := rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "key")
					a := counter.At(0, key)
					switch rapid.SampledFrom([]string{"put", "patch", "retire", "get"}).Draw(rt, "step") {
					case "put":
						v := counts{N: rapid.IntRange(0, 3).Draw(rt, "n")}
						draft[key] = &v
						if err := counter.Put(tx, a, v); err != nil {
							return err
						}
					case "patch":
						err := counter.Patch(tx, a, grow("x"))
						if draft[key] == nil {
							if !errors.Is(err, session.ErrNotFound) {
								return fmt.Errorf("patch of nothing: %w", err)
							}
							continue
						}
						if err != nil {
							return err
						}
						draft[key] = &counts{draft[key].N, draft[key].Text + "x"}
					case "retire":
						draft[key] = nil
						if err := counter.Retire(tx, a); err != nil {
							return err
						}
					}
					got, err := counter.Get(tx, a)
					if err != nil {
						return err
					}
					if want := draft[key]; want == nil && got != (counts{}) || want != nil && got != *want {
						rt.Fatalf("in the draft %q holds %+v, want %+v", key, got, want)
					}
				}
				if drop {
					return errTest
				}
				return nil
			})
			if drop && !errors.Is(err, errTest) || !drop && err != nil {
				rt.Fatalf("Commit = %v", err)
			}
			if !drop {
				model = draft
			}
			if rapid.Bool().Draw(rt, "reopen") {
				memory = memory.Reopen()
				if s, err = session.Open(t.Context(), memory); err != nil {
					rt.Fatal(err)
				}
			}
			for _, key := range []string{"a", "b"} {
				doc, err := memory.Document(counter.At(0, key), 0)
				want := model[key]
				if want == nil {
					if !errors.Is(err, session.ErrNotFound) {
						rt.Fatalf("%q is stored as %s, %v, want nothing", key, doc.Value, err)
					}
					continue
				}
				var got counts
				if err != nil || json.Unmarshal(doc.Value, &got) != nil || got != *want {
					rt.Fatalf("%q is stored as %s, %v, want %+v", key, doc.Value, err, want)
				}
			}
		}
	})
}
