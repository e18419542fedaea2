package outputitems

import (
	"fmt"
	"math"

	"github.com/workflowd/workflowd/internal/ids"
	"github.com/workflowd/workflowd/internal/strictjson"
)

// Display asks a host to present an item apart from the flow of rows. The zero value is an ordinary row, and is absent on the
// wire. A host needs nothing but Display and the content to draw the item. Source: P-617, P-620.
type Display struct {
	Type      DisplayType `json:"type"`
	Placement Placement   `json:"placement"`
}

func (d Display) check() error {
	if d == (Display{}) {
		return nil
	}
	if err := oneOf(d.Type, DisplayTypes()); err != nil {
		return strictjson.Under("type", err)
	}
	if err := oneOf(d.Placement, Placements()); err != nil {
		return strictjson.Under("placement", err)
	}
	return nil
}

// UnmarshalJSON decodes strictly; both members are needed.
func (d *Display) UnmarshalJSON(raw []byte) error {
	type plain Display
	var p plain
	if err := strictjson.Decode(raw, len(raw), &p); err != nil {
		return err
	}
	switch {
	case p.Type == "":
		return missing("type")
	case p.Placement == "":
		return missing("placement")
	}
	*d = Display(p)
	return nil
}

// UnitTokens is the unit of a context ring. Source: P-617.
const UnitTokens = "tokens"

// Ring is the content of an item that is displayed as a ring: Value of Total, which it may exceed, in Unit. Value is finite and
// not negative, Total finite and positive.
type Ring struct {
	Value float64 `json:"value"`
	Total float64 `json:"total"`
	Unit  string  `json:"unit"`
}

func (r Ring) check() error {
	switch {
	case math.IsNaN(r.Value) || math.IsInf(r.Value, 0) || r.Value < 0:
		return strictjson.Under("value", fmt.Errorf("want a finite number of 0 or more, got %v", r.Value))
	case math.IsNaN(r.Total) || math.IsInf(r.Total, 0) || r.Total <= 0:
		return strictjson.Under("total", fmt.Errorf("want a finite number above 0, got %v", r.Total))
	case r.Unit == "" || len(r.Unit) > MaxUnitBytes:
		return strictjson.Under("unit", fmt.Errorf("want 1 to %d bytes, got %d", MaxUnitBytes, len(r.Unit)))
	}
	return nil
}

// content returns r as an item's content, or an *Error about the member that is out of range.
func (r Ring) content() (JSON, error) {
	if err := r.check(); err != nil {
		return JSON{}, err
	}
	return NewJSON(r)
}

// RingID returns the id of the context ring of a session. It depends on the key alone, byte for byte: different keys have
// different rings. Source: P-618.
func RingID(sessionKey string) string { return ids.Derived(ids.Item, "context-ring", sessionKey) }

// ContextRing returns the running ring item that shows used of total tokens of a session's context window. An *Error names
// the number that is out of range. Source: P-617, P-618.
func ContextRing(sessionKey string, used, total float64) (Item, error) {
	content, err := Ring{Value: used, Total: total, Unit: UnitTokens}.content()
	if err != nil {
		return Item{}, err
	}
	return Item{
		ID: RingID(sessionKey), Status: StatusRunning, ContentType: TypeJSON, Content: content,
		Display: Display{Type: DisplayRing, Placement: PlaceComposerRight},
	}, nil
}

// Ring returns the ring that the item shows, and false when it is displayed otherwise.
func (it Item) Ring() (Ring, bool) {
	content, ok := it.Content.(JSON)
	if it.Display.Type != DisplayRing || !ok {
		return Ring{}, false
	}
	var r Ring
	if err := content.Decode(&r); err != nil || r.check() != nil {
		return Ring{}, false
	}
	return r, true
}
