package strictjson

const (
	// MaxDepth is how many arrays and objects may be open at once. A real schema nests about ten deep; the limit keeps the
	// recursive walk far from the end of a goroutine's stack.
	MaxDepth = 128
	// maxShown is how many bytes of a name or number an error repeats, and how many the search for the nearest name reads.
	maxShown = 64
)
