package outputitems_test

import (
	"fmt"

	"github.com/workflowd/workflowd/outputitems"
)

func ExampleAccumulator() {
	var a outputitems.Accumulator
	for _, c := range []outputitems.Chunk{
		outputitems.OpenText("itm_1"),
		outputitems.AppendText("itm_1", 0, "All tests "),
		outputitems.AppendText("itm_1", 4, "tests pass."), // begins in what is known
		outputitems.AppendText("itm_1", 99, "!"),
		outputitems.Done("itm_1", outputitems.StatusCompleted),
	} {
		if _, err := a.Apply(c); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(outputitems.Body(a.Items()))
	// Output:
	// append item "itm_1": gap: the chunk begins at byte 99, the known text ends at 15
	// All tests pass.
}
