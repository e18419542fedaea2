package workflow

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	"github.com/workflowd/workflowd/workflow/graph"
)

// Then runs node on the value of from.
func Then[A, B any](b *Builder, from From[A], node Node[A, B], options ...NodeOption) Ref[B] {
	n := b.described(graph.Func, node.Info(), options, reflect.TypeFor[A](), reflect.TypeFor[B]())
	b.add(n, nodeCode(node), edgeOf(from))
	return Ref[B]{b, n.Path}
}

// ThenStream runs a stream node on the value of from.
func ThenStream[A, Chunk, B any](
	b *Builder, from From[A], node StreamNode[A, Chunk, B], options ...NodeOption,
) StreamRef[Chunk, B] {
	n := b.described(graph.Stream, node.Info(), options, reflect.TypeFor[A](), reflect.TypeFor[B]())
	n.Chunk = b.typeID(n.Path, reflect.TypeFor[Chunk]())
	b.add(n, streamCode(node), edgeOf(from))
	return StreamRef[Chunk, B]{Ref[B]{b, n.Path}}
}

// Apply changes a value on its way: fn is pure, runs inline and has no node of its own. Its result is recorded with the
// next commit, so what runs behind it sees the same value after a crash. fn owns its argument.
func Apply[A, B any](b *Builder, from From[A], fn func(A) B) Ref[B] {
	pure := func(in []json.RawMessage) (json.RawMessage, error) {
		value, err := decode[A](in[0])
		if err != nil {
			return nil, err
		}
		return output(fn(value))
	}
	return inline[A, B](b, "apply", pure, edgeOf(from))
}

// Join2 waits for two values and combines them with a pure function.
func Join2[A, B, T any](b *Builder, first From[A], second From[B], fn func(A, B) T) Ref[T] {
	pure := func(in []json.RawMessage) (json.RawMessage, error) {
		one, err := decode[A](in[0])
		if err != nil {
			return nil, err
		}
		two, err := decode[B](in[1])
		if err != nil {
			return nil, err
		}
		return output(fn(one, two))
	}
	return inline[A, T](b, "join", pure, edgeOf(first), edgeOf(second))
}

// Join3 waits for three values and combines them with a pure function.
func Join3[A, B, C, T any](b *Builder, first From[A], second From[B], third From[C], fn func(A, B, C) T) Ref[T] {
	type pair struct {
		A A `json:"a"`
		B B `json:"b"`
	}
	two := Join2(b, first, second, func(x A, y B) pair { return pair{x, y} })
	return Join2(b, two, third, func(p pair, z C) T { return fn(p.A, p.B, z) })
}

// Join4 waits for four values and combines them with a pure function.
func Join4[A, B, C, D, T any](b *Builder, first From[A], second From[B], third From[C], fourth From[D], fn func(A, B, C, D) T) Ref[T] {
	type pair struct {
		A A `json:"a"`
		B B `json:"b"`
	}
	two := Join2(b, first, second, func(x A, y B) pair { return pair{x, y} })
	return Join3(b, two, third, fourth, func(p pair, z C, w D) T { return fn(p.A, p.B, z, w) })
}

func inline[A, T any](b *Builder, verb string, pure func([]json.RawMessage) (json.RawMessage, error), from ...edge) Ref[T] {
	n := graph.Node{Path: b.derive(from[0], verb), Kind: graph.Apply}
	n.In, n.Out = b.typeID(n.Path, reflect.TypeFor[A]()), b.typeID(n.Path, reflect.TypeFor[T]())
	b.add(n, code{pure: pure}, from...)
	return Ref[T]{b, n.Path}
}

// Map runs node once for each element, several at a time, and collects the results in the order of the list. Element i is
// at the path name[i]. When one fails for good, the others are stopped and the whole fails; what the finished ones
// returned stays on record.
func Map[T, R any](b *Builder, from From[[]T], node Node[T, R], options ...NodeOption) Ref[[]R] {
	n := b.described(graph.Map, node.Info(), options, reflect.TypeFor[[]T](), reflect.TypeFor[[]R]())
	b.add(n, nodeCode(node), edgeOf(from))
	return Ref[[]R]{b, n.Path}
}

// MapPartial is Map for lists of which a part is better than nothing: a failure is that element's result and stops none of
// the others.
func MapPartial[T, R any](b *Builder, from From[[]T], node Node[T, R], options ...NodeOption) Ref[[]Element[R]] {
	n := b.described(graph.Map, node.Info(), options, reflect.TypeFor[[]T](), reflect.TypeFor[[]Element[R]]())
	n.Partial = true
	b.add(n, nodeCode(node), edgeOf(from))
	return Ref[[]Element[R]]{b, n.Path}
}

// Element is how one element of a MapPartial ended: with a value, or with a failure.
type Element[R any] struct {
	Value   R        `json:"value,omitzero"`
	Failure *Failure `json:"failure,omitempty"`
}

// Switch chooses one of cases by the pure function choose and continues with its result; the nodes of the others are
// skipped. A choice that is not among the cases fails.
func Switch[T, R any](b *Builder, from From[T], choose func(T) string, cases map[string]func(*Builder, Ref[T]) Ref[R]) Ref[R] {
	in := edgeOf(from)
	n := graph.Node{Path: b.derive(in, "switch"), Kind: graph.Switch, Cases: slices.Sorted(maps.Keys(cases))}
	n.In, n.Out = b.typeID(n.Path, reflect.TypeFor[T]()), b.typeID(n.Path, reflect.TypeFor[string]())
	b.add(n, code{pure: func(in []json.RawMessage) (json.RawMessage, error) {
		value, err := decode[T](in[0])
		if err != nil {
			return nil, err
		}
		return output(choose(value))
	}}, in)
	ends, outer := []edge{{b, n.Path}}, b.guard
	for _, name := range n.Cases {
		b.guard = &graph.Guard{Switch: n.Path, Case: name}
		end := cases[name](b, Ref[T]{in.b, in.path})
		ends = append(ends, edge{end.b, end.path})
	}
	b.guard = outer
	merge := graph.Node{Path: n.Path + ":merge", Kind: graph.Merge, Out: b.typeID(n.Path, reflect.TypeFor[R]())}
	b.add(merge, code{}, ends...)
	return Ref[R]{b, merge.Path}
}

// Loop feeds body its own result until done, a pure function, says so, at most turns times; then it fails. Turn n of the
// body is visit n of its nodes.
func Loop[T any](b *Builder, from From[T], body *Workflow[T, T], done func(T) bool, turns int) Ref[T] {
	d := body.Definition()
	n := graph.Node{Path: d.Graph().Name, Kind: graph.Loop, Max: turns}
	n.In = b.typeID(n.Path, reflect.TypeFor[T]())
	n.Out, n.Result = n.In, n.Path
	if d.Graph().Result != graph.Input {
		n.Result = n.Path + "/" + d.Graph().Result
	}
	b.add(n, code{pure: func(in []json.RawMessage) (json.RawMessage, error) {
		value, err := decode[T](in[0])
		if err != nil {
			return nil, err
		}
		return output(done(value))
	}}, edgeOf(from))
	b.embed(d, n.Path, n.Path, n.Path)
	return Ref[T]{b, n.Path}
}

// Call embeds another workflow. Its nodes are at its name, a slash and their own path.
func Call[In, Out any](b *Builder, from From[In], w *Workflow[In, Out]) Ref[Out] {
	in, d := edgeOf(from), w.Definition()
	if !b.resolve(d.Graph().Name, in.b, in.path) {
		return Ref[Out]{}
	}
	return Ref[Out]{b, b.embed(d, d.Graph().Name, in.path, "")}
}

// Catch hands a failure of from, or of what it depends on, to handler and continues with its result. When nothing failed
// it passes the value of from. It does not catch the end of the run by a person, the deadline or a leaving host.
func Catch[T any](b *Builder, from From[T], handler Node[Failure, T]) Ref[T] {
	n := b.described(graph.Catch, handler.Info(), nil, reflect.TypeFor[T](), reflect.TypeFor[T]())
	b.add(n, nodeCode(handler), edgeOf(from))
	return Ref[T]{b, n.Path}
}

// Finally runs cleanup once from has ended, with the zero Failure when it went well, and passes the value or failure of
// from. It runs even while the run is being cancelled. A failure of cleanup counts when from went well.
func Finally[T, R any](b *Builder, from From[T], cleanup Node[Failure, R]) Ref[T] {
	n := b.described(graph.Finally, cleanup.Info(), nil, reflect.TypeFor[T](), reflect.TypeFor[T]())
	b.add(n, nodeCode(cleanup), edgeOf(from))
	return Ref[T]{b, n.Path}
}
